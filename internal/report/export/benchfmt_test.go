package export

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchproc"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// The medians that benchstat's packages compute from the file equal those of the report.
func TestBenchfmtMedians(t *testing.T) {
	r := report.New(reporttest.Fixture())
	var b bytes.Buffer
	if err := Benchfmt(&b, r); err != nil {
		t.Fatal(err)
	}
	if _, first, _ := strings.Cut(b.String(), "/target="); !strings.HasPrefix(first, "host_disk/") {
		t.Error("the baseline does not come first")
	}
	in := benchfmt.NewReader(&b, "report")
	target, err := new(benchproc.ProjectionParser).Parse("/target,/workload,/io", nil)
	if err != nil {
		t.Fatal(err)
	}
	samples := map[[2]string][]float64{}
	n := 0
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		case *benchfmt.Result:
			n++
			for _, v := range rec.Values {
				k := [2]string{target.Project(rec).String(), v.Unit}
				samples[k] = append(samples[k], v.Value)
			}
		}
	}
	if in.Err() != nil || n < 80 {
		t.Fatalf("%d results, %v", n, in.Err())
	}
	if units := in.Units(); units.GetBetter("IOPS") != 1 || units.GetBetter("sec/op") != -1 || units.GetBetter("p99-sec/op") != -1 {
		t.Error("benchstat does not know which direction is better")
	}
	checked := 0
	for _, s := range r.Sections {
		op, _, _ := strings.Cut(s.Metric, ".")
		_, unit := benchUnit(iotax.Value{Name: s.Metric})
		for _, row := range s.Rows {
			xs := samples[[2]string{"/target:" + word(row.Target) + " /workload:" + word(s.Workload) + " /io:" + op, unit}]
			if len(xs) != row.Value.N {
				t.Errorf("%s / %s %s: %d lines, %d trials count", row.Target, s.Workload, unit, len(xs), row.Value.N)
			}
			if len(xs) == 0 {
				continue
			}
			checked++
			sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(xs, &benchmath.DefaultThresholds), .95)
			if math.Abs(sum.Center/row.Value.Estimate-1) > 1e-12 {
				t.Errorf("%s / %s %s: benchstat's median is %v, the report's %v", row.Target, s.Workload, unit, sum.Center, row.Value.Estimate)
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d medians compared", checked)
	}
}

// benchstat reads the unmodified file and prints the report's medians.
func TestBenchstat(t *testing.T) {
	dir := t.TempDir()
	tool, path := filepath.Join(dir, "benchstat"), filepath.Join(dir, "run.benchfmt")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "golang.org/x/perf/cmd/benchstat").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := report.New(reporttest.Fixture())
	var b bytes.Buffer
	if err := Benchfmt(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "-format", "csv", "-col", "/target", "-row", "/workload,/io", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	medians := map[[3]string]float64{} // by target, workload with direction, and unit
	for table := range strings.SplitSeq(string(out), "\n\n") {
		in := csv.NewReader(strings.NewReader(table))
		in.FieldsPerRecord = -1
		rows, err := in.ReadAll()
		if err != nil || len(rows) < 3 {
			t.Fatalf("%v: %q", err, table)
		}
		targets, units := rows[0], rows[1]
		for _, row := range rows[2:] {
			for k := 1; k < len(row); k++ {
				if x, err := strconv.ParseFloat(row[k], 64); err == nil && k < len(targets) && targets[k] != "" {
					medians[[3]string{targets[k], row[0], units[k]}] = x
				}
			}
		}
	}
	checked := 0
	for _, s := range r.Sections {
		op, _, _ := strings.Cut(s.Metric, ".")
		_, unit := benchUnit(iotax.Value{Name: s.Metric})
		for _, row := range s.Rows {
			if row.Value.N == 0 {
				continue
			}
			checked++
			got, ok := medians[[3]string{word(row.Target), word(s.Workload) + " " + op, unit}]
			if !ok || math.Abs(got/row.Value.Estimate-1) > 1e-12 {
				t.Errorf("%s / %s %s: benchstat prints %v, the report has %v", row.Target, s.Workload, unit, got, row.Value.Estimate)
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d medians compared", checked)
	}
}

func TestBenchfmtNames(t *testing.T) {
	run := &iotax.Run{Baseline: "a b", Workloads: []iotax.WorkloadInfo{{Name: "boot", Metrics: []string{"boot.kernel"}}}}
	var trials []*iotax.Trial
	for i, name := range []string{"a b", "a_b", "x/y-4", "\x1b[31m\n", "a b"} {
		trials = append(trials, &iotax.Trial{Target: name, Workload: "boot", Round: i, Seq: i, Values: []iotax.Value{
			{Name: "boot.kernel", Value: 1.5, Unit: iotax.Seconds, Better: iotax.Down}, {Name: "cpu.host", Value: 1, Unit: iotax.Seconds, Better: iotax.Down}}})
	}
	var b bytes.Buffer
	if err := Benchfmt(&b, report.New(run, trials)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/target=a_b 1 1.5 boot.kernel-sec\n", "/target=a_b#2 1 ", "/target=x_y-4 1 ", "/target=_ 1 ", "Unit boot.kernel-sec better=lower\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "/target=a_b 1") != 2 || strings.Contains(b.String(), "cpu.host") {
		t.Errorf("got\n%s", b.String())
	}
}
