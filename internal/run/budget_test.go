package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
)

// slow returns Deps that delay the opening of the guest by `opening`, and the start of each trial by around[target].
func (w *world) slow(opening time.Duration, around map[string]time.Duration) Deps {
	d := w.deps()
	open, watch := d.Open, d.Watch
	d.Open = func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
		w.now = w.now.Add(opening)
		return open(ctx, m, on, devices)
	}
	d.Watch = func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		w.now = w.now.Add(around[t.Name])
		return watch(ctx, t)
	}
	return d
}

// The budget limits the whole run, including opening and the measured overhead of trials. At least one round is
// measured.
func TestBudgetIsOfTheWholeRun(t *testing.T) {
	for _, c := range []struct {
		opening, around time.Duration
		rounds          int
		hint            string
	}{
		{0, 0, 6, ""}, // 36 s for each round
		{2 * time.Minute, 0, 5, "measures the rest, in about 2m36s"},
		{0, 30 * time.Second, 4, "measures the rest, in about 2m12s"}, // overhead on the disk only: 66 s for each round
		{6 * time.Minute, 0, 1, "continues for another 5m"},
	} {
		w := newWorld()
		p := guestPlan("w")
		p.Measure.Rounds, p.Measure.Budget = plan.Rounds{Min: 6, Max: 6}, plan.Duration(5*time.Minute)
		r, err := Run(context.Background(), p, w.slow(c.opening, map[string]time.Duration{"disk": c.around}), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if len(w.saved) != 3*c.rounds {
			t.Errorf("opening takes %v, a trial %v more: %d trials, want %d rounds of 3", c.opening, c.around, len(w.saved), c.rounds)
		}
		if c.hint == "" {
			if r.Status != iotax.Done || len(r.Findings) > 0 {
				t.Errorf("it is %s, with %v", r.Status, r.Findings)
			}
			continue
		}
		if len(r.Findings) != 1 || r.Findings[0].Evidence != fmt.Sprintf("w: the budget of 5m was spent after %d of 6 rounds", c.rounds) ||
			r.Findings[0].Hint != "`iotax run --resume=r` "+c.hint {
			t.Errorf("opening takes %v, a trial %v more: %+v, want %q", c.opening, c.around, r.Findings, c.hint)
		}
	}
}

// A run takes as long as estimated, even if its budget ends it, and so do a resumed run and a shard.
func TestTakesAsLongAsEstimated(t *testing.T) {
	around := map[string]time.Duration{"host": time.Second, "disk": 5 * time.Second, "share": 20 * time.Second}
	costs := schedule.Costs{Before: 14 * time.Second, Open: time.Minute, Around: map[schedule.Cell]time.Duration{}}
	for target, d := range around {
		for _, workload := range []string{"a", "b"} {
			costs.Around[schedule.Cell{Workload: workload, Target: target}] = d
		}
	}
	p := guestPlan("a", "b")
	p.Measure.Rounds, p.Measure.Budget = plan.Rounds{Min: 6, Max: 6}, plan.Duration(10*time.Minute)
	w := newWorld()
	d := w.slow(time.Minute, around)
	d.Calibrate = func(context.Context, *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
		w.now = w.now.Add(14 * time.Second)
		return &iotax.Calibration{Ratio: 1, Rounds: 6}, nil
	}
	for _, c := range []struct {
		name string
		o    Options
		done map[string]int
	}{
		{"whole", Options{ID: "r"}, nil},
		{"resumed", Options{}, map[string]int{"a": 4, "b": 4}},
		{"shard", Options{ID: "s", Shard: Shard{1, 2}}, nil},
	} {
		if c.name == "resumed" {
			r := w.record
			c.o.Resume, c.o.Trials, costs.Before = &r, w.saved, 0
		} else {
			costs.Before = 14 * time.Second
		}
		part, err := c.o.Shard.Of(p)
		if err != nil {
			t.Fatal(err)
		}
		costs.Done, c.o.Around = c.done, costs.Around
		least, most, _ := schedule.Estimate(part, costs)
		begun := w.now
		r, err := Run(t.Context(), p, d, c.o)
		if took := w.now.Sub(begun); err != nil || least != took || most != took {
			t.Errorf("%s: estimated at %v to %v, it took %v, %d trials, %s, %v", c.name, least, most, took, len(w.saved), r.Status, err)
		}
	}
}

// After the budget has ended a run, resuming it measures the remaining rounds.
func TestBudgetIsGoneOnWith(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Measure.Rounds, p.Measure.Budget = plan.Rounds{Min: 6, Max: 6}, plan.Duration(2*time.Minute)
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Incomplete || len(w.saved) != 9 {
		t.Fatalf("it is %s after %d trials, %v", r.Status, len(w.saved), err)
	}
	w.now = w.now.Add(time.Hour)
	r, err = Run(context.Background(), p, w.slow(10*time.Second, nil), Options{Resume: r, Trials: w.saved})
	if got := r.Environment[iotax.FactSetupTime]; got != "10s" {
		t.Errorf("opening took 10 s, the run has %q", got)
	}
	if err != nil || r.Status != iotax.Done || len(w.saved) != 18 || len(r.Findings) > 0 {
		t.Errorf("resumed, it is %s after %d trials, with %v, %v", r.Status, len(w.saved), r.Findings, err)
	}
}

// The overhead that is measured with one workload on a target also applies to the other workloads. Before the first
// trial, the estimate uses the overhead in Options.Around.
func TestTimeLeftByTarget(t *testing.T) {
	w := newWorld()
	around := map[string]time.Duration{"host": time.Second, "disk": 5 * time.Second, "share": 20 * time.Second}
	d := w.slow(time.Minute, around)
	type moment struct {
		now  time.Time
		left time.Duration
	}
	var moments []moment
	d.Progress = func(e Event) {
		if e.Kind == Starting {
			moments = append(moments, moment{w.now, e.Left})
		}
	}
	p := guestPlan("a", "b")
	p.Measure.Rounds, p.Measure.Budget = plan.Rounds{Min: 3, Max: 3}, 0
	r, err := Run(context.Background(), p, d, Options{ID: "r", Around: map[schedule.Cell]time.Duration{
		{Workload: "a", Target: "disk"}: 4 * time.Second, {Workload: "b", Target: "disk"}: 4 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range moments {
		want := r.End.Sub(m.now)
		if i == 0 {
			want = 3 * 2 * (3*12 + 4) * time.Second
		}
		if (i == 0 || i >= 3) && m.left != want {
			t.Errorf("before trial %d %v are left, want %v", i, m.left, want)
		}
	}
	if len(moments) != 18 || strings.Contains(fmt.Sprint(r.Findings), "stopped") {
		t.Errorf("%d trials, %v", len(moments), r.Findings)
	}
}

// A trial that fails immediately does not shorten the estimate of later trials.
func TestFailedTrialIsNoTiming(t *testing.T) {
	w := newWorld()
	d := w.deps()
	watch := d.Watch
	d.Watch = func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		if t.Name == "disk" && len(w.saved) < 3 {
			return nil, errors.New("it is gone")
		}
		return watch(ctx, t)
	}
	var left time.Duration
	d.Progress = func(e Event) {
		if e.Kind == Starting && len(w.saved) == 3 {
			left = e.Left
		}
	}
	p := guestPlan("w")
	p.Measure.Rounds, p.Measure.Budget = plan.Rounds{Min: 3, Max: 3}, 0
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	if want := 3 * 3 * 12 * time.Second; left != want {
		t.Errorf("after a round in which disk failed %v are left, want %v", left, want)
	}
}
