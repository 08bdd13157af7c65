package plan

import (
	"fmt"
	"slices"

	"iotax/internal/plan/syntax"
)

// gather resolves the targets that consist of other targets, and the workloads that run as noise. A workload without
// `at:` runs neither on a part of another target nor on a target of noise. A noise workload without `at:` is not
// measured.
func (b *builder) gather() {
	part, aside := map[string]bool{}, map[string]bool{}
	for _, e := range b.targets {
		g := e.Spec.Traits().Gather
		if g == nil || e.Failed {
			continue
		}
		resolve := func(key string, wanted []string) (out []string) {
			at := e.place(key)
			for _, name := range wanted {
				group := b.byTarget[name]
				if len(group) == 0 {
					n := *at
					n.Text = name
					t, ok := b.target(&n, key)
					if !ok {
						continue
					}
					group = []*entry{t}
				}
				for _, t := range group {
					if t.Spec.Traits().Gather != nil {
						b.Fail(at, "name the targets that it is made of", "%s is itself made of other targets", syntax.Quote(t.name))
						continue
					}
					out = append(out, t.name)
				}
			}
			return out
		}
		before := len(b.Errs)
		of := resolve("of", g.Together)
		work, at := g.Doing, g.At
		if work != "" {
			at = resolve("noise", at)
		}
		if len(b.Errs) > before {
			continue
		}
		if err := g.SetTogether(of); err != nil {
			b.Explain(&e.Variant, e.kindKey, nil, e.val, err)
			continue
		}
		if work == "" {
			for _, name := range of {
				part[name] = true
			}
			continue
		}
		g.SetAt(at)
		for _, name := range at {
			part[name] = true
			if slices.Contains(of, name) {
				b.Fail(e.kindKey, "name another for the noise", "%s would be its own neighbour", syntax.Quote(name))
			}
		}
		if !slices.ContainsFunc(b.works, func(w *entry) bool { return w.name == work }) {
			b.Fail(e.place("doing"), syntax.DidYouMean(work, names(b.works)), "doing: there is no workload %s", syntax.Quote(work))
		}
		aside[work] = true
	}
	for _, w := range b.works {
		if len(w.places) > 0 || w.done != nil {
			continue
		}
		if w.aside = aside[w.name]; w.aside || len(part) == 0 {
			continue
		}
		for _, e := range b.targets {
			if !part[e.name] {
				w.places = append(w.places, e.name)
			}
		}
		if len(w.places) == 0 {
			b.Fail(w.key, fmt.Sprintf("at: [%s]", b.targets[0].name), "%s runs nowhere: all targets are parts of others", syntax.Quote(w.name))
		}
	}
}

// `first` returns the default baseline: the first target that is neither a part of another target nor a target of
// noise, or else the first target.
func (b *builder) first() string {
	part := map[string]bool{}
	for _, e := range b.targets {
		if g := e.Spec.Traits().Gather; g != nil {
			parts := g.Together
			if g.Doing != "" {
				parts = g.At
			}
			for _, name := range parts {
				for _, t := range b.byTarget[name] {
					part[t.name] = true
				}
				part[name] = true
			}
		}
	}
	for _, e := range b.targets {
		if !part[e.name] {
			return e.name
		}
	}
	return b.targets[0].name
}
