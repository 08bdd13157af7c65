package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

func series(n int, f func(sec int) float64) iotax.Series {
	s := iotax.Series{Name: "read.iops", Unit: iotax.PerSecond}
	for i := range n {
		s.T = append(s.T, float64(i+1))
		s.V = append(s.V, f(i))
	}
	return s
}

func flat(int) float64 { return 1000 }

// noise returns white noise of 3 %, the same in every test run.
func noise() func(int) float64 {
	r := rand.New(rand.NewPCG(7, 7))
	return func(int) float64 { return 1000 * (1 + .03*r.NormFloat64()) }
}

func TestSteadyState(t *testing.T) {
	for _, c := range []struct {
		name string
		s    iotax.Series
		want bool
	}{
		{"flat", series(10, flat), true},
		{"noise", series(60, noise()), true},
		{"drift inside the excursion", series(60, func(i int) float64 { return 1000 + 1.5*float64(i) }), true},
		{"drift beyond it", series(60, func(i int) float64 { return 1000 + 3*float64(i) }), false},
		{"one window off by a quarter", series(10, func(i int) float64 {
			if i == 4 || i == 5 {
				return 1250
			}
			return 1000
		}), false},
		{"the same, by a sixth", series(10, func(i int) float64 {
			if i == 4 || i == 5 {
				return 1160
			}
			return 1000
		}), true},
	} {
		if st := SteadyState(c.s); st.Reached != c.want || !st.Enough || len(st.Means) != 5 {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
	for _, s := range []iotax.Series{{}, series(4, flat), series(10, func(int) float64 { return 0 })} {
		if st := SteadyState(s); st.Reached || st.Enough {
			t.Errorf("%d values say %+v", len(s.V), st)
		}
	}
	// A last interval of 10 ms with an extreme rate counts as a hundredth of a second, not as a fifth of the trial.
	odd := series(10, flat)
	odd.T, odd.V = append(odd.T, 10.01), append(odd.V, 5000)
	if st := SteadyState(odd); !st.Reached {
		t.Errorf("uneven last interval: %+v", st)
	}
}

func TestSteadyStateScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(1, 1000), 5, 60).Draw(t, "v")
		a := SteadyState(series(len(v), func(i int) float64 { return v[i] }))
		b := SteadyState(series(len(v), func(i int) float64 { return 4096 * v[i] }))
		c := SteadyState(series(len(v), func(i int) float64 { return v[len(v)-1-i] }))
		if !near(a.Range, b.Range, 1e-9) || !near(a.Slope, b.Slope, 1e-9) {
			t.Fatalf("the unit matters: %+v, %+v", a, b)
		}
		if !near(a.Range, c.Range, 1e-9) || !near(a.Slope, c.Slope, 1e-9) {
			t.Fatalf("direction of time matters: %+v, %+v", a, c)
		}
	})
}

func TestThrottleStep(t *testing.T) {
	r := noise()
	step := func(at int, size float64) func(int) float64 {
		return func(i int) float64 {
			if i >= at {
				return r(i) * size
			}
			return r(i)
		}
	}
	for _, c := range []struct {
		name string
		s    iotax.Series
		want bool
		at   float64
	}{
		{"down by 30 %", series(20, step(12, .7)), true, 12},
		{"up by 20 %", series(20, step(5, 1.2)), true, 5},
		{"down by 5 %", series(60, step(30, .95)), false, 0},
		{"two seconds before the end", series(20, step(18, .6)), false, 0},
		{"noise", series(60, r), false, 0},
		{"flat", series(10, flat), false, 0},
		{"nothing to zero", series(10, func(int) float64 { return 0 }), false, 0},
		{"short", series(3, step(1, .5)), false, 0},
	} {
		st := ThrottleStep(c.s)
		if st.Found != c.want || c.want && st.At != c.at {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
	exact := ThrottleStep(series(10, func(i int) float64 {
		if i < 4 {
			return 1000
		}
		return 500
	}))
	if !exact.Found || exact.Before != 1000 || exact.After != 500 || exact.Size != -.5 || math.IsInf(exact.F, 0) || math.IsNaN(exact.F) {
		t.Errorf("exact step: %+v", exact)
	}
}

// ThrottleStep and MSER5 rarely report steady noise, and usually report trials that are not steady.
func TestFlagRates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	const trials = 500
	for _, n := range []int{10, 30, 60} {
		for _, cv := range []float64{.02, .1} {
			var falseStep, falseWarm, missStep, missWarm int
			for range trials {
				white := func(int) float64 { return 1000 * math.Exp(cv*r.NormFloat64()) }
				if ThrottleStep(series(n, white)).Found {
					falseStep++
				}
				if !MSER5(series(n, white)).Over {
					falseWarm++
				}
				if !ThrottleStep(series(n, func(i int) float64 {
					if i >= n/2 {
						return white(i) * .6
					}
					return white(i)
				})).Found {
					missStep++
				}
				// The rate is still rising when the window ends.
				if MSER5(series(n, func(i int) float64 { return white(i) * (.3 + .7*float64(i)/float64(n)) })).Over {
					missWarm++
				}
			}
			if falseStep > trials*2/100 || falseWarm > trials*2/100 {
				t.Errorf("n %d, cv %v: false steps %d, false warm-ups %d of %d", n, cv, falseStep, falseWarm, trials)
			}
			if missStep > trials*20/100 || cv < .1 && missWarm > trials*20/100 {
				t.Errorf("n %d, cv %v: missed steps %d, missed warm-ups %d of %d", n, cv, missStep, missWarm, trials)
			}
		}
	}
}

func TestStalls(t *testing.T) {
	s := series(12, func(i int) float64 {
		switch i {
		case 2, 3, 4, 9:
			return 0
		}
		return 10
	})
	if st := FindStalls(s); st != (Stalls{Count: 2, Seconds: 4, Longest: 3, First: 2}) {
		t.Errorf("got %+v", st)
	}
	if st := FindStalls(series(5, flat)); st != (Stalls{}) {
		t.Errorf("flat: %+v", st)
	}
}

func TestMSER5(t *testing.T) {
	r := noise()
	early := MSER5(series(100, func(i int) float64 { return r(i) * (1 - .8*math.Exp(-float64(i)/5)) }))
	if !early.Over || early.Cut < 5 || early.Cut > 30 || early.Shift <= 0 {
		t.Errorf("warm-up of some 15 s: %+v", early)
	}
	late := MSER5(series(100, func(i int) float64 { return r(i) * (.2 + .8*float64(i)/100) }))
	if late.Over {
		t.Errorf("still rising: %+v", late)
	}
	if w := MSER5(series(100, flat)); !w.Over || w.Cut != 0 {
		t.Errorf("flat: %+v", w)
	}
	if w := MSER5(series(9, flat)); w.Enough || !w.Over {
		t.Errorf("nine values: %+v", w)
	}
}

// No series causes a panic.
func TestSeriesGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1}))
		s := iotax.Series{T: rapid.SliceOf(f).Draw(t, "t"), V: rapid.SliceOf(f).Draw(t, "v")}
		if st := SteadyState(s); st.Reached && !st.Enough {
			t.Fatal("reached without enough")
		}
		ThrottleStep(s)
		FindStalls(s)
		MSER5(s)
	})
}

func TestQuantile(t *testing.T) {
	h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: 1e-3, Count: 98999}, {Value: 2e-3, Count: 901}, {Value: 5e-3, Count: 100}}}
	for _, c := range []struct {
		q, want float64
		ok      bool
	}{
		{.5, 1e-3, true}, {.98, 1e-3, true}, {.99, 2e-3, true}, {.999, 2e-3, true}, {.9991, 5e-3, false}, {1, 5e-3, false}, {0, 1e-3, false},
	} {
		if v, ok := Quantile(h, c.q); v != c.want || ok != c.ok {
			t.Errorf("q %v: %v %v, want %v %v", c.q, v, ok, c.want, c.ok)
		}
	}
	for _, q := range []float64{-1, 2, math.NaN()} {
		if v, ok := Quantile(h, q); !math.IsNaN(v) || ok {
			t.Errorf("q %v: %v", q, v)
		}
	}
	if v, ok := Quantile(iotax.Histogram{}, .5); !math.IsNaN(v) || ok {
		t.Errorf("empty: %v", v)
	}
}

// The sum of histograms counts all observations in ascending bins. At least the share q of the observations is at or
// below its q quantile.
func TestAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hs []iotax.Histogram
		var all []float64
		for range rapid.IntRange(1, 5).Draw(t, "trials") {
			counts := map[float64]uint64{}
			for _, v := range rapid.SliceOfN(rapid.IntRange(1, 20), 1, 30).Draw(t, "values") {
				counts[float64(v)]++
				all = append(all, float64(v))
			}
			h := iotax.Histogram{Name: "read.latency"}
			for v := 1; v <= 20; v++ {
				if c := counts[float64(v)]; c > 0 {
					h.Bins = append(h.Bins, iotax.Bin{Value: float64(v), Count: c})
				}
			}
			hs = append(hs, h)
		}
		var m iotax.Histogram
		for _, h := range hs {
			m = Add(m, h)
		}
		var n uint64
		for i, b := range m.Bins {
			n += b.Count
			if i > 0 && m.Bins[i-1].Value >= b.Value {
				t.Fatal("bins out of order")
			}
		}
		if n != uint64(len(all)) {
			t.Fatalf("%d observations of %d", n, len(all))
		}
		q := float64(rapid.IntRange(0, 100).Draw(t, "q")) / 100
		got, _ := Quantile(m, q)
		below := 0
		for _, v := range all {
			if v <= got {
				below++
			}
		}
		if float64(below) < q*float64(len(all))-1e-6 {
			t.Fatalf("%v of %v are at or below the %v quantile", below, len(all), q)
		}
	})
}

func TestLittle(t *testing.T) {
	if d := Little(Flow{7000, .004}, Flow{3000, .002}); !near(d, 34, 1e-12) {
		t.Errorf("depth %v", d)
	}
	for _, f := range []Flow{{math.NaN(), 1}, {1, -1}, {math.Inf(1), 1}} {
		if !math.IsNaN(Little(f)) {
			t.Errorf("%v has a depth", f)
		}
	}
}
