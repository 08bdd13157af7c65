package run

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
)

func TestRunKeepsTheCalibrationOfItsRig(t *testing.T) {
	w := newWorld()
	d := w.deps()
	calls := 0
	d.Calibrate = func(_ context.Context, r *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
		calls++
		if len(w.saved) > 0 || len(r.Targets) != 3 || r.Environment["kernel"] != "6" {
			t.Errorf("asked after %d trials, with %d targets and %v", len(w.saved), len(r.Targets), r.Environment)
		}
		return &iotax.Calibration{Ratio: 1, Rounds: 6}, []iotax.Finding{{Rule: "aa-not-one"}}
	}
	r, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 1 || r.Calibration == nil || w.record.Calibration == nil || len(r.Findings) != 1 {
		t.Errorf("%d calls, %+v, stored %+v, %v", calls, r.Calibration, w.record.Calibration, r.Findings)
	}
	again := *r
	again.Status = iotax.Interrupted
	if r, err = Run(context.Background(), guestPlan("w"), d, Options{Resume: &again, Trials: w.saved}); err != nil || calls != 1 || r.Calibration == nil {
		t.Errorf("a resumed run: %d calls, %+v, %v", calls, r.Calibration, err)
	}
}

// Correlated rounds widen the interval, so the run needs more rounds.
func TestAutocorrelationAsksForMoreRounds(t *testing.T) {
	rounds := func(phi float64) int {
		w := newWorld()
		rnd := rand.New(rand.NewPCG(2, 3))
		w.value = func(*iotax.Trial) (float64, error) { return 1000 * math.Exp(0.03*rnd.NormFloat64()), nil }
		d := w.deps()
		d.Calibrate = func(context.Context, *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
			return &iotax.Calibration{Phi: phi}, nil
		}
		p := guestPlan("w")
		p.Targets = p.Targets[:2]
		if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
			t.Fatal(err)
		}
		return len(w.saved) / 2
	}
	if plain, wide := rounds(0), rounds(0.6); wide <= plain {
		t.Errorf("%d rounds with φ = 0.6, %d without", wide, plain)
	}
}

// The run measures the schedule that `iotax plan` shows.
func TestScheduleIsWhatIsRun(t *testing.T) {
	w := newWorld()
	p := guestPlan("read", "write")
	p.Measure.Rounds = plan.Rounds{Min: 4, Max: 4}
	if _, err := Run(context.Background(), p, w.deps(), Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, x := range w.saved {
		got = append(got, x.Workload+" "+x.Target)
	}
	for _, s := range schedule.Slots(p, 4) {
		for _, x := range s.Targets {
			want = append(want, s.Workload+" "+x)
		}
		for _, x := range w.saved {
			if x.Round == s.Round && x.Workload == s.Workload && x.Seed != s.Seed {
				t.Errorf("round %d of %s has the seed %d, the schedule says %d", s.Round, s.Workload, x.Seed, s.Seed)
			}
		}
	}
	if g, w := strings.Join(got, ", "), strings.Join(want, ", "); g != w {
		t.Errorf("run:\n%s\nscheduled:\n%s", g, w)
	}
}

func TestFixedProtocolRunsItsRoundsWhateverHappens(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Measure.Protocol, p.Measure.Budget = "fixed:5x60s", 0
	if err := p.Measure.Check(); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	w.value = func(x *iotax.Trial) (float64, error) {
		if x.Round == 1 && x.Target == "share" {
			return math.NaN(), nil // discarded, so the round is run again
		}
		return 1000 * math.Exp(rnd.NormFloat64()), nil // too noisy to reach the precision
	}
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done {
		t.Fatalf("%s, %v, %v", r.Status, r.Findings, err)
	}
	if len(w.saved) != 6*3 || w.saved[0].Length.Seconds() != 60 {
		t.Errorf("%d trials of %s, want 5 rounds of 3 of 60 s, and the discarded one", len(w.saved), w.saved[0].Length)
	}
}
