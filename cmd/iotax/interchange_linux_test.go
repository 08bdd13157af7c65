package main

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"iotax/internal/testenv/long"
)

// Exports of real runs, with valid and failed trials, validate against the schemas that iotax prints.
func TestExportsMatchTheirSchemas(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	plan := s.write("p.yaml", `
targets: {a: {dir: a}, b: {dir: b}}
workloads:
  read: {fio: {rw: randread, bs: 4k, size: 4MiB}, expect: ["read.iops >= 10% of baseline"]}
  fails: {command: {run: "test {dir} = never"}}
measure: {trial: 100ms, ramp: 0s, rounds: 6}
`)
	for range 2 {
		if r := s.iotax("run", plan, "-q", "--calibrate", "no"); r.code != exitOK && r.code != exitGate {
			t.Fatal(r)
		}
	}
	for name, args := range map[string][]string{
		"report": {"report", "--json"}, "comparison": {"compare", "latest~1", "latest", "--json"}, "trend": {"trend", "--json"}, "run": {"export"},
	} {
		schema, written := s.iotax("schema", name), s.iotax(args...)
		read := func(text string) any {
			t.Helper()
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%s: %v: %.300s", name, err, text)
			}
			return v
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, read(schema.stdout)); err != nil {
			t.Fatal(err)
		}
		compiled, err := c.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(read(written.stdout)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := s.iotax("export", "--format", "openmetrics"); !strings.Contains(r.stdout, `iotax_trials{plan="p",target="b",workload="fails",outcome="failed"} `) || strings.Contains(r.stdout, `workload="fails",outcome="failed"} 0.0`) || !strings.HasSuffix(r.stdout, "# EOF\n") {
		t.Error(r)
	}
}
