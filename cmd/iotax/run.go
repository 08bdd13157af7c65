package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/expect"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/qemu"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/report"
	"iotax/internal/report/export"
	"iotax/internal/report/format"
	"iotax/internal/report/output"
	"iotax/internal/report/text"
	"iotax/internal/rules/lint"
	"iotax/internal/rules/lint/input"
	"iotax/internal/run"
	"iotax/internal/run/estimate"
	"iotax/internal/run/progress"
	"iotax/internal/run/saved"
	"iotax/internal/run/wired"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

type runFlags struct {
	planFlags
	out       *outlet
	resuming  bool
	resume    string
	against   string
	keepGoing bool
	destroy   []string
	calibrate calibrate.Mode
	shard     shardFlags
	again     string // the command line that repeats the run, or "" (see repeatable)
}

func (a *app) runCommand() *cobra.Command {
	fl := runFlags{out: &outlet{also: true}, calibrate: calibrate.Auto}
	var fleet fleetFlags
	c := &cobra.Command{
		Use:   "run [SUITE | PLAN.yaml] [TARGET…] [-- fio --name=…]",
		Short: "Measure, and print the report",
		Long: `run measures a suite, a plan file, or targets. The first target is the baseline:
the report shows how much slower or faster the others are. Targets after the
name of a suite replace the suite's own.

Existing files are safe: in each target iotax writes only into a new directory,
iotax-…, and removes it at the end, also after Ctrl-C. It writes to a block
device only if --destroy names it. Each trial is saved when it ends.

The exit status is 0 when a report was made, also if the run stopped at its
budget, is too noisy for a verdict, or lacks one of several targets. It is 1
when nothing could be measured or compared, 3 when an expectation is missed,
and 130 after an interrupt. With --strict it is also 3 when an expectation is
undecided, and 4 when the run measured less than its plan asks for.`,
		Example: `  iotax run /srv/data /mnt/nfs
  iotax run quick /srv/data /mnt/nfs
  iotax run dir:/var/tmp qemu:virtio-blk,cache=none qemu:virtiofs -w randread-4k
  iotax run dir:/var/tmp qemu:virtiofs -w job.fio
  iotax run dir:/var/tmp /mnt/nfs -- fio --name=t --rw=randread
  iotax run shares.yaml -o report.html
  iotax run /srv/data --expect 'write.latency.p99 < 10ms' -o junit.xml
  iotax run k8s://storageclass/local k8s://storageclass/fast
  iotax run randrw device:/dev/sdb dir:/mnt/data
  iotax run shares.yaml --against latest
  iotax run --resume
  iotax run shares.yaml --shard 0/4 --id nightly-7 --store postgres://db/iotax
  iotax run shares.yaml --kubernetes --shards 8 --pod-image registry/iotax \
      --store postgres://db/iotax`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			if err := fl.out.check(a, c); err != nil {
				return err
			}
			fl.resuming = c.Flags().Changed("resume")
			if i := slices.IndexFunc(fl.names, c.Flags().Changed); fl.resuming && i >= 0 {
				return iotax.Usage(&iotax.Error{Op: "resume", On: fl.resume, Err: fmt.Errorf("--%s cannot be combined with --resume: a resumed run keeps its plan", fl.names[i]),
					Hint: "leave it out, or start a new run"})
			}
			if i := slices.IndexFunc(onlyInCluster, c.Flags().Changed); !fleet.kubernetes && i >= 0 {
				return iotax.Usage(&iotax.Error{Op: "read command line", On: "--" + onlyInCluster[i], Err: errors.New("it has no effect without --kubernetes"), Hint: "add --kubernetes, or leave it out"})
			}
			if i := slices.IndexFunc(ofReport, c.Flags().Changed); fleet.detach && i >= 0 {
				return iotax.Usage(&iotax.Error{Op: "read command line", On: "--" + ofReport[i], Err: errors.New("--detach prints no report"), Hint: "leave it out, and later use: iotax report ID"})
			}
			args, err := fl.command(c, args)
			if err != nil {
				return err
			}
			if err := fl.shard.check(fl.resuming); err != nil {
				return iotax.Usage(err)
			}
			if !fleet.kubernetes {
				fl.again = repeatable(a.args)
				return a.run(c.Context(), &fl, args)
			}
			if fl.resuming || fl.shard.text != "" || len(fl.destroy) > 0 {
				return iotax.Usage(errors.New("--kubernetes takes none of --resume, --shard and --destroy"))
			}
			p, err := fl.load(args, a.in)
			if err != nil {
				return err
			}
			if fl.given("keep-going") {
				p.Measure.KeepGoing = fl.keepGoing
			}
			return a.measureInCluster(c.Context(), &fleet, p, fl.against, cmp.Or(fl.shard.id, store.NewID(time.Now())), []string{"--calibrate", string(fl.calibrate)}, fl.out)
		},
	}
	fl.planFlags.add(c)
	fl.out.add(c, output.Formats(), "text")
	a.detailsFlag(c)
	f := c.Flags()
	f.StringVar(&fl.resume, "resume", "", "continue an interrupted or incomplete run: --resume=RUN (default: the newest)")
	f.Lookup("resume").NoOptDefVal = "latest"
	choiceFlag(c, &fl.calibrate, "calibrate", "noise floor of this machine: auto (use the saved one, or take 15 s before a run of a minute or more), full, or no",
		calibrate.Auto, calibrate.Always, calibrate.Never)
	f.StringVar(&fl.against, "against", "", "an earlier `RUN`: measure targets that are configured otherwise now as they were then, too, in the same rounds, and compare the two")
	fl.names = append(fl.names, "against")
	f.StringArrayVar(&fl.destroy, "destroy", nil, "let workloads overwrite this block device of a target (on another machine: MACHINE:DEVICE): everything on it is lost")
	fl.shard.add(f)
	fleet.add(f)
	f.BoolVar(&fl.keepGoing, "keep-going", false, "measure the other targets if one cannot be opened")
	f.BoolVar(&a.strict, "strict", false, "exit with status 3 if an expectation is undecided, and with 4 if the run measured less than its plan asks for: rounds, precision or targets are missing")
	group(c, groupWhat, "resume", "against")
	group(c, groupConditions, "calibrate")
	group(c, groupSafety, "destroy", "keep-going", "strict")
	group(c, groupShards, append([]string{"shard", "id", "kubernetes"}, onlyInCluster...)...)
	completeBy(c, "resume", a.completeRuns(1))
	completeBy(c, "against", a.completeRuns(1))
	return c
}

// repeatable returns the shell command line that runs iotax with args. It returns "" if an argument may be an address with
// a password, which must not be in a report.
func repeatable(args []string) string {
	words := []string{"iotax"}
	for _, s := range args {
		if strings.Contains(s, "@") || strings.Contains(s, "password") {
			return ""
		}
		words = append(words, iotax.Quote(s))
	}
	return strings.Join(words, " ")
}

// run measures the plan that args name, or resumes a run, and prints the report.
func (a *app) run(ctx context.Context, fl *runFlags, args []string) error {
	open := store.Open
	if fl.resuming {
		open = store.OpenExisting
	}
	db, err := open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	opts := run.Options{Version: version(), Command: fl.again, KeepGoing: fl.keepGoing}
	var p *plan.Plan
	switch {
	case fl.resuming && len(args) > 0:
		err = iotax.Usage(fmt.Errorf("--resume cannot be combined with targets or a suite (%s): a resumed run keeps its plan", strings.Join(args, " ")))
	case fl.resuming:
		p, err = saved.Resume(ctx, db, fl.resume, &opts)
	default:
		opts.ID, opts.Shard = cmp.Or(fl.shard.id, store.NewID(time.Now())), fl.shard.shard
		p, err = fl.load(args, a.in)
		if err == nil && !opts.Shard.Divided() {
			estimate.Restart(p)
		}
	}
	if err != nil {
		return err
	}
	if len(p.Expectations) == 0 && fl.out.writes("xml", "github") {
		return iotax.Usage(export.ErrNoExpectations)
	}
	p, earlier, err := against(ctx, db, p, fl.against, opts.Shard.Divided())
	if err != nil {
		return err
	}
	share := func(*run.Deps) {}
	if opts.Shard.Divided() { // shards on different hosts share the plan as written, because absolute paths may differ
		mustUndo()
		if done, err := saved.TakeUp(ctx, db, &opts); err != nil {
			return err
		} else if done {
			fmt.Fprintf(a.err, "iotax: shard %s of run %s is complete\n", opts.Shard, opts.ID)
			return nil
		}
		if share, err = saved.Share(db, p, &opts); err != nil {
			return err
		}
	}
	if err := p.Absolute(); err != nil {
		return err
	}
	destroy, err := wired.ParseDestroy(fl.destroy, p)
	if err != nil {
		return err
	}
	if fl.given("keep-going") && !fl.keepGoing {
		p.Measure.KeepGoing = false
	}
	lacks := lacks(ctx, p)
	if lacks != nil && !fl.keepGoing && !p.Measure.KeepGoing {
		return lacks
	}
	opts.Findings = lint.ForRun(input.Plan(ctx, p))

	id := opts.ID
	if opts.Resume != nil {
		id = opts.Resume.ID
	}
	work, err := beginWork(id)
	if err != nil {
		return err
	}
	defer a.endWork(work)
	show := a.progress()
	if fl.resuming {
		if opts.Resume.Status == iotax.Running { // the store still has the status of the process that was killed
			show.Note("the earlier process of run %s was killed; iotax clean lists what it left behind", id)
		}
		if err := saved.TakeOver(ctx, db, &opts); err != nil {
			return err
		}
		show.Note("resuming run %s (%s), which has %s", id, opts.Resume.Name, format.Plural(len(opts.Trials), "trial"))
	}
	earlier.notes(show.Note)
	for _, other := range leftover.Others(id) {
		show.Note("run %s (process %d) is measured on this host at the same time: both results suffer", other.Run, other.Runner.PID)
	}
	if lacks != nil {
		show.Note("%v", lacks)
	}
	if names := unexplained(p); len(names) > 0 {
		show.Note("no explained trials of %s: trials of these workloads end by themselves", format.Enumerate(names, len(names), ""))
	}
	deps := wired.Deps(db, work, destroy, show, a.verbose)
	share(&deps)
	deps.Calibrate = study(deps, show).Of(p, fl.calibrate)
	part, err := opts.Shard.Of(p)
	if err != nil {
		return err
	}
	testAccelerator(ctx, p, work, show.Note)
	calibration := fl.calibrate
	if opts.Resume != nil && opts.Resume.Calibration != nil {
		calibration = calibrate.Never // the run keeps its calibration
	}
	costs, from, err := estimate.Costs(ctx, db, p, calibration, show.Note)
	if err != nil {
		return err
	}
	costs.Done = estimate.Done(part, opts.Trials)
	show.Note("takes %s", estimate.Lines(part, costs, from)[0])
	opts.Around = costs.Around
	// Acknowledge the signal at once, because the cleanup takes long if a machine hangs.
	heard := context.AfterFunc(ctx, func() { show.Note("interrupted; removing what was made (a second interrupt ends at once)") })
	silent := saved.Beat(ctx, db, id)
	r, runErr := run.Run(ctx, p, deps, opts)
	silent()
	heard()
	show.End()
	if r == nil {
		return runErr
	}
	earlier.drift(r, show.Note)
	if opts.Shard.Divided() {
		a.printUnremoved(r)
		return a.finishPart(ctx, db, r, fl.out, opts.Shard, runErr)
	}
	return a.finish(ctx, db, r, fl.out, runErr)
}

// testAccelerator tests, for the estimate, whether guests on this host are emulated. It does nothing if p uses no guest
// on this host, or if an earlier test has a result. It ignores errors, because the run reports them when it opens the
// guest.
func testAccelerator(ctx context.Context, p *plan.Plan, dir string, note func(string, ...any)) {
	used := p.Used()
	guest := func(m plan.Machine) bool { return m.Kind == vm.Kind.Name && m.On == "" && used[m.Name] }
	if accel, tested := qemu.Known(iotax.CacheDir()); !tested && slices.ContainsFunc(p.Machines, guest) {
		note("testing %s", accel)
		_, _ = vm.Accelerator(ctx, machine.Options{CacheDir: iotax.CacheDir(), WorkDir: dir, Log: note})
	}
}

func (a *app) progress() *progress.Progress {
	level := progress.Normal
	switch {
	case a.quiet:
		level = progress.Quiet
	case a.verbose:
		level = progress.Verbose
	}
	return progress.New(a.err, level, terminal.Is(a.err) && os.Getenv("TERM") != "dumb", 80)
}

// beginWork makes a working directory for the run id. From then on, the commands that iotax starts inherit the run's
// label.
func beginWork(id string) (dir string, err error) {
	mustUndo()
	if _, err = leftover.Begin(id); err == nil {
		dir, err = leftover.MkdirTemp("")
	}
	if err != nil {
		return "", &iotax.Error{Op: "make working directory", On: os.TempDir(), Err: err, Hint: "set TMPDIR to a directory that can be written and that no other user can replace, such as /tmp"}
	}
	return dir, nil
}

// endWork removes the working directory, but keeps notes about resources that still exist. It prints errors. `iotax
// clean` can remove the rest later.
func (a *app) endWork(dir string) {
	if err := leftover.Remove(dir); err != nil {
		fmt.Fprintln(a.err, "iotax:", err)
	}
}

// printUnremoved prints the resources that an interrupted run could not remove. For other runs it prints nothing, because
// their error names these resources.
func (a *app) printUnremoved(r *iotax.Run) {
	if r == nil || r.Status != iotax.Interrupted {
		return
	}
	for _, f := range run.Leftovers(r) {
		fmt.Fprintf(a.err, "iotax: %s\n  hint: %s\n", terminal.CleanLines(f.Evidence), f.Hint)
	}
}

// finish prints the report of a run, writes the files of -o, and returns an error that sets the exit status.
func (a *app) finish(ctx context.Context, db *store.Store, r *iotax.Run, out *outlet, runErr error) error {
	ctx = context.WithoutCancel(ctx) // an interrupted run with trials also gets its report
	rep, err := reportOf(ctx, db, r)
	if err != nil {
		return err
	}
	n := len(rep.Trials)
	if n == 0 && r.Status == iotax.Interrupted {
		a.printUnremoved(r)
		return errInterrupted{fmt.Errorf("interrupted before the first trial ended; start again with: %s", saved.Continue(r))}
	}
	if n == 0 && runErr != nil {
		return runErr
	}
	if i := slices.IndexFunc(out.files, func(path string) bool { return out.formatOf(path) == "html" }); i >= 0 {
		rep.Page = out.files[i]
	}
	written, err := out.write(a, a.document(rep))
	if !a.quiet {
		for _, path := range written {
			if path == rep.Page && out.prints() && (out.format == "txt" || out.format == "md") {
				continue // the report's last lines contain the command that opens the page
			}
			fmt.Fprintf(a.err, "wrote %s\n", path)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case r.Status == iotax.Interrupted:
		kept := fmt.Sprintf("the %d finished trials are saved", n)
		if n == 1 {
			kept = "the one finished trial is saved"
		}
		return errInterrupted{fmt.Errorf("interrupted; %s; continue with: %s", kept, saved.Continue(r))}
	case runErr != nil:
		return runErr
	}
	if err := noComparison(rep); err != nil {
		return err
	}
	failOn := expect.Missed
	if a.strict {
		failOn = expect.Undecided
	}
	if err := decided(rep, failOn); err != nil {
		return err
	}
	return a.completeness(r)
}

// decided returns exit status 3 if an expectation is missed or has the outcome failOn. It returns nil if failOn is "".
func decided(rep *report.Report, failOn expect.Outcome) error {
	if n := rep.Outcomes(); failOn != "" && n[expect.Missed]+n[failOn] > 0 {
		return exitCode(exitGate)
	}
	return nil
}

// completeness returns exit status 4 if --strict is given and the run measured less than its plan.
func (a *app) completeness(r *iotax.Run) error {
	if a.strict && r.Status != iotax.Done {
		return exitCode(exitIncomplete)
	}
	return nil
}

// A nothingCompared is the error of a report without a valid comparison.
type nothingCompared struct{ error }

// noComparison returns a nothingCompared if no comparison has a valid trial on both sides, or if a run without
// comparisons has no valid trial.
func noComparison(rep *report.Report) error {
	compares, measured, ran, failed := false, false, 0, 0
	for _, s := range rep.Sections {
		for _, r := range s.Rows {
			good := r.Counted > 0
			ran, failed = ran+r.Ran, failed+r.Failed
			measured = measured || good
			if base := s.Row(r.Against); base != nil {
				compares = true
				if good && base.Counted > 0 {
					return nil
				}
			}
		}
	}
	why := "no valid trial on both sides of a comparison"
	switch {
	case measured && !compares:
		return nil
	case ran == 0:
		why = "no trial was measured"
	case failed == ran:
		why = "every trial failed"
	case !measured:
		why = "every trial failed or was discarded"
	}
	return nothingCompared{&iotax.Error{Op: "measure", On: rep.Run.ID, Err: errors.New(why), Hint: "see the notes of the report; after you remove the cause: " + saved.Continue(rep.Run)}}
}

// document returns a function that writes the report in a format. Text on standard output is as wide as the terminal.
func (a *app) document(rep *report.Report) func(io.Writer, string) error {
	return func(w io.Writer, format string) error {
		if format == "txt" && w == a.out {
			return output.Text(w, rep, a.details, text.Options{Width: terminal.Width(w, output.TextWidth), Color: terminal.Color(w), Program: program()})
		}
		return output.Write(w, rep, format, a.details)
	}
}
