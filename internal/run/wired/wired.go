// Package wired gives a run the functions of this host: machines, volumes, workloads, probes, checks and the store.
package wired

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/kinds"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/machine/inside"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/rules/check"
	"iotax/internal/run"
	"iotax/internal/run/progress"
	"iotax/internal/run/saved"
	"iotax/internal/secret"
	"iotax/internal/store"
	"iotax/internal/volume"
	"iotax/internal/workload"
	"iotax/internal/workload/nested"
)

// Deps are the functions of this host for a run that is saved in db. work is its directory; workloads may overwrite the devices in
// destroy. verbose prints the command of each trial.
func Deps(db *store.Store, work string, destroy Destroy, show *progress.Progress, verbose bool) run.Deps {
	cache := iotax.CacheDir()
	here := host.Local()
	var watcher probe.Watcher
	settle := sync.OnceFunc(func() {
		giveBack()
		debug.SetGCPercent(25) // from here on memory counts, and not the little work that a run makes for the collector
	})
	return run.Deps{
		Host: here,
		Open: func(ctx context.Context, m plan.Machine, devices []iotax.Device) (iotax.Machine, error) {
			return machine.Open(ctx, m, machine.Options{Name: m.Name, Devices: devices, CacheDir: cache, WorkDir: work, Log: show.Note})
		},
		Enclose: enclose,
		Prepare: func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
			e.WorkDir, e.Destroy, e.Note = work, destroy[t.On], show.Note
			return volume.Prepare(ctx, t, e)
		},
		Workload: func(w plan.Workload) (iotax.Workload, error) {
			e := kinds.Env()
			e.Log, e.Host = show.Note, here
			e.GuestKit = func(ctx context.Context, lacks nested.Lacks, kernel string, root int64) (*workload.GuestKit, error) {
				return guestKit(ctx, show.Note, lacks, kernel, root)
			}
			return workload.New(w, e)
		},
		Environment: probe.Environment,
		Watch: func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
			settle()
			w, err := watcher.Start(ctx, t)
			if err != nil {
				return nil, err
			}
			return w.Stop, nil
		},
		Evict:    probe.Evict,
		Governor: probe.SetGovernor,
		Check:    check.Trial,
		Review:   check.Run, ReviewValues: check.RunValues(), ReviewFacts: check.RunFacts,
		Begin: func(ctx context.Context, r *iotax.Run) error { return db.Create(ctx, saved.Sign(r)) },
		Save: func(ctx context.Context, t *iotax.Trial) error {
			secret.Hide(t)
			return db.Append(ctx, t)
		},
		Update: func(ctx context.Context, r *iotax.Run) error { return db.Update(ctx, saved.Sign(r)) },
		Progress: func(e run.Event) {
			show.Event(e)
			if verbose {
				debugEvent(e, show.Note)
			}
		},
		Now: time.Now,
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(d):
				return nil
			}
		},
	}
}

// debugEvent prints the command of a trial, ready for a shell, and its output if it failed.
func debugEvent(e run.Event, note func(string, ...any)) {
	t := e.Trial
	if e.Kind != run.Finished || t == nil {
		return
	}
	note("debug: %s, round %d, took %v: %s", t.Cell(), t.Round+1, t.Took.Round(time.Millisecond), cmp.Or(t.Facts[iotax.FactCommand], "no command"))
	if t.Err != "" {
		note("debug: %s failed: %s\n%s", t.Cell(), t.Err, t.Raw)
	}
}

// enclose starts the container that a target of kind inside asks for.
func enclose(ctx context.Context, t plan.Target, m iotax.Machine, p iotax.Place) (iotax.Machine, error) {
	s, ok := t.Spec.(*volume.InsideSpec)
	if !ok {
		return nil, &iotax.Error{Op: "open", On: t.Name, Err: fmt.Errorf("its spec is a %T", t.Spec)}
	}
	return inside.Open(ctx, m, p, inside.Config{Name: t.Name, Engine: strings.Fields(s.Engine), Image: s.Image, Args: s.Args})
}

// guestKit is what a machine lacks to start guests, from this host.
func guestKit(ctx context.Context, log guest.Log, lacks nested.Lacks, kernel string, root int64) (kit *workload.GuestKit, err error) {
	cache := iotax.CacheDir()
	var k *guest.Kernel
	var disk string
	if lacks.Kernel != "" {
		k, err = guest.HaveKernel(ctx, cache, kernel, log)
	}
	if err == nil && len(lacks.Programs) > 0 {
		disk, err = guest.RootDisk(ctx, cache, root)
	}
	if err != nil {
		return nil, err
	}
	made, err := guest.NewKit(ctx, k, disk)
	if err != nil {
		return nil, err
	}
	return &workload.GuestKit{Sum: made.Sum, Size: made.Size, Send: made.Send}, nil
}
