// Package schema describes plan files as JSON Schema.
package schema

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"

	"iotax/internal/plan"
	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// Of returns the JSON Schema (draft 2020-12) of plan files, which editors use for completion and checks. Of builds the
// schema from the Go types of the kinds. The schema does not cover references between entries or the rules in a spec's
// Validate.
//
// Of does not use the jsonschema package's reflector, because the Go types do not show that kinds are keys, that fields
// accept lists as axes, and that scalars have shorthands.
func Of(k plan.Kinds) ([]byte, error) {
	s := schemer{defs: jsonschema.Definitions{}}
	root := object("what is compared, under which workloads, and how it is measured")
	root.Version = jsonschema.Version
	root.Title = "iotax plan"
	root.Properties.Set("name", &jsonschema.Schema{Type: "string", Description: "name of the plan; the file's name without its ending when left out"})
	root.Properties.Set("baseline", &jsonschema.Schema{Type: "string", Description: "name of the target that the others are compared with; the first when left out"})
	root.Properties.Set("expect", axisOf(&jsonschema.Schema{Type: "string", Description: "limits that the run decides, each of every workload that has the metric, as in read.latency.p99 < 10ms"}))
	root.Properties.Set("layers", layersSchema())
	root.Properties.Set("layout", wordOf("layout of the report's tables, as in a published study", k.Layouts))
	root.Properties.Set("reference", referenceSchema(k.Published))
	root.Properties.Set("machines", s.section("machine", "where commands run; the machine \"host\" is this one and need not be declared", k.Machines))
	root.Properties.Set("targets", s.section("target", "a volume on a machine", k.Volumes))
	root.Properties.Set("workloads", s.section("workload", "what is done on every target", k.Workloads))
	measure := s.structure(reflect.TypeFor[plan.Measure](), reflect.ValueOf(plan.Defaults()), false)
	measure.Description = "how trials are measured, and how many"
	root.Properties.Set("measure", nullable(measure))
	root.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "ignored; a place for YAML anchors"}}
	root.Required = []string{"targets", "workloads"}
	root.Definitions = s.defs
	return json.MarshalIndent(root, "", "  ")
}

type schemer struct {
	defs jsonschema.Definitions
}

func object(doc string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: doc, Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
}

// types sets several types of s. The library's field can store only one.
func types(s *jsonschema.Schema, t ...string) *jsonschema.Schema {
	s.Type = ""
	if s.Extras == nil {
		s.Extras = map[string]any{}
	}
	s.Extras["type"] = t
	return s
}

// nullable allows a key without a value.
func nullable(s *jsonschema.Schema) *jsonschema.Schema { return types(s, "object", "null") }

func one() *uint64 { n := uint64(1); return &n }

func (s *schemer) section(what, doc string, kinds []bind.Kind) *jsonschema.Schema {
	e := object("")
	shown := "shown in the report, and " // the report shows the labels of machines and targets, not those of workloads
	switch what {
	case "machine":
		e.Properties.Set("on", &jsonschema.Schema{Type: "string", Description: "name of the machine that a container is on; this host when left out"})
	case "target":
		e.Properties.Set("on", axisOf(&jsonschema.Schema{Type: "string", Description: "name of a machine; this host when left out"}))
		e.Properties.Set("against", axisOf(&jsonschema.Schema{Type: "string", Description: "names of the targets to compare this one with instead of the baseline; the first decides the verdict"}))
	case "workload":
		shown = ""
		e.Properties.Set("at", axisOf(&jsonschema.Schema{Type: "string", Description: "names of the targets to run it on; all when left out"}))
		e.Properties.Set("expect", axisOf(&jsonschema.Schema{Type: "string", Description: "limits of its metrics that the run decides, as in read.iops >= 80% of baseline"}))
		e.Properties.Set("metric", axisOf(&jsonschema.Schema{Type: "string", Description: "value that compares the targets, as in read.latency.p99, instead of the kind's own; its interval decides when to stop"}))
		e.Properties.Set("metrics", axisOf(&jsonschema.Schema{Type: "string", Description: "several such values: the run continues until all of them are precise"}))
		e.Properties.Set("section", &jsonschema.Schema{Type: "string", Description: "heading above its results in the report", MinLength: one()})
	}
	e.Properties.Set("labels", nullable(&jsonschema.Schema{Description: "labels of your own, " + shown + "put into commands for {NAME}; a list makes a variant for each value", AdditionalProperties: axisOf(word(""))}))
	for _, k := range kinds {
		name := what + "." + k.Name
		s.defs[name] = s.kind(k)
		e.Properties.Set(k.Name, &jsonschema.Schema{Ref: "#/$defs/" + name, Description: k.Doc})
		// Each entry has exactly one kind.
		e.OneOf = append(e.OneOf, &jsonschema.Schema{Required: []string{k.Name}})
	}
	s.defs[what] = e
	size := uint64(plan.MaxName)
	sec := &jsonschema.Schema{Description: "name → " + what + ": " + doc, AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/" + what},
		PropertyNames: &jsonschema.Schema{MinLength: one(), MaxLength: &size}}
	if what == "machine" {
		return nullable(sec)
	}
	sec.Type, sec.MinProperties = "object", one()
	return sec
}

func (s *schemer) kind(k bind.Kind) *jsonschema.Schema {
	spec := k.New()
	body := s.structure(bind.Elem(spec), reflect.Indirect(reflect.ValueOf(spec)), true)
	body.Description = k.Doc
	if o := spec.Traits().Options; o != nil {
		opt := axisOf(types(word(""), "string", "number", "boolean", "null"))
		s.defs["option"] = opt
		body.AdditionalProperties = &jsonschema.Schema{Ref: "#/$defs/option"}
		for _, name := range slices.Sorted(slices.Values(o.Names())) {
			if _, there := body.Properties.Get(name); !there {
				body.Properties.Set(name, body.AdditionalProperties)
			}
		}
	}
	if _, ok := spec.(bind.Scalar); !ok {
		return nullable(body)
	}
	short := axisOf(word(k.Doc))
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{short, nullable(body)}}
}

// structure describes a struct type. It reads the defaults from v.
func (s *schemer) structure(t reflect.Type, v reflect.Value, axes bool) *jsonschema.Schema {
	o := object("")
	known, _ := bind.Fields(t)
	for _, f := range known {
		fv := reflect.Value{}
		if v.IsValid() {
			fv = v.FieldByIndex(f.Index)
		}
		o.Properties.Set(f.Name, s.field(f, fv, axes))
	}
	return o
}

func (s *schemer) field(f bind.Field, v reflect.Value, axes bool) *jsonschema.Schema {
	t := f.Typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		v = reflect.Value{}
	}
	var out *jsonschema.Schema
	switch {
	case bind.IsText(t):
		out = text(t, f)
		if v.IsValid() && !v.IsZero() {
			if d, err := bind.TextOf(v); err == nil {
				out.Default = d
			}
			switch v.Kind() {
			case reflect.Bool:
				out.Default = v.Bool()
			case reflect.Int, reflect.Int64:
				if t.PkgPath() == "" {
					out.Default = v.Int()
				}
			}
		}
		if axes {
			out = axisOf(out)
		}
	case t.Kind() == reflect.Slice:
		item := text(t.Elem(), bind.Field{Enum: f.Enum})
		out = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{item, {Type: "array", Items: item}}}
		if axes {
			out.AnyOf = append(out.AnyOf, &jsonschema.Schema{Type: "array", MinItems: one(),
				Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{item, {Type: "array", Items: item}}}})
		}
	case t.Kind() == reflect.Map:
		out = &jsonschema.Schema{Type: "object", AdditionalProperties: word("")}
		if axes {
			out = axisOf(out)
		}
	case t.Kind() == reflect.Struct:
		out = s.structure(t, v, axes)
		if reflect.PointerTo(t).Implements(bind.ScalarType) {
			out = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{word(""), out}}
		}
	default:
		out = &jsonschema.Schema{}
	}
	out.Description = f.Doc
	return out
}

// axisOf allows a list of values in place of a single value.
func axisOf(v *jsonschema.Schema) *jsonschema.Schema {
	out := &jsonschema.Schema{Description: v.Description, Default: v.Default}
	v.Description, v.Default = "", nil
	out.AnyOf = []*jsonschema.Schema{v, {Type: "array", Items: v, MinItems: one(), UniqueItems: true}}
	return out
}

// word describes any scalar. YAML reads 4096 as a number and off as a boolean, but a spec receives the text.
func word(doc string) *jsonschema.Schema {
	return types(&jsonschema.Schema{Description: doc}, "string", "number", "boolean")
}

func text(t reflect.Type, f bind.Field) *jsonschema.Schema {
	out := &jsonschema.Schema{Description: f.Doc}
	switch t {
	case reflect.TypeFor[syntax.Size]():
		out.Pattern = `^[0-9]+(\.[0-9]+)? ?(B|[KMGT]iB|[kMGT]B|[kmgtKMGT])?$`
		out.Examples = []any{"4KiB", "1GiB"}
		out.Minimum = "0"
		return types(out, "string", "integer")
	case reflect.TypeFor[syntax.Duration]():
		out.Pattern = `^(0|[0-9.]+ ?(ns|us|µs|μs|ms|s|m|h)([0-9.]+(ns|us|µs|μs|ms|s|m|h))*)$`
		out.Examples = []any{"10s", "1m30s"}
		out.Minimum, out.Maximum = "0", "0"
		return types(out, "string", "integer")
	case reflect.TypeFor[syntax.Percent]():
		out.Type = "string"
		out.Pattern = `^[0-9]+(\.[0-9]+)? ?%$`
		out.Examples = []any{"5%"}
		return out
	}
	if len(f.Enum) > 0 {
		for _, e := range f.Enum {
			out.Enum = append(out.Enum, e)
		}
		return out
	}
	switch t.Kind() {
	case reflect.Bool:
		out.Type = "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.Type = "integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out.Type, out.Minimum = "integer", "0"
	case reflect.Float32, reflect.Float64:
		out.Type = "number"
	default:
		types(out, "string", "number", "boolean")
	}
	return out
}

func layersSchema() *jsonschema.Schema {
	two := uint64(2)
	chain := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}, MinItems: &two, UniqueItems: true}
	return &jsonschema.Schema{Description: "targets from the device up, or several such chains; the report shows what each hop costs",
		AnyOf: []*jsonschema.Schema{chain, {Type: "array", Items: chain, MinItems: one()}, {Type: "null"}}}
}

// wordOf describes a key whose value is one of names, or any word if names is empty. The key may have no value.
func wordOf(doc string, names []string) *jsonschema.Schema {
	out := &jsonschema.Schema{Description: doc}
	for _, n := range names {
		out.Enum = append(out.Enum, n)
	}
	if len(names) == 0 {
		return types(out, "string", "null")
	}
	out.Enum = append(out.Enum, nil)
	return out
}

func referenceSchema(published []string) *jsonschema.Schema {
	full := object("")
	known, _ := bind.Fields(reflect.TypeFor[plan.Reference]())
	for _, f := range known {
		full.Properties.Set(f.Name, nullable(&jsonschema.Schema{Description: "names of this plan → names of the publication", AdditionalProperties: word("")}))
	}
	full.Properties.Set("published", wordOf("name of the data set", published))
	full.Required = []string{"published"}
	return &jsonschema.Schema{Description: "published figures to show as a reference", AnyOf: []*jsonschema.Schema{wordOf("", published), full}}
}
