package output

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	xhtml "golang.org/x/net/html"
	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/published"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/compare"
	"iotax/internal/report/export"
	"iotax/internal/report/text"
	"iotax/internal/testenv/reporttest"
)

// Any two runs can be compared, and the result written as text, Markdown and JSON.
func TestCompareAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(1, 2), rapid.Just(0.), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(-1.))
		name := rapid.SampledFrom([]string{"a", "b", "x|y <b>", "\x1b[31m", ""})
		made := func() *report.Report {
			run := &iotax.Run{Baseline: name.Draw(t, "baseline"), Margin: rapid.Float64().Draw(t, "margin"), Environment: map[string]string{name.Draw(t, "key"): name.Draw(t, "fact")}}
			var trials []*iotax.Trial
			for i := range rapid.IntRange(0, 12).Draw(t, "trials") {
				trials = append(trials, &iotax.Trial{Target: name.Draw(t, "target"), Workload: name.Draw(t, "workload"), Round: i / 2, Seq: i,
					Values: []iotax.Value{{Name: "read.iops", Value: value.Draw(t, "value"), Better: iotax.Up}}, Discarded: rapid.SampledFrom([]string{"", "", "v"}).Draw(t, "discarded")})
			}
			return report.New(run, trials)
		}
		c := compare.Of(made(), made(), compare.Options{Margin: rapid.Float64().Draw(t, "δ"), By: rapid.SampledFrom([]compare.By{"", compare.ByValue, compare.ByLoss}).Draw(t, "by"),
			FailOn: rapid.SampledFrom([]compare.FailOn{"", compare.FailOnWorse, compare.FailOnDiffers}).Draw(t, "gate")})
		for _, write := range []func(io.Writer) error{func(w io.Writer) error { return ComparisonText(w, c, "", text.Options{}) }, func(w io.Writer) error { return Comparison(w, c, "md") }, func(w io.Writer) error { return export.JSONComparison(w, c) }} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(b.String(), '\x1b') {
				t.Fatal("a name steers the terminal")
			}
		}
	})
}

// If Holm's adjustment withdraws a verdict, the text report and the JSON show the original verdict.
func TestHolmIsTold(t *testing.T) {
	rep := report.New(reporttest.OneOfMany())
	var plain, js bytes.Buffer
	if err := Text(&plain, rep, true, text.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if err := export.JSON(&js, rep); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one-of-many", "alone it would be worse", "24 comparisons"} {
		if !strings.Contains(strings.Join(strings.Fields(plain.String()), " "), want) {
			t.Errorf("%q is not in the report", want)
		}
	}
	for _, want := range []string{`"verdict_alone": "worse"`, `"p_holm"`, `"p_margin"`} {
		if !strings.Contains(js.String(), want) {
			t.Errorf("%s is not in the JSON", want)
		}
	}
}

func TestCurveIsInEveryFormat(t *testing.T) {
	rep := report.New(reporttest.Loaded())
	for _, width := range []int{60, 80, 120} {
		var b bytes.Buffer
		if err := Text(&b, rep, true, text.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(l, "\n"))); n > width {
				t.Errorf("%d columns in place of %d: %s", n, width, l)
			}
		}
		for _, want := range []string{"Load and latency", "3.00k (30 %)", "open loop at 90 %"} {
			if !strings.Contains(b.String(), want) && !strings.Contains(b.String(), strings.Replace(want, "3.00k", "3.0k", 1)) {
				t.Errorf("at %d columns it lacks %q:\n%s", width, want, b.String())
			}
		}
	}
	var page, md bytes.Buffer
	if err := HTML(&page, rep); err != nil {
		t.Fatal(err)
	}
	if err := Write(&md, rep, "md", true); err != nil {
		t.Fatal(err)
	}
	_, plot, _ := strings.Cut(page.String(), `data-save="load"`)
	plot, _, _ = strings.Cut(plot, "</figure>")
	if n := strings.Count(plot, `<path class="curve"`) + strings.Count(plot, `<path class="second"`); n != 6 {
		t.Errorf("%d lines in the plot, want mean, p99 and the legend's of two targets", n)
	}
	if !strings.Contains(md.String(), "| offered IOPS | target | done |") {
		t.Errorf("no table in %s", md.String())
	}
}

// The report can be written as JSON, HTML, Markdown and text even if a run has few usable results.
func TestFormatsOfWhatWentWrong(t *testing.T) {
	for name, change := range map[string]func(*iotax.Run, []*iotax.Trial){
		"all failed": func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[6:] {
				t.Err, t.Values = "boom", nil
			}
		},
		"baseline failed": func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[:6] {
				t.Err, t.Values = "boom", nil
			}
		},
		"a zero": func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Values[0].Value = 0 },
		"all discarded": func(_ *iotax.Run, ts []*iotax.Trial) {
			ts[7].Discarded, ts[8].Discarded, ts[9].Discarded = "clock", "clock", "clock"
		},
		"not opened": func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Err = "no such device" },
		"one round": func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				t.Round = 0
			}
		},
	} {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
		change(run, trials)
		r := report.New(run, trials)
		for _, write := range []func(io.Writer) error{func(w io.Writer) error { return export.JSON(w, r) }, func(w io.Writer) error { return HTML(w, r) }, func(w io.Writer) error { return Write(w, r, "md", true) }, func(w io.Writer) error { return Text(w, r, true, text.Options{}) }} {
			if err := write(io.Discard); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestObservationsBeyondAreTold(t *testing.T) {
	r := report.New(reporttest.FewSlow())
	var page, data strings.Builder
	if err := errors.Join(HTML(&page, r), export.JSON(&data, r)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "n/a (12 samples beyond)") || !strings.Contains(data.String(), `"beyond": 12`) {
		t.Error("the reader is not told how many observations are beyond")
	}
}

const evil = "<script>alert(1)</script>|`x`\x1b[31mred\x1b]0;title\x07\u202eoverride\u0085[a](javascript:b)\nnew line <img src=x onerror=y>"

// Strings from the plan and the targets are escaped or cleaned in HTML, Markdown and text.
func TestHostileStrings(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	name := evil
	run.Name, run.Version, run.ID = evil, evil, evil
	run.Environment = map[string]string{evil: evil, "kernel": evil, "cpu": evil}
	run.Findings = []iotax.Finding{{Rule: evil, Severity: iotax.Warning, Evidence: evil, Hint: evil}}
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
		tr.Findings = []iotax.Finding{{Rule: evil, Severity: iotax.Severity(evil), Evidence: evil, Hint: evil}}
	}
	trials[3].Discarded, trials[8].Err = evil, evil
	r := report.New(run, trials)
	for name, write := range map[string]func(io.Writer) error{"html": func(w io.Writer) error { return HTML(w, r) }, "md": func(w io.Writer) error { return Write(w, r, "md", true) }, "text": func(w io.Writer) error { return Text(w, r, true, text.Options{Width: 100}) }} {
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
			count := map[string]int{}
			reporttest.Elements(t, s, func(n *xhtml.Node) {
				count[n.Data]++
				for _, a := range n.Attr {
					if strings.HasPrefix(a.Key, "on") || strings.Contains(a.Val, "javascript:b") && (a.Key == "href" || a.Key == "src") {
						t.Errorf("attribute %s=%q", a.Key, a.Val)
					}
				}
			})
			if count["script"] != 1 || count["img"] > 0 {
				t.Errorf("elements of the target's making: %v", count)
			}
		case "md":
			for _, l := range strings.Split(s, "\n") {
				if strings.HasPrefix(l, "|") && strings.Count(strings.ReplaceAll(l, `\|`, ""), "|") != 5 {
					t.Errorf("a cell broke out of its table: %q", l)
				}
			}
			// Code in backquotes in a hint or a step needs no escaping.
			plain := regexp.MustCompile("(?m)([*]Hint:[*].*?|^- [A-Z][a-z]+: )`[^`\n]*`").ReplaceAllString(s, "$1")
			for _, raw := range []string{"<script", "<img", "](javascript", "`x`"} {
				if strings.Contains(strings.NewReplacer("\\`", "", `\]`, "").Replace(plain), raw) {
					t.Errorf("md: %q is not escaped", raw)
				}
			}
		}
	}
}

func TestNothing(t *testing.T) {
	for name, r := range map[string]*report.Report{
		"no run": report.New(nil, nil), "empty run": report.New(&iotax.Run{}, nil), "nil trial": report.New(&iotax.Run{}, []*iotax.Trial{nil}),
		"unknown cell": report.New(&iotax.Run{}, []*iotax.Trial{{Target: "x", Workload: "y", Values: []iotax.Value{{Name: "read.iops", Value: 3}}}}),
	} {
		for _, write := range []func(io.Writer) error{func(w io.Writer) error { return export.JSON(w, r) }, func(w io.Writer) error { return HTML(w, r) }, func(w io.Writer) error { return Write(w, r, "md", true) }, func(w io.Writer) error { return Text(w, r, true, text.Options{Width: -3}) }} {
			if err := write(io.Discard); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if assess.Of(r).Answer() == "" {
			t.Errorf("%s: no answer", name)
		}
	}
}

func TestScalingIsInEveryFormat(t *testing.T) {
	r := report.New(reporttest.Clients(.005))
	var plain, md strings.Builder
	if err := Text(&plain, r, true, text.Options{Width: 120}); err != nil {
		t.Fatal(err)
	}
	if err := Write(&md, r, "md", true); err != nil {
		t.Fatal(err)
	}
	page := output(t, func(w io.Writer) error { return HTML(w, r) })
	for name, s := range map[string]string{"text": plain.String(), "Markdown": md.String(), "page": page} {
		if !strings.Contains(s, "Clients · store · 4k read IOPS") || !strings.Contains(s, "slowest to fastest") {
			t.Errorf("%s lacks the table of clients", name)
		}
	}
	if !strings.Contains(page, `data-save="clients"`) {
		t.Error("the page has no curve")
	}
}

// A count of 0, such as 0 retransmits, is a measurement. A bandwidth of 0 is not a measurement, either in the run or in
// the published figures.
func TestReferenceCounts(t *testing.T) {
	run, trials := reporttest.RunOf(4, map[string][]string{"network": {"bandwidth", "retransmits"}},
		reporttest.CellSpec{Target: "a to b", Workload: "network", Values: map[string]float64{"bandwidth": 100, "retransmits": 0}},
		reporttest.CellSpec{Target: "c to b", Workload: "network", Values: map[string]float64{"bandwidth": 0, "retransmits": 3}})
	r := report.New(run, trials)
	var fs []published.Figure
	for target, v := range map[string]float64{"tcp a": 193, "tcp c": 0} {
		fs = append(fs, published.Figure{Source: "a paper", Workload: "net", Target: target, Rep: 1, Metric: "retransmits", Value: v, Unit: iotax.Count},
			published.Figure{Source: "a paper", Workload: "net", Target: target, Rep: 1, Metric: "bandwidth", Value: v, Unit: iotax.BytesPerSecond})
	}
	r.HoldReference(fs, iotax.Reference{Published: "paper", Targets: map[string]string{"a to b": "tcp a"}, Workloads: map[string]string{"network": "net"},
		Values: map[string]string{"c to b / network / retransmits": "tcp c / net / retransmits", "c to b / network / bandwidth": "tcp c / net / bandwidth"}}, "")
	got := map[string][2]float64{}
	for _, row := range r.Reference.Rows {
		got[row.Target+" "+row.Metric] = [2]float64{math.Round(row.Value.Estimate), row.Published.Value.Estimate}
		if strings.HasSuffix(row.Metric, "retransmits") && (row.Ratio != nil || row.Published.Ratio != nil) {
			t.Errorf("a number of retransmits has a ratio: %+v", row)
		}
	}
	want := map[string][2]float64{"a to b retransmits": {0, 193}, "c to b retransmits": {3, 0}}
	for cell, w := range want {
		if v, ok := got[cell]; !ok || v != w {
			t.Errorf("%s: %v beside the published, want %v", cell, v, w)
		}
	}
	if _, ok := got["c to b bandwidth"]; ok || len(got) != 3 {
		t.Errorf("%v", got)
	}
	if out := output(t, inText(r, 100)); !strings.Contains(out, "network retransmits") {
		t.Error(out)
	}
}
