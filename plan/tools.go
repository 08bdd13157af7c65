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

// Tools returns the programs that the plan runs on this host, sorted. here reports whether the commands of a machine run on
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
	for _, m := range p.Machines {
		local[m.Name] = here(m)
		add(m.Spec)
	}
	for _, t := range p.Targets {
		server := Host
		if s, ok := t.Spec.(Served); ok {
			if _, server = s.ServedBy(); server == "" {
				server = t.On
			}
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
