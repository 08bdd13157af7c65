package bisect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
)

// Placeholder marks the position of the build directory in a plan.
const Placeholder = "{build}"

// Check returns an error if p cannot compare two builds.
func Check(p *plan.Plan) error {
	text, err := p.YAML()
	switch {
	case err != nil:
		return err
	case len(p.Workloads) != 1:
		return &iotax.Error{Op: "bisect", On: p.Name, Err: fmt.Errorf("the plan has %d workloads, and bisect compares one", len(p.Workloads)), Hint: "choose one: -w NAME"}
	case len(p.Workloads[0].Metrics) > 1:
		return &iotax.Error{Op: "bisect", On: p.Name, Err: errors.New("bisect compares one metric"), Hint: "choose one: --metric NAME"}
	case !strings.Contains(string(text), Placeholder):
		return &iotax.Error{Op: "bisect", On: p.Name, Err: errors.New("the workload and its target do not use the build"),
			Hint: "write " + Placeholder + " for the directory of the build, as in -w 'command:{build}/tool {dir}/file' or, in a plan, kernel: '{build}/bzImage'"}
	}
	return nil
}

// Twin returns a plan that measures the last target of p with both builds. The target with the name `good` uses the
// build in goodDir and is the baseline. The target with the name `version` uses the build in dir. If the plan's
// machines or the targets before the last one contain Placeholder, each build gets its own copy of all of them.
func Twin(p *plan.Plan, k plan.Kinds, good, goodDir, version, dir string) (*plan.Plan, error) {
	text, err := p.YAML()
	if err != nil {
		return nil, err
	}
	last := len(p.Targets) - 1
	under, err := (&plan.Plan{Machines: p.Machines, Targets: p.Targets[:last]}).YAML() // the machines and targets that the last target may use
	if err != nil {
		return nil, err
	}
	twice := strings.Contains(string(under), Placeholder)
	with := func(dir string) (*plan.Plan, error) {
		return plan.Parse(p.File, []byte(strings.ReplaceAll(string(text), Placeholder, dir)), k)
	}
	out, err := with(goodDir)
	if err != nil {
		return nil, err
	}
	other, err := with(dir)
	if err != nil {
		return nil, err
	}
	again := func(name string) string { return name + " of " + version }
	machine := func(name string) string {
		if name == plan.Host || name == "" {
			return name
		}
		return again(name)
	}
	for i := range other.Targets {
		t := &other.Targets[i]
		can := t.Traits()
		if (twice || i == last) && (can.Gather != nil || can.Served != nil && can.Served.Machine != "") {
			return nil, &iotax.Error{Op: "bisect", On: t.Name, Err: errors.New("bisect cannot make a target of several machines or targets twice"), Hint: "name a plain target"}
		}
		if !twice {
			continue
		}
		t.On = machine(t.On)
		for j := range t.In {
			t.In[j] = machine(t.In[j])
		}
		if can.Of != nil {
			*can.Of = again(*can.Of)
		}
	}
	a, b, base := out.Targets[last], other.Targets[last], out.Targets[:last]
	if twice {
		for _, m := range other.Machines {
			if m.Name != plan.Host {
				m.Name, m.On = again(m.Name), machine(m.On)
				out.Machines = append(out.Machines, m)
			}
		}
		for _, t := range other.Targets[:last] {
			t.Name = again(t.Name)
			base = append(base, t)
		}
	}
	out.Expectations, out.Layers, out.Reference, out.Layout = nil, nil, nil, ""
	for i, side := range []*plan.Target{&a, &b} {
		side.Against = nil
		side.Labels = maps.Clone(side.Labels)
		if side.Labels == nil {
			side.Labels = map[string]string{}
		}
		side.Name, side.Labels[support.LabelBuild] = good, goodDir
		if i == 1 {
			side.Name, side.Labels[support.LabelBuild] = version, dir
		}
	}
	out.Name, out.Baseline, out.Targets = p.Name+": "+version+" against "+good, a.Name, append([]plan.Target{a, b}, base...)
	out.Workloads = slices.Clone(p.Workloads) // keeps Placeholder, because commands are expanded for each target
	out.Workloads[0].At = []string{a.Name, b.Name}
	return out, out.Measure.Check()
}
