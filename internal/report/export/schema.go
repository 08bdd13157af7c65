package export

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"iotax"
	"iotax/internal/trend"
	"iotax/stat"
)

// roots lists the documents that have a schema, by name.
var roots = map[string]struct {
	title string
	of    reflect.Type
}{
	"report":     {"what iotax report --json prints", reflect.TypeFor[jsonReport]()},
	"comparison": {"what iotax compare --json prints", reflect.TypeFor[jsonComparison]()},
	"trend":      {"what iotax trend --json prints", reflect.TypeFor[trend.Exports]()},
	"run": {"what iotax export writes", reflect.TypeFor[struct {
		Version int `json:"version"`
		Run     struct {
			*iotax.Run
			Plan string `json:"plan"`
		} `json:"run"`
		Trials []*iotax.Trial `json:"trials"`
	}]()},
}

// Schemas lists the names of the documents that Schema describes.
var Schemas = []string{"report", "comparison", "trend", "run"}

// Schema returns the JSON Schema (draft 2020-12) of a document, derived from the Go types that write the document.
// Within a version, a document may have fields that an older schema lacks, but it has all required fields of the older
// schema, with the same types.
//
// Schema does not use the reflector of package jsonschema. The reflector ignores that a nil slice or pointer is written
// as null, and requires fields of embedded types that are not written.
func Schema(name string) ([]byte, error) {
	root := roots[name]
	if root.of == nil {
		return nil, fmt.Errorf("schema: no document %q", name)
	}
	d := describer{jsonschema.Definitions{}}
	s := d.object(root.of)
	s.Version, s.Title, s.Definitions = jsonschema.Version, "iotax "+name+", version "+fmt.Sprint(Version), d.defs
	s.Description = root.title + "; durations are in nanoseconds"
	version, _ := s.Properties.Get("version")
	version.Const = Version
	return json.MarshalIndent(s, "", "  ")
}

type describer struct{ defs jsonschema.Definitions }

// number describes the JSON of a stat.Interval.
type number struct {
	Estimate iotax.Number `json:"estimate"`
	Lo       iotax.Number `json:"lo"`
	Hi       iotax.Number `json:"hi"`
	N        int          `json:"n"`
}

// written maps types with a MarshalJSON method to types with the fields that the method writes.
var written = map[reflect.Type]reflect.Type{
	reflect.TypeFor[stat.Interval](): reflect.TypeFor[number](),
	reflect.TypeFor[stat.Effect](): reflect.TypeFor[struct {
		number
		HodgesLehmann iotax.Number `json:"hodges_lehmann"`
		P             iotax.Number `json:"p"`

		Starts *stat.StartSpread `json:"starts,omitempty"`
	}](),
	reflect.TypeFor[iotax.Value](): reflect.TypeFor[struct {
		Name   string       `json:"name"`
		Value  iotax.Number `json:"value"`
		Unit   string       `json:"unit"`
		Better string       `json:"better,omitempty"`
	}](),
	reflect.TypeFor[iotax.Series](): reflect.TypeFor[struct {
		Name string         `json:"name"`
		Unit string         `json:"unit"`
		T    []iotax.Number `json:"t"`
		V    []iotax.Number `json:"v"`
	}](),
	reflect.TypeFor[iotax.Bin](): reflect.TypeFor[struct {
		Value iotax.Number `json:"value"`
		Count uint64       `json:"count"`
	}](),
}

// of describes a type as encoding/json writes it.
func (d describer) of(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[iotax.Number]():
		return orNull(&jsonschema.Schema{Type: "number"})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(d.of(t.Elem()))
	case reflect.Slice:
		return orNull(&jsonschema.Schema{Type: "array", Items: d.of(t.Elem())})
	case reflect.Map:
		return orNull(&jsonschema.Schema{Type: "object", AdditionalProperties: d.of(t.Elem())})
	case reflect.Struct:
		if t.Name() == "" {
			return d.object(t)
		}
		name := strings.TrimPrefix(t.String(), "export.json")
		if _, there := d.defs[name]; !there {
			d.defs[name] = nil // placeholder, because a type may contain itself
			d.defs[name] = d.object(t)
		}
		return &jsonschema.Schema{Ref: "#/$defs/" + name}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	case reflect.Interface:
		return &jsonschema.Schema{}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer"}
	}
	panic("schema: no JSON type for " + t.String()) // cannot happen: TestSchemas builds all schemas
}

// orNull returns a schema that also accepts null.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// object describes a struct, including the fields of embedded structs.
func (d describer) object(t reflect.Type) *jsonschema.Schema {
	if w, there := written[t]; there {
		t = w
	}
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties()}
	for _, f := range reflect.VisibleFields(t) { // omits fields that another field with the same name hides
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "", !f.IsExported(), name == "-" && !tagged:
			continue
		case name == "":
			name = f.Name
		}
		s.Properties.Set(name, d.of(f.Type))
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, name)
		}
	}
	return s
}
