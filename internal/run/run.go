// Package run measures a plan. It opens the machines, attaches the volumes, prepares each workload on each target,
// and runs paired, interleaved rounds until the goal or a limit of the plan is reached. At the end, it removes what it
// created, even after an error. All side effects go through the functions in Deps, so its tests run on fakes with a
// fake clock.
package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Deps are the functions through which a run acts on hosts and files. Functions are required unless their comment marks
// them as optional.
type Deps struct {
	// Host is this host.
	Host iotax.Machine
	// Open starts or connects to machine m, with the devices that its volumes need. `on` is the machine that m runs on,
	// or nil.
	Open func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error)
	// CheckDevice returns an error if m, a machine on this host, does not support device d. It is optional.
	CheckDevice func(ctx context.Context, m plan.Machine, d iotax.Device) error
	// Prepare creates the serving side of a target's volume.
	Prepare func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error)
	// Enclose starts machine m on another machine (plan.Traits.Encloses) and makes place p of that machine available in
	// m. `target` is the name of the target that uses m. Only plans with such a machine need Enclose.
	Enclose func(ctx context.Context, m plan.Machine, target string, on iotax.Machine, p iotax.Place) (iotax.Machine, error)
	// Workload creates the workload that w describes.
	Workload func(w plan.Workload) (iotax.Workload, error)
	// Environment returns facts about a machine.
	Environment func(ctx context.Context, m iotax.Machine) (map[string]string, error)
	// Watch starts recording the activity around a trial. `stop` ends the recording and returns it.
	Watch func(ctx context.Context, t *iotax.Target) (stop func(context.Context) (iotax.Seen, error), err error)
	// Explain replaces Watch in an explained trial (plan.Measure.Explain). It is optional.
	Explain func(ctx context.Context, t *iotax.Target) (stop func(context.Context) (iotax.Seen, error), err error)
	// Profile replaces Watch in a profiled trial (plan.Measure.Profile). It is optional.
	Profile func(ctx context.Context, t *iotax.Target) (stop func(context.Context) (iotax.Seen, error), err error)
	// Evict drops the files under a path of a machine from its page cache. It returns the number of their extents, or 0 if
	// it is unknown.
	Evict func(ctx context.Context, m iotax.Machine, path string) (extents int, err error)
	// Governor sets the frequency governor of this host's CPUs. `undo` restores the earlier governor. The findings
	// report CPUs that do not offer the new one. Governor is optional.
	Governor func(want string) (undo func() error, found []iotax.Finding, err error)
	// Check judges one trial. If `discarded` is not empty, it is the reason to discard the trial and its round.
	Check func(t *iotax.Trial, tgt *iotax.Target) (findings []iotax.Finding, discarded string)
	// Review judges the whole run. Its trials have only the values of the workload's metrics and ReviewValues, and the
	// facts that ReviewFacts returns. The trials show whether they failed or were discarded, but not why, and their
	// findings have no text. ReviewFacts is optional.
	Review       func(r *iotax.Run, trials []*iotax.Trial) []iotax.Finding
	ReviewValues []string
	ReviewFacts  func(t *iotax.Trial) map[string]string

	// Begin is called once for a new run, before anything is opened. Save is called after each finished trial of a
	// round, and Update after the run has changed.
	Begin  func(ctx context.Context, r *iotax.Run) error
	Save   func(ctx context.Context, t *iotax.Trial) error
	Update func(ctx context.Context, r *iotax.Run) error

	// Calibrate returns the noise of the setup of r's baseline, which it may measure first, or nil if the noise is
	// unknown. Run calls Calibrate after opening all targets, unless a resumed run already has a calibration. Calibrate
	// is optional.
	Calibrate func(ctx context.Context, r *iotax.Run) (*iotax.Calibration, []iotax.Finding)

	// Progress receives the events of the run, in the goroutine of Run. It is optional.
	Progress func(Event)

	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Options are the inputs of a run in addition to its plan.
type Options struct {
	ID        string         // ID of the new run
	Version   string         // version of iotax
	Command   string         // the command that starts the run again, or ""
	KeepGoing bool           // measure the other targets if one cannot be opened
	Resume    *iotax.Run     // the run to resume, or nil
	Trials    []*iotax.Trial // the saved trials of Resume
	Plan      []byte         // the text to save as the plan, or the saved text of Resume; nil saves the resolved plan (plan.Plan.YAML)

	// Findings are the problems found in the plan before the run, for the report.
	Findings []iotax.Finding

	Shard Shard // the part of the run that this process measures; the zero Shard is the whole run

	Around map[schedule.Cell]time.Duration // estimated overhead of a trial (schedule.Costs.Around), used until trials have been measured

	// Enough replaces the stop rule for a plan that compares one target with the baseline. It gets the log ratios of
	// the valid rounds. It returns the reason to stop, or "" to continue.
	Enough func(d []float64) string
}

// EventKind is the kind of an Event.
type EventKind string

// The comment of each kind lists the main fields of its events.
const (
	Opening    EventKind = "opening"    // Target or Text names the object
	Preparing  EventKind = "preparing"  // Workload; Target, Text, or both
	Starting   EventKind = "starting"   // a trial: Target, Workload, Round
	Finished   EventKind = "finished"   // a trial: Trial
	RoundDone  EventKind = "round-done" // Round is the number of valid rounds; Target and Trial are those of the last trial
	CellsDone  EventKind = "cells-done" // Workload has ended; Text is the reason, Short reports that it stopped too early
	Missing    EventKind = "missing"    // Target is left out of the run, or only out of Workload if that is set; Err is the cause
	CleaningUp EventKind = "cleaning-up"
)

// An Event is one step of a run, for the progress display.
type Event struct {
	Kind     EventKind
	Text     string
	Target   string
	Workload string
	Round    int // valid rounds so far
	Rounds   int // maximum number of valid rounds
	Trial    *iotax.Trial
	Metric   string // name of the headline value of Trial
	Short    bool
	Err      error
	Elapsed  time.Duration // since measuring began
	Left     time.Duration // estimated time of the remaining rounds if all are needed, at most the rest of the budget; 0 if unknown

	// HalfWidth is the half-width of the workload's widest interval so far, as a ratio (stat.Interval.HalfWidth), or 0
	// without an interval. Precision is the half-width to reach, or 0 if the number of rounds is fixed.
	HalfWidth, Precision float64
}

// Run measures p. Once the plan is accepted, the returned run is not nil, even with an error, and its Status shows how
// far it got. A failed trial is not an error: it is saved with its Err.
func Run(ctx context.Context, p *plan.Plan, d Deps, o Options) (run *iotax.Run, err error) {
	if d.Progress == nil {
		d.Progress = func(Event) {}
	}
	from := d.Now()
	if run, err = begin(p, d, o); err != nil {
		return nil, err
	}
	if p, err = o.Shard.Of(p); err != nil {
		return nil, err
	}
	r := newTestbed(p, d)
	if o.Resume != nil {
		r.known = map[string]map[string]string{}
		for _, w := range o.Resume.Workloads {
			r.known[w.Name] = w.Facts
		}
		for _, t := range o.Resume.Targets { // a target that cannot be opened now may have earlier trials
			t.Err, t.Findings = "", nil
			r.infos[t.Name] = &t
		}
	}
	var setup time.Duration      // time until the targets are open
	opened := len(o.Trials) == 0 // until all targets are open, the run keeps the description of its earlier trials
	defer func() {
		closing := d.Now()
		d.Progress(Event{Kind: CleaningUp})
		clean := context.WithoutCancel(ctx)
		cerr := r.close(clean)
		if opened {
			r.describe(run)
		}
		leftBehind(run, cerr)
		err = errors.Join(err, cerr)
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
	kept := *run
	if o.Resume != nil {
		// Keep only the findings that the resumed run cannot find again. For JobsRunAlone, the reason is that the saved plan
		// does not show that fio would run the jobs at the same time.
		run.Findings = mergeFindings(findings(run, rules.LeftBehind, rules.JobsRunAlone, rules.AnotherRun), o.Findings)
	}
	if err = r.open(ctx, run, o.KeepGoing || p.Measure.KeepGoing); err == nil {
		setup, opened = d.Now().Sub(from), true
		err = d.Update(ctx, run)
	}
	if err != nil {
		if !opened {
			left := Leftovers(run)
			*run = kept
			run.Findings = mergeFindings(run.Findings, left)
		}
		run.Status = iotax.Failed
		if len(o.Trials) > 0 {
			run.Status = iotax.Incomplete // the run keeps its earlier results
		}
		if ctx.Err() != nil {
			run.Status = iotax.Interrupted
			err = context.Cause(ctx)
		} else {
			explainFailure(run, err)
		}
		return run, err
	}

	if d.Calibrate != nil && run.Calibration == nil { // a resumed run keeps its calibration, so that its interim analyses do not change
		var found []iotax.Finding
		run.Calibration, found = d.Calibrate(ctx, run)
		run.Findings = mergeFindings(run.Findings, found)
	}
	if run.Calibration != nil && ctx.Err() == nil { // without a calibration, an update would only delay the first trial
		err = d.Update(ctx, run)
	}
	e := newEngine(run, p, d, r, o, from)
	e.setup = setup
	e.reopen = func(ctx context.Context) (*testbed, error) {
		if err := r.close(context.WithoutCancel(ctx)); err != nil {
			leftBehind(run, err)
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
			run.Status = iotax.Incomplete // the run keeps its earlier results
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

// leftBehind adds err, the error of a clean-up, to the run's findings. It does nothing if err is nil.
func leftBehind(run *iotax.Run, err error) {
	if err != nil {
		run.Findings = mergeFindings(run.Findings, []iotax.Finding{rules.LeftBehind.Found(iotax.AboutRun(), "%s", err)})
	}
}

// Leftovers returns the findings of r about resources that could not be removed.
func Leftovers(r *iotax.Run) []iotax.Finding { return findings(r, rules.LeftBehind) }

// findings returns the findings of r that are of one of these rules.
func findings(r *iotax.Run, of ...rules.Rule) (found []iotax.Finding) {
	for _, f := range r.Findings {
		if slices.ContainsFunc(of, func(r rules.Rule) bool { return r.ID == f.Rule }) {
			found = append(found, f)
		}
	}
	return found
}

// explainFailure adds err, which ended the run, to the run's findings, unless it is already the error of a target.
func explainFailure(run *iotax.Run, err error) {
	if slices.ContainsFunc(run.Targets, func(t iotax.TargetInfo) bool { return t.Err != "" && strings.Contains(err.Error(), t.Err) }) {
		return
	}
	run.Findings = mergeFindings(run.Findings, []iotax.Finding{rules.RunFailed.Hinting("").FoundError(iotax.AboutRun(), err.Error())})
}

// begin creates the record of a new run, or updates the record of the resumed run.
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
		r.Status = iotax.Running
		r.Findings = slices.Clip(r.Findings)
		r.Environment = map[iotax.FactKey]string{}
		maps.Copy(r.Environment, o.Resume.Environment)
		r.Environment[iotax.FactResumed] = d.Now().UTC().Format(time.RFC3339)
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
		seed = rand.Uint64() >> 1 // SQLite stores signed integers
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

// presentation returns the report settings of the plan, or nil if it has none.
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

// mergeFindings appends to a the findings of b that a does not contain.
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
		hint = "" // the cause already contains a hint
	}
	return &iotax.Error{Op: op, On: on, Err: err, Hint: hint}
}

func phrase(d time.Duration) string { return fmt.Sprint(d.Round(100 * time.Millisecond)) }
