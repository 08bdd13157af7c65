package plan

import (
	"fmt"
	"slices"
	"strings"

	"iotax/internal/plan/syntax"
)

// servers reports servers and peers of volumes that are unknown, ambiguous or containers.
func (b *builder) servers() {
	for _, e := range b.targets {
		if s := e.Spec.Traits().Served; s != nil {
			if s.Machine != "" {
				b.server(e, s.Key, s.Machine)
			}
			for _, name := range s.Peers {
				b.server(e, s.PeersKey, name)
			}
		}
	}
}

func (b *builder) server(e *entry, key, name string) {
	at := e.place(key)
	if i := slices.IndexFunc(b.machines, func(m *entry) bool { return m.name == name }); i >= 0 || name == Host {
		if i >= 0 && b.machines[i].Spec.Traits().Encloses {
			b.Fail(at, "name the machine that it is on", "%s: %s is a container, in which nothing is served", key, syntax.Quote(name))
		}
		return
	}
	group, known := b.byMachine[name]
	switch {
	case len(group) > 1:
		b.Fail(at, fmt.Sprintf("name one of them, as in %q", group[0].name), "%s %s means %d machines", key, syntax.Quote(name), len(group))
	case !known:
		all := []string{Host}
		for _, m := range b.machines {
			if m.name != Host {
				all = append(all, m.name)
			}
		}
		hint := syntax.DidYouMean(name, all)
		if syntax.Nearest(name, all) == "" {
			hint = "declare it under machines:, or use one of " + strings.Join(all, ", ")
		}
		b.Fail(at, hint, "%s: there is no machine %s", key, syntax.Quote(name))
	}
}

// at resolves the `at:` of each workload. It leaves workloads without `at:` to gather.
func (b *builder) at() {
	for _, w := range b.works {
		if w.done == nil || len(b.byTarget) == 0 {
			continue
		}
		items := w.done.Listed()
		if len(items) == 0 {
			b.Fail(w.done, "name a target, or leave it out for all of them", "%s runs at no target", syntax.Quote(w.name))
		}
		for _, n := range items {
			group := b.byTarget[n.Text]
			if len(group) < 2 { // a name with several variants means all of them
				e, ok := b.target(n, "at")
				if !ok {
					continue
				}
				group = []*entry{e}
			}
			for _, name := range names(group) {
				if slices.Contains(w.places, name) {
					b.Fail(n, "name it once", "%s runs at %s twice", syntax.Quote(w.name), syntax.Quote(name))
					continue
				}
				w.places = append(w.places, name)
			}
		}
	}
}

// Done reports whether the workload runs at the target with this name.
func (w *Workload) Done(target string) bool {
	return len(w.At) == 0 && !w.Aside || slices.Contains(w.At, target)
}

// exports rejects a plan in which a guest's disk and another writer share an export.
func (b *builder) exports() {
	disks := map[string]*entry{}
	for _, e := range b.targets {
		of := e.Spec.Traits().Of
		i := slices.IndexFunc(b.targets, func(t *entry) bool { return of != nil && t.name == *of })
		if i < 0 || b.targets[i].Spec.Traits().Served == nil {
			continue
		}
		fail := func(other *entry) {
			b.Fail(e.place("of"), "make an export for each", "%s and %s would write to the same export", syntax.Quote(e.name), syntax.Quote(other.name))
		}
		if other := disks[*of]; other != nil {
			fail(other)
		}
		disks[*of] = e
		for _, w := range b.works {
			if w.done == nil && !w.aside || slices.Contains(w.places, *of) {
				fail(w)
				break
			}
		}
	}
}
