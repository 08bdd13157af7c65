package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/report/text"
	"iotax/internal/testenv/reporttest"
)

// The short report of up to three workloads fits on one screen. No line is too wide, and the first line is the answer.
func TestShortFitsAScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cells []reporttest.CellSpec
		targets := rapid.IntRange(2, 5).Draw(t, "targets")
		for i := range targets {
			for w := range rapid.IntRange(1, 3).Draw(t, "workloads") {
				rule := rapid.SampledFrom([]string{"", "steal", "not-steady", "cache-served", "blocking-submit"}).Draw(t, "rule")
				c := reporttest.CellSpec{Target: fmt.Sprintf("guest disk %d", i), Workload: fmt.Sprintf("workload %d", w),
					Values: map[string]float64{"read.iops": rapid.Float64Range(10, 1e6).Draw(t, "iops")}, Noise: rapid.Float64Range(.001, .4).Draw(t, "noise")}
				if rule != "" {
					c.Findings = []iotax.Finding{{Rule: rule, Severity: rapid.SampledFrom([]iotax.Severity{iotax.Warning, iotax.Invalid}).Draw(t, "severity"), Evidence: "seen"}}
				}
				cells = append(cells, c)
			}
		}
		r := report.New(reporttest.RunOf(6, nil, cells...))
		for _, width := range []int{80, 120} {
			lines := strings.Split(strings.TrimSuffix(shortText(t, r, width), "\n"), "\n")
			if len(lines) > 24 {
				t.Errorf("%d columns: %d lines:\n%s", width, len(lines), strings.Join(lines, "\n"))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > width {
					t.Errorf("%d columns of %d: %q", ansi.StringWidth(l), width, l)
				}
			}
			if want := format.Wrap(assess.Of(r).Answer(), width)[0]; lines[0] != want {
				t.Errorf("%q, want %q", lines[0], want)
			}
		}
	})
}

func shortText(t interface{ Fatal(...any) }, r *report.Report, width int) string {
	var out strings.Builder
	if err := Text(&out, r, false, text.Options{Width: width}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// With a hundred cells, each row fits on one line of 80 columns. A comparison with too few rounds shows its ratio
// with a note.
func TestManyAndFew(t *testing.T) {
	s := shortText(t, report.New(reporttest.Hundred()), 80)
	_, rows, _ := strings.Cut(s, "-----\n")
	rows, _, _ = strings.Cut(rows, " slower by")
	if lines := strings.Split(rows, "\n"); len(lines) != 9 || strings.Count(s, "\n") > 29 {
		t.Errorf("%d rows:\n%s", len(lines)-1, s)
	}
	if !strings.Contains(strings.Join(strings.Fields(s), " "), "12 more without a larger confirmed loss") || !strings.Contains(s, "Random read, ") {
		t.Error(s)
	}
	// The omitted rows have the smallest losses, even if the metric is a latency.
	var cells []reporttest.CellSpec
	for w := range 12 {
		for i, latency := range []float64{1, float64(30 - 2*w)} {
			cells = append(cells, reporttest.CellSpec{Target: []string{"disk", "share"}[i], Workload: fmt.Sprintf("work %02d", w), Values: map[string]float64{"read.latency.mean": latency}})
		}
	}
	if s := shortText(t, report.New(reporttest.RunOf(6, nil, cells...)), 80); !strings.Contains(s, "\n  00 ") || strings.Contains(s, "\n  11 ") {
		t.Error(s)
	}
	// Rows without a loss are omitted before rows without a verdict.
	cells = nil
	for w := range 12 {
		for i, iops := range []float64{1e4, 1e4 * (1 + .5*float64(w%2))} {
			c := reporttest.CellSpec{Target: []string{"disk", "share"}[i], Workload: fmt.Sprintf("work %02d", w), Values: map[string]float64{"read.iops": iops}}
			if i == 1 && w < 3 {
				c.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
			}
			cells = append(cells, c)
		}
	}
	if s := shortText(t, report.New(reporttest.RunOf(6, nil, cells...)), 80); strings.Count(s, " cached\n") != 3 {
		t.Error(s)
	}
	run, trials := reporttest.RunOf(3, reporttest.ReadMetrics, reporttest.Reads("disk", 10000, nil), reporttest.Reads("share", 5000, nil))
	if s := shortText(t, report.New(run, trials), 80); !strings.Contains(s, "(2.0× slower) ¹") || !strings.Contains(s, "¹ Too few for a verdict: 3 rounds of 6.") {
		t.Error(s)
	}
}

// Only the invalid reference is called cached. The targets that are compared with it keep their numbers, but have no
// verdict.
func TestInvalidBaseline(t *testing.T) {
	run, trials := reporttest.RunOf(8, reporttest.ReadMetrics, reporttest.Reads("share", 9000, func(c *reporttest.CellSpec) {
		c.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
	}), reporttest.Reads("disk", 5000, nil), reporttest.Reads("nbd", 4000, nil))
	r := report.New(run, trials)
	s := strings.Join(strings.Fields(shortText(t, r, 80)), " ")
	for _, want := range []string{"Cached, so invalid: share / 4k read.", " share cached ", " disk 5.0k ¹ ", " nbd 4.0k ¹ ", "1 cached · 2 not comparable", "¹ Not comparable: share is cached."} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	for _, layout := range []string{"", "generated", "directions"} {
		r.Layout = layout
		var out strings.Builder
		if err := Text(&out, r, true, text.Options{Width: 120}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			words := strings.Fields(line)
			if at := slices.Index([]string{"share", "disk", "nbd"}, strings.Join(words[:min(1, len(words))], "")); at >= 0 && strings.Contains(line, "cached") != (at == 0) {
				t.Errorf("%q: %s", layout, line)
			}
		}
		if !strings.Contains(out.String(), "cached") || !strings.Contains(out.String(), "not comparable") {
			t.Errorf("%q:\n%s", layout, &out)
		}
	}
}

// The short report of a run of the suite "quick" on a busy machine without KVM fits on a screen of 24 lines and 80
// columns.
func TestQuickFitsAScreen(t *testing.T) {
	s := shortText(t, report.New(reporttest.Quick()), 80)
	if n := strings.Count(s, "\n"); n > 24 {
		t.Errorf("%d lines:\n%s", n, s)
	}
	answer, _, _ := strings.Cut(s, "\n")
	if answer != "guest 9p (emulated) is the slowest: 4k random read is 33× slower than on host" {
		t.Error(answer)
	}
	for _, want := range []string{"EMULATED", "Stopped early: the budget of 3m was spent", "Cached, so invalid: guest virtio-fs", "  cached\n", "7 slower by more than 5 %", "1 cached", "fio: io_uring, direct=1, iodepth=32 (1M sequential read: 8), 256MiB.", "iotax doctor", "too noisy ¹", "only 1 of 32 I/Os were in flight", "machines started once, CPU steal 4.7 %", "iotax run --resume=20260612-101500-m8x2 ", "about 1m", "--trial 10s", "--details"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	// Rows are ordered from the smallest loss to the largest.
	last := 0
	for _, name := range []string{"\n  host disk", "\n  guest virtio-fs", "\n  guest virtio-blk", "\n  guest 9p"} {
		at := strings.Index(s, name)
		if at <= last {
			t.Errorf("%q is not in its place", name)
		}
		last = at
	}
}

// The short report shows why a run failed or a target could not be opened.
func TestShortOfFailures(t *testing.T) {
	run := &iotax.Run{ID: "r", Status: iotax.Failed, Targets: []iotax.TargetInfo{{Name: "a"}}, Findings: []iotax.Finding{{Rule: "run-failed", Severity: iotax.Warning, Evidence: "check w on a: /no/such/program is not there", Hint: "install it"}}}
	s := shortText(t, report.New(run, nil), 80)
	for _, want := range []string{"Nothing was measured: check w on a: /no/such/program is not there.", "→ install it"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, nil)
	run.Targets[1].Err = "open b: no such device\n  hint: buy one"
	if s := shortText(t, report.New(run, trials), 80); !strings.Contains(s, "b could not be opened: no such device.") || !strings.Contains(s, "1 failed") {
		t.Error(s)
	}
}

func comparedAsText(o compare.Options) *compare.Comparison {
	return compare.Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

func TestCompareFits(t *testing.T) {
	c := comparedAsText(compare.Options{FailOn: compare.FailOnWorse})
	for width := 40; width <= 200; width++ {
		var b bytes.Buffer
		if err := ComparisonText(&b, c, "", text.Options{Width: width, Color: width%2 == 0}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
	}
}

// Names of targets are not cut inside a word, even if they do not fit into their column.
func TestCompareKeepsNames(t *testing.T) {
	c := comparedAsText(compare.Options{})
	for _, width := range []int{80, 100, 120} {
		var b bytes.Buffer
		if err := ComparisonText(&b, c, "", text.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(b.String(), " verdict")
		table, _, ok := strings.Cut(table, "\nNotes")
		if !ok {
			t.Fatalf("width %d: no table in\n%s", width, b.String())
		}
		for _, r := range c.Rows {
			for word := range strings.FieldsSeq(r.Target) {
				if !slices.Contains(strings.Fields(table), word) {
					t.Errorf("width %d: no %q in\n%s", width, word, table)
				}
			}
		}
	}
}

func TestWaterfallText(t *testing.T) {
	r := report.New(reporttest.Layered())
	for _, width := range []int{40, 60, 80, 100, 140} {
		var out strings.Builder
		if err := Text(&out, r, true, text.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if bars := strings.Contains(out.String(), "░"); bars != (width >= 80) {
			t.Errorf("%d columns: bars %v", width, bars)
		}
	}
}

// In the layout "generated", each row shows its share of the target that it is compared with.
func TestGeneratedShares(t *testing.T) {
	run, trials := reporttest.RunOf(8, map[string][]string{"network": {"bandwidth"}},
		reporttest.CellSpec{Target: "disk", Workload: "read", Values: map[string]float64{"read.bandwidth": 1000}},
		reporttest.CellSpec{Target: "export", Workload: "read", Values: map[string]float64{"read.bandwidth": 60}},
		reporttest.CellSpec{Target: "s3", Workload: "get", Values: map[string]float64{"download.bandwidth": 32}},
		reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 64}})
	reporttest.Against(run, "export", "disk", "tcp")
	reporttest.Against(run, "s3", "tcp")
	run.Workloads[1].At, run.Workloads[2].At, run.Workloads[2].Kind = []string{"s3"}, []string{"tcp"}, "network"
	run.Presentation = &iotax.Presentation{Layout: "generated"}
	var out strings.Builder
	if err := Write(&out, report.New(run, trials), "md", true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Generated with iotax", "% \\[5.", " of tcp", "| get download bandwidth | s3 |", "| baseline |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestLayoutsFit(t *testing.T) {
	for _, layout := range iotax.Layouts {
		r := report.New(reporttest.LaidOut(layout, reporttest.Fixture))
		for width := 40; width <= 160; width += 7 {
			var out strings.Builder
			if err := Text(&out, r, true, text.Options{Width: width}); err != nil {
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

// No line is wider than the terminal, for any width from 40 columns and any names.
func TestTextFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run, trials := reporttest.Fixture()
		name := rapid.StringMatching(`[a-z ]{0,20}[äß漢字🚀]{0,4}[a-z=,-]{1,60}`).Draw(t, "name")
		for i := range run.Targets {
			if run.Targets[i].Name == reporttest.VirtioFS {
				run.Targets[i].Name = name
			}
		}
		for _, tr := range trials {
			if tr.Target == reporttest.VirtioFS {
				tr.Target = name
			}
		}
		width := rapid.IntRange(40, 180).Draw(t, "width")
		color := rapid.Bool().Draw(t, "color")
		var b bytes.Buffer
		if err := Text(&b, report.New(run, trials), true, text.Options{Width: width, Color: color}); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(b.String(), "\n") {
			if w := ansi.StringWidth(l); w > width {
				t.Fatalf("%d columns of %d: %q", w, width, l)
			}
		}
		if !color && strings.ContainsRune(b.String(), 0x1b) {
			t.Fatal("colour without being asked")
		}
	})
}

// Suggested commands start iotax as the user did.
func TestProgramAsTyped(t *testing.T) {
	r := report.New(reporttest.ThroughALine())
	var out strings.Builder
	if err := Text(&out, r, false, text.Options{Width: 80, Program: "bin/iotax"}); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "  bin/iotax report ") || strings.Contains(s, " iotax ") {
		t.Error(s)
	}
}

// The tables of a layout have no rows for targets that could not be opened, so the short report names these targets.
func TestLayoutNamesFailedTargets(t *testing.T) {
	run, trials := reporttest.ThroughALine()
	run.Targets = append(run.Targets, iotax.TargetInfo{Name: "pod", Err: "no cluster"})
	if s := shortText(t, report.New(run, trials), 80); !strings.Contains(s, "\nCould not be opened: pod (--details).\n") {
		t.Error(s)
	}
}
