package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/rules"
	"iotax/internal/testenv/reporttest"
)

func TestExpected(t *testing.T) {
	run, trials := reporttest.Expecting()
	r := New(run, trials)
	got := map[string]Expected{}
	for i, x := range r.Expected {
		if i > 0 && strings.Index("missed undecided met", string(x.Outcome)) < strings.Index("missed undecided met", string(r.Expected[i-1].Outcome)) {
			t.Errorf("%s comes after %s", x.Outcome, r.Expected[i-1].Outcome)
		}
		got[x.Expectation.String()] = x
	}
	for text, want := range map[string]expect.Outcome{
		"4k random read: read.iops >= 80% of baseline at guest":         expect.Missed,
		"4k random read: read.iops >= 80% of baseline at share":         expect.Met,
		"4k random read: read.latency.p99 < 1ms at disk":                expect.Met,
		"4k random read: read.latency.p99 < 1ms at guest":               expect.Missed,
		"4k random read: read.latency.p99 < 1ms at share":               expect.Undecided,
		"4k random read: read.latency.p99 <= 150% of baseline at guest": expect.Missed, // the p99 is twice the baseline's
		"4k random read: read.latency.p99.99 < 1s at disk":              expect.Undecided,
		"sync: write.iops > 100 at nfs":                                 expect.Undecided,
		"sync: write.iops > 100 at disk":                                expect.Met,
	} {
		x, ok := got[text]
		if !ok || x.Outcome != want {
			t.Errorf("%s is %q (%v %s), want %s", text, x.Outcome, x.Value, x.Why, want)
		}
	}
	if n := r.Outcomes(); len(got) != 11 || n[expect.Met]+n[expect.Missed]+n[expect.Undecided] != 11 {
		t.Errorf("%d expectations, %v", len(got), n)
	}
	if x := got["4k random read: read.latency.p99 <= 150% of baseline at guest"]; !x.Value.Contains(2) || x.Unit != iotax.RatioUnit {
		t.Errorf("the ratio is %+v in %q", x.Value, x.Unit)
	}
	if x := got["4k random read: read.latency.p99 < 1ms at guest"]; !(x.Value.Lo > .0017 && x.Value.Hi < .0019) || x.Unit != iotax.Seconds || x.Value.N != 8 {
		t.Errorf("the value is %+v in %q", x.Value, x.Unit)
	}
	if why := got["4k random read: read.latency.p99.99 < 1s at disk"].Why; why != "trials too short" {
		t.Errorf("a metric without values: %q", why)
	}
}

// If single trials are too short for a percentile, pooled rounds decide. Without histograms, the expectation is
// undecided.
func TestExpectedOfPooledRounds(t *testing.T) {
	run, trials := reporttest.Expecting()
	run.Presentation.Expect = append(run.Presentation.Expect, iotax.Expectation{Text: "4k random read: read.latency.p99.9 < 1ms"})
	for _, x := range trials {
		if x.Workload == "4k random read" && x.Target != "share" {
			x.Histograms = append(x.Histograms, iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: 1e-4, Count: 19_900}, {Value: 9e-4, Count: 100}}})
		}
	}
	got := map[string]Expected{}
	for _, x := range New(run, trials).Expected {
		if x.Metric == "read.latency.p99.9" {
			got[x.Target] = x
		}
	}
	if x := got["disk"]; x.Outcome != expect.Met || x.Value.N != 6 || !(x.Value.Lo > .00087 && x.Value.Hi < .00093) {
		t.Errorf("%s, %+v, %s", x.Outcome, x.Value, x.Why)
	}
	if x := got["share"]; x.Outcome != expect.Undecided || x.Why != "trials too short" {
		t.Errorf("without histograms: %s, %+v, %s", x.Outcome, x.Value, x.Why)
	}
}

// An invalid number decides neither an expectation about itself nor one relative to it.
func TestInvalidDecidesNothing(t *testing.T) {
	run, trials := reporttest.Expecting()
	var ofDisk []*iotax.Trial
	for _, x := range trials {
		if x.Target == "disk" && x.Workload == "4k random read" {
			ofDisk = append(ofDisk, x)
		}
	}
	reporttest.Condemn(rules.CacheServed.Found(iotax.AboutCell("disk", "4k random read"), "it was"), ofDisk)
	for _, metrics := range [][]string{nil, {"write.iops"}} { // with write.iops, the workload of random reads has no rows
		r, err := From(run, Held(trials), metrics...)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Expected {
			if invalid := x.Workload != "sync" && (x.Target == "disk" || x.OfBaseline); invalid != (x.Why == "invalid result") && x.Why != "not measured" && x.Metric != "read.latency.p99.99" {
				t.Errorf("%q: %s: %s %q", metrics, x.Expectation, x.Outcome, x.Why)
			}
		}
	}
}

// If the value of the baseline is 0, an expectation relative to it is undecided, but absolute expectations are decided.
func TestExpectationBesideZero(t *testing.T) {
	const name = "read.stall.above-100ms"
	run, trials := reporttest.RunOf(8, map[string][]string{"w": {name}},
		reporttest.CellSpec{Target: "disk", Workload: "w", Values: map[string]float64{name: 0}},
		reporttest.CellSpec{Target: "nfs", Workload: "w", Values: map[string]float64{name: .1}, Noise: .01})
	for _, x := range trials {
		x.Values[0].Unit, x.Values[0].Better = iotax.RatioUnit, iotax.Down
	}
	run.Presentation = &iotax.Presentation{Expect: []iotax.Expectation{{Text: "w: " + name + " < 1%"}, {Text: "w: " + name + " < 200% of baseline at nfs"}}}
	var got []string
	for _, x := range New(run, trials).Expected {
		got = append(got, fmt.Sprint(x.Target, " ", x.OfBaseline, " ", x.Outcome))
	}
	slices.Sort(got)
	if want := []string{"disk false met", "nfs false missed", "nfs true undecided"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// If too many rounds are discarded, the expectation is undecided, even if the remaining rounds would decide it.
func TestDiscardedDecideNothing(t *testing.T) {
	run, trials := reporttest.Expecting()
	for _, x := range trials {
		if x.Target == "guest" && x.Round < 3 {
			x.Discarded = "the clock ran backwards"
		}
	}
	for _, x := range New(run, trials).Expected {
		if x.Workload != "sync" && x.Why != "not measured" && x.Metric != "read.latency.p99.99" && x.Outcome != expect.Undecided {
			t.Errorf("%s: %s of %d rounds", x.Expectation, x.Outcome, x.Value.N)
		}
	}
}

func TestUnreadableExpectation(t *testing.T) {
	run, trials := reporttest.Expecting()
	run.Presentation.Expect = []iotax.Expectation{{Text: "so: it goes"}}
	if _, err := From(run, Held(trials)); err == nil || !strings.Contains(err.Error(), "so: it goes") {
		t.Errorf("the error is %v", err)
	}
}
