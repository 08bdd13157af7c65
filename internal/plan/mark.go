package plan

import (
	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// An origin holds the nodes and axis values from which an entry was built.
type origin struct {
	key, val *syntax.Node
	subst    map[*syntax.Node]*syntax.Node
	axes     []bind.Label
}

func (o origin) mark(field string) Mark {
	n := o.key
	v := bind.Variant{Subst: o.subst}
	val := o.val
	if s := o.subst[val]; s != nil {
		val = s
	}
	switch at := v.At(val, field); {
	case at != nil:
		n = at
	case field != "" && val != nil && val.Kind == syntax.ScalarNode: // `dir: /var/tmp`
		n = val
	}
	return n.Mark()
}

// Axes returns the name of the plan entry that was expanded to this target, and the target's value on each axis of the
// entry and of its machine.
func (t Target) Axes() (entry string, values []Label) {
	if t.origin.key == nil {
		return t.Name, nil
	}
	return t.origin.key.Text, t.origin.axes
}

// Where returns the place of a key of the spec, for example "path". If the plan does not set the key, it returns the
// place of the spec's scalar value (`dir: /var/tmp`), or else of the entry's name.
func (m Machine) Where(key string) Mark { return m.origin.mark(key) }

// Where is like Machine.Where.
func (t Target) Where(key string) Mark { return t.origin.mark(key) }

// Where is like Machine.Where.
func (w Workload) Where(key string) Mark { return w.origin.mark(key) }

// Where returns the place of a key in the measure section, for example "rounds.min", or the zero Mark if the plan does
// not set the key.
func (p *Plan) Where(key string) Mark {
	v := bind.Variant{}
	return v.At(p.measured, key).Mark()
}

// Value returns the value of a key of the machine's spec as text, defaults included. It returns "" for a list, a map, a
// nested spec or an unknown key.
func (m Machine) Value(key string) string { return bind.ValueOf(m.Spec, nil, key) }

// Value is like Machine.Value.
func (t Target) Value(key string) string { return bind.ValueOf(t.Spec, nil, key) }

// Value is like Machine.Value, options included (see Options).
func (w Workload) Value(key string) string { return bind.ValueOf(w.Spec, bind.OptionsOf(w.Spec), key) }
