package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/rules"
)

// A load is a workload of the plan with the targets on which it is measured.
type load struct {
	plan    plan.Workload
	w       iotax.Workload
	targets []*iotax.Target
	wanted  int          // number of the plan's targets on which it should be measured
	space   int64        // bytes that it writes to each place
	files   []iotax.File // files that it reads, if they are known in advance
	job     string       // value of iotax.FactJob for trials that do not set this fact
}

// check returns an error if the workload cannot run on t. If t combines several targets, the workload must be able
// to run on all of them at once.
func (l *load) check(ctx context.Context, t *iotax.Target) error {
	if len(t.Together) > 0 {
		err := errors.New("it can only be done at one target at a time")
		if joins := l.w.Caps().Joins; joins != nil {
			err = joins()
		}
		if err != nil {
			return &iotax.Error{Op: "check " + l.plan.Name + " on", On: t.Name, Err: err, Hint: "name other targets with at:, or use a fio job"}
		}
	}
	return within(ctx, readyTime, func(ctx context.Context) error { return l.w.Check(ctx, t) })
}

func (l *load) ready(ctx context.Context, t *iotax.Target) error {
	limit := readyTime + l.w.Caps().Preparation + time.Duration(int64(max(1, len(t.Together)))*l.space/leastSpeed)*time.Second
	return within(ctx, limit, func(ctx context.Context) error { return l.w.Prepare(ctx, t) })
}

// look calls the Look function of each workload that has one. It does nothing if no target is on this host. With
// keepGoing, it does nothing unless the baseline is on this host, because other targets may be left out.
func (r *testbed) look(ctx context.Context, keepGoing bool) error {
	if !slices.ContainsFunc(r.p.Targets, func(t plan.Target) bool { return t.On == "host" && (!keepGoing || t.Name == r.p.Baseline) }) {
		return nil
	}
	for _, l := range r.loads {
		if look := l.w.Caps().Look; look != nil {
			if err := look(ctx, r.d.Host); err != nil {
				return err
			}
		}
	}
	return nil
}

// metrics returns the names of l's headline values: those that the plan names, or else those of the workload.
func (l *load) metrics() []string {
	if l.plan.Metrics != nil {
		return l.plan.Metrics
	}
	return l.w.Metrics()
}

// deciding returns the metrics whose precision can end the workload: those that the plan names, or else the first
// metric of the workload.
func (l *load) deciding() []string {
	if l.plan.Metrics != nil {
		return l.plan.Metrics
	}
	return l.w.Metrics()[:1]
}

// makeLoads creates the workloads of the plan and adds them to r.loads.
func (r *testbed) makeLoads() error {
	for _, pw := range r.p.Workloads {
		w, err := r.d.Workload(pw)
		if err != nil {
			return err
		}
		job, err := pw.Job()
		if err != nil {
			return err
		}
		l := &load{plan: pw, w: w, job: iotax.JobText(job)}
		can := w.Caps()
		if can.Space != nil {
			l.space = can.Space()
		}
		if can.Files != nil {
			l.files = can.Files()
		}
		for _, t := range r.p.Targets {
			if pw.Done(t.Name) {
				l.wanted++
			}
		}
		r.loads = append(r.loads, l)
	}
	return nil
}

// need returns the number of bytes that the place of t must be able to hold.
func (r *testbed) need(t plan.Target) (bytes int64) {
	sizes := map[int64]bool{}
	for _, l := range r.loads {
		if r.worksAt(l, t.Name) && !sizes[l.space] { // fio workloads of the same size share their file
			sizes[l.space] = true
			bytes += l.space
		}
	}
	return bytes
}

// files lists the files that the workloads on t read, as far as they are known in advance.
func (r *testbed) files(t plan.Target) (all []iotax.File) {
	for _, l := range r.loads {
		for _, f := range l.files {
			if r.worksAt(l, t.Name) && !slices.Contains(all, f) { // workloads share files of the same name and size
				all = append(all, f)
			}
		}
	}
	return all
}

// worksAt reports whether l runs on the target called name: directly, as part of a combined target, or as noise.
func (r *testbed) worksAt(l *load, name string) bool {
	if l.plan.Done(name) {
		return true
	}
	for _, t := range r.p.Targets {
		can := t.Traits()
		if g := can.Gather; g != nil && (l.plan.Done(t.Name) && slices.Contains(g.Together, name) || g.Doing == l.plan.Name && slices.Contains(g.At, name)) {
			return true
		}
	}
	return false
}

// prepareCells settles the workloads, checks and prepares each one on each of its targets, and runs the pilots. With
// keepGoing, it leaves out the cells that fail these checks or preparations. If no cell of the baseline remains, it
// returns an error. At the end, it closes the machines that are opened again for each trial.
func (r *testbed) prepareCells(ctx context.Context, run *iotax.Run, keepGoing bool) error {
	for _, l := range r.loads {
		if settle := l.w.Caps().Settle; settle != nil {
			err := within(ctx, readyTime, func(ctx context.Context) error {
				found, err := settle(ctx, r.involved(l))
				run.Findings = mergeFindings(run.Findings, found)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	// left handles a cell that cannot be measured. It returns err if the run must end. The function `baseline` reports
	// lost cells of the baseline if another cell of the baseline remains, and otherwise returns the first error.
	var first error
	var lost []func()
	left := func(l *load, t *iotax.Target, err error) error {
		switch {
		case !keepGoing || ctx.Err() != nil:
			return err
		case t.Name == r.p.Baseline:
			first = cmp.Or(first, err)
			lost = append(lost, func() { r.cellFailed(l, t, err) })
		default:
			r.cellFailed(l, t, err)
		}
		return nil
	}
	baseline := func() error {
		if !slices.ContainsFunc(r.loads, func(l *load) bool {
			return slices.ContainsFunc(l.targets, func(t *iotax.Target) bool { return t.Name == r.p.Baseline })
		}) {
			return first
		}
		for _, report := range lost {
			report()
		}
		lost = nil
		return nil
	}
	// All checks come before the first preparation, so that a missing requirement is reported before files are written.
	for _, l := range r.loads {
		for _, t := range r.at(l) {
			if r.earlier != nil && !r.earlier[schedule.Cell{Workload: l.plan.Name, Target: t.Name}] {
				continue
			}
			if err := l.check(ctx, t); err != nil {
				if err := left(l, t, err); err != nil {
					return err
				}
				continue
			}
			l.targets = append(l.targets, t)
		}
	}
	if err := baseline(); err != nil {
		return err
	}
	for _, l := range r.loads {
		checked := l.targets
		l.targets = nil
		for _, t := range checked {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.d.Progress(Event{Kind: Preparing, Target: t.Name, Workload: l.plan.Name})
			r.holder(t).onClose(l.plan.Name+" on "+t.Name, t.Machine, func(ctx context.Context) error { return l.w.Cleanup(ctx, t) })
			if err := l.ready(ctx, t); err != nil {
				if err := left(l, t, err); err != nil {
					return err
				}
				continue
			}
			l.targets = append(l.targets, t)
		}
	}
	if err := baseline(); err != nil {
		return err
	}
	if err := r.pilot(ctx, run); err != nil {
		return err
	}
	err := r.closeRenewed(context.WithoutCancel(ctx))
	leftBehind(run, err)
	return err
}

// holder returns the testbed that contains t.
func (r *testbed) holder(t *iotax.Target) *testbed {
	pt, _ := r.p.Target(t.Name)
	return r.bedOf(pt.On)
}

// involved lists the targets on which l runs, either measured or as noise. Instead of a combined target, it lists the
// members of that target.
func (r *testbed) involved(l *load) (targets []*iotax.Target) {
	add := func(t *iotax.Target) {
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	for _, t := range r.targets {
		if l.plan.Done(t.Name) {
			if len(t.Together) == 0 {
				add(t)
			}
			for _, m := range t.Together {
				add(m)
			}
		}
		if t.Noise != nil && t.Noise.Name == l.plan.Name {
			for _, m := range t.Noise.At {
				add(m)
			}
		}
	}
	return targets
}

// at lists the open targets on which l is measured.
func (r *testbed) at(l *load) (targets []*iotax.Target) {
	for _, t := range r.targets {
		if l.plan.Done(t.Name) {
			targets = append(targets, t)
		}
	}
	return targets
}

// pilot runs the pilot of each workload that has one, on all its targets. It passes the earlier result, if there is
// one, so that a resumed run and a later start make the same choice.
func (r *testbed) pilot(ctx context.Context, run *iotax.Run) error {
	for _, l := range r.loads {
		pilot := l.w.Caps().Pilot
		if pilot == nil || len(l.targets) == 0 {
			continue
		}
		r.d.Progress(Event{Kind: Preparing, Text: "measuring what every target can do", Workload: l.plan.Name})
		i := slices.IndexFunc(run.Workloads, func(w iotax.WorkloadInfo) bool { return w.Name == l.plan.Name })
		err := within(ctx, readyTime, func(ctx context.Context) (err error) {
			run.Workloads[i].Facts, err = pilot(ctx, l.targets, r.p.Measure.Length(l.plan), r.known[l.plan.Name])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *testbed) cellFailed(l *load, t *iotax.Target, err error) {
	r.d.Progress(Event{Kind: Missing, Target: t.Name, Workload: l.plan.Name, Err: err})
	info := r.infos[t.Name]
	info.Findings = append(info.Findings, rules.CellNotMeasured.Hinting("").FoundError(iotax.AboutCell(t.Name, l.plan.Name), err.Error()))
}
