package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// In each round, each target has a normal and an explained trial, in either order. The stop rule and the review do not
// use explained trials, even after a resume.
func TestExplainedTrials(t *testing.T) {
	w := newWorld()
	watched, explained, reviewed := 0, 0, 0
	d := w.deps()
	watch := d.Watch
	d.Watch = func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		watched++
		return watch(ctx, t)
	}
	d.Explain = func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		explained++
		return func(context.Context) (iotax.Seen, error) {
			return iotax.Seen{Values: []iotax.Value{{Name: "read.latency.mean", Value: 1}}}, nil
		}, nil
	}
	d.Review = func(_ *iotax.Run, trials []*iotax.Trial) []iotax.Finding { reviewed = len(trials); return nil }
	w.value = func(t *iotax.Trial) (float64, error) {
		if t.Explains() != "" {
			return 1 + float64(t.Round*t.Round), nil // with this value the run would never be precise
		}
		return 1000, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.onTrial = func(n int) {
		if n == 20 {
			cancel()
		}
	}
	p := guestPlan("w")
	p.Measure.Explain, p.Measure.Rounds = true, plan.Rounds{Min: 6, Max: 8}
	r, _ := Run(ctx, p, d, Options{ID: "r"})
	w.onTrial = nil
	r, err := Run(context.Background(), p, d, Options{Resume: r, Trials: w.saved})
	if err != nil || r.Status != iotax.Done {
		t.Fatal(r.Status, err)
	}
	count := map[string]int{}
	first := map[bool]int{}
	for i, x := range w.saved {
		count[fmt.Sprint(x.Target, x.Workload)]++
		if i%2 == 0 && i < 18 {
			first[x.Explains() != ""]++
		}
		switch of := x.Explains(); {
		case of == "w" && (x.Workload != "w (explained)" || x.Ramp != 0 || x.Length != 12*time.Second),
			of == "" && (x.Workload != "w" || x.Ramp != 2*time.Second):
			t.Errorf("%s: %q, %v, %v", x.Cell(), of, x.Ramp, x.Length)
		}
	}
	if first[true] < 4 || first[false] < 4 || explained < 18 || watched < 18 || reviewed < 18 || reviewed > 19 {
		t.Errorf("%v first, %d explained, %d others, %d reviewed; %v", first, explained, watched, reviewed, count)
	}
	if n := count["diskw"]; n < 6 || n > 7 {
		t.Errorf("%d rounds: explained trials decided when to stop", n)
	}
}

// A workload without latencies gets no more explained trials after the first one.
func TestNothingToExplain(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Measure.Explain = true
	if _, err := Run(context.Background(), p, w.deps(), Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range w.saved {
		if x.Explains() != "" {
			n++
		}
	}
	if n != 1 || len(w.saved) != 1+6*3 {
		t.Errorf("%d of %d trials are explained", n, len(w.saved))
	}
}

// In each round, each target has a normal and a profiled trial, in either order, even if the workload has no latencies.
// Profiled trials keep their profiles, and the stop rule does not use these trials.
func TestProfiledTrials(t *testing.T) {
	w := newWorld()
	w.value = func(t *iotax.Trial) (float64, error) {
		if t.Separate() {
			return 1 + float64(t.Round*t.Round), nil // with this value the run would never be precise
		}
		return 1000, nil
	}
	d := w.deps()
	d.Profile = func(context.Context, *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		return func(context.Context) (iotax.Seen, error) { return iotax.Seen{Profile: []byte("p")}, nil }, nil
	}
	p := guestPlan("w")
	p.Measure.Explain, p.Measure.Profile, p.Measure.Rounds = true, true, plan.Rounds{Min: 6, Max: 8}
	if r, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil || r.Status != iotax.Done {
		t.Fatal(r.Status, err)
	}
	count, first := map[string]int{}, map[string]int{}
	for i, x := range w.saved {
		count[x.Workload]++
		if i > 0 && w.saved[i-1].Target != x.Target {
			first[x.Workload]++
		}
		if (x.Profiles() == "w") != (string(x.Profile) == "p") || x.Profiles() != "" && (x.Workload != "w (profiled)" || x.Ramp != 0 || x.Length != 12*time.Second) {
			t.Errorf("%s: %q, %v, %v", x.Cell(), x.Profile, x.Ramp, x.Length)
		}
	}
	if n := count["w"]; n != count["w (profiled)"] || n < 18 || n > 21 || count["w (explained)"] != 1 || first["w"] < 4 || first["w (profiled)"] < 4 {
		t.Errorf("%v, first %v", count, first)
	}
}
