package plan

import (
	"maps"
	"slices"
)

// A Tooler is the spec of a machine, a volume or a workload that runs programs which a system may lack. Tools are their names.
// Those of a machine run on this host, those of a volume on the machine that serves it (see Served), else on this host, and
// those of a workload on the machine of the target.
type Tooler interface {
	Tools() []string
}

// Tools returns the programs that the plan runs on this host, sorted, without those of machines that no target needs. here reports whether the commands of a machine run on
// this host.
func (p *Plan) Tools(here func(Machine) bool) []string {
	local := map[string]bool{Host: true}
	all := map[string]bool{}
	add := func(spec any) {
		if t, ok := spec.(Tooler); ok {
			for _, name := range t.Tools() {
				all[name] = true
			}
		}
	}
	used := map[string]bool{}
	for _, t := range p.Targets {
		used[t.On], used[t.servedBy()] = true, true
		if j, ok := t.Spec.(Joined); ok {
			_, names := j.JoinedBy()
			for _, name := range names {
				used[name] = true
			}
		}
	}
	for _, m := range p.Machines {
		local[m.Name] = here(m)
		if used[m.Name] {
			add(m.Spec)
		}
	}
	for _, t := range p.Targets {
		server := Host
		if _, ok := t.Spec.(Served); ok {
			server = t.servedBy()
		}
		if local[server] {
			add(t.Spec)
		}
		for _, w := range p.Workloads {
			if local[t.On] && w.Done(t.Name) {
				add(w.Spec)
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
