package run

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// slowing is a workload with a constant rate, in I/Os per second, and a noisy latency.
type slowing struct {
	fakeWorkload
	rate  float64
	noise float64 // standard deviation of the logarithms of the quantiles
	ran   []time.Duration
}

func (s *slowing) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	if err := s.fakeWorkload.Run(ctx, t, out); err != nil {
		return err
	}
	s.ran = append(s.ran, out.Length)
	r := rand.New(rand.NewPCG(uint64(len(s.ran)), 1))
	z := math.Exp(s.noise * r.NormFloat64())
	h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds}
	n := s.rate * out.Length.Seconds()
	for i := range 40 { // exponential tail
		if c := uint64(math.Round(n * math.Exp(-float64(i)/2) * (1 - math.Exp(-.5)))); c > 0 {
			h.Bins = append(h.Bins, iotax.Bin{Value: z * 1e-4 * math.Exp(float64(i)/10), Count: c})
		}
	}
	out.Histograms = append(out.Histograms, h)
	return nil
}

func measured(t *testing.T, s *slowing, metrics []string, rounds plan.Rounds) (*iotax.Run, *world, error) {
	t.Helper()
	w := newWorld()
	s.w, s.name = w, "w"
	w.value = func(x *iotax.Trial) (float64, error) { return 1000 + float64(x.Seq%2), nil }
	d := w.deps()
	d.Workload = func(plan.Workload) (iotax.Workload, error) { return s, nil }
	p := guestPlan("w")
	p.Workloads[0].Metrics, p.Measure.Rounds, p.Measure.Budget = metrics, rounds, 0
	r, err := Run(context.Background(), p, d, Options{ID: "r1"})
	return r, w, err
}

// A run continues until all metrics chosen in the plan are precise, up to the maximum number of rounds. If the plan
// chooses none, only the workload's first metric must be precise.
func TestEveryChosenMetricDecides(t *testing.T) {
	for _, c := range []struct {
		metrics []string
		rounds  int
		chosen  bool
	}{{nil, 6, false}, {[]string{"read.iops"}, 6, true}, {[]string{"read.iops", "read.latency.p99"}, 30, true}} {
		r, w, err := measured(t, &slowing{rate: 1e5, noise: .5}, c.metrics, plan.Rounds{Min: 6, Max: 30})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.saved[len(w.saved)-1].Round + 1; got != c.rounds || r.Workloads[0].Chosen != c.chosen {
			t.Errorf("%v: %d rounds, want %d (chosen %v)", c.metrics, got, c.rounds, r.Workloads[0].Chosen)
		}
	}
}

// If the trials are too short for a quantile, the run ends before the first round, with a hint that names a sufficient
// length.
func TestUnsupportedQuantile(t *testing.T) {
	s := &slowing{rate: 100} // one I/O beyond the quantile in a trial of 10 s
	_, w, err := measured(t, s, []string{"read.latency.p99.9"}, plan.Rounds{Min: 6, Max: 30})
	if err == nil || len(w.saved) > 0 {
		t.Fatalf("%d trials, %v", len(w.saved), err)
	}
	for _, want := range []string{"judge read.latency.p99.9 of host / w", "30 rounds of 10s have about 30 I/Os beyond it, and an interval needs 100", "--trial 34s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if len(s.ran) != 1 || s.ran[0] != pilotTime {
		t.Errorf("pilots of %v", s.ran)
	}
	s = &slowing{rate: 1e4}
	_, w, err = measured(t, s, []string{"read.latency.p99.9"}, plan.Rounds{Min: 6, Max: 6})
	if err != nil || len(w.saved) != 18 || len(s.ran) != 21 {
		t.Errorf("%d trials saved of %d: %v", len(w.saved), len(s.ran), err)
	}
}

// If no trial has a chosen metric, the workload ends, without a hint to resume.
func TestMissingMetric(t *testing.T) {
	r, w, err := measured(t, &slowing{rate: 1e5}, []string{"read.iops", "cpu.serving.per-io"}, plan.Rounds{Min: 6, Max: 30})
	if err != nil || len(w.saved) != 3*failuresInARow {
		t.Fatalf("%d trials, %v", len(w.saved), err)
	}
	i := slices.IndexFunc(r.Findings, func(f iotax.Finding) bool {
		return strings.Contains(f.Evidence, "none of the 3 trials of host has cpu.serving.per-io")
	})
	if i < 0 || !strings.Contains(r.Findings[i].Hint, "another metric") || strings.Contains(r.Findings[i].Hint, "resume") {
		t.Errorf("findings %+v", r.Findings)
	}
}
