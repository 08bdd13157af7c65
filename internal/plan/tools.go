package plan

import (
	"maps"
	"slices"
)

// Used returns the names of the machines that the targets are on or need, and of the machines that contain these.
func (p *Plan) Used() map[string]bool {
	used := map[string]bool{}
	for _, t := range p.Targets {
		used[t.On], used[t.servedBy()] = true, true
		if s := t.Traits().Served; s != nil {
			for _, name := range s.Peers {
				used[name] = true
			}
		}
		for _, name := range t.In {
			used[name] = true
		}
	}
	for range p.Machines { // a chain of nested machines is at most this long
		for _, m := range p.Machines {
			if used[m.Name] && m.On != "" {
				used[m.On] = true
			}
		}
	}
	return used
}

// Tools returns the programs that the plan runs on this host, sorted. It ignores machines that no target uses. `here`
// reports whether the commands of a machine run on this host.
func (p *Plan) Tools(here func(Machine) bool) []string {
	local := map[string]bool{Host: true}
	all := map[string]bool{}
	add := func(t Traits) {
		for _, name := range t.Tools {
			all[name] = true
		}
	}
	used := p.Used()
	for _, m := range p.Machines {
		local[m.Name] = here(m)
		if used[m.Name] {
			add(m.Traits())
		}
	}
	for _, t := range p.Targets {
		server := Host
		if t.Traits().Served != nil {
			server = t.servedBy()
		}
		if local[server] {
			add(t.Traits())
		}
		at := t.On
		if n := len(t.In); n > 0 {
			at = t.In[n-1]
		}
		for _, w := range p.Workloads {
			if local[at] && w.Done(t.Name) {
				add(w.Traits())
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
