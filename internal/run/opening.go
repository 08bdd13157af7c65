package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

type openMachine struct {
	m    iotax.Machine
	err  error
	busy bool // the machine is being opened, so opening it again would be a cycle
}

// An opened is the result of opening a target.
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

func (r *testbed) environment(ctx context.Context, m iotax.Machine) (env map[string]string, err error) {
	err = within(ctx, lookTime, func(ctx context.Context) error {
		env, err = r.d.Environment(ctx, m)
		return err
	})
	if err != nil {
		err = opError("describe", m.String(), err, "")
	}
	return env, err
}

// tell adds the findings of each volume to its target and to the targets based on it.
func (r *testbed) tell() {
	for _, t := range r.p.Targets {
		if r.volumes[t.Name].vol == nil {
			continue
		}
		for _, vol := range r.below(t) {
			if findings := vol.Caps().Findings; findings != nil {
				found := slices.Clone(findings())
				for i := range found {
					found[i].Subject = iotax.AboutTarget(t.Name)
				}
				r.infos[t.Name].Findings = mergeFindings(r.infos[t.Name].Findings, found)
			}
		}
	}
}

// open opens all targets and prepares every cell. With keepGoing, it leaves out a target that cannot be opened, unless
// the target is the baseline or fewer than two targets remain.
func (r *testbed) open(ctx context.Context, run *iotax.Run, keepGoing bool) error {
	if err := r.makeLoads(); err != nil {
		return err
	}
	run.Workloads = nil
	for _, l := range r.loads {
		if l.plan.Aside {
			continue
		}
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{
			Name: l.plan.Name, Kind: l.plan.Kind, Metrics: l.metrics(), Chosen: l.plan.Metrics != nil, Cold: r.p.Measure.Cold, Section: l.plan.Section, At: l.plan.At,
			Facts: r.known[l.plan.Name]}) // keep the earlier facts, because the run may end before the pilot
	}
	if err := r.look(ctx, keepGoing); err != nil {
		return err
	}
	if err := r.govern(run); err != nil {
		return err
	}
	env, err := r.environment(ctx, r.d.Host)
	if err != nil {
		return err
	}
	for _, key := range []iotax.FactKey{iotax.FactCommand, iotax.FactResumed} {
		if value := run.Environment[key]; value != "" {
			env[key] = value
		}
	}
	run.Environment = env

	var errs []error
	var missing []Event // sent if the run continues without these targets; otherwise their errors end the run
	for _, t := range r.p.Targets {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.earlier != nil && r.infos[t.Name].Err != "" {
			continue
		}
		target, err := r.openTarget(ctx, t)
		if err != nil {
			if ctx.Err() != nil { // the interruption caused the error
				r.describe(run)
				return context.Cause(ctx)
			}
			if r.earlier == nil { // otherwise an earlier start has opened the target
				r.infos[t.Name].Err = err.Error()
			}
			if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) { // targets on one machine share the same error
				errs = append(errs, err)
			}
			missing = append(missing, Event{Kind: Missing, Target: t.Name, Err: err})
			if !keepGoing || t.Name == r.p.Baseline {
				break
			}
			continue
		}
		r.targets = append(r.targets, target)
	}
	if len(errs) > 0 && (!keepGoing || r.infos[r.p.Baseline].Err != "" || len(r.targets) < 2) {
		r.describe(run)
		return errors.Join(errs...)
	}
	for _, e := range missing {
		r.d.Progress(e)
	}
	err = r.prepareCells(ctx, run, keepGoing)
	r.describe(run)
	return err
}

// govern sets the frequency governor of the plan, before the environment is described.
func (r *testbed) govern(run *iotax.Run) error {
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

// describe copies the target information into the run. It is called again at the end, because removing a volume may
// add findings.
func (r *testbed) describe(run *iotax.Run) {
	run.Targets = nil
	r.tell()
	for _, t := range r.p.Targets {
		run.Targets = append(run.Targets, *r.infos[t.Name])
	}
}

// openTarget opens a target, or the members of a combined target, at most once per target.
func (r *testbed) openTarget(ctx context.Context, t plan.Target) (*iotax.Target, error) {
	o := r.opened[t.Name]
	if o == nil {
		o = &opened{}
		r.opened[t.Name] = o
		if g := t.Traits().Gather; g != nil {
			o.target, o.err = r.gather(ctx, t, g)
		} else {
			o.target, o.err = r.openOne(ctx, t)
		}
	}
	return o.target, o.err
}

// gather creates the combined target t from its members.
func (r *testbed) gather(ctx context.Context, t plan.Target, g *plan.Gather) (*iotax.Target, error) {
	member := func(name string) (*iotax.Target, error) {
		pt, ok := r.p.Target(name)
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
	for i, name := range g.Together {
		m, err := member(name)
		if err != nil {
			return nil, err
		}
		if target.Together = append(target.Together, m); i == 0 {
			target.Machine, target.Place = m.Machine, m.Place
			target.Place.Facts = nil
		}
		if m.Place.Backing != target.Place.Backing {
			target.Place.Backing = "" // the members do not share one device
		}
		target.Place.Durability = iotax.Weakest(target.Place.Durability, m.Place.Durability)
		if !slices.Contains(machines, m.Machine.String()) {
			machines = append(machines, m.Machine.String())
		}
		target.Facts[fmt.Sprintf("client.%d", i+1)] = name
		if (iotax.TargetInfo{Facts: m.Facts}).Emulated() {
			target.Facts[iotax.FactAccel] = "tcg"
		}
	}
	target.Facts[iotax.FactClients] = fmt.Sprint(len(target.Together))
	if work := g.Doing; work != "" {
		i := slices.IndexFunc(r.loads, func(l *load) bool { return l.plan.Name == work })
		if i < 0 {
			return nil, &iotax.Error{Op: "open", On: t.Name, Err: fmt.Errorf("the plan has no workload %q", work)}
		}
		target.Noise = &iotax.Noise{Name: work, Work: r.loads[i].w}
		for _, name := range g.At {
			m, err := member(name)
			if err != nil {
				return nil, err
			}
			target.Noise.At = append(target.Noise.At, m)
		}
		target.Place.Backing = "" // do not watch the device, because the noise is expected to use it
		target.Facts["noise"] = work + " at " + strings.Join(g.At, ", ")
	}
	info := r.infos[t.Name]
	info.Machine, info.Place, info.Durability = strings.Join(machines, ", "), strings.Join(g.Together, ", "), target.Place.Durability
	r.previous[t.Name], info.Facts = info.Facts, target.Facts
	return target, nil
}

// enclose starts the machines of t.In, each inside the previous one, and moves target into the innermost.
func (r *testbed) enclose(ctx context.Context, t plan.Target, target *iotax.Target) error {
	for _, name := range t.In {
		pm, ok := r.p.Machine(name)
		if !ok {
			return &iotax.Error{Op: "open machine", On: name, Err: errors.New("the plan has no machine of this name")}
		}
		on := target.Machine
		m, err := r.d.Enclose(ctx, pm, t.Name, on, target.Place)
		if err != nil {
			return err
		}
		r.bedOf(t.On).onClose("machine "+name+" of "+t.Name, on, m.Close)
		target.Machine = m
		maps.Copy(target.Facts, m.Caps().Facts)
	}
	return nil
}

// openOne opens a target that is not combined: it attaches the volume, and starts the machines in t.In.
func (r *testbed) openOne(ctx context.Context, t plan.Target) (*iotax.Target, error) {
	place, err := r.attach(ctx, t)
	if err != nil {
		return nil, err
	}
	m := r.bedOf(t.On).machines[t.On].m
	target := &iotax.Target{Name: t.Name, Machine: m, Place: place, Device: t.Device(), Labels: t.Labels, Facts: map[string]string{}}
	for _, vol := range r.below(t) {
		if processes := vol.Caps().Processes; processes != nil {
			target.Serving = append(target.Serving, processes)
		}
	}
	caps := m.Caps()
	maps.Copy(target.Facts, caps.Facts)
	for _, ph := range caps.Boot {
		target.Facts["boot."+ph.Name] = ph.At.Round(time.Millisecond).String()
	}
	maps.Copy(target.Facts, place.Facts)
	if caps.RunOnConsole == nil && !caps.Local {
		env, err := r.environment(ctx, m)
		if errors.Is(err, errors.ErrUnsupported) {
			// m cannot run the agent. Workloads can still be measured on it.
			why := err
			for e := (*iotax.Error)(nil); errors.As(why, &e); {
				why = e.Err
			}
			env = map[string]string{"unmeasured": "facts, counters and clock: " + why.Error()}
			r.d.Progress(Event{Kind: Opening, Text: t.Name + " without facts, counters and clock: " + why.Error()})
		} else if err != nil {
			return nil, err
		}
		for k, v := range env {
			target.Facts["machine."+k] = v
		}
	}
	if err := r.enclose(ctx, t, target); err != nil {
		return nil, err
	}
	info := r.infos[t.Name]
	info.Machine, info.Place, info.Durability = target.Machine.String(), place.Path, place.Durability
	r.previous[t.Name], info.Facts = info.Facts, target.Facts
	return target, nil
}

// below lists the volume of t and the volumes that it is based on.
func (r *testbed) below(t plan.Target) (all []iotax.Volume) {
	for range r.p.Targets { // attach has already rejected cycles
		if vol := r.bedOf(t.On).volumes[t.Name].vol; vol != nil {
			all = append(all, vol)
		}
		of, ok := t.Traits().Of, false
		if of == nil {
			break
		}
		if t, ok = r.p.Target(*of); !ok {
			break
		}
	}
	return all
}

// machine opens the machine called name. It first prepares the volumes on that machine that may have devices, because a
// guest must be started with the devices of its volumes.
func (r *testbed) machine(ctx context.Context, name string) (iotax.Machine, error) {
	if o := r.bedOf(name); o != r {
		return o.machine(ctx, name)
	}
	if om, ok := r.machines[name]; ok {
		if om.busy {
			return nil, &iotax.Error{Op: "open", On: name, Err: errors.New("a volume of this machine is on another volume of the same machine"),
				Hint: "let `of` name a directory on the host"}
		}
		return om.m, om.err
	}
	om := &openMachine{busy: true}
	r.machines[name] = om
	om.m, om.err = r.start(ctx, name)
	om.busy = false
	return om.m, om.err
}

func (r *testbed) start(ctx context.Context, name string) (iotax.Machine, error) {
	pm, ok := r.p.Machine(name)
	if !ok {
		return nil, &iotax.Error{Op: "open machine", On: name, Err: errors.New("the plan has no machine of this name")}
	}
	var devices []iotax.Device
	for _, t := range r.p.Targets {
		if t.On != name || r.only != "" && t.Name != r.only {
			continue
		}
		if t.Traits().Served != nil {
			continue // a served volume has no device, and its server may run on this machine
		}
		vol, err := r.prepare(ctx, t)
		if err != nil {
			continue // openTarget reports the error later
		}
		devices = append(devices, vol.Caps().Devices...)
	}
	var on iotax.Machine
	if pm.On != "" {
		var err error
		if on, err = r.machine(ctx, pm.On); err != nil {
			return nil, err
		}
	}
	r.d.Progress(Event{Kind: Opening, Text: "machine " + name})
	m, err := r.d.Open(ctx, pm, on, devices)
	if err != nil {
		return nil, err
	}
	r.onClose("machine "+name, nil, m.Close)
	return m, nil
}

// prepare creates the serving side of the target's volume, once.
func (r *testbed) prepare(ctx context.Context, t plan.Target) (iotax.Volume, error) {
	if o := r.bedOf(t.On); o != r {
		return o.prepare(ctx, t)
	}
	v := r.volumes[t.Name]
	if v.prepared {
		return v.vol, v.err
	}
	if v.busy {
		return nil, &iotax.Error{Op: "prepare", On: t.Name, Err: errors.New("the target is on itself")}
	}
	v.busy = true
	defer func() { v.busy, v.prepared = false, true }()

	env := volume.Env{Host: r.d.Host, ID: v.id, Need: r.need(t), Files: r.files(t)}
	can := t.Traits()
	if can.Of != nil && *can.Of != "" {
		base, ok := r.p.Target(*can.Of)
		if !ok {
			v.err = &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("the plan has no target %q", *can.Of)}
			return nil, v.err
		}
		if env.Of, v.err = r.attach(ctx, base); v.err != nil {
			return nil, v.err
		}
		m, _ := r.p.Machine(t.On)
		outer := cmp.Or(m.On, plan.Host)
		if base.On != outer {
			v.err = &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("%q is not on %s, which serves it", base.Name, outer),
				Hint: "let `of` name a target on " + outer}
			return nil, v.err
		}
		if env.Host, v.err = r.machine(ctx, outer); v.err != nil {
			return nil, v.err
		}
	}
	if s := can.Served; s != nil {
		if env.Server, v.err = r.machine(ctx, cmp.Or(s.Machine, t.On)); v.err != nil {
			return nil, v.err
		}
		for _, name := range s.Peers {
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
	// Reject an unsupported device now. The machine would not start with it, and other targets may be on that machine.
	if m, ok := r.p.Machine(t.On); ok && m.On == "" && r.d.CheckDevice != nil {
		for _, d := range v.vol.Caps().Devices {
			if v.err = r.d.CheckDevice(ctx, m, d); v.err != nil {
				return nil, v.err
			}
		}
	}
	return v.vol, nil
}

// attach attaches the target's volume, once, and returns its place.
func (r *testbed) attach(ctx context.Context, t plan.Target) (iotax.Place, error) {
	if o := r.bedOf(t.On); o != r {
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
