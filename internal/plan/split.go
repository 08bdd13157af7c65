package plan

import (
	"errors"
	"maps"

	"iotax/internal/plan/bind"
)

// parts splits a workload entry into the parts that Traits.Split returns.
func (b *builder) parts(e *entry) []*entry {
	split := e.Spec.Traits().Split
	if split == nil || e.Failed {
		return []*entry{e}
	}
	parts, err := split(folder(e.key.Pos().File))
	if err == nil && len(parts) == 0 {
		err = errors.New("it means no workload")
	}
	if err != nil {
		b.Explain(&e.Variant, e.kindKey, nil, e.val, err)
		return []*entry{e}
	}
	var out []*entry
	for _, p := range parts {
		x := *e
		x.Spec, x.own = p.Spec, maps.Clone(e.own)
		if e.key.Src.Word != "" && p.Name != "" {
			x.name = p.Name
		}
		if p.Label.Key != "" {
			x.labels = append(x.labels[:len(x.labels):len(x.labels)], bind.Label{Key: p.Label.Key, Value: p.Label.Value})
			if e.key.Src.Word == "" {
				x.name += suffix(x.labels[len(x.labels)-1:])
			}
		}
		out = append(out, &x)
	}
	return out
}
