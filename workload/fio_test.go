package workload

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"iotax"
	"iotax/machine"
	"iotax/plan"
)

// open makes a fio workload from options, written as "rw=read".
func open(t *testing.T, options ...string) *fioJob {
	t.Helper()
	spec := newFio().(*Fio)
	for i := 0; i < len(options); i += 2 {
		if err := spec.SetOption(options[i], options[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := New(plan.Workload{Name: "test", Kind: "fio", Spec: spec}, Env{CacheDir: t.TempDir(), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*fioJob)
}

func dirTarget(t *testing.T, m iotax.Machine, dir string) *iotax.Target {
	t.Helper()
	return &iotax.Target{Name: "here", Machine: m, Place: iotax.Place{Kind: iotax.PlaceDir, Path: dir}, Facts: map[string]string{}}
}

func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// diskDir is a directory on a disk: t.TempDir may be memory.
func diskDir(t *testing.T) string {
	d, err := os.MkdirTemp("/var/tmp", "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func TestRunOnDisk(t *testing.T) {
	ctx := ctxFor(t)
	w := open(t, "rw", "randrw", "size", "8MiB", "iodepth", "4", "numjobs", "2")
	target := dirTarget(t, machine.Local(), diskDir(t))
	if err := w.Check(ctx, target); err != nil {
		t.Fatal(err)
	}
	defer w.Cleanup(ctx, target)
	if err := w.Prepare(ctx, target); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(target.Place.Path + "/*")
	t.Log(files)
	var out iotax.Trial
	out.Length, out.Ramp, out.Seed, out.Cold = 2*time.Second, 200*time.Millisecond, 7, true
	if err := w.Run(ctx, target, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.Facts)
	for _, v := range out.Values {
		t.Log(v)
	}
	t.Log(out.Series, w.Metrics(), len(out.Histograms), out.Findings)
	if !slices.Equal(w.Metrics(), []string{"read.iops", "write.iops"}) {
		t.Error(w.Metrics())
	}
}
