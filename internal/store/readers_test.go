package store

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"iotax"
)

// readAll is a Python script that prints what DuckDB and pandas read from a file, and the result of the documented
// command.
const readAll = `
import json, sys, duckdb, pandas
rows = "SELECT * REPLACE (epoch_us(start) AS start, CAST(seed AS VARCHAR) AS seed) FROM 'run.parquet' ORDER BY seq, metric NULLS FIRST"
d = pandas.read_parquet("run.parquet")
json.dump({
    "duckdb": [list(r) for r in duckdb.sql(rows).fetchall()],
    "types": [str(t) for t in duckdb.sql("SELECT * FROM 'run.parquet'").types],
    "documented": [list(r) for r in duckdb.sql(sys.argv[1] + " ORDER BY target").fetchall()],
    "pandas": [str(t) for t in d.dtypes],
    "sums": [int(d["value"].notna().sum()), float(d["value"].sum()), str(d["seed"].max()), str(d["start"].min()), int(d["metric"].isna().sum())],
}, sys.stdout)
`

// TestReadersOfParquet reads an export with DuckDB and pandas, and runs the commands from the documentation.
func TestReadersOfParquet(t *testing.T) {
	python, err := filepath.Abs("../../bin/readers/bin/python")
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		t.Skip("needs DuckDB and pandas: scripts/need test fetches them")
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "run.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var trials []*iotax.Trial
	for i, iops := range []float64{1000, 500, 4000, 1000} { // the share's IOPS are 1/2 and 1/4 of the disk's: geometric mean √(1/8)
		trials = append(trials, &iotax.Trial{Run: "r", Target: []string{"disk", "share 9p Größe"}[i%2], Workload: "w", Round: i / 2, Seq: i, Seed: math.MaxUint64 - uint64(i),
			Start: start.Add(time.Duration(i) * time.Second), Took: time.Second, Labels: map[string]string{"a": "1"},
			Values: []iotax.Value{{Name: "read.iops", Value: iops, Unit: "1/s", Better: iotax.Up}, {Name: "x", Value: math.NaN(), Unit: "s"}}})
	}
	trials = append(trials, &iotax.Trial{Run: "r", Target: "disk", Workload: "w", Round: 2, Seq: 4, Err: "failed\nbadly", Discarded: "failed"},
		&iotax.Trial{Run: "r", Target: "disk", Workload: "w", Round: 3, Seq: 5, Values: []iotax.Value{{Name: "read.iops", Value: 1e9, Unit: "1/s"}},
			Findings: []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid}}})
	if err := WriteParquet(f, exampleRun("r"), each(trials...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/how-to/share.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(pattern string) string {
		m := regexp.MustCompile("(?s)" + pattern).FindSubmatch(doc)
		if m == nil {
			t.Fatalf("docs/how-to/share.md has no %s", pattern)
		}
		return string(m[1])
	}
	run := func(script string, args ...string) []byte {
		t.Helper()
		c := exec.Command(python, append([]string{"-c", script}, args...)...)
		c.Dir = dir
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		return out
	}

	var seen struct {
		DuckDB, Documented [][]any
		Types, Pandas      []string
		Sums               []any
	}
	if err := json.Unmarshal(run(readAll, documented(`duckdb -c "(.*?)"`)), &seen); err != nil {
		t.Fatal(err)
	}
	types := strings.Fields("VARCHAR VARCHAR VARCHAR VARCHAR INTEGER INTEGER UBIGINT BOOLEAN TIMESTAMP_WITH_TIME_ZONE DOUBLE VARCHAR DOUBLE VARCHAR VARCHAR VARCHAR VARCHAR VARCHAR")
	for i, want := range types {
		if i >= len(seen.Types) || strings.ReplaceAll(seen.Types[i], " ", "_") != want {
			t.Errorf("column %s is %v to DuckDB, want %s", Columns[i], seen.Types, want)
			break
		}
	}
	if len(seen.DuckDB) != 10 {
		t.Fatalf("DuckDB sees %d rows, want 10: %v", len(seen.DuckDB), seen.DuckDB)
	}
	row := func(i int) map[string]any {
		m := map[string]any{}
		for k, name := range Columns {
			m[name] = seen.DuckDB[i][k]
		}
		return m
	}
	if r := row(2); r["target"] != "share 9p Größe" || r["seq"] != 1. || r["seed"] != "18446744073709551614" || r["start"] != float64(start.Add(time.Second).UnixMicro()) ||
		r["metric"] != "read.iops" || r["value"] != 500. || r["unit"] != "1/s" || r["labels"] != "a=1" || r["cold"] != false || r["took_s"] != 1. {
		t.Errorf("%v", r)
	}
	if r := row(3); r["metric"] != "x" || r["value"] != nil {
		t.Errorf("a value that is none: %v", r)
	}
	if r := row(8); r["metric"] != nil || r["value"] != nil || r["start"] != nil || r["err"] != "failed\nbadly" || r["discarded"] != "failed" {
		t.Errorf("a failed trial: %v", r)
	}
	if r := row(9); r["invalid"] != "cache-served" {
		t.Errorf("an invalid trial: %v", r)
	}
	if d := seen.Documented; len(d) != 2 || d[0][0] != "disk" || d[0][2] != 2500. || d[1][2] != 750. {
		t.Errorf("the documented query: %v", d)
	}
	if s := seen.Sums; len(s) != 5 || s[0] != 5. || s[1] != 1e9+6500. || s[2] != "18446744073709551615" || s[3] != "2026-03-01 12:00:00+00:00" || s[4] != 1. {
		t.Errorf("pandas: %v of %v", s, seen.Pandas)
	}
	if out := string(run(documented("```python\n(.*?)```"))); !regexp.MustCompile(`disk +1\.0+\n.*Größe +0\.35355`).MatchString(out) {
		t.Errorf("the documented script prints:\n%s", out)
	}
}
