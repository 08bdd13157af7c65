package export

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/store"
	"iotax/internal/testenv/reporttest"
)

// closed changes a schema to reject unknown fields.
func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			closed(x)
		}
		if _, fields := v["properties"].(map[string]any); fields && v["type"] == "object" {
			v["additionalProperties"] = false
		}
	case []any:
		for _, x := range v {
			closed(x)
		}
	}
	return v
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemas(t *testing.T) {
	all := map[string]*jsonschema.Schema{}
	for _, name := range Schemas {
		text, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		if err := c.AddResource(name, closed(document(t, text))); err != nil {
			t.Fatal(err)
		}
		if all[name], err = c.Compile(name); err != nil { // also validates the schema against its meta-schema
			t.Fatal(err)
		}
	}
	check := func(name, what string, text []byte) {
		t.Helper()
		if err := all[name].Validate(document(t, text)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	goldens, err := filepath.Glob("../output/testdata/*.json")
	if err != nil || len(goldens) < 5 {
		t.Fatalf("%v, %v", goldens, err)
	}
	for _, g := range goldens {
		text, err := os.ReadFile(g)
		if err != nil {
			t.Fatal(err)
		}
		name := "report"
		if document(t, text).(map[string]any)["only_a"] != nil {
			name = "comparison"
		}
		check(name, g, text)
	}
	for name, fixture := range map[string]func() (*iotax.Run, []*iotax.Trial){"fixture": reporttest.Fixture, "quick": reporttest.Quick, "mounts": reporttest.Mounts, "some": reporttest.SomeTargets} {
		run, trials := fixture()
		var b bytes.Buffer
		each := iter.Seq2[*iotax.Trial, error](func(yield func(*iotax.Trial, error) bool) {
			for t := range slices.Values(trials) {
				if !yield(t, nil) {
					return
				}
			}
		})
		if err := store.WriteJSON(&b, run, each); err != nil {
			t.Fatal(err)
		}
		check("run", name, b.Bytes())
		r := report.New(run, trials)
		b.Reset()
		if err := JSON(&b, r); err != nil {
			t.Fatal(err)
		}
		check("report", name, b.Bytes())
	}
	if err := all["report"].Validate(document(t, []byte(`{"version": 2}`))); err == nil {
		t.Error("a report of another version without cells is taken")
	}
}
