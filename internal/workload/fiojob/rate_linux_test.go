package fiojob

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

// On a target that can serve the plan's rate, fio offers and completes that rate.
func TestRateIsOffered(t *testing.T) {
	long.Test(t)
	t.Parallel()
	j := rated(t, "3000/s")
	ctx, target := worktest.CtxFor(t), worktest.Target(host.Local(), worktest.TempIn(t, "/dev/shm"))
	ready(ctx, t, j, target)
	// The number of Poisson arrivals varies: with 60,000 arrivals, by at most 0.8 % in 19 of 20 runs. If the CPUs are
	// busy, sources wake late and the last arrivals miss the window. So the test tries several seeds.
	var got []float64
	for seed := range uint64(4) {
		out := &iotax.Trial{Length: 20 * time.Second, Ramp: time.Second, Seed: 2 + seed}
		if err := j.Run(worktest.CtxFor(t), target, out); err != nil {
			t.Fatal(err)
		}
		done, _ := out.Value("read.iops")
		offered, _ := out.Value("load.offered")
		late, _ := out.Value("load.late")
		if math.Abs(offered.Value/3000-1) > .005 || !(late.Value > 0 && late.Value < .5) || out.Facts["load"] != "" {
			t.Errorf("%v offered, %v late, facts %v", offered.Value, late.Value, out.Facts)
		}
		got = append(got, done.Value)
		if math.Abs(done.Value/3000-1) < .01 {
			return
		}
	}
	t.Errorf("%.0f/s in place of 3000/s", got)
}

// A server that needs 5 ms for each I/O, one at a time, can serve 200/s. At 1000/s, findings report that the load was
// not reached and that arrivals were late.
func TestOverloadIsToldAndLate(t *testing.T) {
	long.Test(t)
	j := rated(t, "1000/s", "numjobs", "32", "direct", "0")
	ctx := worktest.CtxFor(t)
	target := export(t, "--filter=noparallel", "--filter=delay", "memory", "32M", "serialize=all-requests", "rdelay=5ms")
	ready(ctx, t, j, target)
	out := &iotax.Trial{Length: 2 * time.Second, Ramp: time.Second, Seed: 1}
	if err := j.Run(ctx, target, out); err != nil {
		t.Fatal(err)
	}
	done, _ := out.Value("read.iops")
	late, _ := out.Value("load.late")
	var found []string
	for _, f := range out.Findings {
		found = append(found, f.Rule)
		if strings.Contains(f.Hint, "load:") {
			t.Errorf("the hint is about a load: %s", f.Hint)
		}
	}
	if done.Value > 250 || late.Value < .9 || !slices.Contains(found, "load-not-reached") || !slices.Contains(found, "arrivals-late") {
		t.Errorf("%v/s, %v late, findings %v", done.Value, late.Value, found)
	}
}

// The sources of an open loop do not begin together: no tenth of a second has twice as many arrivals as the median.
func TestOpenLoopHasNoBurst(t *testing.T) {
	j := rated(t, "400/s", "direct", "0")
	ctx, log := worktest.CtxFor(t), filepath.Join(t.TempDir(), "log")
	target := export(t, "--filter=log", "memory", "32M", "logfile="+log)
	ready(ctx, t, j, target)
	arrival := regexp.MustCompile(`(?m)^\S+ (\S+\.\d)\d+ connection=\d+ Read`)
	var perTenth map[string]float64
	read := 0
	for seed := range uint64(4) { // repeated, because a pause of the machine is followed by a burst
		if err := j.Run(ctx, target, &iotax.Trial{Length: 2 * time.Second, Ramp: 300 * time.Millisecond, Seed: 1 + seed}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		perTenth = map[string]float64{}
		for _, m := range arrival.FindAllSubmatch(text[read:], -1) {
			perTenth[string(m[1])]++
		}
		read = len(text)
		counts := slices.Sorted(maps.Values(perTenth))
		if n := len(counts); n >= 20 && counts[n-1] < 2*counts[n/2] && math.Abs(counts[n/2]/40-1) < .3 {
			return
		}
	}
	t.Errorf("arrivals in the tenths of a second: %v", perTenth)
}

func rated(t *testing.T, rate string, options ...string) *fioJob {
	t.Helper()
	spec := &Fio{Rate: rate}
	for i, key := range append([]string{"size", "16MiB"}, options...) {
		if i%2 == 0 {
			if err := spec.SetOption(key, append([]string{"size", "16MiB"}, options...)[i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(plan.Workload{Name: "test", Kind: "fio", Spec: spec}, support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*fioJob)
}

func ready(ctx context.Context, t testing.TB, j *fioJob, target *iotax.Target) {
	t.Helper()
	if err := errors.Join(j.Check(ctx, target), j.Prepare(ctx, target)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Cleanup(context.WithoutCancel(ctx), target) })
}

// export runs nbdkit with these arguments until the test ends, and returns a target for its export.
func export(t testing.TB, args ...string) *iotax.Target {
	t.Helper()
	dir, err := os.MkdirTemp("", "nbd") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, pid := filepath.Join(dir, "s"), filepath.Join(dir, "pid")
	server := exec.Command("nbdkit", append([]string{"--foreground", "--unix", socket, "--pidfile", pid}, args...)...)
	server.Stderr = t.Output()
	return worktest.Serves(t, server, socket, pid)
}
