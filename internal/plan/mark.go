package plan

import (
	"reflect"
	"strings"
)

// A Mark is a place in the text of a plan, for what points at it: the position, and the line or the
// word of the command line around it. The zero Mark is no place.
type Mark struct {
	Pos
	Word          string // "target 2", when it is a word of the command line
	Source        string // the line, or the word
	Column, Width int    // of the token in Source, in characters; Column from 1
}

// origin is what an entry was made of.
type origin struct {
	key, val *node
	subst    map[*node]*node
}

func (o origin) mark(field string) Mark {
	n := o.key
	v := variant{subst: o.subst}
	val := o.val
	if s := o.subst[val]; s != nil {
		val = s
	}
	switch at := v.at(val, field); {
	case at != nil:
		n = at
	case field != "" && val != nil && val.kind == scalarNode: // `dir: /var/tmp`
		n = val
	}
	return n.mark()
}

func (n *node) mark() Mark {
	if n == nil || n.src == nil {
		return Mark{}
	}
	line, col, width := n.shown()
	return Mark{Pos: n.pos(), Word: n.src.word, Source: line, Column: col, Width: width}
}

// Where is the place at which a key of the spec was written ("path", an option of a job, or
// "rounds.min" in a nested one); that of the value which stands for the spec (`dir: /var/tmp`), or that of
// the entry's name when it was not written.
func (m Machine) Where(key string) Mark { return m.origin.mark(key) }

// Where is like that of Machine.
func (t Target) Where(key string) Mark { return t.origin.mark(key) }

// Where is like that of Machine.
func (w Workload) Where(key string) Mark { return w.origin.mark(key) }

// Where is the place at which a key below measure: was written, or the zero Mark when it was not.
func (p *Plan) Where(key string) Mark {
	v := variant{}
	return v.at(p.measured, key).mark()
}

// Value is the value of a key of the machine's spec as text, defaults included; "" when it has no such
// key, or one that is no single word.
func (m Machine) Value(key string) string { return valueOf(m.Spec, nil, key) }

// Value is like that of Machine.
func (t Target) Value(key string) string { return valueOf(t.Spec, nil, key) }

// Value is like that of Machine, options included (see Options).
func (w Workload) Value(key string) string { return valueOf(w.Spec, optionsOf(w.Spec), key) }

func valueOf(spec any, options []Option, key string) string {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return ""
	}
	head, rest, nested := strings.Cut(key, ".")
	list, _ := fields(v.Elem().Type())
	f, ok := findField(list, head)
	if !ok {
		for _, o := range options {
			if o.Key == key {
				return o.Value
			}
		}
		return ""
	}
	x := v.Elem().FieldByIndex(f.index)
	if x.Kind() == reflect.Pointer {
		if x.IsNil() {
			return ""
		}
		x = x.Elem()
	}
	switch {
	case nested && x.Kind() == reflect.Struct && x.CanAddr():
		return valueOf(x.Addr().Interface(), nil, rest)
	case nested || !isText(x.Type()):
		return ""
	}
	s, err := textOf(x)
	if err != nil {
		return ""
	}
	return s
}
