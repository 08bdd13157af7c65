package plan

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A field is one way to write into a spec.
type field struct {
	name, doc string
	enum      []string
	index     []int
	typ       reflect.Type
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	scalarType      = reflect.TypeFor[Scalar]()
)

// fields lists the tagged fields of a struct type in order of declaration, and the index of the
// map that keeps its Options, or nil.
func fields(t reflect.Type) (list []field, inline []int) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("yaml")
		name, opts, _ := strings.Cut(tag, ",")
		switch {
		case !f.IsExported() && !f.Anonymous, name == "-":
		case f.Type.Kind() == reflect.Map && opts == "inline":
			inline = f.Index
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			inner, in := fields(f.Type)
			for _, g := range inner {
				g.index = append(slices.Clone(f.Index), g.index...)
				list = append(list, g)
			}
			if in != nil {
				inline = append(slices.Clone(f.Index), in...)
			}
		case tagged && name != "":
			g := field{name: name, doc: f.Tag.Get("doc"), index: f.Index, typ: f.Type}
			if e := f.Tag.Get("enum"); e != "" {
				g.enum = strings.Split(e, ",")
			}
			list = append(list, g)
		}
	}
	return list, inline
}

func findField(list []field, name string) (field, bool) {
	i := slices.IndexFunc(list, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return list[i], true
}

func fieldNames(list []field) []string {
	var names []string
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}

// isText reports whether values of t are one word: everything but lists, maps and structs.
func isText(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		return true
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Array:
		return false
	}
	return true
}

// elem is the struct type behind the pointer that Kind.New returns.
func elem(spec any) reflect.Type {
	t := reflect.TypeOf(spec)
	if t != nil && t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return reflect.TypeFor[struct{}]()
}

// keysOf lists every key a spec takes: its fields, then its options.
func keysOf(spec Spec) []string {
	list, _ := fields(elem(spec))
	names := fieldNames(list)
	if o := spec.Traits().Options; o != nil {
		names = append(names, o.Names()...)
	}
	return names
}

// An axis is a list that stands where one value is taken.
type axis struct {
	key  string // label
	list *node
}

// A label is one axis value of a variant.
type label struct {
	key, value string
}

func (l label) String() string { return l.key + "=" + l.value }

// A variant is a spec bound with one value of every axis.
type variant struct {
	spec   Spec
	failed bool // something in it was wrong, and said
	labels []label
	subst  map[*node]*node // the values chosen
}

// at finds the node that a dotted field path was written with, and the key before it.
func (v *variant) at(n *node, path string) *node {
	if n == nil || path == "" {
		return nil
	}
	if s := v.subst[n]; s != nil {
		n = s
	}
	head, rest, nested := strings.Cut(path, ".")
	e, ok := n.get(head)
	if !ok {
		return nil
	}
	if nested {
		if deep := v.at(e.val, rest); deep != nil {
			return deep
		}
		return e.key
	}
	val := e.val
	if s := v.subst[val]; s != nil {
		val = s
	}
	if val.kind == mappingNode || val.kind == listNode || val.kind == nullNode {
		return e.key
	}
	return val
}

// binder fills specs from nodes.
type binder struct {
	*collector
}

// axes finds the lists in val that are no list by type. key is the label of val itself.
func (b *binder) axes(spec Spec, key string, val *node) (found []axis) {
	if val.kind == listNode {
		return []axis{{key, val}}
	}
	list, _ := fields(elem(spec))
	return b.structAxes(list, spec.Traits().Options != nil, "", val)
}

func (b *binder) structAxes(list []field, optioner bool, prefix string, val *node) (found []axis) {
	for _, e := range val.entries {
		f, ok := findField(list, e.key.text)
		if !ok {
			if optioner && e.val.kind == listNode {
				found = append(found, axis{e.key.text, e.val})
			}
			continue
		}
		t := f.typ
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case e.val.kind == listNode:
			nested := slices.ContainsFunc(e.val.items, func(n *node) bool { return n.kind == listNode })
			if isText(f.typ) || t.Kind() != reflect.Slice || nested {
				found = append(found, axis{prefix + f.name, e.val})
			}
		case e.val.kind == mappingNode && t.Kind() == reflect.Struct && !isText(f.typ):
			inner, _ := fields(t)
			found = append(found, b.structAxes(inner, false, prefix+f.name+".", e.val)...)
		}
	}
	return found
}

// expand gives every combination of the axes' values, the first axis varying slowest; no axes give
// one combination of nothing. It fails with false.
func (b *binder) expand(axes []axis, limit int) ([][]*node, bool) {
	combos := [][]*node{nil}
	for _, a := range axes {
		if len(a.list.items) == 0 {
			b.fail(a.list, "write one value, or several", "the list of %s is empty", a.key)
			return nil, false
		}
		seen := map[string]bool{}
		for _, it := range a.list.items {
			id := valueText(it)
			if seen[id] {
				b.fail(it, "write it once", "the value %s is given twice in the list of %s", quote(id), a.key)
				return nil, false
			}
			seen[id] = true
		}
		if len(combos)*len(a.list.items) > limit {
			b.fail(a.list, "use fewer values", "the lists here make more than %d combinations", limit)
			return nil, false
		}
		next := make([][]*node, 0, len(combos)*len(a.list.items))
		for _, c := range combos {
			for _, it := range a.list.items {
				next = append(next, append(slices.Clip(c), it))
			}
		}
		combos = next
	}
	return combos, true
}

// valueText writes a value on one line, for a label and a name.
func valueText(n *node) string {
	switch n.kind {
	case scalarNode:
		return n.text
	case listNode:
		var parts []string
		for _, it := range n.items {
			parts = append(parts, valueText(it))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case mappingNode:
		var parts []string
		for _, e := range n.entries {
			parts = append(parts, e.key.text+":"+valueText(e.val))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return ""
}

// spread writes the list that a kind means by one word, in its place.
func (b *binder) spread(k Kind, val *node) {
	if k.Spread == nil || val.kind != mappingNode {
		return
	}
	written := map[string]string{}
	for _, e := range val.entries {
		if e.val.kind == scalarNode {
			written[e.key.text] = e.val.text
		}
	}
	key, values, err := k.Spread(written)
	at := slices.IndexFunc(val.entries, func(p pair) bool { return p.key.text == key })
	where := val
	if at >= 0 {
		where = val.entries[at].val
	}
	if err != nil {
		b.fail(where, said(err).Hint, "%s: %s", k.Name, said(err).Msg)
		return
	}
	if key == "" {
		return
	}
	items := *where
	items.kind, items.entries = listNode, nil
	for _, v := range values {
		it := where.made(v)
		it.kind, it.entries = scalarNode, nil
		items.items = append(items.items, it)
	}
	if at >= 0 {
		val.entries[at].val = &items
	} else {
		val.entries = append(val.entries, pair{where.made(key), &items})
	}
}

// bind fills fresh specs of kind from val, one for each combination of axis values. key is where
// the kind's name stands.
func (b *binder) bind(k Kind, key, val *node, limit int) []variant {
	b.spread(k, val)
	spec := k.New()
	axes := b.axes(spec, k.Name, val)
	combos, ok := b.expand(axes, limit)
	if !ok {
		return nil
	}
	var out []variant
	for _, c := range combos {
		v := variant{spec: k.New(), subst: map[*node]*node{}}
		for i, it := range c {
			v.subst[axes[i].list] = it
			v.labels = append(v.labels, label{axes[i].key, valueText(it)})
		}
		before := len(b.errs)
		b.spec(&v, k, key, val)
		v.failed = len(b.errs) > before
		out = append(out, v)
	}
	return out // also when something was wrong: what refers to these is still checked
}

func (b *binder) spec(v *variant, k Kind, key, val *node) {
	if s := v.subst[val]; s != nil {
		val = s
	}
	before := len(b.errs)
	switch val.kind {
	case scalarNode:
		s, ok := v.spec.(Scalar)
		if !ok {
			b.fail(val, fmt.Sprintf("write %s: {…} with keys of %s", k.Name, list(keysOf(v.spec))), "%s takes a mapping, not %s", k.Name, val.what())
			return
		}
		if err := s.SetScalar(val.text); err != nil {
			b.explain(v, val, val, nil, err)
			return
		}
		val = &node{src: val.src, line: val.line, col: val.col, width: val.width}
		key = val
	case listNode:
		b.fail(val, "", "%s takes a mapping, not a list of lists", k.Name)
		return
	case mappingNode:
		b.mapping(v, reflect.ValueOf(v.spec).Elem(), v.spec, k.Name, val)
	}
	if len(b.errs) == before {
		b.validate(v, key, val)
	}
}

func (b *binder) validate(v *variant, key, val *node) {
	if err := v.spec.Validate(); err != nil {
		b.explain(v, key, nil, val, err)
	}
}

// explain turns an error of a spec into errors at the field that it names: at itself when that
// cannot be found, or at value when there is one.
func (b *binder) explain(v *variant, itself, value, mapping *node, err error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			b.explain(v, itself, value, mapping, e)
		}
		return
	}
	n, e := itself, said(err)
	if e.Field != "" {
		e.Msg = e.Field + ": " + e.Msg
		if at := v.at(mapping, e.Field); at != nil {
			n = at.from(e.Column)
		}
	}
	if value != nil {
		n = value
	}
	b.fail(n, e.Hint, "%s", e.Msg)
}

// said is what an error of a spec says.
func said(err error) FieldError {
	var fe *FieldError
	var ve *ValueError
	switch {
	case errors.As(err, &fe):
		return *fe
	case errors.As(err, &ve):
		return FieldError{Msg: ve.Msg, Hint: ve.Hint}
	}
	return FieldError{Msg: err.Error()}
}

// mapping binds the entries of val to the struct dst; spec is not nil at the top, where options may
// stand too.
func (b *binder) mapping(v *variant, dst reflect.Value, spec Spec, what string, val *node) {
	if dst.Kind() != reflect.Struct {
		return
	}
	known, _ := fields(dst.Type())
	names := fieldNames(known)
	o := traits(spec).Options
	if o != nil {
		names = append(names, o.Names()...)
	}
	for _, e := range val.entries {
		item := e.val
		if s := v.subst[item]; s != nil {
			item = s
		}
		f, ok := findField(known, e.key.text)
		switch {
		case ok:
			b.value(v, dst.FieldByIndex(f.index), f, e.key, item)
		case o != nil:
			b.option(v, o, what, names, e.key, item)
		default:
			b.fail(e.key, didYouMean(e.key.text, names), "unknown key %s of %s", quote(e.key.text), what)
		}
	}
}

func (b *binder) option(v *variant, o *Options, what string, names []string, key, val *node) {
	// No value is an option that is switched on by its name alone.
	if val.kind != scalarNode && val.kind != nullNode {
		b.fail(val, "write one word", "%s takes a word or a number, not %s", quote(key.text), val.what())
		return
	}
	err := o.Set(key.text, val.text)
	if err == nil {
		return
	}
	e := said(err)
	if slices.Contains(names, key.text) {
		if errors.As(err, new(*FieldError)) {
			e.Msg = key.text + ": " + e.Msg
		}
		b.fail(val, e.Hint, "%s", e.Msg)
		return
	}
	if !errors.As(err, new(*FieldError)) {
		e.Hint = ""
	}
	if n := Nearest(key.text, names); n != "" || e.Hint == "" {
		e.Hint = didYouMean(key.text, names)
	}
	b.fail(key, e.Hint, "unknown key %s of %s", quote(key.text), what)
}

// listed are the values of a list, or the one that stands in its place.
func (n *node) listed() []*node {
	if n.kind == listNode {
		return n.items
	}
	return []*node{n}
}

func orKey(val, key *node) *node {
	if val.kind == nullNode {
		return key
	}
	return val
}

// value sets one field.
func (b *binder) value(v *variant, dst reflect.Value, f field, key, val *node) {
	if val.kind == nullNode {
		b.fail(key, "give it one, or leave the key out", "%s has no value", f.name)
		return
	}
	t := dst.Type()
	if t.Kind() == reflect.Pointer {
		p := reflect.New(t.Elem())
		f.typ = t.Elem()
		b.value(v, p.Elem(), f, key, val)
		dst.Set(p)
		return
	}
	switch {
	case isText(t):
		if val.kind != scalarNode {
			b.fail(val, "write "+example(t, f), "%s takes %s, not %s", f.name, typeName(t), val.what())
			return
		}
		b.text(dst, f, val)
	case t.Kind() == reflect.Slice:
		out := reflect.MakeSlice(t, 0, len(val.items))
		for _, it := range val.listed() {
			x := reflect.New(t.Elem()).Elem()
			if it.kind != scalarNode {
				b.fail(it, "", "each of %s is %s, not %s", f.name, typeName(t.Elem()), it.what())
				continue
			}
			b.text(x, f, it)
			out = reflect.Append(out, x)
		}
		dst.Set(out)
	case t.Kind() == reflect.Map:
		b.strings(dst, f, val)
	case t.Kind() == reflect.Struct:
		if val.kind == scalarNode && dst.CanAddr() && reflect.PointerTo(t).Implements(scalarType) {
			if err := dst.Addr().Interface().(Scalar).SetScalar(val.text); err != nil {
				b.explain(v, val, val, nil, err)
			}
			return
		}
		if val.kind != mappingNode {
			known, _ := fields(t)
			b.fail(val, fmt.Sprintf("write %s: {…} with %s", f.name, list(fieldNames(known))), "%s takes a mapping, not %s", f.name, val.what())
			return
		}
		b.mapping(v, dst, nil, f.name, val)
	}
}

// strings fills a map[string]string.
func (b *binder) strings(dst reflect.Value, f field, val *node) {
	if val.kind != mappingNode {
		b.fail(val, fmt.Sprintf("write %s: {NAME: value}", f.name), "%s takes a mapping, not %s", f.name, val.what())
		return
	}
	t := dst.Type()
	out := reflect.MakeMap(t)
	for _, e := range val.entries {
		if e.val.kind != scalarNode {
			b.fail(orKey(e.val, e.key), "write one word", "%s of %s takes a word, not %s", quote(e.key.text), f.name, e.val.what())
			continue
		}
		x := reflect.New(t.Elem()).Elem()
		b.text(x, f, e.val)
		out.SetMapIndex(reflect.ValueOf(e.key.text).Convert(t.Key()), x)
	}
	dst.Set(out)
}

// text reads one word into dst.
func (b *binder) text(dst reflect.Value, f field, val *node) {
	s := val.text
	if dst.CanAddr() {
		if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(s)); err != nil {
				b.fail(val, said(err).Hint, "%s: %s", f.name, said(err).Msg)
			}
			return
		}
	}
	t := dst.Type()
	bad := func(err error) {
		if errors.Is(err, strconv.ErrRange) && t.Kind() < reflect.Float32 {
			b.fail(val, "", "%s: %s is too large", f.name, quote(s))
			return
		}
		b.fail(val, "write "+example(t, f), "%s takes %s, not %s", f.name, typeName(t), quote(s))
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		if len(f.enum) > 0 && !slices.Contains(f.enum, s) {
			b.fail(val, didYouMean(s, named(f.enum)), "unknown value %s of %s", quote(s), f.name)
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
		if err != nil || x-x != 0 { // "inf" and "nan" parse, and no field means them
			bad(err)
			return
		}
		dst.SetFloat(x)
	default:
		b.fail(val, "", "%s cannot be written in a plan (it is a Go %s)", f.name, t)
	}
}

// named leaves out the empty word, which an enum may hold for "not said".
func named(enum []string) []string {
	return slices.DeleteFunc(slices.Clone(enum), func(s string) bool { return s == "" })
}

// typed names the values of a type, with one of them.
func typed(t reflect.Type) (name, example string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Size]():
		return "a size", "1GiB"
	case reflect.TypeFor[Duration]():
		return "a duration", "10s"
	case reflect.TypeFor[Percent]():
		return "a percentage", "5%"
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "true or false", "true"
	case k >= reflect.Int && k <= reflect.Int64:
		return "a whole number", "1"
	case k >= reflect.Uint && k <= reflect.Uintptr:
		return "a whole number from 0", "1"
	case k == reflect.Float32, k == reflect.Float64:
		return "a number", "1"
	}
	return "a word", "…"
}

func typeName(t reflect.Type) string {
	name, _ := typed(t)
	return name
}

func example(t reflect.Type, f field) string {
	_, word := typed(t)
	if words := named(f.enum); len(words) > 0 {
		word = words[0]
	}
	return f.name + ": " + word
}

// list joins words for a sentence, not all of three hundred.
func list(words []string) string {
	const most = 12
	if len(words) == 0 {
		return "nothing"
	}
	if len(words) > most {
		return strings.Join(words[:most], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}

// optionsOf lists the Options that are set, in order.
func optionsOf(spec Spec) []Option {
	if o := traits(spec).Options; o != nil && o.List != nil {
		return o.List()
	}
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	_, inline := fields(v.Elem().Type())
	if inline == nil {
		return nil
	}
	m, ok := v.Elem().FieldByIndex(inline).Interface().(map[string]string)
	if !ok {
		return nil
	}
	var out []Option
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Option{k, m[k]})
	}
	return out
}

// textOf writes a value that isText.
func textOf(v reflect.Value) (string, error) {
	if v.Type().Implements(textMarshaler) {
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return string(b), err
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()), nil
	}
	return fmt.Sprint(v.Interface()), nil
}
