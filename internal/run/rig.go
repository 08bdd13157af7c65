package run

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
)

// A rig is everything that stands while a run measures: open machines, places on them, prepared
// cells. What it makes is taken down by close in the opposite order.
type rig struct {
	p *plan.Plan
	d Deps

	machines map[string]*openMachine
	volumes  map[string]*volumeState // by target
	opened   map[string]*opened      // targets by name, each once
	targets  []*iotax.Target         // those that opened, in plan order; the baseline first
	infos    map[string]*iotax.TargetInfo
	loads    []*load
	known    map[string]map[string]string // facts of workloads from before a resume, or an earlier start
	earlier  map[schedule.Cell]bool       // what the start before this one had; nil in the first
	undo     []undoStep

	// A machine that is wanted anew for each trial is a rig of its own, with the places on it: it comes and
	// goes while the rest stands.
	renewed map[string]*rig // by machine: the rig in which it is looked at before the first trial
	within  *rig            // the rig that this one is part of
	own     string          // with within: its machine
	only    string          // with within: the only target on it; "" is all
	placed  time.Time       // when the target of renew had its place
}

type undoStep struct {
	what string
	in   iotax.Machine // what do undoes is inside this machine; nil when it is on this host
	do   func(context.Context) error
}

func newRig(p *plan.Plan, d Deps) *rig {
	r := &rig{p: p, d: d,
		machines: map[string]*openMachine{}, volumes: map[string]*volumeState{}, opened: map[string]*opened{}, infos: map[string]*iotax.TargetInfo{}}
	r.machines["host"] = &openMachine{m: d.Host}
	for i, t := range p.Targets {
		r.volumes[t.Name] = &volumeState{id: fmt.Sprintf("t%d", i)}
		r.infos[t.Name] = &iotax.TargetInfo{Name: t.Name, Machine: t.On, Labels: t.Labels, Against: t.Against}
	}
	return r
}

// again makes the rig of the next start. What could not be had in this one is left out.
func (r *rig) again(run *iotax.Run) *rig {
	next := newRig(r.p, r.d)
	next.infos, next.known, next.earlier = r.infos, map[string]map[string]string{}, map[schedule.Cell]bool{}
	for _, w := range run.Workloads {
		next.known[w.Name] = w.Facts
	}
	for _, l := range r.loads {
		for _, t := range l.targets {
			next.earlier[schedule.Cell{Workload: l.plan.Name, Target: t.Name}] = true
		}
	}
	return next
}

// part makes the rig of one machine of r. With a target it has that alone.
func (r *rig) part(machine, target string) *rig {
	c := newRig(r.p, r.d)
	c.infos, c.loads, c.within, c.own, c.only = r.infos, r.loads, r, machine, target
	return c
}

// rigOf is the rig in which the machine of that name is opened.
func (r *rig) rigOf(machine string) *rig {
	switch {
	case r.within != nil && machine == r.own:
		return r
	case r.within != nil:
		return r.within.rigOf(machine)
	case !r.p.EachTrial(machine):
		return r
	}
	if r.renewed[machine] == nil {
		if r.renewed == nil {
			r.renewed = map[string]*rig{}
		}
		r.renewed[machine] = r.part(machine, "")
	}
	return r.renewed[machine]
}

// renew opens t's machine anew, with t alone on it, and prepares l there. The rig that comes back is to be
// closed after the trial, also when there is an error.
func (r *rig) renew(ctx context.Context, l *load, t *iotax.Target) (*rig, *iotax.Target, error) {
	pt, _ := r.p.Target(t.Name)
	c := r.part(pt.On, pt.Name)
	fresh, err := c.openTarget(ctx, pt)
	if err != nil {
		return c, nil, err
	}
	c.placed = r.d.Now()
	if err := l.check(ctx, fresh); err != nil {
		return c, nil, err
	}
	c.onClose(l.plan.Name+" on "+t.Name, fresh.Machine, func(ctx context.Context) error { return l.w.Cleanup(ctx, fresh) })
	return c, fresh, l.ready(ctx, fresh)
}

// onClose registers what undoes the step just begun.
func (r *rig) onClose(what string, in iotax.Machine, do func(context.Context) error) {
	if !perishes(in) {
		in = iotax.Outside(in)
	}
	r.undo = append(r.undo, undoStep{what, in, do})
}

func perishes(m iotax.Machine) bool { return m != nil && m.Caps().Perishes }

const (
	// hostTime is what each step on this host, or on one that stays, gets.
	hostTime = time.Minute
	// guestTime is what a step gets inside a machine that was started for the run and ends with it.
	guestTime = 15 * time.Second
	// answerTime is how long such a machine may take to show that it still lives.
	answerTime = 5 * time.Second
	// goneTime is what each further step gets inside one that does not, or that hangs.
	goneTime = time.Second
)

const (
	// lookTime is what asking a machine about itself gets.
	lookTime = 5 * time.Minute
	// readyTime is what making a workload ready gets, beside the time for what it writes: a tool may have to be brought
	// over a slow link first.
	readyTime = time.Hour
	// leastSpeed is that of the slowest place that is worth measuring, in B/s.
	leastSpeed = 1 << 20
)

// within does a step before the first trial under a deadline: a run that hangs at night has nobody who sees it. Machines
// and volumes are made outside of it: they keep deadlines of their own, and what they start outlives the step.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %s", phrase(limit)))
	defer cancel()
	err := do(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(inner), err)
	}
	return err
}

// close undoes every step, last first, each also when others failed, and each with a deadline of its
// own: one that hangs must not take the time of those after it. What cannot be removed inside a machine
// that perishes, because it died or its disk or share fails, is no error.
func (r *rig) close(ctx context.Context) error {
	errs := []error{r.closeRenewed(ctx)} // after an error before the first trial; they stand on what follows
	gone, asked := map[iotax.Machine]bool{}, map[iotax.Machine]bool{}
	for i := len(r.undo) - 1; i >= 0; i-- {
		step := r.undo[i]
		ours := perishes(step.in)
		if ours && !asked[step.in] { // the patience of a step is for one that works, not for one that is frozen
			asked[step.in] = true
			gone[step.in] = !answers(ctx, step.in)
		}
		limit := hostTime
		switch {
		case gone[step.in]:
			limit = goneTime
		case ours:
			limit = guestTime
		}
		inner, cancel := context.WithTimeout(ctx, limit)
		err := step.do(inner)
		hung := inner.Err() != nil
		cancel()
		switch {
		case err == nil || gone[step.in]:
		case ours && errors.Is(err, syscall.EROFS): // as Linux makes a file system whose disk fails
		case ours && (hung || !answers(ctx, step.in)):
			gone[step.in] = true
		default:
			errs = append(errs, opError("clean up", step.what, err, ""))
		}
	}
	r.undo = nil
	if r.within != nil {
		r.tell()
	}
	return errors.Join(errs...)
}

// closeRenewed ends the machines that each trial will have anew: the first ones were for looking.
func (r *rig) closeRenewed(ctx context.Context) error {
	var errs []error
	for _, c := range r.renewed {
		errs = append(errs, c.close(ctx))
	}
	r.renewed = nil
	return errors.Join(errs...)
}

// answers reports whether a command can be run on m.
func answers(ctx context.Context, m iotax.Machine) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := m.Run(ctx, iotax.Command("true"))
	var exit *iotax.ExitError
	return err == nil || errors.As(err, &exit)
}
