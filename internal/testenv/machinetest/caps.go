package machinetest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// Full is a machine with every capability, for tests of machines that wrap another. It cannot run commands.
type Full struct{ iotax.Machine }

func (Full) String() string { return "full" }

var (
	outside = new(Full)
	link    = new(agent.Link)
)

func (Full) Caps() (c iotax.MachineCaps) {
	c.Outside, c.Agent, c.Started = outside, link, time.Unix(1, 0)
	for _, f := range reflect.ValueOf(&c).Elem().Fields() {
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Float64:
			f.SetFloat(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
			f.SetMapIndex(reflect.Zero(f.Type().Key()), reflect.Zero(f.Type().Elem()))
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("it is not called") }))
		}
		if f.IsZero() {
			panic("MachineCaps has a field of a kind that is not set here: " + f.Type().String())
		}
	}
	return c
}

// Keeps checks that `outer`, which wraps `inner`, has all capabilities of `inner`, except that the fields in `changed`
// must differ.
func Keeps(t *testing.T, outer, inner iotax.Machine, changed ...string) {
	t.Helper()
	has, had := reflect.ValueOf(outer.Caps()), reflect.ValueOf(inner.Caps())
	for f, was := range had.Fields() {
		is := has.FieldByIndex(f.Index)
		if was.Kind() == reflect.Interface {
			is, was = is.Elem(), was.Elem()
		}
		same := false
		switch was.Kind() {
		case reflect.Func, reflect.Pointer:
			same = is.Kind() == was.Kind() && is.Pointer() == was.Pointer()
		case reflect.Invalid: // nil
			continue
		default:
			same = reflect.DeepEqual(is.Interface(), was.Interface())
		}
		if want := !slices.Contains(changed, f.Name); same != want && !was.IsZero() {
			t.Errorf("%T has the %s of %T: %v, want %v", outer, f.Name, inner, same, want)
		}
	}
}
