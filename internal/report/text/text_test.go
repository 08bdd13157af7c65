package text

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// However large the run, the first screen holds the beginning, nothing is lost, and no sentence is longer
// than a few lines.
func TestAssessmentFitsAScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cells []reporttest.CellSpec
		targets := rapid.IntRange(2, 12).Draw(t, "targets")
		for i := range targets {
			for w := range rapid.IntRange(1, 6).Draw(t, "workloads") {
				rule := rapid.SampledFrom([]string{"", "steal", "not-steady", "cache-served", "blocking-submit"}).Draw(t, "rule")
				c := reporttest.CellSpec{Target: fmt.Sprintf("a target of a long name %d", i), Workload: fmt.Sprintf("workload %d", w),
					Values: map[string]float64{"read.iops": rapid.Float64Range(10, 1e6).Draw(t, "iops")}, Noise: rapid.Float64Range(.001, .4).Draw(t, "noise")}
				if rule != "" {
					c.Findings = []iotax.Finding{{Rule: rule, Severity: rapid.SampledFrom([]iotax.Severity{iotax.Warning, iotax.Invalid}).Draw(t, "severity"), Evidence: "seen"}}
				}
				cells = append(cells, c)
			}
		}
		r := report.New(reporttest.RunOf(6, nil, cells...))
		for _, width := range []int{60, 80, 100} {
			var out strings.Builder
			if err := Write(&out, r, Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(out.String(), "\n\nworkload 0")
			if n := strings.Count(head, "\n"); n > 24 {
				t.Errorf("%d columns: %d lines before the table", width, n)
			}
			if n := assess.Of(r).Fit(width-2, assessmentLines-1); n < len(assess.Of(r).Sentences) != strings.Contains(out.String(), "The assessment goes on") {
				t.Errorf("%d columns: %d of %d sentences on the first screen, and no heading", width, n, len(assess.Of(r).Sentences))
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, s := range assess.Of(r).Sentences {
				if !strings.Contains(text, strings.Join(strings.Fields(s.Text), " ")) {
					t.Errorf("%d columns: lost %q", width, s.Text)
				}
			}
		}
		for _, s := range assess.Of(r).Sentences {
			if n := len(format.Wrap(s.Text, 80)); n > 8 {
				t.Errorf("%d lines: %q", n, s.Text)
			}
		}
	})
}

func comparedAsText(o compare.Options) *compare.Comparison {
	return compare.Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

func TestCompareFits(t *testing.T) {
	c := comparedAsText(compare.Options{FailOn: compare.FailOnWorse})
	for width := 40; width <= 200; width++ {
		var b bytes.Buffer
		if err := Comparison(&b, c, Options{Width: width, Color: width%2 == 0}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
	}
}

func TestWaterfallText(t *testing.T) {
	r := report.New(reporttest.Layered())
	for _, width := range []int{40, 60, 80, 100, 140} {
		var out strings.Builder
		if err := Write(&out, r, Options{Width: width}); err != nil {
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

func TestBarsFit(t *testing.T) {
	hop := func(ratio float64) report.Hop { return report.Hop{Ratio: stat.Interval{Estimate: ratio}} }
	for _, w := range []report.Waterfall{{Hops: []report.Hop{hop(.5), hop(.1)}}, {Hops: []report.Hop{hop(3), hop(.9), hop(2)}}, {Hops: []report.Hop{hop(.001)}}} {
		bars := layerBars(w, 30)
		if len(bars) != len(w.Hops)+2 {
			t.Errorf("%q", bars)
		}
		for _, b := range bars {
			if len([]rune(b)) > 30 {
				t.Errorf("a bar of %d columns: %s", len([]rune(b)), b)
			}
		}
	}
}

// A page by sections tells each path as a share of its right baseline.
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
	if err := Markdown(&out, report.New(run, trials)); err != nil {
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
			if err := Write(&out, r, Options{Width: width}); err != nil {
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

// Whatever the width and the names, no line is wider than the terminal.
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
		if err := Write(&b, report.New(run, trials), Options{Width: width, Color: color}); err != nil {
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
