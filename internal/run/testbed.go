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

// A testbed contains everything that is open while a run measures: machines, places on them and prepared cells. close
// removes what the testbed created, in reverse order.
type testbed struct {
	p *plan.Plan
	d Deps

	machines map[string]*openMachine
	volumes  map[string]*volumeState // by target name
	opened   map[string]*opened      // by target name
	targets  []*iotax.Target         // the open targets in plan order
	infos    map[string]*iotax.TargetInfo
	previous map[string]map[string]string // facts of targets before they were opened again
	loads    []*load
	known    map[string]map[string]string // facts of workloads from before a resume or from an earlier start
	earlier  map[schedule.Cell]bool       // cells that the previous start prepared; nil in the first start of this process
	undo     []undoStep

	// A machine that is opened again for each trial has a testbed of its own, with the places on that machine. That
	// testbed is opened and closed while this one stays open.
	renewed map[string]*testbed // by machine: its testbed for the checks before the first trial
	within  *testbed            // the testbed that this one is part of, or nil
	own     string              // if within is set: the name of its machine
	only    string              // if within is set: the only target on it; "" means all
	placed  time.Time           // time at which renew had opened the target
}

type undoStep struct {
	what string
	in   iotax.Machine // machine on which `do` acts; nil for this host
	do   func(context.Context) error
}

func newTestbed(p *plan.Plan, d Deps) *testbed {
	r := &testbed{p: p, d: d,
		machines: map[string]*openMachine{}, volumes: map[string]*volumeState{}, opened: map[string]*opened{}, infos: map[string]*iotax.TargetInfo{}, previous: map[string]map[string]string{}}
	r.machines["host"] = &openMachine{m: d.Host}
	for i, t := range p.Targets {
		r.volumes[t.Name] = &volumeState{id: fmt.Sprintf("t%d", i)}
		r.infos[t.Name] = &iotax.TargetInfo{Name: t.Name, Machine: t.On, Labels: t.Labels, Against: t.Against}
	}
	return r
}

// again creates the testbed of the next start. It leaves out the cells that the current start could not prepare.
func (r *testbed) again(run *iotax.Run) *testbed {
	next := newTestbed(r.p, r.d)
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

// part creates the testbed for one machine of r. If target is not empty, the testbed contains only that target.
func (r *testbed) part(machine, target string) *testbed {
	c := newTestbed(r.p, r.d)
	c.infos, c.loads, c.within, c.own, c.only = r.infos, r.loads, r, machine, target
	return c
}

// bedOf returns the testbed in which the named machine is opened.
func (r *testbed) bedOf(machine string) *testbed {
	switch {
	case r.within != nil && machine == r.own:
		return r
	case r.within != nil:
		return r.within.bedOf(machine)
	case !r.p.EachTrial(machine):
		return r
	}
	if r.renewed[machine] == nil {
		if r.renewed == nil {
			r.renewed = map[string]*testbed{}
		}
		r.renewed[machine] = r.part(machine, "")
	}
	return r.renewed[machine]
}

// renew opens a new instance of t's machine with t as its only target, and prepares l there. The caller closes the
// returned testbed after the trial, even after an error.
func (r *testbed) renew(ctx context.Context, l *load, t *iotax.Target) (*testbed, *iotax.Target, error) {
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

// onClose registers `do`, which close calls to undo a step. `in` is the machine on which `do` acts, or nil for this
// host.
func (r *testbed) onClose(what string, in iotax.Machine, do func(context.Context) error) {
	if !perishes(in) {
		in = iotax.Outside(in)
	}
	r.undo = append(r.undo, undoStep{what, in, do})
}

func perishes(m iotax.Machine) bool { return m != nil && m.Caps().Perishes }

const (
	// hostTime limits each clean-up step on this host or on a machine that outlives the run.
	hostTime = time.Minute
	// guestTime limits a clean-up step inside a machine that ends with the run.
	guestTime = 15 * time.Second
	// answerTime limits the check whether a machine that ends with the run still responds.
	answerTime = 5 * time.Second
	// goneTime limits each further step inside a machine that does not respond.
	goneTime = time.Second
)

const (
	// lookTime limits collecting the facts of a machine.
	lookTime = 5 * time.Minute
	// readyTime limits each step that prepares a workload, without the time to write its files. It allows for copying a
	// tool over a slow link.
	readyTime = time.Hour
	// leastSpeed is the lowest write speed, in B/s, that the preparation time limit allows for.
	leastSpeed = 1 << 20
)

// within runs a step under a deadline, so that an unattended run cannot hang. It is not used to open machines and
// volumes: they have their own deadlines, and their processes outlive the step.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %s", phrase(limit)))
	defer cancel()
	err := do(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(inner), err)
	}
	return err
}

// close undoes all steps in reverse order, even after errors. Each step has its own deadline, so that a step that hangs
// does not use up the time of the others. A failed clean-up inside a machine that ends with the run is not an error if
// that machine or its storage has failed.
func (r *testbed) close(ctx context.Context) error {
	errs := []error{r.closeRenewed(ctx)} // after an error before the first trial, the renewed testbeds are still open, and use what the steps below remove
	gone, asked := map[iotax.Machine]bool{}, map[iotax.Machine]bool{}
	for i := len(r.undo) - 1; i >= 0; i-- {
		step := r.undo[i]
		ours := perishes(step.in)
		if ours && !asked[step.in] { // check before the first step, so that a frozen machine does not get the full time limit for each step
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
		case ours && errors.Is(err, syscall.EROFS): // Linux remounts a file system read-only when its disk fails
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

// closeRenewed closes the first instances of the machines that are opened again for each trial. Trials do not use these
// instances.
func (r *testbed) closeRenewed(ctx context.Context) error {
	var errs []error
	for _, c := range r.renewed {
		errs = append(errs, c.close(ctx))
	}
	r.renewed = nil
	return errors.Join(errs...)
}

// answers reports whether m can still run a command.
func answers(ctx context.Context, m iotax.Machine) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := m.Run(ctx, iotax.Command("true"))
	var exit *iotax.ExitError
	return err == nil || errors.As(err, &exit)
}
