package report

import (
	"io"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/published"
	"iotax/report/format"
)

// laidOut is the fixture with sections and a layout.
func laidOut(layout string) *Report { return New(laidOutTrials(layout, fixture)) }

func laidOutTrials(layout string, fixture func() (*iotax.Run, []*iotax.Trial)) (*iotax.Run, []*iotax.Trial) {
	run, trials := fixture()
	run.Presentation = &iotax.Presentation{Layout: layout}
	run.Workloads[0].Section, run.Workloads[1].Section = "Small blocks", "Small blocks"
	for _, t := range trials {
		for _, v := range t.Values {
			if strings.HasSuffix(v.Name, ".latency.mean") {
				t.Values = append(t.Values, iotax.Value{Name: strings.TrimSuffix(v.Name, "mean") + "sd", Value: v.Value / 3, Unit: iotax.Seconds, Better: iotax.Down})
				break
			}
		}
	}
	return run, trials
}

func TestGoldenLayouts(t *testing.T) {
	for _, layout := range iotax.Layouts {
		r := laidOut(layout)
		for name, write := range map[string]func(io.Writer) error{"-80.txt": r.text(80), "-120.txt": r.text(120), "-60.txt": r.text(60), ".md": r.Markdown} {
			t.Run(layout+name, func(t *testing.T) { golden(t, "layout-"+layout+name, write) })
		}
	}
}

// throughALine is a run by sections as a cluster's is: some of it is held against the line that it comes over, some
// stands alone, and published figures stand beside it.
func throughALine() *Report {
	short := func(cell string) []iotax.Finding {
		return []iotax.Finding{{Rule: "short-trial", Severity: iotax.Warning, Evidence: "a window of " + cell, Mend: "give trials of 10 s or more (`--trial 10s`)"}}
	}
	const mib = 1 << 20
	run, trials := runOf(8, nil,
		cellSpec{target: "local disk", workload: "write", values: map[string]float64{"write.bandwidth": 6000 * mib}, findings: short("2 s")},
		cellSpec{target: "controller export", workload: "write", values: map[string]float64{"write.bandwidth": 43 * mib}, findings: short("3 s")},
		cellSpec{target: "node export", workload: "write", values: map[string]float64{"write.bandwidth": 3000 * mib}},
		cellSpec{target: "tcp node04 to node01", workload: "network", values: map[string]float64{"bandwidth": 43.7 * mib}},
		cellSpec{target: "s3", workload: "large object", values: map[string]float64{"upload.bandwidth": 43 * mib}},
		cellSpec{target: "s3", workload: "32 objects of 4 MiB, 8 clients at once", values: map[string]float64{"download.bandwidth": 43.5 * mib}},
		cellSpec{target: "s3", workload: "image", values: map[string]float64{"first.duration": 6}},
	)
	run.Workloads[1].Kind = "network"
	run.Presentation = &iotax.Presentation{Layout: "generated"}
	for i, section := range []string{"Block", "Network", "Object store", "Object store", "Object store"} {
		run.Workloads[i].Section, run.Workloads[i].At = section, []string{"s3"}
	}
	run.Workloads[0].At, run.Workloads[1].At = []string{"local disk", "controller export", "node export"}, []string{"tcp node04 to node01"}
	run.Version = "0.1.0"
	against(run, "controller export", "local disk", "tcp node04 to node01")
	against(run, "s3", "tcp node04 to node01")
	for _, workload := range []string{"write", "read", "write"} {
		run.Findings = append(run.Findings, iotax.Finding{Rule: "noisy-baseline", Severity: iotax.Warning, Evidence: workload + ": trials of local disk vary by 20 %", Mend: "use longer trials"})
	}
	r := New(run, trials)
	fig := func(target, workload, metric string, v float64) published.Figure {
		return published.Figure{Source: "a lab", Workload: workload, Target: target, Rep: 1, Metric: metric, Value: v, Unit: iotax.BytesPerSecond}
	}
	r.HoldBeside([]published.Figure{fig("local", "write", "write.bandwidth", 700*mib), fig("remote", "write", "write.bandwidth", 30*mib), fig("minio", "put", "bw", 18*mib)},
		iotax.Beside{Published: "a-lab", Targets: map[string]string{"local disk": "local", "controller export": "remote"},
			Values: map[string]string{"s3 / large object / upload.bandwidth": "minio / put / bw"}}, "")
	return r
}

func TestGoldenSections(t *testing.T) {
	r := throughALine()
	for name, write := range map[string]func(io.Writer) error{"sections-60.txt": r.text(60), "sections-100.txt": r.text(100), "sections-120.txt": r.text(120), "sections.md": r.Markdown} {
		t.Run(name, func(t *testing.T) { golden(t, name, write) })
	}
}

func TestLayouts(t *testing.T) {
	tart := laidOut("tart").LayoutTables()
	if len(tart) != 1 || len(tart[0].Rows) != 18 {
		t.Fatalf("%+v", tart)
	}
	for _, row := range tart[0].Rows {
		if row[0] == "4k random read" && row[1] == hostDisk && (row[3] != format.Dash || row[4] != "47k IOPS" || row[6] != "686 ± 229 µs" || row[8] != format.Dash) {
			t.Errorf("%q", row)
		}
		if row[0] == "1M sequential read" && row[1] == virtioFS && !strings.HasPrefix(row[9], "not comparable") {
			t.Errorf("a number that must not be quoted stands there without a word: %q", row)
		}
	}
	reps := laidOut("repetitions").LayoutTables()
	if len(reps) != 4 || len(reps[0].Head) != 3+7+1 {
		t.Fatalf("%d tables, %q", len(reps), reps[0].Head)
	}
	for _, row := range reps[0].Rows {
		if row[1] == ninep && (row[0] != "guest" || !strings.HasPrefix(row[6], "(") || strings.HasPrefix(row[5], "(")) {
			t.Errorf("the void block: %q", row)
		}
	}
	for _, row := range reps[1].Rows {
		if row[1] == virtioFS && (row[5] != "failed" || row[4] == "failed") {
			t.Errorf("the failed trial: %q", row)
		}
	}
	sections := laidOut("generated").LayoutTables()
	if len(sections) != 2 || sections[0].Title != "Small blocks" || sections[1].Title != "Results" || len(sections[0].Rows) != 18 {
		t.Errorf("%+v", sections)
	}
	directions := laidOut("directions").LayoutTables()
	if len(directions) != 3 || len(directions[0].Rows) < 6 {
		t.Fatalf("%+v", directions)
	}
	if plain := laidOut("").LayoutTables(); plain != nil {
		t.Errorf("%+v", plain)
	}
	if unknown := laidOut("no such layout"); unknown.Layout != "" {
		t.Error("a layout that nobody knows")
	}
}

// A page by sections tells each path as a share of its right baseline.
func TestGeneratedShares(t *testing.T) {
	run, trials := runOf(8, map[string][]string{"network": {"bandwidth"}},
		cellSpec{target: "disk", workload: "read", values: map[string]float64{"read.bandwidth": 1000}},
		cellSpec{target: "export", workload: "read", values: map[string]float64{"read.bandwidth": 60}},
		cellSpec{target: "s3", workload: "get", values: map[string]float64{"download.bandwidth": 32}},
		cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 64}})
	against(run, "export", "disk", "tcp")
	against(run, "s3", "tcp")
	run.Workloads[1].At, run.Workloads[2].At, run.Workloads[2].Kind = []string{"s3"}, []string{"tcp"}, "network"
	run.Presentation = &iotax.Presentation{Layout: "generated"}
	var out strings.Builder
	if err := New(run, trials).Markdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Generated with iotax", "% \\[5.", " of tcp", "| get download bandwidth | s3 |", "| baseline |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Reads, writes and the sums of the single trials stand below each other, in both units; one MB is less than a MiB.
func TestDirections(t *testing.T) {
	values := map[string]float64{"read.iops": 1000, "read.bandwidth": 4096000, "write.iops": 500, "write.bandwidth": 2048000, "mixed.iops": 1500, "mixed.bandwidth": 6144000}
	run, trials := runOf(8, map[string][]string{"4k random read/write": {"read.iops", "write.iops"}},
		cellSpec{target: "disk", workload: "4k random read/write", values: values},
		cellSpec{target: "pod", workload: "4k random read/write", values: values})
	run.Presentation = &iotax.Presentation{Layout: "directions"}
	tables := New(run, trials).LayoutTables()
	if len(tables) != 1 || len(tables[0].Rows) != 6 {
		t.Fatalf("%+v", tables)
	}
	var got []string
	for _, row := range tables[0].Rows[:3] {
		estimate := func(s string) string { s, _, _ = strings.Cut(s, " "); return s }
		got = append(got, row[0]+" "+row[1]+" "+estimate(row[2])+" "+estimate(row[3])+" "+estimate(row[4]))
	}
	if want := "disk read 1.00k 4.10 3.91; disk write 500 2.05 1.95; disk sum 1.50k 6.1 5.9"; strings.Join(got, "; ") != want {
		t.Errorf("got %q", strings.Join(got, "; "))
	}
}

func TestLayoutsFit(t *testing.T) {
	for _, layout := range iotax.Layouts {
		r := laidOut(layout)
		for width := 40; width <= 160; width += 7 {
			var out strings.Builder
			if err := r.Text(&out, TextOptions{Width: width}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%s: %d columns of %d: %q", layout, n, width, line)
				}
			}
			if layout == "repetitions" && width > 60 {
				for _, want := range []string{"#1", "#7", "failed"} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("%d columns: no %s", width, want)
					}
				}
			}
		}
	}
}
