package html

import (
	"bytes"
	"encoding/xml"
	gohtml "html"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	xhtml "golang.org/x/net/html"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func comparedAsPage(o compare.Options) *compare.Comparison {
	return compare.Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

// A page can compare several runs with A, each under its own letter. No two notes have the same number.
func TestComparePageOfSeveral(t *testing.T) {
	b := comparedAsPage(compare.Options{Letter: "B"})
	c := comparedAsPage(compare.Options{Letter: "C"})
	page := document.Comparison([]*compare.Comparison{b, c}, document.ComparisonOptions{Other: "/other?by=loss",
		Run: func(r *iotax.Run) (string, string) { return "/runs/" + r.ID, "/base/" + r.ID }})
	var out bytes.Buffer
	if err := Write(&out, page, Frame{}); err != nil {
		t.Fatal(err)
	}
	written := strings.NewReplacer(format.NBSP, " ", "\u2060", "").Replace(out.String())
	for _, want := range []string{"<h1>B, guest virtio-blk: 4k random read is 1.6× slower [1.5–1.6] than in A, ", "the largest loss of 2 runs against A.</h1>", ">B/A<", ">C/A<", "compare the others with this one", `href="/runs/` + b.A.Run.ID + `"`, `href="/other?by=loss"`, "favour of the letter"} {
		if !strings.Contains(written, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(written, "B against A") {
		t.Error("several runs are called one")
	}
	if got := compare.AnswerOfAll([]*compare.Comparison{{Letter: "B"}, {Letter: "C"}}); got != "2 runs against A: no loss is confirmed." {
		t.Error(got)
	}
	ids := regexp.MustCompile(`id="n(\d+)"`).FindAllStringSubmatch(written, -1)
	seen := map[string]bool{}
	for _, m := range ids {
		if seen[m[1]] {
			t.Errorf("note %s twice", m[1])
		}
		seen[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#n(\d+)"`).FindAllStringSubmatch(written, -1) {
		if !seen[m[1]] {
			t.Errorf("note %s is referred to and not there", m[1])
		}
	}
	if bn, _ := b.Notes(); len(bn) == 0 || len(seen) != 2*len(bn) {
		t.Errorf("%d notes on the page, %d of B alone", len(seen), len(bn))
	}
}

// whole returns a report with a drawing of each kind, including a waterfall and published reference values.
func whole() *report.Report {
	r := report.New(reporttest.Stalling(reporttest.Curved(reporttest.Detailed())))
	hop := func(from, to string, ratio float64, v stat.Verdict) report.Hop {
		return report.Hop{From: from, To: to, Ratio: stat.Interval{Estimate: ratio, Lo: ratio * .93, Hi: ratio * 1.07, N: 6}, Verdict: v}
	}
	r.Waterfalls = []report.Waterfall{{Workload: "4k random read", Metric: "read.iops", Label: "read IOPS", Unit: iotax.PerSecond, Rounds: 6,
		Chain: []string{reporttest.HostDisk, reporttest.VirtioBlk, reporttest.VirtioFS, reporttest.Ninep}, Start: stat.Interval{Estimate: 48200, Lo: 47100, Hi: 49000, N: 6},
		Hops:  []report.Hop{hop(reporttest.HostDisk, reporttest.VirtioBlk, .71, stat.Worse), hop(reporttest.VirtioBlk, reporttest.VirtioFS, .44, stat.Worse), hop(reporttest.VirtioFS, reporttest.Ninep, .17, stat.Worse)},
		Total: hop(reporttest.HostDisk, reporttest.Ninep, .71*.44*.17, stat.Worse)}}
	one := func(x float64) *stat.Interval { return &stat.Interval{Estimate: x, Lo: x * .9, Hi: x * 1.1, N: 5} }
	r.Reference = &report.Reference{Name: "example", Source: "figures made up for a test", Reference: reporttest.HostDisk, Theirs: "host",
		Rows: []report.ReferenceRow{{Workload: "4k random read", Target: reporttest.VirtioBlk, Metric: "read.iops", Label: "read IOPS", Unit: iotax.PerSecond,
			Value: format.Lone(34000), Ratio: one(.71), Published: report.PublishedCell{Workload: "randread", Target: "guest disk", Value: format.Lone(61000), Ratio: one(.64)}, Agree: report.Overlap}},
		Unmatched: []string{"1M sequential read on " + reporttest.VirtioFS}, Unused: []string{"randwrite on sshfs"}, Notes: []string{"the publication does not say how caches were dropped"}}
	r.Explanations = report.New(reporttest.Explained(8)).Explanations
	r.Profiles = report.New(reporttest.Profiled(8)).Profiles
	return r
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain <b>":                 "plain &lt;b&gt;",
		"use `cache: none` or `-x`": "use <code>cache: none</code> or <code>-x</code>",
		"one ` alone <":             "one ` alone &lt;",
		"``":                        "<code></code>",
	} {
		if got := string(text(in)); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}

// Every drawing is well-formed XML by itself and has a description.
func TestDrawingsAreWellFormed(t *testing.T) {
	kinds := map[string]int{}
	rest := string(written(t, whole()))
	for {
		_, after, ok := strings.Cut(rest, `data-save="`)
		if !ok {
			break
		}
		kind, _, _ := strings.Cut(after, `"`)
		_, after, _ = strings.Cut(after, "<svg")
		picture, tail, _ := strings.Cut(after, "</svg>")
		rest = tail
		kinds[kind]++
		d := xml.NewDecoder(strings.NewReader("<svg" + picture + "</svg>"))
		for {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "svg" {
				named := false
				for _, a := range e.Attr {
					named = named || strings.HasPrefix(a.Name.Local, "aria-label") && len(a.Value) > 10
				}
				if !named {
					t.Errorf("%s: no words for who cannot see it", kind)
				}
			}
		}
	}
	for _, want := range drawings(t) {
		if kinds[want] == 0 {
			t.Errorf("no drawing %q among %v", want, kinds)
		}
	}
}

func TestSizeOfLargePage(t *testing.T) {
	if n := len(written(t, report.New(reporttest.Hundred()))); n > 3<<20 {
		t.Errorf("%d bytes for 100 cells of 30 trials of 10 s", n)
	}
	if n := len(written(t, report.New(reporttest.Quick()))); n > 250_000 {
		t.Errorf("%d bytes for the suite quick", n)
	}
}

// BenchmarkHTML100Cells measures the time from trials to a page, which must be at most a second.
func BenchmarkHTML100Cells(b *testing.B) {
	run, trials := reporttest.Hundred()
	for b.Loop() {
		d, err := document.Page(report.New(run, trials), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := Write(io.Discard, d, Frame{}); err != nil {
			b.Fatal(err)
		}
	}
	if each := b.Elapsed() / time.Duration(b.N); each > time.Second {
		b.Errorf("%v a page, more than a second", each)
	}
}

// The page contains every cell of the classic tables.
func TestLayoutsInPage(t *testing.T) {
	for _, name := range iotax.Layouts {
		r := report.New(reporttest.LaidOut(name, reporttest.Fixture))
		page := strings.NewReplacer(format.NBSP, " ", "\u2060", "").Replace(gohtml.UnescapeString(string(written(t, r))))
		tables := table.Layout(r)
		if len(tables) == 0 {
			t.Fatalf("%s: no table", name)
		}
		for _, table := range tables {
			for _, row := range table.Rows {
				for _, cell := range row.Cells {
					if !strings.Contains(page, ">"+format.Clean(cell.Text)+"<") {
						t.Errorf("%s: the page lacks %q", name, cell.Text)
					}
				}
			}
		}
	}
	if strings.Contains(string(written(t, report.New(reporttest.LaidOut("", reporttest.Fixture)))), "At a glance") {
		t.Error("a report without a layout has its heading")
	}
}

// The page requests nothing, its ids are unique, and its links have targets.
func TestPageIsSelfContained(t *testing.T) {
	page := string(written(t, report.New(reporttest.Detailed())))
	ids, links, svgs := map[string]bool{}, []string{}, 0
	reporttest.Elements(t, page, func(n *xhtml.Node) {
		if n.Data == "iframe" || n.Data == "object" {
			t.Errorf("<%s> in the page", n.Data)
		}
		if n.Data == "script" && (len(n.Attr) > 0 || n.FirstChild == nil || n.FirstChild.Data != PageJS) {
			t.Errorf("a script that is not the page's own")
		}
		if n.Data == "svg" {
			svgs++
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if ids[a.Val] || strings.Contains(a.Val, " ") {
					t.Errorf("id %q twice, or with a space", a.Val)
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
		if strings.Contains(strings.Replace(page, PageJS, "", 1), part) {
			t.Errorf("%s in the page", part)
		}
	}
}

// The resource use of processes that serve the targets is drawn over time, even for a workload without other series. It
// is not checked for a steady state.
func TestServingOverTime(t *testing.T) {
	run, trials := reporttest.Small(iotax.Down, reporttest.Flat100, reporttest.Flat50)
	for _, tr := range trials {
		tr.Series = []iotax.Series{
			{Name: "memory.host.rss", Unit: iotax.Bytes, T: []float64{0.1, 0.2, 0.3}, V: []float64{0, 100 << 20, 300 << 20}},
			{Name: "cpu.host", Unit: iotax.RatioUnit, T: []float64{0.2, 0.3}, V: []float64{0.5, 1}},
		}
	}
	page := string(written(t, report.New(run, trials)))
	for _, want := range []string{"What serves the targets, over time", "Host memory during the trials", "at most 300 MiB", "Host CPU during the trials"} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ToLower(want[:1])+want[1:]) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "second by second") || strings.Contains(page, "too short to judge") {
		t.Error("it judges whether memory was steady")
	}
}
