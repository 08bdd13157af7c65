package output

import (
	"bytes"
	"html/template"
	"io"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/export"
	"iotax/internal/report/html"
	"iotax/internal/report/text"
	"iotax/internal/store"
	"iotax/internal/testenv/reporttest"
)

func TestGoldenReference(t *testing.T) {
	r := report.New(reporttest.Mounts())
	for name, write := range map[string]func(io.Writer) error{"beside-60.txt": inText(r, 60), "beside-80.txt": inText(r, 80), "beside-120.txt": inText(r, 120), "beside.md": func(w io.Writer) error { return Write(w, r, "md", true) }, "beside.json": func(w io.Writer) error { return export.JSON(w, r) }} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func comparedForGolden(o compare.Options) *compare.Comparison {
	return compare.Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

func TestCompareGolden(t *testing.T) {
	c := comparedForGolden(compare.Options{Margin: .05, FailOn: compare.FailOnWorse})
	loss := comparedForGolden(compare.Options{Margin: -1, By: compare.ByLoss})
	for name, write := range map[string]func(io.Writer) error{
		"compare-80.txt":  func(w io.Writer) error { return ComparisonText(w, c, "", text.Options{Width: 80}) },
		"compare-120.txt": func(w io.Writer) error { return ComparisonText(w, c, "", text.Options{Width: 120}) },
		"compare-50.txt":  func(w io.Writer) error { return ComparisonText(w, c, "", text.Options{Width: 50}) },
		"compare-short-80.txt": func(w io.Writer) error {
			return ComparisonText(w, c, "iotax compare latest~1 latest --details", text.Options{Width: 80})
		},
		"compare-color.txt": func(w io.Writer) error { return ComparisonText(w, c, "", text.Options{Width: 100, Color: true}) },
		"compare-loss.txt":  func(w io.Writer) error { return ComparisonText(w, loss, "", text.Options{Width: 120}) },
		"compare.md":        func(w io.Writer) error { return Comparison(w, c, "md") },
		"compare.json":      func(w io.Writer) error { return export.JSONComparison(w, c) },
	} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func TestGoldenExplained(t *testing.T) {
	r := report.New(reporttest.Explained(8))
	for name, write := range map[string]func(io.Writer) error{"explained-80.txt": inText(r, 80), "explained-short-80.txt": shortIn(r, 80), "explained.md": func(w io.Writer) error { return Write(w, r, "md", true) },
		"explained.json": func(w io.Writer) error { return export.JSON(w, r) }, "explained.html": bare(func(w io.Writer) error { return HTML(w, r) })} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func TestGoldenProfiled(t *testing.T) {
	r := report.New(reporttest.Profiled(8))
	for name, write := range map[string]func(io.Writer) error{"profiled-80.txt": inText(r, 80), "profiled.svg": func(w io.Writer) error { return Profiles(w, r, "svg", text.Options{}) },
		"profiled.html": bare(func(w io.Writer) error { return Profiles(w, r, "html", text.Options{}) })} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func TestGoldenLayouts(t *testing.T) {
	for _, layout := range iotax.Layouts {
		r := report.New(reporttest.LaidOut(layout, reporttest.Fixture))
		for name, write := range map[string]func(io.Writer) error{"-80.txt": inText(r, 80), "-120.txt": inText(r, 120), "-60.txt": inText(r, 60), ".md": func(w io.Writer) error { return Write(w, r, "md", true) },
			"-short-80.txt": shortIn(r, 80), "-short-120.txt": shortIn(r, 120)} {
			t.Run(layout+name, func(t *testing.T) { reporttest.Golden(t, "layout-"+layout+name, write) })
		}
	}
}

func TestGoldenSections(t *testing.T) {
	r := report.New(reporttest.ThroughALine())
	r.HoldReference(reporttest.ALab())
	for name, write := range map[string]func(io.Writer) error{"sections-60.txt": inText(r, 60), "sections-100.txt": inText(r, 100), "sections-120.txt": inText(r, 120), "sections.md": func(w io.Writer) error { return Write(w, r, "md", true) }} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

// inText returns a function that writes the report with all details at the given width.
func inText(r *report.Report, width int) func(io.Writer) error {
	return func(w io.Writer) error { return Text(w, r, true, text.Options{Width: width}) }
}

// shortIn returns a function that writes the short report at the given width.
func shortIn(r *report.Report, width int) func(io.Writer) error {
	return func(w io.Writer) error { return Text(w, r, false, text.Options{Width: width}) }
}

func TestGoldenLayers(t *testing.T) {
	r := report.New(reporttest.Layered())
	for name, write := range map[string]func(io.Writer) error{"layers-60.txt": inText(r, 60), "layers-80.txt": inText(r, 80), "layers-100.txt": inText(r, 100), "layers.md": func(w io.Writer) error { return Write(w, r, "md", true) }, "layers.json": func(w io.Writer) error { return export.JSON(w, r) }} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func TestGoldenExpectations(t *testing.T) {
	r := report.New(reporttest.Expecting())
	for name, write := range map[string]func(io.Writer) error{"expect-60.txt": shortIn(r, 60), "expect-80.txt": shortIn(r, 80), "expect-120.txt": inText(r, 120),
		"expect.md":     func(w io.Writer) error { return Write(w, r, "md", true) },
		"expect.html":   bare(func(w io.Writer) error { return HTML(w, r) }),
		"expect.json":   func(w io.Writer) error { return Write(w, r, "json", false) },
		"expect.xml":    func(w io.Writer) error { return Write(w, r, "xml", false) },
		"expect.github": func(w io.Writer) error { return Write(w, r, "github", false) },
	} {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name, write) })
	}
}

func TestGolden(t *testing.T) {
	r := report.New(reporttest.Fixture())
	for name, write := range map[string]func(io.Writer) error{
		"report-80.txt":    inText(r, 80),
		"report-120.txt":   inText(r, 120),
		"report-100.txt":   inText(r, 100),
		"report-60.txt":    inText(r, 60),
		"report-50.txt":    inText(r, 50),
		"report-color.txt": func(w io.Writer) error { return Text(w, r, true, text.Options{Width: 100, Color: true}) },
		"report.md":        func(w io.Writer) error { return Write(w, r, "md", true) },
		"report.json":      func(w io.Writer) error { return export.JSON(w, r) },
		"report.html":      bare(func(w io.Writer) error { return HTML(w, r) }),
		"report.svg":       func(w io.Writer) error { return Write(w, r, "svg", true) },
		"report.benchfmt":  func(w io.Writer) error { return export.Benchfmt(w, r) },
		"report.csv":       twoBlocks,
	} {
		t.Run(name, func(t *testing.T) {
			reporttest.Golden(t, name, write)
		})
	}
}

func TestGoldenShort(t *testing.T) {
	alone, trials := reporttest.Small(iotax.Up, reporttest.Flat100, nil)
	alone.Targets = alone.Targets[:1]
	failed := &iotax.Run{ID: "r", Status: iotax.Failed, Targets: []iotax.TargetInfo{{Name: "a"}}, Findings: []iotax.Finding{{Rule: "run-failed", Severity: iotax.Warning, Evidence: "check w on a: /no/such/program is not there", Hint: "install it"}}}
	interrupted, some := reporttest.RunOf(3, reporttest.ReadMetrics, reporttest.Reads("disk", 10000, nil), reporttest.Reads("share", 5000, nil))
	interrupted.ID, interrupted.Status = "r", iotax.Interrupted
	for name, r := range map[string]*report.Report{"fixture": report.New(reporttest.Fixture()), "quick": report.New(reporttest.Quick()), "hundred": report.New(reporttest.Hundred()),
		"undecided": report.New(reporttest.OneOfMany()), "layers": report.New(reporttest.Layered()), "alone": report.New(alone, trials), "failed": report.New(failed, nil), "interrupted": report.New(interrupted, some)} {
		short := func(o text.Options) func(io.Writer) error {
			return func(w io.Writer) error { return Text(w, r, false, o) }
		}
		for file, write := range map[string]func(io.Writer) error{"-80.txt": short(text.Options{Width: 80}), "-120.txt": short(text.Options{Width: 120})} {
			t.Run(name+file, func(t *testing.T) { reporttest.Golden(t, "short-"+name+file, write) })
		}
		if name == "quick" {
			t.Run(name+"-color.txt", func(t *testing.T) {
				reporttest.Golden(t, "short-quick-color.txt", short(text.Options{Width: 80, Color: true}))
			})
			t.Run(name+".md", func(t *testing.T) {
				reporttest.Golden(t, "short-quick.md", func(w io.Writer) error { return Write(w, r, "md", false) })
			})
		}
	}
}

// twoBlocks writes the trials of two rounds, some of them failed or discarded, as --format csv does.
func twoBlocks(w io.Writer) error {
	run, trials := reporttest.Fixture()
	return store.WriteCSV(w, run, func(yield func(*iotax.Trial, error) bool) {
		for _, t := range trials {
			if (t.Round == 2 || t.Round == 3) && !yield(t, nil) {
				return
			}
		}
	})
}

// bare replaces the page's style, script and policy with short names, so that changes to them do not affect the golden
// pages.
func bare(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		page := strings.NewReplacer(html.PageCSS, "page.css", html.PageJS, "page.js", strings.ReplaceAll(template.HTMLEscapeString(html.PagePolicy), "+", "&#43;"), "policy").Replace(b.String())
		_, err := io.WriteString(w, page)
		return err
	}
}

func TestFormatsOfExpectationsAlone(t *testing.T) {
	for _, format := range []string{"xml", "github"} {
		var b bytes.Buffer
		if err := Write(&b, report.New(reporttest.Fixture()), format, false); err == nil || b.Len() > 0 || !strings.Contains(err.Error(), "--expect") {
			t.Errorf("%s without expectations: %d bytes, %v", format, b.Len(), err)
		}
	}
}
