package table

import (
	"math"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/testenv/reporttest"
)

// Rows with the same heading are adjacent, regardless of the published order. Standard deviations are omitted.
func TestBesideTogether(t *testing.T) {
	b := report.Reference{}
	for _, target := range []string{"disk", "share"} {
		for _, metric := range []string{"read.iops", "read.latency.sd", "write.iops"} {
			b.Rows = append(b.Rows, report.ReferenceRow{Workload: "w", Target: target, Metric: metric})
		}
	}
	var got []string
	for _, r := range together(&b) {
		got = append(got, r.Metric+" "+r.Target)
	}
	if want := []string{"read.iops disk", "read.iops share", "write.iops disk", "write.iops share"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(b.Rows) != 6 {
		t.Error("the rows themselves were changed")
	}
}

// texts returns the texts of the rows' cells, without their notes.
func texts(t block.Table) (out [][]string) {
	for _, r := range t.Rows {
		var cells []string
		for _, c := range r.Cells {
			cells = append(cells, c.Text)
		}
		out = append(out, cells)
	}
	return out
}

func TestLayouts(t *testing.T) {
	tart := Layout(report.New(reporttest.LaidOut("tart", reporttest.Fixture)))
	if len(tart) != 1 || len(tart[0].Rows) != 18 {
		t.Fatalf("%+v", tart)
	}
	for _, row := range texts(tart[0]) {
		if row[0] == "4k random read" && row[1] == reporttest.HostDisk && (row[3] != format.Dash || row[4] != "47k IOPS" || row[6] != "686 ± 229 µs" || row[8] != format.Dash) {
			t.Errorf("%q", row)
		}
		if row[0] == "1M sequential read" && row[1] == reporttest.VirtioFS && !strings.HasPrefix(row[9], "cached") {
			t.Errorf("a number that must not be quoted stands there without a word: %q", row)
		}
	}
	reps := Layout(report.New(reporttest.LaidOut("repetitions", reporttest.Fixture)))
	if len(reps) != 4 || len(reps[0].Head) != 3+7+1 {
		t.Fatalf("%d tables, %q", len(reps), reps[0].Head)
	}
	for _, row := range texts(reps[0]) {
		if row[1] == reporttest.Ninep && (row[0] != "guest" || !strings.HasPrefix(row[6], "(") || strings.HasPrefix(row[5], "(")) {
			t.Errorf("the discarded round: %q", row)
		}
	}
	for _, row := range texts(reps[1]) {
		if row[1] == reporttest.VirtioFS && (row[5] != "failed" || row[4] == "failed") {
			t.Errorf("the failed trial: %q", row)
		}
	}
	sections := Layout(report.New(reporttest.LaidOut("generated", reporttest.Fixture)))
	if len(sections) != 2 || sections[0].Title != "Small blocks" || sections[1].Title != "Results" || len(sections[0].Rows) != 18 {
		t.Errorf("%+v", sections)
	}
	directions := Layout(report.New(reporttest.LaidOut("directions", reporttest.Fixture)))
	if len(directions) != 3 || len(directions[0].Rows) < 6 {
		t.Fatalf("%+v", directions)
	}
	if plain := Layout(report.New(reporttest.LaidOut("", reporttest.Fixture))); plain != nil {
		t.Errorf("%+v", plain)
	}
	if unknown := report.New(reporttest.LaidOut("no such layout", reporttest.Fixture)); unknown.Layout != "" {
		t.Error("a layout that nobody knows")
	}
}

// If a layout is longer than a screen, the rows with the largest losses remain, without references to notes.
func TestWorst(t *testing.T) {
	for _, name := range iotax.Layouts {
		all := Layout(report.New(reporttest.LaidOut(name, reporttest.Hundred)))
		cut, more := Worst(all, 15)
		rows, parts, largest, least := 0, 0, 0., math.Inf(1)
		for _, table := range cut {
			last := ""
			for _, r := range table.Rows {
				if first := r.Cells[0].Text; last == "" || table.Grouped && first != last {
					parts, last = parts+1, first
				}
				rows, least = rows+1, math.Min(least, r.Weight)
				if slices.ContainsFunc(r.Cells, func(c block.Cell) bool { return c.Notes != nil }) {
					t.Errorf("%s: marks without notes: %+v", name, r)
				}
			}
		}
		left := 0
		for _, table := range all {
			left += len(table.Rows)
			for _, r := range table.Rows {
				largest = math.Max(largest, r.Weight)
			}
		}
		smaller := 0
		for _, table := range all {
			for _, r := range table.Rows {
				if r.Weight < least {
					smaller++
				}
			}
		}
		if rows+3*parts > 15 || rows < 4 || left-rows != more || more == 0 || !(largest > least) || smaller < more-1 {
			t.Errorf("%s: %d rows in %d parts, %d more, of which %d with smaller losses", name, rows, parts, more, smaller)
		}
		if cut, more := Worst(all[:1], 1000); more != 0 || len(cut[0].Rows) != len(all[0].Rows) {
			t.Errorf("%s: %d rows were left out of a table that fits", name, more)
		}
	}
}

// Rows for reads, writes and per-trial sums follow each other. The number in MB/s is larger than the number in MiB/s.
func TestDirections(t *testing.T) {
	values := map[string]float64{"read.iops": 1000, "read.bandwidth": 4096000, "write.iops": 500, "write.bandwidth": 2048000, "mixed.iops": 1500, "mixed.bandwidth": 6144000}
	run, trials := reporttest.RunOf(8, map[string][]string{"4k random read/write": {"read.iops", "write.iops"}},
		reporttest.CellSpec{Target: "disk", Workload: "4k random read/write", Values: values},
		reporttest.CellSpec{Target: "pod", Workload: "4k random read/write", Values: values})
	run.Presentation = &iotax.Presentation{Layout: "directions"}
	tables := Layout(report.New(run, trials))
	if len(tables) != 1 || len(tables[0].Rows) != 6 {
		t.Fatalf("%+v", tables)
	}
	var got []string
	for _, row := range texts(tables[0])[:3] {
		estimate := func(s string) string { s, _, _ = strings.Cut(s, " "); return s }
		got = append(got, row[0]+" "+row[1]+" "+estimate(row[2])+" "+estimate(row[3])+" "+estimate(row[4]))
	}
	if want := "disk read 1.00k 4.10 3.91; disk write 500 2.05 1.95; disk sum 1.50k 6.1 5.9"; strings.Join(got, "; ") != want {
		t.Errorf("got %q", strings.Join(got, "; "))
	}
}

func TestCurveRows(t *testing.T) {
	run, trials := reporttest.Loaded()
	if head := Curve(report.New(run, trials).Curves[0]).Head; head[len(head)-1] != "p99.9" {
		t.Errorf("%q", head)
	}
	for _, x := range trials {
		x.Values = append(x.Values, iotax.Value{Name: "load.late", Value: .04, Unit: iotax.RatioUnit, Better: iotax.Down})
		if x.Target == "guest" && x.Facts["load"] == "30 %" {
			x.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
		}
	}
	c := Curve(report.New(run, trials).Curves[0])
	if rows := texts(c); c.Head[7] != "late" || rows[0][7] != "4.0 %" || rows[0][8] != "" || rows[1][8] != format.Cached || rows[3][8] != "" {
		t.Errorf("%q %q", c.Head, rows)
	}
}

func TestScalingRows(t *testing.T) {
	r := report.New(reporttest.Clients(.005))
	rows := texts(Scaling(r.Scalings[0]))
	if !strings.HasPrefix(rows[2][3], "50") || !strings.HasPrefix(rows[2][4], "40") || rows[0][4] != format.Dash {
		t.Errorf("rows %q", rows)
	}
}
