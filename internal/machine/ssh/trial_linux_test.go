package ssh_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/volume"
	"iotax/internal/workload"
	"iotax/internal/workload/fiojob"
)

func init() { ssh.OneTrial = oneTrial }

func oneTrial(t testing.TB, spec *ssh.Spec, home string) {
	t.Helper()
	begin := time.Now()
	at := func(what string) {
		t.Logf("%8.3f s  %s", time.Since(begin).Seconds(), what)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := ssh.Kind.Open(ctx, spec, kind.Options{Name: "far"})
	must(err)
	at("opened")
	_, err = probe.Environment(ctx, m)
	must(err)
	at("environment")
	v, err := volume.Prepare(ctx, plan.Target{Name: "far", Kind: "dir", Spec: &volume.DirSpec{Path: filepath.Join(home, "work"), Create: true}},
		volume.Env{Host: host.Local(), ID: "t0", Need: 1 << 20})
	must(err)
	place, err := v.Attach(ctx, m)
	must(err)
	at("attached")
	w, err := workload.New(plan.Workload{Name: "read", Kind: "fio", Spec: &fiojob.Fio{Command: "fio --name=read --rw=randread --bs=4k --size=1m --ioengine=psync"}},
		workload.Env{CacheDir: t.TempDir(), Log: t.Logf})
	must(err)
	target := &iotax.Target{Name: "far", Machine: m, Place: place}
	must(w.Check(ctx, target))
	at("checked")
	must(w.Prepare(ctx, target))
	at("prepared")
	watch, err := new(probe.Watcher).Start(ctx, target)
	must(err)
	out := &iotax.Trial{Length: 100 * time.Millisecond, Seed: 1, Facts: map[iotax.FactKey]string{}}
	must(w.Run(ctx, target, out))
	_, err = watch.Stop(ctx)
	must(err)
	at("ran")
	must(errors.Join(w.Cleanup(ctx, target), v.Detach(ctx), v.Close(ctx)))
	at("cleaned up")
	must(m.Close(ctx))
	at("closed")
	if b, ok := t.(*testing.B); ok {
		b.ReportMetric(time.Since(begin).Seconds(), "s/trial")
	}
}
