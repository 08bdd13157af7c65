package bind

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"iotax/internal/plan/syntax"
)

// A Field is a field of a spec that a plan can set.
type Field struct {
	Name, Doc string
	Enum      []string
	Index     []int
	Typ       reflect.Type
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	ScalarType      = reflect.TypeFor[Scalar]()
)

// Fields returns the tagged fields of a struct type in order of declaration. `inline` is the index of the map field
// that contains the options, or nil.
func Fields(t reflect.Type) (list []Field, inline []int) {
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
			inner, in := Fields(f.Type)
			for _, g := range inner {
				g.Index = append(slices.Clone(f.Index), g.Index...)
				list = append(list, g)
			}
			if in != nil {
				inline = append(slices.Clone(f.Index), in...)
			}
		case tagged && name != "":
			g := Field{Name: name, Doc: f.Tag.Get("doc"), Index: f.Index, Typ: f.Type}
			if e := f.Tag.Get("enum"); e != "" {
				g.Enum = strings.Split(e, ",")
			}
			list = append(list, g)
		}
	}
	return list, inline
}

func FindField(list []Field, name string) (Field, bool) {
	i := slices.IndexFunc(list, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return list[i], true
}

func fieldNames(list []Field) []string {
	var names []string
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names
}

// IsText reports whether values of t are single words. This applies to all types except lists, maps, and structs that
// do not implement encoding.TextUnmarshaler.
func IsText(t reflect.Type) bool {
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

// Elem returns the struct type to which a spec points.
func Elem(spec any) reflect.Type {
	t := reflect.TypeOf(spec)
	if t != nil && t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return reflect.TypeFor[struct{}]()
}

// KeysOf returns every key of a spec: first its fields, then its options.
func KeysOf(spec Spec) []string {
	list, _ := Fields(Elem(spec))
	names := fieldNames(list)
	if o := spec.Traits().Options; o != nil {
		names = append(names, o.Names()...)
	}
	return names
}

// Named returns `enum` without the empty word, which means unset.
func Named(enum []string) []string {
	return slices.DeleteFunc(slices.Clone(enum), func(s string) bool { return s == "" })
}

// typed returns a noun for the values of a type, and an example.
func typed(t reflect.Type) (name, example string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[syntax.Size]():
		return "a size", "1GiB"
	case reflect.TypeFor[syntax.Duration]():
		return "a duration", "10s"
	case reflect.TypeFor[syntax.Percent]():
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

func example(t reflect.Type, f Field) string {
	_, word := typed(t)
	if words := Named(f.Enum); len(words) > 0 {
		word = words[0]
	}
	return f.Name + ": " + word
}

// OptionsOf returns the options of a spec in display order. See Options.List.
func OptionsOf(spec Spec) []Option {
	if o := TraitsOf(spec).Options; o != nil && o.List != nil {
		return o.List()
	}
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	_, inline := Fields(v.Elem().Type())
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

// TextOf formats a value for which IsText is true.
func TextOf(v reflect.Value) (string, error) {
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
