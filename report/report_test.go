package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"iotax"
	"iotax/stat"
	"iotax/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGolden(t *testing.T) {
	r := New(fixture())
	for name, write := range map[string]func(io.Writer) error{
		"report-80.txt":    r.text(80),
		"report-120.txt":   r.text(120),
		"report-100.txt":   r.text(100),
		"report-60.txt":    r.text(60),
		"report-50.txt":    r.text(50),
		"report-color.txt": func(w io.Writer) error { return r.Text(w, TextOptions{Width: 100, Color: true}) },
		"report.md":        r.Markdown,
		"report.json":      r.JSON,
		"report.html":      bare(r.HTML),
		"report.svg":       r.SVG,
		"report.benchfmt":  r.Benchfmt,
		"report.csv":       twoBlocks,
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, write)
		})
	}
}

// twoBlocks are the trials of two blocks, failed and void ones among them, as --format csv writes them.
func twoBlocks(w io.Writer) error {
	run, trials := fixture()
	return store.WriteCSV(w, run, func(yield func(*iotax.Trial, error) bool) {
		for _, t := range trials {
			if (t.Block == 2 || t.Block == 3) && !yield(t, nil) {
				return
			}
		}
	})
}

// bare leaves out the page's style and script, which have files of their own.
func bare(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		page := strings.NewReplacer(pageCSS, "page.css", pageJS, "page.js", template.HTMLEscapeString(pagePolicy), "policy").Replace(b.String())
		_, err := io.WriteString(w, page)
		return err
	}
}

// row finds a row of the fixture's report.
func row(t *testing.T, r *Report, workload, metric, target string) Row {
	t.Helper()
	for _, s := range r.Sections {
		if s.Workload == workload && s.Metric == metric {
			for _, row := range s.Rows {
				if row.Target == target {
					return row
				}
			}
		}
	}
	t.Fatalf("no row %s / %s / %s", workload, metric, target)
	return Row{}
}

func rules(r *Report, row Row) []string {
	var out []string
	for _, n := range row.Notes {
		out = append(out, r.Notes[n-1].Rule)
	}
	return out
}

func TestVerdictsOfFixture(t *testing.T) {
	r := New(fixture())
	for _, c := range []struct {
		workload, metric, target string
		want                     stat.Verdict
		n                        int
		rule                     string
	}{
		{"4k random read", "read.iops", hostDisk, stat.NoVerdict, 6, ""},
		{"4k random read", "read.iops", virtioFS, stat.Worse, 6, "blocks-void"},
		{"4k random read", "read.iops", ninep, stat.Worse, 6, "trial-void"},
		{"4k random read", "read.iops", unsafeDisk, stat.NotRanked, 6, "durability-differs"},
		{"4k random read", "read.iops", notOpened, stat.NoResult, 0, "target-not-opened"},
		{"4k random write", "write.iops", virtioFS, stat.Worse, 4, "trial-failed"},
		{"4k random write", "write.iops", virtioBlk, stat.Inconclusive, 6, "not-steady"},
		{"4k random write", "write.latency.p99", virtioFS, stat.Worse, 4, "few-trials"},
		{"1M sequential read", "read.bandwidth", virtioBlk, stat.Equivalent, 6, ""},
		{"1M sequential read", "read.bandwidth", virtioFS, stat.NotComparable, 6, "cache-served"},
	} {
		got := row(t, r, c.workload, c.metric, c.target)
		if got.Verdict != c.want || got.Value.N != c.n {
			t.Errorf("%s / %s / %s: %q from %d trials, want %q from %d", c.workload, c.metric, c.target, got.Verdict, got.Value.N, c.want, c.n)
		}
		if c.rule != "" && !slices.Contains(rules(r, got), c.rule) {
			t.Errorf("%s / %s: notes %q, want %s among them", c.workload, c.target, rules(r, got), c.rule)
		}
	}
	// The fixture was made with these ratios; the intervals know.
	for target, want := range map[string]float64{virtioBlk: .71, virtioFS: .31, ninep: .052} {
		if e := row(t, r, "4k random read", "read.iops", target).Ratio; !e.Contains(want) {
			t.Errorf("%s: %v does not contain %v", target, e.Interval, want)
		}
	}
	if f := row(t, r, "4k random write", "write.iops", virtioFS); f.Failed != 2 || f.Ran != 6 || f.Ratio.N != 4 {
		t.Errorf("failed trials: %+v", f)
	}
	v := row(t, r, "4k random read", "read.iops", virtioBlk)
	if v.Voided != 1 || v.WithVoided == nil || v.WithVoided.N != 7 || v.Ratio.N != 6 {
		t.Errorf("void block: voided %d, with them %+v", v.Voided, v.WithVoided)
	}
	if len(r.Notes) < 10 {
		t.Errorf("%d notes: the fixture should need two digits", len(r.Notes))
	}
}

func TestNotesAreShared(t *testing.T) {
	r := New(fixture())
	seen := map[string]bool{}
	last := 0
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			for _, n := range row.Notes {
				if n > last+1 {
					t.Fatalf("note %d is met before note %d", n, last+1)
				}
				last = max(last, n)
			}
		}
	}
	for i, n := range r.Notes {
		if n.Number != i+1 {
			t.Errorf("note %d has number %d", i+1, n.Number)
		}
		key := n.Rule + n.Mend + string(n.Severity)
		if seen[key] {
			t.Errorf("%s is told twice", n.Rule)
		}
		seen[key] = true
		switch n.Rule {
		case "not-steady":
			if n.Count() != 3 {
				t.Errorf("not-steady: %d trials, want 3, however many metrics the workload has", n.Count())
			}
		case "cache-served":
			if n.Count() != 6 || len(n.Items) != 1 || !n.Items[0].Varies {
				t.Errorf("cache-served: %+v", n)
			}
		}
	}
}

// small makes a run of one workload and two targets from the values of its blocks.
func small(better iotax.Better, base, target []float64) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Baseline: "a", Margin: .05, Precision: .05,
		Targets:   []iotax.TargetInfo{{Name: "a", Durability: iotax.Durable}, {Name: "b", Durability: iotax.Durable}},
		Workloads: []iotax.WorkloadInfo{{Name: "w", Metrics: []string{"m"}}}}
	var trials []*iotax.Trial
	for name, xs := range map[string][]float64{"a": base, "b": target} {
		for i, x := range xs {
			trials = append(trials, &iotax.Trial{Target: name, Workload: "w", Block: i, Seq: 2 * i, Values: []iotax.Value{{Name: "m", Value: x, Unit: iotax.PerSecond, Better: better}}})
		}
	}
	slices.SortFunc(trials, func(x, y *iotax.Trial) int { return strings.Compare(x.Target, y.Target)*1000 + x.Block - y.Block })
	return run, trials
}

var (
	flat100 = []float64{100, 101, 99, 100, 102, 98}
	flat50  = []float64{50, 50.4, 49.6, 50.1, 50.9, 49.1}
)

func TestVerdictRules(t *testing.T) {
	bad := iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "x"}
	for _, c := range []struct {
		name   string
		change func(run *iotax.Run, trials []*iotax.Trial)
		better iotax.Better
		want   stat.Verdict
		rule   string
	}{
		{"plain", func(*iotax.Run, []*iotax.Trial) {}, iotax.Up, stat.Worse, ""},
		{"less is better", func(*iotax.Run, []*iotax.Trial) {}, iotax.Down, stat.Better, ""},
		{"neither is better", func(*iotax.Run, []*iotax.Trial) {}, iotax.Neither, stat.NotRanked, ""},
		{"errors on the target", func(_ *iotax.Run, ts []*iotax.Trial) { condemn(bad, ts[7:9]) }, iotax.Up, stat.NotComparable, "cache-served"},
		{"errors on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { condemn(bad, ts[1:3]) }, iotax.Up, stat.NotComparable, "cache-served"},
		{"one error on the target", func(_ *iotax.Run, ts []*iotax.Trial) { condemn(bad, ts[7:8]) }, iotax.Up, stat.Worse, "blocks-void"},
		{"one error on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { condemn(bad, ts[1:2]) }, iotax.Up, stat.Worse, "blocks-void"},
		{"one error of one trial that is not void", func(_ *iotax.Run, ts []*iotax.Trial) {
			condemn(bad, ts[7:8])
			for _, t := range ts[8:] {
				t.Void = "clock"
			}
		}, iotax.Up, stat.TooManyVoid, "cache-served"},
		{"error about the target as such", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Findings = []iotax.Finding{bad} }, iotax.Up, stat.NotComparable, "cache-served"},
		{"warning", func(_ *iotax.Run, ts []*iotax.Trial) {
			ts[7].Findings = []iotax.Finding{{Rule: "x", Severity: iotax.Warning}}
		}, iotax.Up, stat.Worse, "x"},
		{"other durability", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Durability = iotax.Volatile }, iotax.Up, stat.NotRanked, "durability-differs"},
		{"one of six void", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Void = "clock" }, iotax.Up, stat.Worse, "blocks-void"},
		{"two of six void", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Void, ts[8].Void = "clock", "clock" }, iotax.Up, stat.TooManyVoid, "too-many-void"},
		{"two of six void on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { ts[1].Void, ts[2].Void = "clock", "clock" }, iotax.Up, stat.TooManyVoid, "too-many-void"},
		{"all failed", func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[6:] {
				t.Err, t.Values = "boom", nil
			}
		}, iotax.Up, stat.NoResult, "trial-failed"},
		{"baseline failed", func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[:6] {
				t.Err, t.Values = "boom", nil
			}
		}, iotax.Up, stat.Inconclusive, ""},
		{"a zero", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Values[0].Value = 0 }, iotax.Up, stat.NotComparable, "no-ratio"},
		{"a zero of what nothing is lost with", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Values[0].Value = 0 }, iotax.Neither, stat.NotRanked, ""},
		{"not opened", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Err = "no such device" }, iotax.Up, stat.NoResult, "target-not-opened"},
		{"no directions known, one block", func(r *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				t.Block = 0
			}
		}, iotax.Up, stat.Inconclusive, ""},
	} {
		run, trials := small(c.better, flat100, flat50)
		c.change(run, trials)
		r := New(run, trials)
		got := row(t, r, "w", "m", "b")
		if got.Verdict != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.Verdict, c.want)
		}
		if c.rule != "" && !slices.Contains(rules(r, got), c.rule) || c.rule != "no-ratio" && slices.Contains(rules(r, got), "no-ratio") {
			t.Errorf("%s: notes %q, want %s", c.name, rules(r, got), c.rule)
		}
		for _, write := range []func(io.Writer) error{r.JSON, r.HTML, r.Markdown, func(w io.Writer) error { return r.Text(w, TextOptions{}) }} {
			if err := write(io.Discard); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func condemn(f iotax.Finding, trials []*iotax.Trial) {
	for _, t := range trials {
		t.Findings = []iotax.Finding{f}
	}
}

// One trial that a cache served is left out with its pair: the ratio is that of the others, and the note
// tells both.
func TestOneErrorIsLeftOut(t *testing.T) {
	run, trials := small(iotax.Up, flat100, []float64{50, 200, 49.6, 50.1, 50.9, 49.1})
	condemn(iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 % of the bytes"}, trials[7:8])
	r := New(run, trials)
	got := row(t, r, "w", "m", "b")
	if got.Verdict != stat.Worse || got.Ratio.N != 5 || got.Ratio.Estimate > 0.51 || got.WithVoided == nil || got.WithVoided.Estimate < 0.55 {
		t.Errorf("verdict %q, ratio %+v, with it %+v", got.Verdict, got.Ratio, got.WithVoided)
	}
	if !slices.ContainsFunc(r.Notes, func(n Note) bool {
		return n.Rule == "trial-void" && n.Items[0].Evidence == "cache-served: 3 % of the bytes"
	}) {
		t.Errorf("notes %+v", r.Notes)
	}
	if trials[7].Void != "" || len(trials[7].Findings) != 1 {
		t.Errorf("the trial itself was changed: %+v", trials[7])
	}
}

// More than half of what the generator can do with an engine that does nothing is a number of the CPU.
func TestCPUBound(t *testing.T) {
	for _, c := range []struct {
		name    string
		ceiling float64
		jobs    string
		facts   map[string]string
		want    bool
	}{
		{"more than half", 190e3, "", nil, true},
		{"less than half", 210e3, "", nil, false},
		{"of two threads", 96e3, "2", nil, true},
		{"of four threads on two CPUs", 96e3, "4", nil, true},
		{"less than half of two threads", 110e3, "2", nil, false},
		{"not calibrated", 0, "", nil, false},
		{"in a guest", 190e3, "", map[string]string{"machine.kernel": "6.1", "accel": "kvm"}, true},
		{"on a machine elsewhere, whose ceiling is its own", 190e3, "", map[string]string{"machine.kernel": "6.1"}, false},
	} {
		run, trials := small(iotax.Up, flat100, flat50)
		run.Environment = map[string]string{"cpu.count": "2"}
		run.Calibration = &iotax.Calibration{NullIOPS: c.ceiling}
		run.Targets[1].Facts = c.facts
		for i, x := range trials {
			x.Facts = map[string]string{"numjobs": c.jobs}
			rate := 1000.0
			if i >= 6 {
				rate = 60e3
				x.Values = append(x.Values, iotax.Value{Name: "write.iops", Value: 40e3, Unit: iotax.PerSecond})
			}
			x.Values = append(x.Values, iotax.Value{Name: "read.iops", Value: rate, Unit: iotax.PerSecond})
		}
		r := New(run, trials)
		if got := slices.Contains(rules(r, row(t, r, "w", "m", "b")), "cpu-bound"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if slices.Contains(rules(r, row(t, r, "w", "m", "a")), "cpu-bound") {
			t.Errorf("%s: the baseline with 1000 IOPS", c.name)
		}
	}
}

// A quantile is one of all trials together, and is quoted only with 100 observations beyond it.
func TestQuantilesAreMerged(t *testing.T) {
	run, trials := small(iotax.Up, flat100, flat50)
	for i, x := range trials {
		slow := uint64(20) // of each trial: 120 in all are beyond the 99th percentile, 12 beyond the 99.9th
		if i < 6 {
			slow = 10
		}
		x.Histograms = []iotax.Histogram{{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{
			{Value: 1e-3, Count: 100*slow - slow}, {Value: 2e-3 + float64(i)*1e-6, Count: slow}}}}
		x.Values = append(x.Values, iotax.Value{Name: "read.latency.p99", Value: 1, Unit: iotax.Seconds})
	}
	r := New(run, trials)
	for _, c := range []struct {
		target, name string
		value        float64 // NaN: too few
		beyond       int
	}{
		{"b", "read.latency.p50", 1e-3, 6000}, {"b", "read.latency.p99", 1e-3, 120}, {"b", "read.latency.p99.9", math.NaN(), 12},
		{"a", "read.latency.p99", math.NaN(), 60},
	} {
		fs := row(t, r, "w", "m", c.target).Secondary
		i := slices.IndexFunc(fs, func(f Figure) bool { return f.Name == c.name })
		if i < 0 {
			t.Fatalf("%s has no %s", c.target, c.name)
		}
		f := fs[i]
		if f.Beyond != c.beyond || f.Short != math.IsNaN(c.value) || !f.Merged || !f.Short && f.Value.Estimate != c.value || f.Short && !math.IsNaN(f.Value.Estimate) {
			t.Errorf("%s of %s: %+v, want %v with %d beyond", c.name, c.target, f, c.value, c.beyond)
		}
	}
	var page, data strings.Builder
	if err := errors.Join(r.HTML(&page), r.JSON(&data)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "n/a (12 samples beyond)") || !strings.Contains(data.String(), `"beyond": 12`) {
		t.Error("the reader is not told how many observations are beyond")
	}
}

func TestAnswers(t *testing.T) {
	nothing := func(*iotax.Run, []*iotax.Trial) {}
	for _, c := range []struct {
		base, target []float64
		better       iotax.Better
		change       func(*iotax.Run, []*iotax.Trial)
		want         string
	}{
		{flat100, flat50, iotax.Up, nothing, "b keeps 50.02 % [49.89–50.14] of a's w m."},
		{flat50, flat100, iotax.Down, nothing, "b: w m is 1.999× [1.994–2.004] that of a."},
		{flat50, flat100, iotax.Up, nothing, "b reaches 1.999× [1.994–2.004] a's w m."},
		{flat100, flat100, iotax.Up, nothing, "Nothing is lost: the comparison with a is within ± 5 %."},
		{flat100, []float64{50, 200, 80, 120, 100, 100}, iotax.Up, nothing, "No loss is sure: 1 of 1 comparisons with a need more blocks."},
		{flat100, flat50, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Err = "gone" }, "No target could be compared with a: see the notes."},
		{flat100, nil, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets = r.Targets[:1] }, "Only a was measured: there is nothing to compare it with."},
		{nil, nil, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[0].Err = "gone" }, "Nothing was measured: a could not be opened."},
		{nil, nil, iotax.Up, nothing, "Nothing was measured."},
	} {
		run, trials := small(c.better, c.base, c.target)
		c.change(run, trials)
		if got := New(run, trials).Answer; got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// A run with a fixed number of blocks looks once, so its intervals are narrower, and it was not asked
// for a precision.
func TestAlphaOfRun(t *testing.T) {
	target := []float64{50, 58, 46, 53, 60, 44}
	width := map[float64]float64{}
	for alpha, want := range map[float64]float64{0: stat.AlphaPerLook, 7: stat.AlphaPerLook, .032: .032, .05: .05} {
		run, trials := small(iotax.Up, flat100, target)
		run.Alpha = alpha
		r := New(run, trials)
		if r.Alpha != want {
			t.Errorf("alpha %v: %v, want %v", alpha, r.Alpha, want)
		}
		b := row(t, r, "w", "m", "b")
		width[alpha] = b.Ratio.T.HalfWidth()
		if fixed := alpha == .05; slices.Contains(rules(r, b), "precision-not-reached") == fixed {
			t.Errorf("alpha %v: notes %q", alpha, rules(r, b))
		}
	}
	if width[.05] >= width[.032] {
		t.Errorf("half widths %v", width)
	}
}

func TestSecondary(t *testing.T) {
	r := New(fixture())
	figures := map[string]Figure{}
	for _, f := range row(t, r, "4k random read", "read.iops", virtioBlk).Secondary {
		figures[f.Name] = f
	}
	for name, merged := range map[string]bool{"read.latency.p50": true, "read.latency.p99": true, "read.bandwidth": false, "cpu.serving.per-io": false} {
		f, ok := figures[name]
		if !ok || f.Merged != merged || !(f.Value.Estimate > 0) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	// 11.2 to 12.2 s of CPU over 12 s at 34k operations a second.
	if f := figures["cpu.serving.per-io"]; f.Value.Estimate < 25e-6 || f.Value.Estimate > 32e-6 {
		t.Errorf("CPU per I/O: %v", f.Value)
	}
	if f := row(t, r, "4k random read", "read.iops", hostDisk).Secondary; slices.ContainsFunc(f, func(f Figure) bool { return strings.HasPrefix(f.Name, "cpu.serving") }) {
		t.Error("nobody serves the host's own disk")
	}
}

func TestJSONContract(t *testing.T) {
	run, trials := fixture()
	// What must never reach JSON.
	trials[0].Values[0].Value = math.Inf(1)
	trials[5].Values[0].Value = math.NaN()
	run.Margin = math.NaN()
	var b bytes.Buffer
	if err := New(run, trials).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"version", "run", "environment", "cells"} {
		if out[k] == nil {
			t.Errorf("%s is missing", k)
		}
	}
	if _, twice := out["run"].(map[string]any)["environment"]; twice {
		t.Error("the environment stands twice")
	}
	cells := out["cells"].([]any)
	if len(cells) != 24 { // 6 targets, 3 workloads, one of them with 2 metrics
		t.Errorf("%d cells", len(cells))
	}
	for _, c := range cells {
		for _, k := range []string{"target", "workload", "metric", "unit", "better", "value", "ratio", "verdict", "findings"} {
			if _, ok := c.(map[string]any)[k]; !ok {
				t.Errorf("a cell has no %s: %v", k, c)
			}
		}
	}
}

// Whatever the width and the names, no line is wider than the terminal.
func TestTextFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run, trials := fixture()
		name := rapid.StringMatching(`[a-z ]{0,20}[äß漢字🚀]{0,4}[a-z=,-]{1,60}`).Draw(t, "name")
		for i := range run.Targets {
			if run.Targets[i].Name == virtioFS {
				run.Targets[i].Name = name
			}
		}
		for _, tr := range trials {
			if tr.Target == virtioFS {
				tr.Target = name
			}
		}
		width := rapid.IntRange(40, 180).Draw(t, "width")
		color := rapid.Bool().Draw(t, "color")
		var b bytes.Buffer
		if err := New(run, trials).Text(&b, TextOptions{Width: width, Color: color}); err != nil {
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

const evil = "<script>alert(1)</script>|`x`\x1b[31mred\x1b]0;title\x07\u202eoverride\u0085[a](javascript:b)\nnew line <img src=x onerror=y>"

// Strings of a target are text, in every format.
func TestHostileStrings(t *testing.T) {
	run, trials := small(iotax.Up, flat100, flat50)
	name := evil
	run.Name, run.Version, run.ID = evil, evil, evil
	run.Environment = map[string]string{evil: evil, "kernel": evil, "cpu": evil}
	run.Findings = []iotax.Finding{{Rule: evil, Severity: iotax.Warning, Evidence: evil, Mend: evil}}
	run.Targets[1] = iotax.TargetInfo{Name: name, Machine: evil, Place: evil, Durability: iotax.Durability(evil), Facts: map[string]string{evil: evil, "boot." + evil: "1s", "boot.a": "2s"}}
	run.Targets = append(run.Targets, iotax.TargetInfo{Name: "c", Err: evil})
	run.Workloads[0].Name = evil
	run.Workloads[0].Metrics = []string{evil}
	for _, tr := range trials {
		if tr.Target == "b" {
			tr.Target = name
		}
		tr.Workload = evil
		tr.Values[0].Name, tr.Values[0].Unit = evil, evil
		tr.Findings = []iotax.Finding{{Rule: evil, Severity: iotax.Severity(evil), Evidence: evil, Mend: evil}}
	}
	trials[3].Void, trials[8].Err = evil, evil
	r := New(run, trials)
	for name, write := range map[string]func(io.Writer) error{"html": r.HTML, "md": r.Markdown, "text": func(w io.Writer) error { return r.Text(w, TextOptions{Width: 100}) }} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := b.String()
		for _, c := range s {
			if c < ' ' && c != '\n' || c >= 0x7f && c < 0xa0 || c == 0x202e {
				t.Errorf("%s: control character %U", name, c)
				break
			}
		}
		if strings.Contains(s, "]0;title") {
			t.Errorf("%s: the rest of a terminal sequence is shown", name)
		}
		switch name {
		case "html":
			elements := map[string]int{}
			walk(t, s, func(n *html.Node) {
				elements[n.Data]++
				for _, a := range n.Attr {
					if strings.HasPrefix(a.Key, "on") || strings.Contains(a.Val, "javascript:b") && (a.Key == "href" || a.Key == "src") {
						t.Errorf("attribute %s=%q", a.Key, a.Val)
					}
				}
			})
			if elements["script"] != 1 || elements["img"] > 0 {
				t.Errorf("elements of the target's making: %v", elements)
			}
		case "md":
			for _, l := range strings.Split(s, "\n") {
				if strings.HasPrefix(l, "|") && strings.Count(strings.ReplaceAll(l, `\|`, ""), "|") != 5 {
					t.Errorf("a cell broke out of its table: %q", l)
				}
			}
			// In what a mend has in backticks nothing is markup.
			plain := regexp.MustCompile("(?m)([*]Mend:[*].*?)`[^`\n]*`").ReplaceAllString(s, "$1")
			for _, raw := range []string{"<script", "<img", "](javascript", "`x`"} {
				if strings.Contains(strings.NewReplacer("\\`", "", `\]`, "").Replace(plain), raw) {
					t.Errorf("md: %q is not escaped", raw)
				}
			}
		}
	}
}

func walk(t *testing.T, page string, f func(*html.Node)) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			f(n)
		}
	}
}

// The page asks nobody for anything, its ids are unique and its links lead somewhere.
func TestPageIsSelfContained(t *testing.T) {
	var b bytes.Buffer
	if err := New(detailed()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	ids, links, svgs := map[string]bool{}, []string{}, 0
	walk(t, b.String(), func(n *html.Node) {
		if n.Data == "iframe" || n.Data == "object" {
			t.Errorf("<%s> in the page", n.Data)
		}
		if n.Data == "script" && (len(n.Attr) > 0 || n.FirstChild == nil || n.FirstChild.Data != pageJS) {
			t.Errorf("a script that is not the page's own")
		}
		if n.Data == "svg" {
			svgs++
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if ids[a.Val] {
					t.Errorf("id %q twice", a.Val)
				}
				ids[a.Val] = true
			case "href", "src":
				links = append(links, a.Val)
			}
		}
	})
	for _, l := range links {
		if id, ok := strings.CutPrefix(l, "#"); ok && !ids[id] || !ok && !strings.HasPrefix(l, "data:") {
			t.Errorf("link %q", l)
		}
	}
	if svgs < 10 {
		t.Errorf("%d charts", svgs)
	}
	for _, part := range []string{"NaN", "Inf", "ZgotmplZ", "&lt;nil"} {
		if strings.Contains(strings.Replace(b.String(), pageJS, "", 1), part) {
			t.Errorf("%s in the page", part)
		}
	}
}

func TestNothing(t *testing.T) {
	for name, r := range map[string]*Report{
		"no run": New(nil, nil), "empty run": New(&iotax.Run{}, nil), "nil trial": New(&iotax.Run{}, []*iotax.Trial{nil}),
		"unknown cell": New(&iotax.Run{}, []*iotax.Trial{{Target: "x", Workload: "y", Values: []iotax.Value{{Name: "read.iops", Value: 3}}}}),
	} {
		for _, write := range []func(io.Writer) error{r.JSON, r.HTML, r.Markdown, func(w io.Writer) error { return r.Text(w, TextOptions{Width: -3}) }} {
			if err := write(io.Discard); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r.Answer == "" {
			t.Errorf("%s: no answer", name)
		}
	}
}

// The order in which trials are read does not matter.
func TestOrderOfTrials(t *testing.T) {
	run, trials := fixture()
	var want, got bytes.Buffer
	if err := New(run, trials).JSON(&want); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(trials)
	if err := New(run, trials).JSON(&got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), got.String()); d != "" {
		t.Error(d)
	}
}

// What is true of every row is told once and marks none; the JSON still has it at every cell.
func TestCommonNote(t *testing.T) {
	run, trials := fixture()
	plain := New(run, trials)
	for _, tr := range trials {
		tr.Findings = append(tr.Findings, iotax.Finding{Rule: "short-trial", Severity: iotax.Warning, Evidence: "a window of 1 s"})
	}
	// A target that could not be opened has rows and no trials.
	run.Targets = slices.DeleteFunc(run.Targets, func(ti iotax.TargetInfo) bool { return ti.Err != "" })
	r := New(run, trials)
	if len(r.Common) != 1 || r.Common[0].Rule != "short-trial" || !strings.Contains(r.Common[0].sentences(3)[0], "all cells") {
		t.Fatalf("common notes: %+v", r.Common)
	}
	for _, n := range r.Notes {
		if n.Rule == "short-trial" {
			t.Errorf("note %d repeats what is common", n.Number)
		}
	}
	if len(plain.Common) != 0 {
		t.Errorf("common without cause: %+v", plain.Common)
	}
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if !slices.ContainsFunc(r.findings(s, row), func(f iotax.Finding) bool { return f.Rule == "short-trial" }) {
				t.Errorf("%s / %s lacks the finding in JSON", row.Target, s.Workload)
			}
		}
	}
}

func TestBrief(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain",
		"run fio: the guest is gone:\n[ 1.2] panic\n[ 1.3] end\n  mend: more memory": "run fio: the guest is gone:\n  mend: more memory",
	} {
		if got := brief(in); got != want {
			t.Errorf("brief(%q) = %q, want %q", in, got, want)
		}
	}
}
