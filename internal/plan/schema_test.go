package plan_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"iotax/internal/plan"
	"iotax/internal/plan/schema"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := schema.Of(plan.SampleKinds())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("plan.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("plan.json") // also checks the schema against the meta-schema
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance returns a plan as an editor passes it to a validator: with aliases and merge keys resolved.
func instance(t *testing.T, src []byte) any {
	t.Helper()
	j, err := yaml.YAMLToJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatalf("%v\n%s", err, j)
	}
	return v
}

func TestSchemaTakesGoodPlans(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("testdata/plans/*.*")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files { // the plans, and their resolved forms
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "odd.yaml") {
			continue // YAMLToJSON cannot read directives and byte order marks; odd.txt is checked instead
		}
		if err := s.Validate(instance(t, src)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestSchemaRefusesBadPlans(t *testing.T) {
	s := compiled(t)
	for _, name := range []string{
		"unknown-key-top", "unknown-key-entry", "unknown-key-level", "unknown-key-field", "unknown-key-measure", "wrong-type", "wrong-enum", "units",
		"two-kinds", "no-kind", "empty-sections", "empty-mapping", "no-workloads", "axis-empty", "axis-measure", "not-a-mapping", "scalar", "long-line", "labels", "layers", "layers-word", "reference", "against",
	} {
		src, err := os.ReadFile("testdata/errors/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance(t, src)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The schema and the parser accept the same values. Each value has its own plan, so that one error cannot hide another.
func TestSchemaKnowsUnits(t *testing.T) {
	s := compiled(t)
	check := func(measure string, good bool) {
		t.Helper()
		src := "targets: {disk: {dir: /x}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {" + measure + "}\n"
		_, perr := plan.Parse("p.yaml", []byte(src), plan.SampleKinds())
		verr := s.Validate(instance(t, []byte(src)))
		if (verr == nil) != good || (perr == nil) != good {
			t.Errorf("%s: schema %v, parser %v", measure, verr, perr)
		}
	}
	for _, m := range []string{"trial: 3s", "trial: 1m30s", "ramp: 0", "settle: 250ms", "precision: 5%", "precision: 0.5 %", "rounds: 6", "rounds: 6..30", "rounds: {min: 3}", "cold: true", "seed: 3", "budget: 0"} {
		check(m, true)
	}
	for _, m := range []string{"trial: 3sec", "trial: 3", "trial: [3s]", "trial: {a: b}", "precision: 5 percent", "precision: 0.05", "rounds: {min: six}", "rounds: {mini: 6}", "cold: maybe", "seed: -3", "seed: 1.5"} {
		check(m, false)
	}
}

func TestSchemaHelpsEditors(t *testing.T) {
	text, err := schema.Of(plan.SampleKinds())
	if err != nil {
		t.Fatal(err)
	}
	plan.Golden(t, "testdata/schema.json", string(text)+"\n")
	var doc struct {
		Schema string `json:"$schema"`
		Defs   map[string]struct {
			Properties map[string]struct{ Description string }
			AnyOf      []struct {
				Properties map[string]struct{ Description string }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("draft %q", doc.Schema)
	}
	if d := doc.Defs["target.disk"].Properties["cache"].Description; d != "page cache of the host" {
		t.Errorf("the description of cache is %q", d)
	}
	for _, o := range plan.SampleOptions {
		if _, ok := doc.Defs["workload.fio"].Properties[o]; !ok {
			t.Errorf("no completion for the option %s", o)
		}
	}
}
