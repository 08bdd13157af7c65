package bind

import (
	"fmt"
	"reflect"
	"strings"

	"iotax/internal/plan/syntax"
)

func ValueOf(spec any, options []Option, key string) string {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return ""
	}
	head, rest, nested := strings.Cut(key, ".")
	list, _ := Fields(v.Elem().Type())
	f, ok := FindField(list, head)
	if !ok {
		for _, o := range options {
			if o.Key == key {
				return o.Value
			}
		}
		return ""
	}
	x := v.Elem().FieldByIndex(f.Index)
	if x.Kind() == reflect.Pointer {
		if x.IsNil() {
			return ""
		}
		x = x.Elem()
	}
	switch {
	case nested && x.Kind() == reflect.Struct && x.CanAddr():
		return ValueOf(x.Addr().Interface(), nil, rest)
	case nested || !IsText(x.Type()):
		return ""
	}
	s, err := TextOf(x)
	if err != nil {
		return ""
	}
	return s
}

// SpecYAML returns the canonical text of a spec. Equal specs have equal texts.
func SpecYAML(k Kind, spec Spec) (string, error) {
	var e Encoder
	return e.Spec(k.Name, spec, k.New()).YAML(0), e.Err
}

// Encoder converts specs to nodes.
type Encoder struct {
	Docs bool // add the doc of each field with a single value as a comment
	Err  error
}

// Entry adds the labels and the spec to the entry n, and returns n.
func (e *Encoder) Entry(kind string, spec, fresh Spec, labels map[string]string, n *syntax.Node) *syntax.Node {
	if len(labels) > 0 {
		n.Put("labels", syntax.MapNode(labels))
	}
	n.Put(kind, e.Spec(kind, spec, fresh))
	return n
}

func (e *Encoder) Spec(kind string, spec, fresh Spec) *syntax.Node {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		e.Err = fmt.Errorf("write plan: the spec of %s is %T, not a pointer to a struct", kind, spec)
		return &syntax.Node{Kind: syntax.MappingNode}
	}
	var usual reflect.Value
	if f := reflect.ValueOf(fresh); f.IsValid() && f.Type() == v.Type() {
		usual = f.Elem()
	}
	n := e.Fields(v.Elem(), usual)
	for _, o := range OptionsOf(spec) {
		n.Entries = append(n.Entries, syntax.Pair{Key: syntax.WordNode(o.Key), Val: syntax.WordNode(o.Value)})
	}
	return n
}

// Fields encodes a struct. It omits nil pointers, and fields that are empty both in v and in `fresh`, which contains
// the defaults.
func (e *Encoder) Fields(v, fresh reflect.Value) *syntax.Node {
	n := &syntax.Node{Kind: syntax.MappingNode}
	list, _ := Fields(v.Type())
	for _, f := range list {
		var was reflect.Value
		if fresh.IsValid() {
			was = fresh.FieldByIndex(f.Index)
		}
		if val := e.field(f, v.FieldByIndex(f.Index), was); val != nil {
			n.Entries = append(n.Entries, syntax.Pair{Key: syntax.WordNode(f.Name), Val: val})
		}
	}
	return n
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return false
}

// field returns the node of a value, or nil if the value is omitted.
func (e *Encoder) field(f Field, v, fresh reflect.Value) *syntax.Node {
	if v.Kind() == reflect.Pointer {
		v, fresh = v.Elem(), reflect.Value{}
	}
	if !v.IsValid() || isEmpty(v) && fresh.IsValid() && isEmpty(fresh) {
		return nil
	}
	switch {
	case IsText(v.Type()):
		n := e.word(f, v)
		if e.Docs {
			n.Doc = f.Doc
		}
		return n
	case v.Kind() == reflect.Slice:
		n := &syntax.Node{Kind: syntax.ListNode}
		for i := range v.Len() {
			n.Items = append(n.Items, e.word(f, v.Index(i)))
		}
		return n
	case v.Kind() == reflect.Map:
		n := &syntax.Node{Kind: syntax.MappingNode}
		for _, k := range v.MapKeys() {
			n.Entries = append(n.Entries, syntax.Pair{Key: syntax.WordNode(k.String()), Val: e.word(f, v.MapIndex(k))})
		}
		return n.Sorted()
	case v.Kind() == reflect.Struct:
		if n := e.Fields(v, fresh); len(n.Entries) > 0 {
			return n
		}
	}
	return nil
}

func (e *Encoder) word(f Field, v reflect.Value) *syntax.Node {
	s, err := TextOf(v)
	if err != nil {
		e.Err = fmt.Errorf("write plan: %s: %w", f.Name, err)
	}
	return syntax.WordNode(s)
}
