package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/plan"
	"iotax/volume"
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
	known    map[string]map[string]string // facts of workloads from before a resume
	undo     []undoStep

	// A machine that is wanted anew for each trial is a rig of its own, with the places on it: it comes and
	// goes while the rest stands.
	renewed map[string]*rig // by machine: the rig in which it is looked at before the first trial
	within  *rig            // the rig that this one is part of
	own     string          // with within: its machine
	only    string          // with within: the only target on it; "" is all
}

// A load is a workload of the plan and the targets it is prepared on.
type load struct {
	plan    plan.Workload
	w       iotax.Workload
	targets []*iotax.Target // where it is measured
	wanted  int             // how many the plan says
	space   int64           // bytes that it puts at a place
	files   []iotax.File    // that it reads, where it can name them beforehand
}

type openMachine struct {
	m    iotax.Machine
	err  error
	busy bool // being opened: meeting it again is a cycle
}

// An opened is what came of opening a target.
type opened struct {
	target *iotax.Target
	err    error
}

type volumeState struct {
	id       string
	vol      iotax.Volume
	place    iotax.Place
	prepared bool
	attached bool
	err      error
	busy     bool
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
	pt, _ := r.planTarget(t.Name)
	c := r.part(pt.On, pt.Name)
	fresh, err := c.openTarget(ctx, pt)
	if err != nil {
		return c, nil, err
	}
	if err := l.check(ctx, fresh); err != nil {
		return c, nil, err
	}
	c.onClose(l.plan.Name+" on "+t.Name, fresh.Machine, func(ctx context.Context) error { return l.w.Cleanup(ctx, fresh) })
	return c, fresh, l.ready(ctx, fresh)
}

// onClose registers what undoes the step just begun.
func (r *rig) onClose(what string, in iotax.Machine, do func(context.Context) error) {
	r.undo = append(r.undo, undoStep{what, in, do})
}

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

// check asks the workload, and before that whether it can be done at several targets at once.
func (l *load) check(ctx context.Context, t *iotax.Target) error {
	if len(t.Together) > 0 {
		err := errors.New("it can only be done at one target at a time")
		if j, ok := l.w.(iotax.Joiner); ok {
			err = j.Joins()
		}
		if err != nil {
			return &iotax.Error{Op: "check " + l.plan.Name + " on", On: t.Name, Err: err, Mend: "say at: with other targets, or do it by a fio job"}
		}
	}
	return within(ctx, readyTime, func(ctx context.Context) error { return l.w.Check(ctx, t) })
}

func (l *load) ready(ctx context.Context, t *iotax.Target) error {
	limit := readyTime + time.Duration(int64(max(1, len(t.Together)))*l.space/leastSpeed)*time.Second
	return within(ctx, limit, func(ctx context.Context) error { return l.w.Prepare(ctx, t) })
}

// environment asks what m is.
func (r *rig) environment(ctx context.Context, m iotax.Machine) (env map[string]string, err error) {
	err = within(ctx, lookTime, func(ctx context.Context) error {
		env, err = r.d.Environment(ctx, m)
		return err
	})
	if err != nil {
		err = opError("describe", m.String(), err, "")
	}
	return env, err
}

// close undoes every step, last first, each also when others failed, and each with a deadline of its
// own: one that hangs must not take the time of those after it. A machine that was started for the
// run takes what was in it along when it ends: that nothing can be removed inside, because it died or
// its share hangs, is no error.
func (r *rig) close(ctx context.Context) error {
	errs := []error{r.closeRenewed(ctx)} // after an error before the first trial; they stand on what follows
	gone, asked := map[iotax.Machine]bool{}, map[iotax.Machine]bool{}
	for i := len(r.undo) - 1; i >= 0; i-- {
		step := r.undo[i]
		_, ours := step.in.(iotax.Booter)
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

// tell adds what the volumes noticed to what is known of their targets.
func (r *rig) tell() {
	for name, v := range r.volumes {
		if f, ok := v.vol.(volume.Finder); ok {
			r.infos[name].Findings = mergeFindings(r.infos[name].Findings, f.Findings())
		}
	}
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

// open makes all targets ready and prepares every cell. The targets that cannot be had are rows of
// run.Targets with their error; without keepGoing the first such error is returned, because what is
// known to be missing is better mended before an hour is spent.
func (r *rig) open(ctx context.Context, run *iotax.Run, keepGoing bool) error {
	if err := r.makeLoads(); err != nil {
		return err
	}
	run.Workloads = nil
	for _, l := range r.loads {
		if l.plan.Aside {
			continue
		}
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{
			Name: l.plan.Name, Kind: l.plan.Kind, Metrics: l.w.Metrics(), Cold: r.p.Measure.Cold, Section: l.plan.Section, At: l.plan.At})
	}
	if err := r.look(ctx, keepGoing); err != nil {
		return err
	}
	if err := r.govern(run); err != nil {
		return err
	}
	var err error
	if run.Environment, err = r.environment(ctx, r.d.Host); err != nil {
		return err
	}

	var first error
	fail := func(t plan.Target, err error) {
		r.infos[t.Name].Err = err.Error()
		r.d.Progress(Event{Kind: Missing, Target: t.Name, Err: err})
		if first == nil {
			first = err
		}
	}
	for _, t := range r.p.Targets {
		if err := ctx.Err(); err != nil {
			return err
		}
		target, err := r.openTarget(ctx, t)
		if err != nil {
			fail(t, err)
			if !keepGoing || t.Name == r.p.Baseline {
				break
			}
			continue
		}
		r.targets = append(r.targets, target)
	}
	if first != nil && (!keepGoing || r.infos[r.p.Baseline].Err != "") {
		r.describe(run)
		return first
	}
	err = r.prepareCells(ctx, run, keepGoing)
	r.describe(run)
	if err != nil {
		return err
	}
	if len(r.p.Targets) > 1 && len(r.targets) < 2 {
		return first
	}
	return nil
}

// govern sets the governor that the plan asks for, before the environment is described.
func (r *rig) govern(run *iotax.Run) error {
	want := r.p.Measure.Governor
	if want == "" || r.d.Governor == nil {
		return nil
	}
	undo, found, err := r.d.Governor(want)
	if undo != nil {
		r.onClose("the frequency governor", nil, func(context.Context) error { return undo() })
	}
	run.Findings = mergeFindings(run.Findings, found)
	return err
}

// look finds what this host lacks for the targets on it, before anything is opened. A target that may be left
// out is no reason to stop here.
func (r *rig) look(ctx context.Context, keepGoing bool) error {
	if !slices.ContainsFunc(r.p.Targets, func(t plan.Target) bool { return t.On == "host" && (!keepGoing || t.Name == r.p.Baseline) }) {
		return nil
	}
	for _, l := range r.loads {
		if w, ok := l.w.(iotax.Looker); ok {
			if err := w.Look(ctx, r.d.Host); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeLoads makes the workloads.
func (r *rig) makeLoads() error {
	for _, pw := range r.p.Workloads {
		w, err := r.d.Workload(pw)
		if err != nil {
			return err
		}
		l := &load{plan: pw, w: w}
		if s, ok := w.(iotax.Sizer); ok {
			l.space = s.Space()
		}
		if f, ok := w.(iotax.Filler); ok {
			l.files = f.Files()
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

// need is the bytes that the place of t must hold.
func (r *rig) need(t plan.Target) (bytes int64) {
	sizes := map[int64]bool{}
	for _, l := range r.loads {
		if r.worksAt(l, t.Name) && !sizes[l.space] { // workloads of one size share their file
			sizes[l.space] = true
			bytes += l.space
		}
	}
	return bytes
}

// files lists what the workloads at t read and can name beforehand.
func (r *rig) files(t plan.Target) (all []iotax.File) {
	for _, l := range r.loads {
		for _, f := range l.files {
			if r.worksAt(l, t.Name) && !slices.Contains(all, f) { // workloads share files of one name
				all = append(all, f)
			}
		}
	}
	return all
}

// describe puts what is known of the targets into the run. It is called again at the end: taking a
// volume down may find something too.
func (r *rig) describe(run *iotax.Run) {
	run.Targets = nil
	r.tell()
	for _, t := range r.p.Targets {
		run.Targets = append(run.Targets, *r.infos[t.Name])
	}
}

// worksAt reports whether l is done at a target, for itself or as a part of another one.
func (r *rig) worksAt(l *load, name string) bool {
	if l.plan.Done(name) {
		return true
	}
	for _, t := range r.p.Targets {
		if g, ok := t.Spec.(plan.Gatherer); ok {
			work, at := g.Noise()
			if l.plan.Done(t.Name) && slices.Contains(g.Together(), name) || work == l.plan.Name && slices.Contains(at, name) {
				return true
			}
		}
	}
	return false
}

// openTarget attaches the target's volume to its machine, or opens the targets that it is made of; once.
func (r *rig) openTarget(ctx context.Context, t plan.Target) (*iotax.Target, error) {
	o := r.opened[t.Name]
	if o == nil {
		o = &opened{}
		r.opened[t.Name] = o
		if g, ok := t.Spec.(plan.Gatherer); ok {
			o.target, o.err = r.gather(ctx, t, g)
		} else {
			o.target, o.err = r.openOne(ctx, t)
		}
	}
	return o.target, o.err
}

// gather makes one target of those that t is made of.
func (r *rig) gather(ctx context.Context, t plan.Target, g plan.Gatherer) (*iotax.Target, error) {
	member := func(name string) (*iotax.Target, error) {
		pt, ok := r.planTarget(name)
		if !ok {
			return nil, &iotax.Error{Op: "open", On: t.Name, Err: fmt.Errorf("the plan has no target %q", name)}
		}
		m, err := r.openTarget(ctx, pt)
		if err != nil {
			return nil, opError("open", t.Name, fmt.Errorf("%s is a part of it: %w", name, err), "")
		}
		return m, nil
	}
	target := &iotax.Target{Name: t.Name, Labels: t.Labels, Facts: map[string]string{}}
	var machines []string
	for i, name := range g.Together() {
		m, err := member(name)
		if err != nil {
			return nil, err
		}
		if target.Together = append(target.Together, m); i == 0 {
			target.Machine, target.Place = m.Machine, m.Place
			target.Place.Facts = nil
		}
		if m.Place.Backing != target.Place.Backing {
			target.Place.Backing = "" // no one device answers for all of them
		}
		if m.Place.Durability != target.Place.Durability {
			target.Place.Durability = ""
		}
		if !slices.Contains(machines, m.Machine.String()) {
			machines = append(machines, m.Machine.String())
		}
		target.Facts[fmt.Sprintf("client.%d", i+1)] = name
	}
	target.Facts["clients"] = fmt.Sprint(len(target.Together))
	if work, at := g.Noise(); work != "" {
		i := slices.IndexFunc(r.loads, func(l *load) bool { return l.plan.Name == work })
		if i < 0 {
			return nil, &iotax.Error{Op: "open", On: t.Name, Err: fmt.Errorf("the plan has no workload %q", work)}
		}
		target.Noise = &iotax.Noise{Name: work, Work: r.loads[i].w}
		for _, name := range at {
			m, err := member(name)
			if err != nil {
				return nil, err
			}
			target.Noise.At = append(target.Noise.At, m)
		}
		target.Place.Backing = "" // what the noise does there is no fault
		target.Facts["noise"] = work + " at " + strings.Join(at, ", ")
	}
	info := r.infos[t.Name]
	info.Machine, info.Place, info.Durability, info.Facts = strings.Join(machines, ", "), strings.Join(g.Together(), ", "), target.Place.Durability, target.Facts
	return target, nil
}

// openOne attaches the target's volume to its machine.
func (r *rig) openOne(ctx context.Context, t plan.Target) (*iotax.Target, error) {
	place, err := r.attach(ctx, t)
	if err != nil {
		return nil, err
	}
	m := r.rigOf(t.On).machines[t.On].m
	target := &iotax.Target{Name: t.Name, Machine: m, Place: place, Labels: t.Labels, Facts: map[string]string{}, Serving: r.serving(t)}
	if d, ok := m.(iotax.Describer); ok {
		maps.Copy(target.Facts, d.Facts())
	}
	if b, ok := m.(iotax.Booter); ok {
		for _, ph := range b.Boot() {
			target.Facts["boot."+ph.Name] = ph.At.Round(time.Millisecond).String()
		}
	}
	maps.Copy(target.Facts, place.Facts)
	if _, mute := m.(iotax.Console); !mute && !iotax.IsLocal(m) {
		env, err := r.environment(ctx, m)
		if err != nil {
			return nil, err
		}
		for k, v := range env {
			target.Facts["machine."+k] = v
		}
	}
	info := r.infos[t.Name]
	info.Machine, info.Place, info.Durability, info.Facts = m.String(), place.Path, place.Durability, target.Facts
	return target, nil
}

// serving lists what serves t's place: its volume, and those that it stands on.
func (r *rig) serving(t plan.Target) (all []iotax.Accountant) {
	for range r.p.Targets { // a circle was refused when it was attached
		if a, ok := r.rigOf(t.On).volumes[t.Name].vol.(iotax.Accountant); ok {
			all = append(all, a)
		}
		ref, ok := t.Spec.(plan.Referrer)
		if !ok {
			break
		}
		if t, ok = r.planTarget(ref.Of()); !ok {
			break
		}
	}
	return all
}

// machine opens the machine name, after the serving side of every volume on it was made: a guest
// must be started with its devices.
func (r *rig) machine(ctx context.Context, name string) (iotax.Machine, error) {
	if o := r.rigOf(name); o != r {
		return o.machine(ctx, name)
	}
	if om, ok := r.machines[name]; ok {
		if om.busy {
			return nil, &iotax.Error{Op: "open", On: name, Err: errors.New("a volume of this machine stands on another volume of the same machine"),
				Mend: "let `of` name a directory on the host"}
		}
		return om.m, om.err
	}
	om := &openMachine{busy: true}
	r.machines[name] = om
	om.m, om.err = r.start(ctx, name)
	om.busy = false
	return om.m, om.err
}

func (r *rig) start(ctx context.Context, name string) (iotax.Machine, error) {
	pm, err := r.planMachine(name)
	if err != nil {
		return nil, err
	}
	var devices []iotax.Device
	for _, t := range r.p.Targets {
		if t.On != name || r.only != "" && t.Name != r.only {
			continue
		}
		if _, served := t.Spec.(plan.Served); served {
			continue // it gives no device, and the machine that serves it may stand on this one
		}
		vol, err := r.prepare(ctx, t)
		if err != nil {
			continue // it fails alone, when its own turn comes
		}
		devices = append(devices, vol.Devices()...)
	}
	r.d.Progress(Event{Kind: Opening, Text: "machine " + name})
	m, err := r.d.Open(ctx, pm, devices)
	if err != nil {
		return nil, err
	}
	r.onClose("machine "+name, nil, m.Close)
	return m, nil
}

func (r *rig) planMachine(name string) (plan.Machine, error) {
	for _, m := range r.p.Machines {
		if m.Name == name {
			return m, nil
		}
	}
	return plan.Machine{}, &iotax.Error{Op: "open machine", On: name, Err: errors.New("the plan has no machine of this name")}
}

// prepare makes the serving side of the target's volume, once.
func (r *rig) prepare(ctx context.Context, t plan.Target) (iotax.Volume, error) {
	if o := r.rigOf(t.On); o != r {
		return o.prepare(ctx, t)
	}
	v := r.volumes[t.Name]
	if v.prepared {
		return v.vol, v.err
	}
	if v.busy {
		return nil, &iotax.Error{Op: "prepare", On: t.Name, Err: errors.New("the target stands on itself")}
	}
	v.busy = true
	defer func() { v.busy, v.prepared = false, true }()

	env := volume.Env{Host: r.d.Host, ID: v.id, Need: r.need(t), Files: r.files(t)}
	if ref, ok := t.Spec.(plan.Referrer); ok && ref.Of() != "" {
		base, ok := r.planTarget(ref.Of())
		if !ok {
			v.err = &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("the plan has no target %q", ref.Of())}
			return nil, v.err
		}
		if env.Of, v.err = r.attach(ctx, base); v.err != nil {
			return nil, v.err
		}
		if base.On != "host" || env.Of.Kind != iotax.PlaceDir {
			v.err = &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("it stands on %q, which is not a directory on this host", base.Name),
				Mend: "give a target with `dir:` on the host as `of`"}
			return nil, v.err
		}
	}
	if s, ok := t.Spec.(plan.Served); ok {
		name := t.On
		if _, from := s.ServedBy(); from != "" {
			name = from
		}
		if env.Server, v.err = r.machine(ctx, name); v.err != nil {
			return nil, v.err
		}
	}
	if j, ok := t.Spec.(plan.Joined); ok {
		_, names := j.JoinedBy()
		for _, name := range names {
			var m iotax.Machine
			if m, v.err = r.machine(ctx, name); v.err != nil {
				return nil, v.err
			}
			env.Peers = append(env.Peers, m)
		}
	}
	if v.vol, v.err = r.d.Prepare(ctx, t, env); v.err != nil {
		return nil, v.err
	}
	r.onClose("volume of "+t.Name, nil, v.vol.Close)
	return v.vol, nil
}

// attach makes the target's place, once.
func (r *rig) attach(ctx context.Context, t plan.Target) (iotax.Place, error) {
	if o := r.rigOf(t.On); o != r {
		return o.attach(ctx, t)
	}
	v := r.volumes[t.Name]
	if v.attached {
		return v.place, v.err
	}
	m, err := r.machine(ctx, t.On)
	if err != nil {
		return iotax.Place{}, err
	}
	vol, err := r.prepare(ctx, t)
	if err != nil {
		return iotax.Place{}, err
	}
	r.d.Progress(Event{Kind: Opening, Target: t.Name})
	v.attached = true
	r.onClose("place of "+t.Name, m, vol.Detach)
	v.place, v.err = vol.Attach(ctx, m)
	return v.place, v.err
}

func (r *rig) planTarget(name string) (plan.Target, bool) {
	for _, t := range r.p.Targets {
		if t.Name == name {
			return t, true
		}
	}
	return plan.Target{}, false
}

// prepareCells settles, checks and prepares every workload on every target.
func (r *rig) prepareCells(ctx context.Context, run *iotax.Run, keepGoing bool) error {
	for _, l := range r.loads {
		if s, ok := l.w.(iotax.Settler); ok {
			err := within(ctx, readyTime, func(ctx context.Context) error {
				found, err := s.Settle(ctx, r.involved(l))
				run.Findings = mergeFindings(run.Findings, found)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	// All checks come before the first preparation: what is missing shows before files are written.
	for _, l := range r.loads {
		for _, t := range r.at(l) {
			if err := l.check(ctx, t); err != nil {
				if !keepGoing || t.Name == r.p.Baseline {
					return err
				}
				r.cellFailed(l, t, err)
				continue
			}
			l.targets = append(l.targets, t)
		}
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
				if !keepGoing || t.Name == r.p.Baseline || ctx.Err() != nil {
					return err
				}
				r.cellFailed(l, t, err)
				continue
			}
			l.targets = append(l.targets, t)
		}
	}
	if err := r.pilot(ctx, run); err != nil {
		return err
	}
	return r.closeRenewed(ctx)
}

// holder is the rig that t stands in.
func (r *rig) holder(t *iotax.Target) *rig {
	pt, _ := r.planTarget(t.Name)
	return r.rigOf(pt.On)
}

// involved lists the targets at which l is done, those of which others are made in place of the others.
func (r *rig) involved(l *load) (targets []*iotax.Target) {
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

// at lists those of the open targets that l is done at.
func (r *rig) at(l *load) (targets []*iotax.Target) {
	for _, t := range r.targets {
		if l.plan.Done(t.Name) {
			targets = append(targets, t)
		}
	}
	return targets
}

// pilot lets the workloads that need it look at all their targets. What a resumed run found before
// stands: a block of it must not differ from the others.
func (r *rig) pilot(ctx context.Context, run *iotax.Run) error {
	for _, l := range r.loads {
		p, ok := l.w.(iotax.Piloter)
		if !ok || len(l.targets) == 0 {
			continue
		}
		r.d.Progress(Event{Kind: Preparing, Text: "looking for the load that every target can carry", Workload: l.plan.Name})
		i := slices.IndexFunc(run.Workloads, func(w iotax.WorkloadInfo) bool { return w.Name == l.plan.Name })
		err := within(ctx, readyTime, func(ctx context.Context) (err error) {
			run.Workloads[i].Facts, err = p.Pilot(ctx, l.targets, r.known[l.plan.Name])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) cellFailed(l *load, t *iotax.Target, err error) {
	r.d.Progress(Event{Kind: Missing, Target: t.Name, Workload: l.plan.Name, Err: err})
	info := r.infos[t.Name]
	info.Findings = append(info.Findings, iotax.Finding{Rule: "cell-not-measured", Severity: iotax.Invalid,
		Evidence: l.plan.Name + ": " + err.Error()})
}
