package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// Paired returns a plan that compares p with `old`, the plan of an earlier run. For each target whose configuration has
// changed, it adds a twin: a target with the configuration in `old`. Targets are paired by name. Targets whose name is
// in only one plan are paired in order, if both plans have equally many of them. `pairs` maps the name of each twin to
// the name of its target in `old`. `notes` lists the twins and the targets without a counterpart. `run` is the name of
// the earlier run. Paired modifies `old`. It returns an error if a workload differs, if no target has changed, or if a
// changed target cannot be copied.
func (p *Plan) Paired(old *Plan, run string) (_ *Plan, pairs map[string]string, notes []string, err error) {
	fail := func(on, what, hint string) (*Plan, map[string]string, []string, error) {
		return nil, nil, nil, &Error{Msg: fmt.Sprintf("measure %s against %s: %s", on, run, what), Hint: hint}
	}
	b := pairing{now: p, old: old, run: run, made: map[string]string{}, was: map[string]string{}}
	out := *p
	out.Machines, out.Targets, out.Workloads = slices.Clone(p.Machines), nil, slices.Clone(p.Workloads)
	for _, w := range p.Workloads {
		i := slices.IndexFunc(old.Workloads, func(o Workload) bool { return o.Name == w.Name })
		if i < 0 {
			return fail(w.Name, "that run did other work", "measure the same work: that of the run is in `iotax show "+run+"`")
		}
		now, err := w.Job()
		if err != nil {
			return nil, nil, nil, err
		}
		then, err := old.Workloads[i].Job()
		if err != nil {
			return nil, nil, nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(both(now, then))) {
			if now[key] != then[key] {
				return fail(w.Name, fmt.Sprintf("the work differs: %s was %q, and is %q", key, then[key], now[key]), "measure the same work, or compare without pairs: iotax compare")
			}
		}
	}
	twins := map[string]string{} // target of p → its twin
	earlier, alone := b.pairs()
	for _, t := range p.Targets {
		o, ok := earlier[t.Name]
		if ok {
			same, err := b.same(t, o)
			if err != nil {
				return nil, nil, nil, err
			}
			if same {
				ok = false
			} else if b.gathered(t) || b.gathered(o) {
				return fail(t.Name, "a target that is made of others cannot be measured as it was", "name a plain target")
			}
		}
		if ok {
			twin, err := b.twin(o)
			if err != nil {
				return fail(t.Name, err.Error(), "compare without pairs: iotax compare")
			}
			twins[t.Name] = twin
			if t.Name == p.Baseline {
				out.Baseline = twin
			} else {
				t.Against = append([]string{twin}, t.Against...)
			}
		}
		out.Targets = append(out.Targets, t)
	}
	if len(twins) == 0 {
		return fail(p.Name, "no target is configured otherwise than in that run", "name what differs in the plan, as in binary: or kernel:; or compare without pairs: iotax compare "+run+" latest")
	}
	out.Machines = append(out.Machines, b.machines...)
	out.Targets = append(out.Targets, b.targets...)
	i := slices.IndexFunc(out.Targets, func(t Target) bool { return t.Name == out.Baseline })
	first := out.Targets[i]
	out.Targets = append([]Target{first}, slices.Delete(out.Targets, i, i+1)...)
	for i := range out.Workloads {
		w := &out.Workloads[i]
		var at []string
		for _, t := range out.Targets {
			switch {
			case slices.ContainsFunc(b.targets, func(o Target) bool { return o.Name == t.Name }):
				if slices.ContainsFunc(p.Targets, func(n Target) bool { return twins[n.Name] == t.Name && w.Done(n.Name) }) {
					at = append(at, t.Name)
				}
			case w.Done(t.Name):
				at = append(at, t.Name)
			}
		}
		w.At = at
	}
	out.Name = p.Name + " against " + run
	out.Layers, out.Layout = nil, ""
	return &out, b.was, append(alone, b.notes()...), nil
}

func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// A pairing copies targets and machines of an earlier plan into the current one.
type pairing struct {
	now, old *Plan
	run      string
	machines []Machine
	targets  []Target
	made     map[string]string // "machine NAME" or "target NAME" in old → its name in the new plan
	was      map[string]string // name of a twin → its name in old
}

// pairs maps each target of b.now to its counterpart in b.old, by name or by order. It returns a note for each target
// without a counterpart.
func (b *pairing) pairs() (all map[string]Target, notes []string) {
	all = map[string]Target{}
	var news, olds []string
	for _, t := range b.now.Targets {
		if o, ok := b.old.Target(t.Name); ok {
			all[t.Name] = o
		} else {
			news = append(news, t.Name)
		}
	}
	for _, o := range b.old.Targets {
		if _, ok := b.now.Target(o.Name); !ok {
			olds = append(olds, o.Name)
		}
	}
	if len(news) == len(olds) {
		for i, name := range news {
			all[name], _ = b.old.Target(olds[i])
		}
		return all, nil
	}
	for _, name := range news {
		notes = append(notes, fmt.Sprintf("%s is not in run %s, and is compared with the baseline", name, b.run))
	}
	for _, name := range olds {
		notes = append(notes, fmt.Sprintf("%s of run %s is not in the plan, and is not measured", name, b.run))
	}
	return all, notes
}

// notes returns one note for each twin.
func (b *pairing) notes() (all []string) {
	for _, t := range b.targets {
		all = append(all, fmt.Sprintf("%s is measured as in run %s", t.Name, b.run))
	}
	return all
}

func (b *pairing) gathered(t Target) bool { return t.Traits().Gather != nil }

// `same` reports whether two targets have the same configuration, including the machines and targets below them.
func (b *pairing) same(t, o Target) (bool, error) {
	now, err := b.now.configuration(t)
	if err != nil {
		return false, err
	}
	then, err := b.old.configuration(o)
	return now == then, err
}

// configuration returns a text that is equal for targets with equal configurations, whatever their names.
func (p *Plan) configuration(t Target) (string, error) {
	var e bind.Encoder
	can := t.Traits()
	n := e.Spec(t.Kind, t.Spec, t.fresh)
	parts := []string{}
	if can.Of != nil {
		n.Entries = slices.DeleteFunc(n.Entries, func(x syntax.Pair) bool { return x.Key.Text == "of" })
		parts = append(parts, *can.Of)
	}
	if g := can.Gather; g != nil {
		parts = slices.Concat(g.Together, g.At)
	}
	text := fmt.Sprintf("%s %v\n%s\n", t.Kind, t.Labels, n.YAML(0))
	machines := append([]string{t.On, t.servedBy()}, t.In...)
	if s := can.Served; s != nil {
		machines = append(machines, s.Peers...)
	}
	for _, name := range machines {
		more, err := p.machineText(name)
		if err != nil {
			return "", err
		}
		text += more
	}
	for _, name := range parts {
		if of, ok := p.Target(name); ok {
			more, err := p.configuration(of)
			if err != nil {
				return "", err
			}
			text += more
		}
	}
	return text, e.Err
}

// machineText returns a text that is equal for machines with equal configurations, including the machines that contain
// them.
func (p *Plan) machineText(name string) (text string, err error) {
	var e bind.Encoder
	for m, ok := p.Machine(name); ok; m, ok = p.Machine(m.On) {
		text += fmt.Sprintf("%s %v\n%s\n", m.Kind, m.Labels, e.Spec(m.Kind, m.Spec, m.fresh).YAML(0))
	}
	return text, e.Err
}

// twin returns the name of a copy of the old target o. It adds the copy, and copies of the machines and targets below
// it that the current plan lacks.
func (b *pairing) twin(o Target) (string, error) {
	if name, ok := b.made["target "+o.Name]; ok {
		return name, nil
	}
	name := o.Name
	if _, taken := b.now.Target(name); taken {
		name += " of " + b.run
	}
	b.made["target "+o.Name], b.was[name] = name, o.Name
	var err error
	can := o.Traits()
	if s := can.Served; s != nil {
		for _, m := range append([]string{s.Machine}, s.Peers...) {
			if again, err := b.machine(m); err != nil || again != m {
				return "", fmt.Errorf("%s is served by %s, which is configured otherwise", o.Name, m)
			}
		}
	}
	if can.Of != nil && *can.Of != "" {
		below, _ := b.old.Target(*can.Of)
		if now, ok := b.now.Target(*can.Of); ok {
			same, err := b.same(now, below)
			if err != nil {
				return "", err
			}
			if same {
				b.made["target "+below.Name] = now.Name
			}
		}
		if *can.Of, err = b.twin(below); err != nil {
			return "", err
		}
	}
	o.Name, o.Against = name, nil
	if o.On, err = b.machine(o.On); err != nil {
		return "", err
	}
	o.In = slices.Clone(o.In)
	for i := range o.In {
		if o.In[i], err = b.machine(o.In[i]); err != nil {
			return "", err
		}
	}
	b.targets = append(b.targets, o)
	return name, nil
}

// machine returns the name of a machine in the new plan that is configured like machine `name` of the old plan. If the
// current plan has no equal machine of that name, it adds a copy.
func (b *pairing) machine(name string) (string, error) {
	o, ok := b.old.Machine(name)
	if !ok {
		return name, nil // "" or this host
	}
	if again, ok := b.made["machine "+name]; ok {
		return again, nil
	}
	again := name
	if _, taken := b.now.Machine(name); taken {
		now, err := b.now.machineText(name)
		if err != nil {
			return "", err
		}
		then, err := b.old.machineText(name)
		if err != nil {
			return "", err
		}
		if now == then {
			b.made["machine "+name] = name
			return name, nil
		}
		if name == Host {
			return "", errors.New("this host was configured otherwise in the plan")
		}
		again += " of " + b.run
	}
	b.made["machine "+name] = again
	on, err := b.machine(o.On)
	if err != nil {
		return "", err
	}
	o.Name, o.On = again, on
	b.machines = append(b.machines, o)
	return again, nil
}
