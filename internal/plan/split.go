package plan

import (
	"errors"
	"maps"
)

// A Splitter is the spec of a workload that may stand for several, as a job file does for its
// sections. Split is called once on a valid spec. dir is the folder from which relative paths count.
//
// What it returns must not split any further: the resolved plan is made of it. A *FieldError points at
// the field.
type Splitter interface {
	Split(dir string) ([]Part, error)
}

// A Part is one of the workloads that a Splitter stands for.
type Part struct {
	Spec  any
	Label Option // tells it from the other parts, in its name and in its labels; zero for the only one
	Name  string // names it where the user gave no name; "" keeps the word
}

// parts splits an entry of workloads.
func (b *builder) parts(e *entry) []*entry {
	s, ok := e.spec.(Splitter)
	if !ok || e.failed {
		return []*entry{e}
	}
	parts, err := s.Split(folder(e.key.pos().File))
	if err == nil && len(parts) == 0 {
		err = errors.New("it stands for no workload")
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
