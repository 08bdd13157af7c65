package run

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
)

// peakMiB returns the largest resident set of this process since resetPeak was called, in MiB.
func peakMiB(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	if err != nil || m == nil {
		t.Fatalf("no peak in /proc/self/status: %v", err)
	}
	kib, _ := strconv.Atoi(string(m[1]))
	return kib / 1024
}

func resetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// One process measures a thousand targets in 30,000 trials within 100 MiB of memory. The time that iotax needs between
// two trials stays about the same. docs/dev/scale.md lists the figures.
func TestThousandTargets(t *testing.T) {
	long.Test(t)
	const targets, rounds = 1000, 30
	w := newWorld()
	p := &plan.Plan{Name: "fleet", Baseline: "t0000", Measure: plan.Defaults()}
	p.Measure.Protocol, p.Measure.Rounds, p.Measure.Budget = fmt.Sprintf("fixed:%dx10s", rounds), plan.Rounds{Min: rounds, Max: rounds}, 0
	for i := range targets {
		p.Targets = append(p.Targets, plan.Target{Name: fmt.Sprintf("t%04d", i), On: "host", Kind: "dir", Spec: &none{}})
	}
	p.Workloads = []plan.Workload{{Name: "w", Kind: "fio", Spec: &none{}}}
	d := w.deps()
	noise := uint64(1)
	w.value = func(trial *iotax.Trial) (float64, error) {
		for i := range 30 {
			trial.Values = append(trial.Values, iotax.Value{Name: fmt.Sprint("v", i), Value: float64(i), Unit: iotax.Seconds})
		}
		trial.Raw = make([]byte, 3000)
		trial.Facts["command"] = fmt.Sprintf("%700d", trial.Seq)
		trial.Histograms = []iotax.Histogram{{Name: "h", Bins: make([]iotax.Bin, 240)}}
		trial.Series = []iotax.Series{{Name: "s", T: make([]float64, 10), V: make([]float64, 10)}}
		noise = noise*6364136223846793005 + 1442695040888963407
		return 1000 + float64(noise>>54), nil
	}
	saved := make([]time.Time, 0, targets*rounds)
	d.Save = func(_ context.Context, trial *iotax.Trial) error {
		if len(trial.Raw) == 0 || len(trial.Histograms) == 0 {
			t.Error("a trial was saved without what it measured")
		}
		saved = append(saved, time.Now())
		return nil
	}
	resetPeak(t)
	from := time.Now()
	r, err := Run(t.Context(), p, d, Options{ID: "fleet"})
	if err != nil || r.Status != iotax.Done || len(saved) != targets*rounds {
		t.Fatalf("%d trials, %v, %v", len(saved), r.Status, err)
	}
	peak := peakMiB(t)
	// Compare the medians of the first and the last quarter, because other processes may slow down some steps.
	quarter := len(saved) / 4
	step := func(from int) time.Duration {
		var all []time.Duration
		for i := from + 1; i < from+quarter; i++ {
			all = append(all, saved[i].Sub(saved[i-1]))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	first, last := step(0), step(len(saved)-quarter)
	t.Logf("%d trials on %d targets in %v: peak memory %d MiB; from trial to trial %v at the start, %v at the end (medians of a quarter)",
		len(saved), targets, time.Since(from).Round(time.Millisecond), peak, first, last)
	if peak > 100 {
		t.Errorf("peak memory %d MiB, want 100 at most", peak)
	}
	if last > 2*first+50*time.Microsecond { // steps of a few microseconds may double on a busy machine
		t.Errorf("from trial to trial it takes %v at the start and %v at the end", first, last)
	}
}
