package plan

import (
	"errors"
	"maps"
)

// A Part is one of the workloads that a spec stands for (Traits.Split). Split is called once on a valid spec; relative paths
// count from dir. What it returns must not split any further: the resolved plan is made of it. A *FieldError points at the
// field.
type Part struct {
	Spec  Spec
	Label Option // tells it from the other parts, in its name and in its labels; zero for the only one
	Name  string // names it where the user gave no name; "" keeps the word
}

// parts splits an entry of workloads.
func (b *builder) parts(e *entry) []*entry {
	split := e.spec.Traits().Split
	if split == nil || e.failed {
		return []*entry{e}
	}
	parts, err := split(folder(e.key.pos().File))
	if err == nil && len(parts) == 0 {
		err = errors.New("it means no workload")
	}
	if err != nil {
		b.explain(&e.variant, e.kindKey, nil, e.val, err)
		return []*entry{e}
	}
	var out []*entry
	for _, p := range parts {
		x := *e
		x.spec, x.own = p.Spec, maps.Clone(e.own)
		if e.key.src.word != "" && p.Name != "" {
			x.name = p.Name
		}
		if p.Label.Key != "" {
			x.labels = append(x.labels[:len(x.labels):len(x.labels)], label{p.Label.Key, p.Label.Value})
			if e.key.src.word == "" {
				x.name += suffix(x.labels[len(x.labels)-1:])
			}
		}
		out = append(out, &x)
	}
	return out
}
