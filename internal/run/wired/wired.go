// Package wired connects a run to the real machines, volumes, workloads, probes, checks and store.
package wired

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/probe/serving"
	"iotax/internal/rules/check"
	"iotax/internal/run"
	"iotax/internal/run/progress"
	"iotax/internal/run/saved"
	"iotax/internal/secret"
	"iotax/internal/store"
	"iotax/internal/volume"
	"iotax/internal/workload"
)

// Deps returns the functions for a run that is saved in db. `work` is the run's working directory. Workloads may
// overwrite the devices in `destroy`. With `verbose`, the run prints the command of each trial.
func Deps(db *store.Store, work string, destroy Destroy, show *progress.Progress, verbose bool) run.Deps {
	cache := iotax.CacheDir()
	here := host.Local()
	watcher := probe.Watcher{Serving: func(pids func() []int, protocol string) (func() (probe.ServingTime, error), error) {
		stop, err := serving.Start(pids, serving.Protocol(protocol))
		if err != nil {
			return nil, err
		}
		return func() (probe.ServingTime, error) {
			t, err := stop()
			return probe.ServingTime(t), err
		}, nil
	}, Profiler: serving.Profile}
	settle := sync.OnceFunc(func() {
		giveBack()
		debug.SetGCPercent(25) // from now on, use less memory at the cost of more garbage collection
	})
	shared := new(workload.Shared)
	others := saved.Others{} // active at the end of a trial
	return run.Deps{
		Host: here,
		Open: func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
			return machine.Open(ctx, m, machine.Options{Name: m.Name, On: on, Devices: devices, CacheDir: cache, WorkDir: work, Log: show.Note})
		},
		CheckDevice: machine.Check,
		Enclose: func(ctx context.Context, m plan.Machine, target string, on iotax.Machine, p iotax.Place) (iotax.Machine, error) {
			return machine.Open(ctx, m, machine.Options{Name: target, On: on, Place: p, Log: show.Note})
		},
		Prepare: func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
			e.WorkDir, e.Destroy, e.Note = work, destroy[t.On], show.Note
			return volume.Prepare(ctx, t, e)
		},
		Workload: func(w plan.Workload) (iotax.Workload, error) {
			e := kinds.Env()
			e.Log, e.Host, e.Shared = show.Note, here, shared
			return workload.New(w, e)
		},
		Environment: probe.Environment,
		Watch:       watching(settle, watcher.Start),
		Explain:     watching(settle, watcher.Explain),
		Profile:     watching(settle, watcher.Profile),
		Evict:       probe.EvictOn,
		Governor:    func(want string) (func() error, []iotax.Finding, error) { return probe.SetGovernor(want, work) },
		Check:       check.Trial,
		Review: func(r *iotax.Run, trials []*iotax.Trial) []iotax.Finding {
			return append(check.Run(r, trials), others.Findings()...)
		},
		ReviewValues: check.RunValues(), ReviewFacts: check.RunFacts,
		Begin: func(ctx context.Context, r *iotax.Run) error { return db.Create(ctx, saved.Sign(r)) },
		Save: func(ctx context.Context, t *iotax.Trial) error {
			secret.Hide(t)
			others.Look()
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

// watching returns a function for Deps.Watch, Deps.Explain or Deps.Profile. The returned function calls `first` before
// each watch.
func watching(first func(), start func(context.Context, *iotax.Target) (*probe.Watch, error)) func(context.Context, *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
	return func(ctx context.Context, t *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
		first()
		w, err := start(ctx, t)
		if err != nil {
			return nil, err
		}
		return w.Stop, nil
	}
}

// debugEvent prints the command of a finished trial, quoted for a shell, and the trial's output if it failed.
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
