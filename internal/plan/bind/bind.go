package bind

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"iotax/internal/plan/syntax"
)

// An Axis is a list in a plan where one value is expected.
type Axis struct {
	Key  string // label of the axis in the variants
	List *syntax.Node
}

// A Label is an axis value of a variant.
type Label struct {
	Key, Value string
}

func (l Label) String() string { return l.Key + "=" + l.Value }

// A Variant is a spec bound with one value of every axis.
type Variant struct {
	Spec   Spec
	Failed bool // binding reported an error
	Labels []Label
	Subst  map[*syntax.Node]*syntax.Node // each axis list → its chosen value
}

// At returns the node of the value at a dotted field path in n, or of the key if the value is not a scalar. If the path
// does not exist, it returns the node of the innermost key that exists, or nil if n lacks the first key.
func (v *Variant) At(n *syntax.Node, path string) *syntax.Node {
	if n == nil || path == "" {
		return nil
	}
	if s := v.Subst[n]; s != nil {
		n = s
	}
	head, rest, nested := strings.Cut(path, ".")
	e, ok := n.Get(head)
	if !ok {
		return nil
	}
	if nested {
		if deep := v.At(e.Val, rest); deep != nil {
			return deep
		}
		return e.Key
	}
	val := e.Val
	if s := v.Subst[val]; s != nil {
		val = s
	}
	if val.Kind == syntax.MappingNode || val.Kind == syntax.ListNode || val.Kind == syntax.NullNode {
		return e.Key
	}
	return val
}

// Binder fills specs from nodes.
type Binder struct {
	*syntax.Collector
}

// axes returns the lists in `val` that are given to options or to fields that do not take a list, and the lists of
// lists that are given to fields that take a list. `key` is the label if `val` itself is a list.
func (b *Binder) axes(spec Spec, key string, val *syntax.Node) (found []Axis) {
	if val.Kind == syntax.ListNode {
		return []Axis{{key, val}}
	}
	list, _ := Fields(Elem(spec))
	return b.structAxes(list, spec.Traits().Options != nil, "", val)
}

func (b *Binder) structAxes(list []Field, optioner bool, prefix string, val *syntax.Node) (found []Axis) {
	for _, e := range val.Entries {
		f, ok := FindField(list, e.Key.Text)
		if !ok {
			if optioner && e.Val.Kind == syntax.ListNode {
				found = append(found, Axis{e.Key.Text, e.Val})
			}
			continue
		}
		t := f.Typ
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case e.Val.Kind == syntax.ListNode:
			nested := slices.ContainsFunc(e.Val.Items, func(n *syntax.Node) bool { return n.Kind == syntax.ListNode })
			if IsText(f.Typ) || t.Kind() != reflect.Slice || nested {
				found = append(found, Axis{prefix + f.Name, e.Val})
			}
		case e.Val.Kind == syntax.MappingNode && t.Kind() == reflect.Struct && !IsText(f.Typ):
			inner, _ := Fields(t)
			found = append(found, b.structAxes(inner, false, prefix+f.Name+".", e.Val)...)
		}
	}
	return found
}

// Expand returns every combination of the axis values. The first axis varies slowest. Without axes it returns one empty
// combination. If an axis is empty or repeats a value, or if there are more than `limit` combinations, Expand reports
// an error and returns false.
func (b *Binder) Expand(axes []Axis, limit int) ([][]*syntax.Node, bool) {
	combos := [][]*syntax.Node{nil}
	for _, a := range axes {
		if len(a.List.Items) == 0 {
			b.Fail(a.List, "write one value, or several", "the list of %s is empty", a.Key)
			return nil, false
		}
		seen := map[string]bool{}
		for _, it := range a.List.Items {
			id := ValueText(it)
			if seen[id] {
				b.Fail(it, "write it once", "the value %s is given twice in the list of %s", syntax.Quote(id), a.Key)
				return nil, false
			}
			seen[id] = true
		}
		if len(combos)*len(a.List.Items) > limit {
			b.Fail(a.List, "use fewer values", "the lists here make more than %d combinations", limit)
			return nil, false
		}
		next := make([][]*syntax.Node, 0, len(combos)*len(a.List.Items))
		for _, c := range combos {
			for _, it := range a.List.Items {
				next = append(next, append(slices.Clip(c), it))
			}
		}
		combos = next
	}
	return combos, true
}

// ValueText formats a value on one line, for labels and names.
func ValueText(n *syntax.Node) string {
	switch n.Kind {
	case syntax.ScalarNode:
		return n.Text
	case syntax.ListNode:
		var parts []string
		for _, it := range n.Items {
			parts = append(parts, ValueText(it))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case syntax.MappingNode:
		var parts []string
		for _, e := range n.Entries {
			parts = append(parts, e.Key.Text+":"+ValueText(e.Val))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return ""
}

// spread calls k.Spread and sets the returned key in val to the returned list.
func (b *Binder) spread(k Kind, val *syntax.Node) {
	if k.Spread == nil || val.Kind != syntax.MappingNode {
		return
	}
	written := map[string]string{}
	for _, e := range val.Entries {
		if e.Val.Kind == syntax.ScalarNode {
			written[e.Key.Text] = e.Val.Text
		}
	}
	key, values, err := k.Spread(written)
	at := slices.IndexFunc(val.Entries, func(p syntax.Pair) bool { return p.Key.Text == key })
	where := val
	if at >= 0 {
		where = val.Entries[at].Val
	}
	if err != nil {
		b.Fail(where, AsFieldError(err).Hint, "%s: %s", k.Name, AsFieldError(err).Msg)
		return
	}
	if key == "" {
		return
	}
	items := *where
	items.Kind, items.Entries = syntax.ListNode, nil
	for _, v := range values {
		it := where.Made(v)
		it.Kind, it.Entries = syntax.ScalarNode, nil
		items.Items = append(items.Items, it)
	}
	if at >= 0 {
		val.Entries[at].Val = &items
	} else {
		val.Entries = append(val.Entries, syntax.Pair{Key: where.Made(key), Val: &items})
	}
}

// Bind fills a new spec of a kind from `val` for each combination of axis values. `key` is the node with the name of
// the kind. Bind returns nil if the axes are invalid.
func (b *Binder) Bind(k Kind, key, val *syntax.Node, limit int) []Variant {
	b.spread(k, val)
	spec := k.New()
	axes := b.axes(spec, k.Name, val)
	combos, ok := b.Expand(axes, limit)
	if !ok {
		return nil
	}
	var out []Variant
	for _, c := range combos {
		v := Variant{Spec: k.New(), Subst: map[*syntax.Node]*syntax.Node{}}
		for i, it := range c {
			v.Subst[axes[i].List] = it
			v.Labels = append(v.Labels, Label{axes[i].Key, ValueText(it)})
		}
		before := len(b.Errs)
		b.Spec(&v, k, key, val)
		v.Failed = len(b.Errs) > before
		out = append(out, v)
	}
	return out // even after an error, so that references to these variants are checked
}

func (b *Binder) Spec(v *Variant, k Kind, key, val *syntax.Node) {
	if s := v.Subst[val]; s != nil {
		val = s
	}
	before := len(b.Errs)
	switch val.Kind {
	case syntax.ScalarNode:
		s, ok := v.Spec.(Scalar)
		if !ok {
			b.Fail(val, fmt.Sprintf("write %s: {…} with keys of %s", k.Name, syntax.List(KeysOf(v.Spec))), "%s takes a mapping, not %s", k.Name, val.What())
			return
		}
		if err := s.SetScalar(val.Text); err != nil {
			b.Explain(v, val, val, nil, err)
			return
		}
		val = &syntax.Node{Src: val.Src, Line: val.Line, Col: val.Col, Width: val.Width}
		key = val
	case syntax.ListNode:
		b.Fail(val, "", "%s takes a mapping, not a list of lists", k.Name)
		return
	case syntax.MappingNode:
		b.Mapping(v, reflect.ValueOf(v.Spec).Elem(), v.Spec, k.Name, val)
	}
	if len(b.Errs) == before {
		b.validate(v, key, val)
	}
}

func (b *Binder) validate(v *Variant, key, val *syntax.Node) {
	if err := cmp.Or(checkWords(v.Spec), v.Spec.Validate()); err != nil {
		b.Explain(v, key, nil, val, err)
	}
}

// checkWords rejects words that are not in the enum of their field, because SetScalar accepts any word.
func checkWords(spec Spec) error {
	v := reflect.ValueOf(spec).Elem()
	list, _ := Fields(v.Type())
	for _, f := range list {
		if f.Enum == nil || f.Typ.Kind() != reflect.String {
			continue
		}
		if word := v.FieldByIndex(f.Index).String(); word != "" && !slices.Contains(f.Enum, word) {
			return &FieldError{Field: f.Name, Msg: fmt.Sprintf("%q is not known", word), Hint: "use one of " + strings.Join(Named(f.Enum), ", ")}
		}
	}
	return nil
}

// Explain reports an error of a spec. The error points to `value`, or if that is nil, to the field of `mapping` that
// err names, or else to `itself`.
func (b *Binder) Explain(v *Variant, itself, value, mapping *syntax.Node, err error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			b.Explain(v, itself, value, mapping, e)
		}
		return
	}
	n, e := itself, AsFieldError(err)
	if e.Field != "" {
		e.Msg = e.Field + ": " + e.Msg
		if at := v.At(mapping, e.Field); at != nil {
			n = at.From(e.Column)
		}
	}
	if value != nil {
		n = value
	}
	b.Fail(n, e.Hint, "%s", e.Msg)
}

// AsFieldError returns the message and hint of an error of a spec.
func AsFieldError(err error) FieldError {
	var fe *FieldError
	var ve *syntax.ValueError
	switch {
	case errors.As(err, &fe):
		return *fe
	case errors.As(err, &ve):
		return FieldError{Msg: ve.Msg, Hint: ve.Hint}
	}
	return FieldError{Msg: err.Error()}
}

// Mapping binds the entries of `val` to the struct dst. `spec` is set only at the top level, where options are allowed.
func (b *Binder) Mapping(v *Variant, dst reflect.Value, spec Spec, what string, val *syntax.Node) {
	if dst.Kind() != reflect.Struct {
		return
	}
	known, _ := Fields(dst.Type())
	names := fieldNames(known)
	o := TraitsOf(spec).Options
	if o != nil {
		names = append(names, o.Names()...)
	}
	for _, e := range val.Entries {
		item := e.Val
		if s := v.Subst[item]; s != nil {
			item = s
		}
		f, ok := FindField(known, e.Key.Text)
		switch {
		case ok:
			b.Value(v, dst.FieldByIndex(f.Index), f, e.Key, item)
		case o != nil:
			b.option(v, o, what, names, e.Key, item)
		default:
			b.Fail(e.Key, syntax.DidYouMean(e.Key.Text, names), "unknown key %s of %s", syntax.Quote(e.Key.Text), what)
		}
	}
}

func (b *Binder) option(v *Variant, o *Options, what string, names []string, key, val *syntax.Node) {
	// Accept an option without a value, such as time_based. o.Set returns an error for an option that requires a value.
	if val.Kind != syntax.ScalarNode && val.Kind != syntax.NullNode {
		b.Fail(val, "write one word", "%s takes a word or a number, not %s", syntax.Quote(key.Text), val.What())
		return
	}
	err := o.Set(key.Text, val.Text)
	if err == nil {
		return
	}
	e := AsFieldError(err)
	if slices.Contains(names, key.Text) {
		if errors.As(err, new(*FieldError)) {
			e.Msg = key.Text + ": " + e.Msg
		}
		b.Fail(val, e.Hint, "%s", e.Msg)
		return
	}
	if !errors.As(err, new(*FieldError)) {
		e.Hint = ""
	}
	if n := syntax.Nearest(key.Text, names); n != "" || e.Hint == "" {
		e.Hint = syntax.DidYouMean(key.Text, names)
	}
	b.Fail(key, e.Hint, "unknown key %s of %s", syntax.Quote(key.Text), what)
}

// Value sets dst, which is the field f of a spec, to the value in val.
func (b *Binder) Value(v *Variant, dst reflect.Value, f Field, key, val *syntax.Node) {
	if val.Kind == syntax.NullNode {
		b.Fail(key, "give it one, or leave the key out", "%s has no value", f.Name)
		return
	}
	t := dst.Type()
	if t.Kind() == reflect.Pointer {
		p := reflect.New(t.Elem())
		f.Typ = t.Elem()
		b.Value(v, p.Elem(), f, key, val)
		dst.Set(p)
		return
	}
	switch {
	case IsText(t):
		if val.Kind != syntax.ScalarNode {
			b.Fail(val, "write "+example(t, f), "%s takes %s, not %s", f.Name, typeName(t), val.What())
			return
		}
		b.text(dst, f, val)
	case t.Kind() == reflect.Slice:
		out := reflect.MakeSlice(t, 0, len(val.Items))
		for _, it := range val.Listed() {
			x := reflect.New(t.Elem()).Elem()
			if it.Kind != syntax.ScalarNode {
				b.Fail(it, "", "each of %s is %s, not %s", f.Name, typeName(t.Elem()), it.What())
				continue
			}
			b.text(x, f, it)
			out = reflect.Append(out, x)
		}
		dst.Set(out)
	case t.Kind() == reflect.Map:
		b.Strings(dst, f, val)
	case t.Kind() == reflect.Struct:
		if val.Kind == syntax.ScalarNode && dst.CanAddr() && reflect.PointerTo(t).Implements(ScalarType) {
			if err := dst.Addr().Interface().(Scalar).SetScalar(val.Text); err != nil {
				b.Explain(v, val, val, nil, err)
			}
			return
		}
		if val.Kind != syntax.MappingNode {
			known, _ := Fields(t)
			b.Fail(val, fmt.Sprintf("write %s: {…} with %s", f.Name, syntax.List(fieldNames(known))), "%s takes a mapping, not %s", f.Name, val.What())
			return
		}
		b.Mapping(v, dst, nil, f.Name, val)
	}
}

// Strings fills dst, a map[string]string, from the mapping in val.
func (b *Binder) Strings(dst reflect.Value, f Field, val *syntax.Node) {
	if val.Kind != syntax.MappingNode {
		b.Fail(val, fmt.Sprintf("write %s: {NAME: value}", f.Name), "%s takes a mapping, not %s", f.Name, val.What())
		return
	}
	t := dst.Type()
	out := reflect.MakeMap(t)
	for _, e := range val.Entries {
		if e.Val.Kind != syntax.ScalarNode {
			b.Fail(syntax.OrKey(e.Val, e.Key), "write one word", "%s of %s takes a word, not %s", syntax.Quote(e.Key.Text), f.Name, e.Val.What())
			continue
		}
		x := reflect.New(t.Elem()).Elem()
		b.text(x, f, e.Val)
		out.SetMapIndex(reflect.ValueOf(e.Key.Text).Convert(t.Key()), x)
	}
	dst.Set(out)
}

// text parses one word into dst.
func (b *Binder) text(dst reflect.Value, f Field, val *syntax.Node) {
	s := val.Text
	if dst.CanAddr() {
		if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(s)); err != nil {
				b.Fail(val, AsFieldError(err).Hint, "%s: %s", f.Name, AsFieldError(err).Msg)
			}
			return
		}
	}
	t := dst.Type()
	bad := func(err error) {
		if errors.Is(err, strconv.ErrRange) && t.Kind() < reflect.Float32 {
			b.Fail(val, "", "%s: %s is too large", f.Name, syntax.Quote(s))
			return
		}
		b.Fail(val, "write "+example(t, f), "%s takes %s, not %s", f.Name, typeName(t), syntax.Quote(s))
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		if len(f.Enum) > 0 && !slices.Contains(f.Enum, s) {
			b.Fail(val, syntax.DidYouMean(s, Named(f.Enum)), "unknown value %s of %s", syntax.Quote(s), f.Name)
			return
		}
		dst.SetString(s)
	case k == reflect.Bool:
		switch s {
		case "true", "false", "True", "False", "TRUE", "FALSE":
			dst.SetBool(strings.EqualFold(s, "true"))
		default:
			bad(nil)
		}
	case dst.CanInt():
		i, err := strconv.ParseInt(s, 10, t.Bits())
		if err != nil {
			bad(err)
		}
		dst.SetInt(i)
	case dst.CanUint():
		i, err := strconv.ParseUint(s, 10, t.Bits())
		if err != nil {
			bad(err)
		}
		dst.SetUint(i)
	case dst.CanFloat():
		x, err := strconv.ParseFloat(s, t.Bits())
		if err != nil || x-x != 0 { // "inf" and "nan" parse, but no field accepts them
			bad(err)
			return
		}
		dst.SetFloat(x)
	default:
		b.Fail(val, "", "%s cannot be written in a plan (it is a Go %s)", f.Name, t)
	}
}
