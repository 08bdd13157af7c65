package run

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/plan"
	"iotax/stat"
)

// expecting returns a plan whose workload w has these expectations about read.iops.
func expecting(t *testing.T, texts ...string) *plan.Plan {
	p := guestPlan("w")
	p.Measure.Budget = 0
	for _, text := range texts {
		e, err := expect.Parse("w: read.iops " + text)
		if err != nil {
			t.Fatal(err)
		}
		p.Expectations = append(p.Expectations, plan.Expectation{Expectation: e, MetricUnit: iotax.PerSecond, Pos: plan.Pos{File: "p.yaml", Line: 7, Column: 3}})
	}
	return p
}

// A run ends at the first interim analysis at which all expectations are decided (met or missed), or after the maximum
// number of rounds. A plan can require the precision as well, or fix the number of rounds.
func TestEndsWhenDecided(t *testing.T) {
	for name, c := range map[string]struct {
		expect    []string
		precisely bool
		fixed     bool
		sd        float64
		rounds    int
		status    iotax.Status
	}{
		"met":                    {[]string{"> 500"}, false, false, .1, 8, iotax.Done}, // six rounds are too few for an interval of the median at this level
		"missed":                 {[]string{"> 5k"}, false, false, .1, 8, iotax.Done},
		"met of baseline":        {[]string{">= 50% of baseline"}, false, false, .1, 8, iotax.Done},
		"met and missed":         {[]string{"> 500", "< 500", ">= 50% of baseline at disk"}, false, false, .1, 8, iotax.Done},
		"undecided":              {[]string{"> 500", "> 1000"}, false, false, .1, 30, iotax.Incomplete},
		"undecided, precise":     {[]string{"> 1000"}, false, false, .001, 30, iotax.Incomplete},
		"decided, to precision":  {[]string{"> 500"}, true, false, .2, 30, iotax.Incomplete},
		"decided, precise":       {[]string{"> 500"}, true, false, .01, 8, iotax.Done},
		"a fixed number, met":    {[]string{"> 500"}, false, true, .1, 12, iotax.Done},
		"a fixed number, missed": {[]string{"> 5k"}, false, true, .1, 12, iotax.Done},
	} {
		w := newWorld()
		rng := rand.New(rand.NewPCG(1, 7))
		level := math.Exp(c.sd * .02) // so that every interval contains 1000
		w.value = func(*iotax.Trial) (float64, error) { return 1000 * level * math.Exp(c.sd*rng.NormFloat64()), nil }
		p := expecting(t, c.expect...)
		p.Measure.Precisely = c.precisely
		if c.fixed {
			p.Measure.Rounds = plan.Rounds{Min: 12, Max: 12}
		}
		r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if rounds := w.saved[len(w.saved)-1].Round + 1; rounds != c.rounds || r.Status != c.status {
			t.Errorf("%s: %d rounds, %s; want %d, %s: %v", name, rounds, r.Status, c.rounds, c.status, r.Findings)
		}
		if want := len(stat.Looks(p.Measure.Rounds.Min, p.Measure.Rounds.Max)); r.Alpha != .05/float64(want) {
			t.Errorf("%s: α′ is %v with %d looks", name, r.Alpha, want)
		}
		if got := r.Presentation.Expect; len(got) != len(c.expect) || got[0] != (iotax.Expectation{Text: "w: read.iops " + c.expect[0], File: "p.yaml", Line: 7}) {
			t.Errorf("%s: the run keeps %+v", name, got)
		}
		if c.status == iotax.Incomplete && (len(r.Findings) != 1 || c.precisely == strings.Contains(r.Findings[0].Evidence, "undecided after 30 rounds")) {
			t.Errorf("%s: findings %v", name, r.Findings)
		}
	}
}

// With a single target, the run continues until its expectations are decided.
func TestDecidesOneTarget(t *testing.T) {
	w := newWorld()
	p := expecting(t, "> 500")
	p.Targets = p.Targets[:1]
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done || len(w.saved) != 8 {
		t.Errorf("%d trials, status %s, %v, %v; want 8", len(w.saved), r.Status, r.Findings, err)
	}
}

// A run ends when the expectations about the remaining targets are decided. A resumed run also uses the earlier trials
// for its expectations.
func TestDecidesTheRest(t *testing.T) {
	w := newWorld()
	w.value = func(x *iotax.Trial) (float64, error) {
		if x.Target == "share" {
			return 0, errNothing
		}
		return 1000, nil
	}
	p := expecting(t, "> 500")
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Incomplete || w.saved[len(w.saved)-1].Round != 7 {
		t.Fatalf("round %d, status %s, %v", w.saved[len(w.saved)-1].Round, r.Status, err)
	}

	w = newWorld()
	ctx, cancel := context.WithCancel(context.Background())
	w.onTrial = func(n int) {
		if n == 20 {
			cancel()
		}
	}
	r, err = Run(ctx, p, w.deps(), Options{ID: "r"})
	if r.Status != iotax.Interrupted {
		t.Fatalf("status %s, %v", r.Status, err)
	}
	before := len(w.saved)
	w.onTrial = nil
	again, err := Run(context.Background(), p, w.deps(), Options{ID: "r", Resume: r, Trials: w.saved})
	if err != nil || again.Status != iotax.Done || again.Alpha != r.Alpha || w.saved[len(w.saved)-1].Round != 8 { // the interrupted round is measured again
		t.Errorf("%d trials and %d more, status %s, %v", before, len(w.saved)-before, again.Status, err)
	}
}

// If one trial has too few I/Os for a quantile, rounds are pooled. If all rounds together have too few, the run ends
// with an error before the first round.
func TestExpectedQuantile(t *testing.T) {
	for _, c := range []struct {
		rate float64
		text string
		want string // part of the error; "" if the run has no error
	}{
		{1e4, "w: read.latency.p99.9 < 1s", ""},
		{1e4, "w: read.latency.p99.9 < 1ns", ""},
		{1e4, "w: read.latency.p99.9 <= 200% of baseline", ""},
		{3000, "w: read.latency.p99.9 < 1s", ""},
		{3000, "w: read.latency.p99.9 <= 200% of baseline", ""},
		{100, "w: read.latency.p99.9 < 1s", "30 rounds of 10s have about 30 I/Os beyond it, and an interval needs 100\n  hint: use `--trial 34s`"},
	} {
		s := &slowing{rate: c.rate, noise: .01}
		w := newWorld()
		s.w, s.name = w, "w"
		d := w.deps()
		d.Workload = func(plan.Workload) (iotax.Workload, error) { return s, nil }
		p := expecting(t)
		e, err := expect.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p.Expectations = []plan.Expectation{{Expectation: e, MetricUnit: iotax.Seconds}}
		r, err := Run(context.Background(), p, d, Options{ID: "r"})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || len(w.saved) > 0 {
				t.Errorf("%s at %v I/Os/s: %d trials, %v", c.text, c.rate, len(w.saved), err)
			}
			continue
		}
		if rounds := len(w.saved) / 3; err != nil || r.Status != iotax.Done || rounds != 8 {
			t.Errorf("%s: %d rounds, want 8: %s %v %v", c.text, rounds, r.Status, r.Findings, err)
		}
	}
}
