// Package run turns a plan into trials: it opens the machines, makes the places, prepares the
// cells, measures in paired and interleaved rounds until the intervals are narrow enough, and
// always takes down what it made. Everything it does to the world goes through the functions in
// Deps, so its tests run on fakes and a clock of their own.
package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/rules"
	"iotax/internal/volume"
	"iotax/stat"
)

// Deps are the functions through which a run touches the world. All but Calibrate, Explain,
// Governor and Progress are required.
type Deps struct {
	// Host is this host: volumes that serve a guest are prepared on it.
	Host iotax.Machine
	// Open starts or reaches a machine, with the devices that the volumes on it need. on is the machine that it is on, or nil.
	Open func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error)
	// CheckDevice returns why a machine, which is on this host, cannot have a device. It may be missing.
	CheckDevice func(ctx context.Context, m plan.Machine, d iotax.Device) error
	// Prepare makes the serving side of a target's volume.
	Prepare func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error)
	// Enclose starts a machine that is on another one (plan.Traits.Encloses), for the work of target with the place p of on. It
	// may be missing where no plan has such a machine.
	Enclose func(ctx context.Context, m plan.Machine, target string, on iotax.Machine, p iotax.Place) (iotax.Machine, error)
	// Workload makes the workload of an entry of the plan.
	Workload func(w plan.Workload) (iotax.Workload, error)
	// Environment describes a machine.
	Environment func(ctx context.Context, m iotax.Machine) (map[string]string, error)
	// Watch starts to observe what else happens during a trial; stop ends that.
	Watch func(ctx context.Context, t *iotax.Target) (stop func(context.Context) (iotax.Seen, error), err error)
	// Explain is Watch for an explained trial (plan.Measure.Explain).
	Explain func(ctx context.Context, t *iotax.Target) (stop func(context.Context) (iotax.Seen, error), err error)
	// Evict takes the files at a path of this host out of its page cache.
	Evict func(ctx context.Context, path string) error
	// Governor sets the frequency governor of this host's CPUs; undo restores them. It may be missing. The
	// finding tells what could not be had.
	Governor func(want string) (undo func() error, found []iotax.Finding, err error)
	// Check judges one trial; a discarded trial discards its round.
	Check func(t *iotax.Trial, tgt *iotax.Target) (findings []iotax.Finding, discarded string)
	// Review judges the whole run, by what is kept of its trials: the workload's metrics, the values named by
	// ReviewValues, the facts that ReviewFacts returns, and of findings the rule and the severity. A trial's error, and
	// why it is discarded, are not kept. Without ReviewFacts no fact is.
	Review       func(r *iotax.Run, trials []*iotax.Trial) []iotax.Finding
	ReviewValues []string
	ReviewFacts  func(t *iotax.Trial) map[string]string

	// Begin is called once, before the first trial; Save after each; Update when the run changed.
	Begin  func(ctx context.Context, r *iotax.Run) error
	Save   func(ctx context.Context, t *iotax.Trial) error
	Update func(ctx context.Context, r *iotax.Run) error

	// Calibrate tells what is known of the rig of r's baseline, once every target stands; nil is nothing.
	// It may measure, with deps of its own. The findings are about the run. It may be missing.
	Calibrate func(ctx context.Context, r *iotax.Run) (*iotax.Calibration, []iotax.Finding)

	// Progress is told what happens, from the goroutine of Run.
	Progress func(Event)

	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Options are what a run is told beside its plan.
type Options struct {
	ID        string         // of the new run
	Version   string         // of iotax
	Command   string         // that starts the run anew, "" for none
	KeepGoing bool           // a target that cannot be opened is reported, and the others are measured
	Resume    *iotax.Run     // the run to go on with
	Trials    []*iotax.Trial // what Resume has already
	Plan      []byte         // what is saved as the plan, or was when Resume began; nil is the plan as it is

	// Findings are what was found wrong with the plan before the run; the report tells them.
	Findings []iotax.Finding

	Shard Shard // the part of the run that this process measures; the zero Shard is all of it

	Around map[schedule.Cell]time.Duration // assumed time around a trial, until trials have shown it

	// Enough takes the place of the stop rule, for a plan that compares one target with the baseline: it gets the log ratios of the
	// rounds that count, and returns why they are enough, or "".
	Enough func(d []float64) string
}

// EventKind says what an Event tells.
type EventKind string

const (
	Opening    EventKind = "opening"    // Target or Text says what
	Preparing  EventKind = "preparing"  // Target, Workload
	Starting   EventKind = "starting"   // a trial: Target, Workload, Round
	Finished   EventKind = "finished"   // a trial: Trial
	RoundDone  EventKind = "round-done" // Round counts it, if it counts; Target and Trial are those of its last trial
	CellsDone  EventKind = "cells-done" // Workload reached its end; Text says why, Short that it was before what was asked for
	Missing    EventKind = "missing"    // Target, or only Workload there, cannot be had; Err says why, and the run goes on without
	CleaningUp EventKind = "cleaning-up"
)

// An Event is one step of a run, for the progress display.
type Event struct {
	Kind     EventKind
	Text     string
	Target   string
	Workload string
	Round    int // from 0, those left out that do not count
	Rounds   int // the most that count
	Trial    *iotax.Trial
	Metric   string // headline value of Trial
	Short    bool
	Err      error
	Elapsed  time.Duration // since the first trial
	Left     time.Duration // estimate until the last, if every round is needed; 0 when unknown

	// HalfWidth is that of the widest ratio of the workload so far, as a ratio (stat.Interval.HalfWidth): the
	// workload is done when it is no more than Precision at a look. HalfWidth is 0 where there is no interval
	// yet, and Precision where the number of rounds is fixed.
	HalfWidth, Precision float64
}

// Run measures p. The returned run is never nil once the plan was accepted; its Status says how far
// it came, and its trials went through Deps.Save. The error is that of the first step that kept the
// run from measuring (an *iotax.Error), ctx's when it was interrupted, or that of a clean-up that
// left something behind. Trials that failed are no error here: they are rows.
func Run(ctx context.Context, p *plan.Plan, d Deps, o Options) (run *iotax.Run, err error) {
	if d.Progress == nil {
		d.Progress = func(Event) {}
	}
	from := d.Now()
	if run, err = begin(p, d, o); err != nil {
		return nil, err
	}
	if p, err = o.Shard.of(p); err != nil {
		return nil, err
	}
	r := newRig(p, d)
	if o.Resume != nil {
		r.known = map[string]map[string]string{}
		for _, w := range o.Resume.Workloads {
			r.known[w.Name] = w.Facts
		}
	}
	var setup time.Duration // until the targets are open
	defer func() {
		closing := d.Now()
		d.Progress(Event{Kind: CleaningUp})
		clean := context.WithoutCancel(ctx)
		cerr := r.close(clean)
		r.describe(run)
		if cerr != nil {
			run.Findings = append(run.Findings, rules.LeftBehind.Found(iotax.AboutRun(), "%s", cerr))
			err = errors.Join(err, cerr)
		}
		run.End = d.Now()
		if setup > 0 {
			run.Environment[iotax.FactSetupTime] = (setup + run.End.Sub(closing)).Round(time.Millisecond).String()
		}
		err = errors.Join(err, d.Update(clean, run))
	}()

	if o.Resume == nil {
		err = d.Begin(ctx, run)
	} else {
		err = d.Update(ctx, run)
	}
	if err != nil {
		return run, err
	}
	if err = r.open(ctx, run, o.KeepGoing || p.Measure.KeepGoing); err == nil {
		setup = d.Now().Sub(from)
		err = d.Update(ctx, run)
	}
	if err != nil {
		run.Status = iotax.Failed
		if len(o.Trials) > 0 {
			run.Status = iotax.Incomplete // what it had it still has
		}
		if ctx.Err() != nil {
			run.Status = iotax.Interrupted
			err = context.Cause(ctx)
		} else {
			explainFailure(run, err)
		}
		return run, err
	}

	if d.Calibrate != nil && run.Calibration == nil { // a resumed run keeps its own: its looks must stay alike
		var found []iotax.Finding
		run.Calibration, found = d.Calibrate(ctx, run)
		run.Findings = mergeFindings(run.Findings, found)
	}
	if run.Calibration != nil && ctx.Err() == nil { // a file more to sync is time before the first trial
		err = d.Update(ctx, run)
	}
	e := newEngine(run, p, d, r, o, from)
	e.setup = setup
	e.reopen = func(ctx context.Context) (*rig, error) {
		if err := r.close(context.WithoutCancel(ctx)); err != nil {
			return r, err
		}
		r.describe(run)
		r = r.again(run)
		if err := r.open(ctx, run, false); err != nil {
			return r, err
		}
		return r, d.Update(ctx, run)
	}
	if err == nil {
		err = e.measure(ctx)
	}
	switch {
	case ctx.Err() != nil:
		run.Status, err = iotax.Interrupted, context.Cause(ctx)
	case err != nil:
		run.Status = iotax.Failed
		if e.notReopened {
			run.Status = iotax.Incomplete // what it had it still has
		}
		explainFailure(run, err)
	case e.complete():
		run.Status = iotax.Done
	default:
		run.Status = iotax.Incomplete
	}
	trials := e.ledger.trials()
	found := d.Review(run, trials)
	for i := range found {
		found[i].Hint = schedule.Workable(p, found[i].Hint)
	}
	run.Findings = mergeFindings(run.Findings, found)
	return run, err
}

// explainFailure keeps err, which ended the run, for its report. The error of a target is kept with the target.
func explainFailure(run *iotax.Run, err error) {
	if slices.ContainsFunc(run.Targets, func(t iotax.TargetInfo) bool { return t.Err != "" && strings.Contains(err.Error(), t.Err) }) {
		return
	}
	run.Findings = mergeFindings(run.Findings, []iotax.Finding{rules.RunFailed.Hinting("").FoundError(iotax.AboutRun(), err.Error())})
}

// begin makes the record of the run, or takes up the one that is resumed.
func begin(p *plan.Plan, d Deps, o Options) (*iotax.Run, error) {
	text, err := o.Plan, error(nil)
	if text == nil {
		if text, err = p.YAML(); err != nil {
			return nil, &iotax.Error{Op: "write resolved plan", On: p.Name, Err: err}
		}
	}
	if o.Resume != nil {
		r := *o.Resume
		if string(r.Plan) != string(text) {
			return nil, &iotax.Error{Op: "resume", On: r.ID, Err: errors.New("the plan is not the one this run began with"),
				Hint: "resume with the same plan and flags, or start a new run"}
		}
		r.Status, r.Targets, r.Workloads = iotax.Running, nil, nil
		// What was found is found again if it still holds; only what lies about is not.
		r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f iotax.Finding) bool { return f.Rule != rules.LeftBehind.ID })
		r.Findings = mergeFindings(r.Findings, o.Findings)
		return &r, nil
	}
	seed, level := p.Measure.Seed, p.Alpha()
	if o.Shard.Divided() {
		level = stat.AlphaFixed
		if seed == 0 {
			seed = o.Shard.seed(o.ID)
		}
	}
	for seed == 0 {
		seed = rand.Uint64() >> 1 // SQLite keeps signed integers
	}
	var env map[iotax.FactKey]string
	if o.Command != "" {
		env = map[iotax.FactKey]string{iotax.FactCommand: o.Command}
	}
	return &iotax.Run{
		ID: o.ID, Name: p.Name, Version: o.Version, Plan: text, Seed: seed, Start: d.Now(),
		Status: iotax.Running, Baseline: p.Baseline, Environment: env,
		Precision: float64(p.Measure.Precision), Margin: float64(p.Measure.Margin), Alpha: level,
		Findings: o.Findings, Presentation: presentation(p),
	}, nil
}

// presentation is what the plan asks of the report; nil when it asks nothing.
func presentation(p *plan.Plan) *iotax.Presentation {
	if len(p.Layers)+len(p.Expectations) == 0 && p.Layout == "" && p.Reference == nil {
		return nil
	}
	out := &iotax.Presentation{Layers: p.Layers, Layout: p.Layout}
	for _, x := range p.Expectations {
		out.Expect = append(out.Expect, iotax.Expectation{Text: x.String(), File: x.Pos.File, Line: x.Pos.Line})
	}
	if b := p.Reference; b != nil {
		out.Reference = &iotax.Reference{Published: b.Published, Targets: b.Targets, Workloads: b.Workloads, Metrics: b.Metrics, Values: b.Values}
	}
	return out
}

// mergeFindings appends to a those findings of b that it does not have.
func mergeFindings(a, b []iotax.Finding) []iotax.Finding {
	for _, f := range b {
		known := false
		for _, g := range a {
			known = known || f == g
		}
		if !known {
			a = append(a, f)
		}
	}
	return a
}

func opError(op, on string, err error, hint string) error {
	var e *iotax.Error
	if errors.As(err, &e) && e.Hint != "" {
		hint = "" // the cause already says it
	}
	return &iotax.Error{Op: op, On: on, Err: err, Hint: hint}
}

func phrase(d time.Duration) string { return fmt.Sprint(d.Round(100 * time.Millisecond)) }
