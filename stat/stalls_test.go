package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"iotax"
)

// stalledAt returns n intervals of one second with 1000 I/Os of 1 ms each, and adds an I/O of `length` seconds to the
// interval of each given time.
func stalledAt(n int, length float64, at ...float64) []iotax.Interval {
	var all []iotax.Interval
	for k := range n {
		all = append(all, iotax.Interval{From: float64(k), To: float64(k + 1), Histogram: iotax.Histogram{Bins: []iotax.Bin{{Value: .001, Count: 1000}}}})
	}
	for _, x := range at {
		if i := int(x); i >= 0 && i < n && len(all[i].Bins) == 1 {
			all[i].Bins = append(all[i].Bins, iotax.Bin{Value: length, Count: 1})
		}
	}
	return all
}

func TestStalledIn(t *testing.T) {
	near := func(what string, got, want, by float64) {
		t.Helper()
		if math.Abs(got-want) > by {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	var at []float64
	for x := 1.3; x < 60; x += 7.2 {
		at = append(at, x)
	}
	s := StalledIn(stalledAt(60, .3, at...))
	near("the period", s.Period, 7.2, .15)
	near("the longest stall", s.Longest, .3, 0)
	waited := .3 * float64(len(at))
	for k, want := range []float64{waited / (60 + waited), waited / (60 + waited), 0} {
		near("a share", s.Above[k], want, 1e-12)
	}
	near("the period of three stalls 10 s apart", StalledIn(stalledAt(60, .3, 5.5, 15.5, 25.5)).Period, 0, 0)
	near("the period of three stalls 25 s apart", StalledIn(stalledAt(60, .3, 5.5, 30.5, 55.5)).Period, 25, 0)
	near("the period of latencies that differ little", StalledIn(stalledAt(60, .009, at...)).Period, 0, 0)
	small := stalledAt(60, .3, at...)
	small[3].Bins = append(small[3].Bins, iotax.Bin{Value: .05, Count: 1}) // less than half of the longest
	near("the period beside a small stall", StalledIn(small).Period, 7.2, .15)
	if s := StalledIn(nil); s.Longest != 0 || s.Period != 0 || len(s.Above) != len(AboveBounds) {
		t.Errorf("of nothing: %+v", s)
	}
	slow := stalledAt(60, .3)
	for i := 20; i < 25; i++ {
		slow[i].Bins = []iotax.Bin{{Value: .2, Count: 5}}
	}
	near("five seconds in which I/Os take 200 ms", StalledIn(slow).Longest, 5, 1e-9)
	slow[21].Bins, slow[22].Bins = nil, []iotax.Bin{{Value: 1.5, Count: 1}}
	near("five seconds, in one of which no I/O ends", StalledIn(slices.Delete(slices.Clone(slow), 21, 22)).Longest, 5, 1e-9)
	slow[22].Bins[0].Value = .95
	near("two seconds after one without I/Os", StalledIn(slices.Delete(slices.Clone(slow), 21, 22)).Longest, 3, 1e-9)
	few := stalledAt(60, .3)
	few[20].Bins = []iotax.Bin{{Value: .0001, Count: 300}, {Value: .3, Count: 32}} // 32 of 332 I/Os stall, but they take most of the time
	near("a stall of 32 I/Os at once", StalledIn(few).Longest, .3, 0)
	few[20].Bins = []iotax.Bin{{Value: .3, Count: 1}}
	near("the only I/O of a second", StalledIn(few).Longest, .3, 0)
	for i := range slow {
		slow[i].Bins = []iotax.Bin{{Value: .2, Count: 5}}
	}
	near("the stall of a place that is always slow", StalledIn(slow).Longest, .2, 0)
}

// Stalls at random times rarely look periodic.
func TestRandomStalls(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const trials = 4000
	for _, n := range []int{3, 4, 6, 10} {
		found := 0
		for range trials {
			at := make([]float64, n)
			for i := range at {
				at[i] = 60 * r.Float64()
			}
			if StalledIn(stalledAt(60, .3, at...)).Period > 0 {
				found++
			}
		}
		if share := float64(found) / trials; share > chanceStall {
			t.Errorf("%d stalls at random times are periodic in %.1f %% of cases", n, 100*share)
		}
	}
}
