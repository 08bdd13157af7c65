package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/report"
	"iotax/internal/report/output"
	"iotax/internal/report/text"
	"iotax/internal/rules/check"
	"iotax/internal/rules/lint"
	"iotax/internal/run"
	"iotax/internal/secret"
	"iotax/internal/store"
	"iotax/internal/volume"
	"iotax/internal/workload"
	"iotax/internal/workload/nested"
)

func (a *app) runCommand() *cobra.Command {
	var pf planFlags
	out := &outlet{also: true}
	var resume string
	var keepGoing bool
	var destroy []string
	var part shardFlags
	var fleet fleetFlags
	calibration := calibrateAuto
	c := &cobra.Command{
		Use:   "run [SUITE | PLAN.yaml] [TARGET…] [-- fio --name=…]",
		Short: "Measure, and print the report",
		Long: `run measures a suite, a plan file, or targets given as words; the first target
is the baseline. Targets after the name of a suite replace the suite's own.

iotax saves each trial when it ends. It removes everything that it made, also
after Ctrl-C.

The exit status is 0 when a report was made, also if the run stopped at its
budget, is too noisy for a verdict, or lacks one of several targets. It is 1
when nothing could be measured or compared, and 130 after an interrupt. With
--strict it is 4 when the run measured less than its plan asks for.`,
		Example: `  iotax run /srv/data /mnt/nfs
  iotax run quick /srv/data /mnt/nfs
  iotax run dir:/var/tmp qemu:virtio-blk,cache=none qemu:virtiofs -w randread-4k
  iotax run dir:/var/tmp qemu:virtiofs -w job.fio
  iotax run dir:/var/tmp dir:/mnt/nfs,network=true -- fio --name=t --rw=randread
  iotax run shares.yaml -o report.html
  iotax run k8s://storageclass/local k8s://storageclass/fast
  iotax run randrw device:/dev/sdb dir:/mnt/data
  iotax run --resume
  iotax run shares.yaml --shard 0/4 --id nightly-7 --store postgres://db/iotax
  iotax run shares.yaml --kubernetes --shards 8 --pod-image registry/iotax \
      --store postgres://db/iotax`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			if err := out.check(a, c); err != nil {
				return err
			}
			resuming := c.Flags().Changed("resume")
			if i := slices.IndexFunc(pf.names, c.Flags().Changed); resuming && i >= 0 {
				return usageError{&iotax.Error{Op: "resume", On: resume, Err: fmt.Errorf("--%s cannot be combined with --resume: a resumed run keeps its plan", pf.names[i]),
					Hint: "leave it out, or start a new run"}}
			}
			args, err := pf.command(c, args)
			if err != nil {
				return err
			}
			if err := part.check(resuming); err != nil {
				return usageError{err}
			}
			if fleet.kubernetes {
				if resuming || part.text != "" || len(destroy) > 0 {
					return usageError{fmt.Errorf("--kubernetes takes none of --resume, --shard and --destroy")}
				}
				p, err := pf.load(args, a.in)
				if err != nil {
					return err
				}
				return a.measureInCluster(c.Context(), &fleet, p, cmp.Or(part.id, store.NewID(time.Now())), []string{"--calibrate", string(calibration)}, out)
			}
			return a.run(c.Context(), &pf, args, out, resuming, resume, keepGoing, destroy, calibration, part)
		},
	}
	pf.add(c)
	out.add(c, output.Formats(), "text")
	a.detailsFlag(c)
	f := c.Flags()
	f.StringVar(&resume, "resume", "", "continue an interrupted or incomplete run: --resume=RUN (default: the newest)")
	f.Lookup("resume").NoOptDefVal = "latest"
	choiceFlag(c, &calibration, "calibrate", "noise floor of this machine: auto (use the saved one, or take 10 s before a run of a minute or more), full, or no",
		calibrateAuto, calibrateFull, calibrateNo)
	f.StringArrayVar(&destroy, "destroy", nil, "let workloads overwrite this block device of a target (on another machine: MACHINE:DEVICE): everything on it is lost")
	part.add(f)
	fleet.add(f)
	f.BoolVar(&keepGoing, "keep-going", false, "measure the other targets if one cannot be opened")
	f.BoolVar(&a.strict, "strict", false, "exit with status 4 if the run measured less than its plan asks for: rounds, precision or targets are missing")
	group(c, groupWhat, "resume")
	group(c, groupConditions, "calibrate")
	group(c, groupSafety, "destroy", "keep-going", "strict")
	group(c, groupShards, "shard", "id", "kubernetes", "shards", "pod", "pod-image", "pod-store", "kube-context", "kube-namespace", "detach")
	completeBy(c, "resume", a.completeRuns(1))
	return c
}

func (a *app) run(ctx context.Context, pf *planFlags, args []string, out *outlet, resuming bool, resume string, keepGoing bool, destroy []string, mode calibrating, part shardFlags) error {
	open := store.Open
	if resuming {
		open = store.OpenExisting
	}
	db, err := open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()

	opts := run.Options{Version: version(), KeepGoing: keepGoing}
	var p *plan.Plan
	if resuming {
		p, err = resumed(ctx, db, resume, args, &opts)
	} else {
		opts.ID, opts.Shard = cmp.Or(part.id, store.NewID(time.Now())), part.shard
		p, err = pf.load(args, a.in)
	}
	if err != nil {
		return err
	}
	var folder string
	if opts.Shard.Divided() { // on several hosts: they share the plan as it was written, in which their paths may differ
		mustUndo()
		if done, err := a.takeUp(ctx, db, &opts); done || err != nil {
			return err
		}
		if opts.Plan, err = p.YAML(); err != nil {
			return err
		}
		if opts.Resume != nil {
			opts.Plan = asSaved(opts.Resume, opts.Plan)
		}
		if folder, err = p.Folder(); err != nil {
			return err
		}
	}
	if err := p.Absolute(); err != nil {
		return err
	}

	givenUp, err := devicesToDestroy(destroy, p)
	if err != nil {
		return err
	}
	lacks := lacks(ctx, p)
	if lacks != nil && !keepGoing && !p.Measure.KeepGoing {
		return lacks
	}
	opts.Findings = lint.ForRun(lintPlan(ctx, p))

	id := opts.ID
	if opts.Resume != nil {
		id = opts.Resume.ID
	}
	work, err := beginWork(id)
	if err != nil {
		return err
	}
	defer a.endWork(work)
	if resuming {
		if err := takeOver(ctx, db, &opts); err != nil {
			return err
		}
	}
	show := newProgress(a.err, a.quiet, isTerminal(a.err) && os.Getenv("TERM") != "dumb", 80)
	if resuming {
		show.note("resuming run %s (%s), which has %s", id, opts.Resume.Name, count(len(opts.Trials), "trial"))
	}
	others, err := othersHere(ctx, db, id)
	if err != nil {
		return err
	}
	for _, other := range others {
		show.note("%s is measured on this host at the same time: both results suffer", other)
	}
	// The end may have to wait for a machine that hangs: acknowledge the signal at once.
	if lacks != nil {
		show.note("%v", lacks)
	}
	heard := context.AfterFunc(ctx, func() { show.note("interrupted; removing what was made (a second interrupt ends at once)") })
	deps := a.deps(db, work, show)
	deps.Prepare = givenUp.prepare(deps.Prepare, show.note)
	deps.Calibrate = a.calibrator(mode, p, deps, show)
	if opts.Shard.Divided() {
		saveParts(&deps, db, opts.Shard, folder)
	}
	costs, _, err := costsOf(ctx, db, p, show.note)
	if err != nil {
		return err
	}
	opts.Around = costs.Around
	silent := beats(ctx, db, id)
	r, runErr := run.Run(ctx, p, deps, opts)
	silent()
	heard()
	show.end()
	if r == nil {
		return runErr
	}
	if opts.Shard.Divided() {
		return a.finishPart(ctx, db, r, out, opts.Shard, runErr)
	}
	return a.finish(ctx, db, r, out, runErr)
}

// beginWork labels all that is made from here on as made by the run id, and makes its working directory.
func beginWork(id string) (dir string, err error) {
	mustUndo()
	if _, err = leftover.Begin(id); err == nil {
		dir, err = leftover.MkdirTemp("")
	}
	if err != nil {
		return "", &iotax.Error{Op: "make working directory", On: os.TempDir(), Err: err, Hint: "set TMPDIR to a directory that can be written"}
	}
	return dir, nil
}

// endWork removes the working directory, except for notes and mounts that are left in it. It reports them; clean removes them.
func (a *app) endWork(dir string) {
	if err := leftover.Remove(dir); err != nil {
		fmt.Fprintln(a.err, "iotax:", err)
	}
}

// finish prints the report of a run, writes it where asked, and turns its outcome into an exit
// status.
func (a *app) finish(ctx context.Context, db *store.Store, r *iotax.Run, out *outlet, runErr error) error {
	ctx = context.WithoutCancel(ctx) // an interrupted run still shows what it has
	rep, err := reportOf(ctx, db, r)
	if err != nil {
		return err
	}
	n := len(rep.Trials)
	if n == 0 && r.Status == iotax.Interrupted {
		fmt.Fprintf(a.err, "iotax: interrupted before the first trial ended; begin anew with: %s\n", goOn(r))
		return exitCode(exitInterrupted)
	}
	if n == 0 && runErr != nil {
		return runErr
	}
	written, err := out.write(a, a.document(rep))
	if !a.quiet {
		for _, path := range written {
			fmt.Fprintf(a.err, "wrote %s\n", path)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case r.Status == iotax.Interrupted:
		saved := fmt.Sprintf("the %d finished trials are saved", n)
		if n == 1 {
			saved = "the one finished trial is saved"
		}
		fmt.Fprintf(a.err, "iotax: interrupted; %s; continue with: %s\n", saved, goOn(r))
		return exitCode(exitInterrupted)
	case runErr != nil:
		return runErr
	}
	if err := noComparison(rep); err != nil {
		return err
	}
	return a.completeness(r)
}

// completeness is exit status 4 of a run that has a report and measured less than was asked for, with --strict.
func (a *app) completeness(r *iotax.Run) error {
	if a.strict && r.Status != iotax.Done {
		return exitCode(exitIncomplete)
	}
	return nil
}

// A nothingCompared is the error of a run whose report has no comparison.
type nothingCompared struct{ error }

// noComparison returns a nothingCompared when no trial succeeded on both sides of any comparison or, in a run that compares nothing, when
// no trial succeeded.
func noComparison(rep *report.Report) error {
	compares, measured, ran := false, false, 0
	for _, s := range rep.Sections {
		for _, r := range s.Rows {
			good := r.Ran > r.Failed
			ran += r.Ran
			measured = measured || good
			if base := s.Row(r.Against); base != nil {
				compares = true
				if good && base.Ran > base.Failed {
					return nil
				}
			}
		}
	}
	why := "no trial succeeded on both sides of a comparison"
	switch {
	case measured && !compares:
		return nil
	case ran == 0:
		why = "no trial was measured"
	case !measured:
		why = "every trial failed"
	}
	return nothingCompared{&iotax.Error{Op: "measure", On: rep.Run.ID, Err: errors.New(why), Hint: "see the notes of the report; after you remove the cause: " + goOn(rep.Run)}}
}

// goOn is the command that continues an interrupted run.
func goOn(r *iotax.Run) string {
	if divided(r) {
		return "iotax run … --id " + r.ID + ", with the words that its shards were started with"
	}
	return "iotax run --resume=" + r.ID
}

// divided reports whether several processes measure the run.
func divided(r *iotax.Run) bool { return r.Environment[run.ShardsKey] != "" }

// resumed finds the run to continue, and its plan.
func resumed(ctx context.Context, db *store.Store, id string, args []string, opts *run.Options) (*plan.Plan, error) {
	if len(args) > 0 {
		return nil, usageError{fmt.Errorf("--resume cannot be combined with targets or a suite (%s): a resumed run keeps its plan", strings.Join(args, " "))}
	}
	if id == "latest" {
		id = "newest" // also one that ended before its first trial
	}
	r, err := db.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	heard, err := db.Pulse(ctx, r.ID)
	if err == nil {
		err = resumable(r, heard)
	}
	if err != nil {
		return nil, err
	}
	opts.Resume, opts.Plan = r, r.Plan
	return plan.Parse("plan of run "+r.ID, r.Plan, kinds())
}

// resumable refuses a run that another process is at work on, or that needs no more work.
func resumable(r *iotax.Run, heard store.Pulse) error {
	if who, err := runnerOf(r); err == nil && r.Status == iotax.Running {
		if what, hint := stillRuns(who, heard); what != "" {
			return &iotax.Error{Op: "resume", On: r.ID, Err: errors.New(what), Hint: hint}
		}
	}
	if divided(r) {
		return usageError{&iotax.Error{Op: "resume", On: r.ID, Err: errors.New("several processes measure it, each its shard"), Hint: goOn(r)}}
	}
	if r.Status == iotax.Done {
		return usageError{&iotax.Error{Op: "resume", On: r.ID, Err: fmt.Errorf("the run is complete"), Hint: "iotax report " + r.ID}}
	}
	return nil
}

// takeOver makes this process the one that measures the run of opts.Resume, and reads what it has by now. Another process may
// have resumed it since.
func takeOver(ctx context.Context, db *store.Store, opts *run.Options) (err error) {
	opts.Resume, err = db.Claim(ctx, opts.Resume.ID, leftover.Current().Runner.String(), func(r *iotax.Run, heard store.Pulse) error {
		if err := resumable(r, heard); err != nil {
			return err
		}
		signed(r).Status = iotax.Running
		return nil
	})
	if err == nil {
		opts.Trials, err = measured(ctx, db, opts.Resume.ID)
	}
	return err
}

// asSaved is r's plan if it means the same as text: another version of iotax may have written it with fewer keys.
func asSaved(r *iotax.Run, text []byte) []byte {
	p, err := plan.Parse("plan of run "+r.ID, r.Plan, kinds())
	if err != nil {
		return text
	}
	if again, err := p.YAML(); err != nil || !bytes.Equal(again, text) {
		return text
	}
	return r.Plan
}

// measured returns the finished trials of a run, without their raw output, series and histograms.
func measured(ctx context.Context, db *store.Store, id string) ([]*iotax.Trial, error) {
	var trials []*iotax.Trial
	for t, err := range db.Each(ctx, id, store.Brief) {
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	return trials, nil
}

// deps wires the real world into a run.
func (a *app) deps(db *store.Store, work string, show *progress) run.Deps {
	cache := cacheDir()
	here := host.Local()
	var watcher probe.Watcher
	settle := sync.OnceFunc(func() {
		giveBack()
		debug.SetGCPercent(25) // from here on memory counts, and not the little work that a run makes for the collector
	})
	return run.Deps{
		Host: here,
		Open: func(ctx context.Context, m plan.Machine, devices []iotax.Device) (iotax.Machine, error) {
			return machine.Open(ctx, m, machine.Options{Name: m.Name, Devices: devices, CacheDir: cache, WorkDir: work, Log: show.note})
		},
		Enclose: enclose,
		Prepare: func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
			e.WorkDir = work
			return volume.Prepare(ctx, t, e)
		},
		Workload: func(w plan.Workload) (iotax.Workload, error) {
			e := workloadEnv()
			e.Log, e.Host = show.note, here
			e.GuestKit = func(ctx context.Context, lacks nested.Lacks, kernel string, root int64) (*workload.GuestKit, error) {
				return guestKit(ctx, cache, show.note, lacks, kernel, root)
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
		Begin: func(ctx context.Context, r *iotax.Run) error { return db.Create(ctx, signed(r)) },
		Save: func(ctx context.Context, t *iotax.Trial) error {
			secret.Hide(t)
			return db.Append(ctx, t)
		},
		Update: func(ctx context.Context, r *iotax.Run) error { return db.Update(ctx, signed(r)) },
		Progress: func(e run.Event) {
			show.event(e)
			if a.verbose {
				debugEvent(e, show.note)
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

// workloadEnv is what workloads are made from on this host.
func workloadEnv() workload.Env {
	cache := cacheDir()
	return workload.Env{CacheDir: cache,
		Python: func(ctx context.Context) (string, string, error) {
			dir, err := guest.Python(ctx, cache)
			return dir, guest.PythonApp, err
		},
		Lodge: func(ctx context.Context, m iotax.Machine, l workload.Lodging) (string, func(context.Context) error, error) {
			return volume.OwnDir(ctx, m, l.In, l.Need, l.Network, l.Create)
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

func cacheDir() string { return iotax.CacheDir() }

// document returns a function that writes the report in a format: as text as wide as the terminal, else as in a file.
func (a *app) document(rep *report.Report) func(io.Writer, string) error {
	return func(w io.Writer, format string) error {
		if format == "txt" && w == a.out {
			return output.Text(w, rep, a.details, text.Options{Width: width(w, output.TextWidth), Color: color(w)})
		}
		return output.Write(w, rep, format, a.details)
	}
}
