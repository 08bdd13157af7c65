package html

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/testenv/browsertest"
	"iotax/internal/testenv/reporttest"
)

// A visit is one page in a browser.
type visit struct {
	*browsertest.Tab
	url string
}

// visiting serves page to a browser and opens it.
func visiting(t *testing.T, page []byte) *visit {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}))
	t.Cleanup(server.Close)
	v := &visit{browsertest.Open(t), server.URL}
	v.To(v.url)
	return v
}

// look opens the page as somebody reads it.
func (v *visit) look(l browsertest.Look) {
	v.Helper()
	v.As(l)
	v.To(v.url)
}

// quiet fails the test if the browser said anything, or fetched anything but the page.
func (v *visit) quiet() { v.Helper(); v.Quiet(v.url + "/") }

func written(t *testing.T, r *report.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The page in a real browser: no message on the console, no request but its own, nothing that sticks
// out sideways on a desk or a phone, readable colours in light and dark, and nothing that axe objects to.
func TestPageInBrowser(t *testing.T) {
	v := visiting(t, written(t, whole()))
	for _, c := range append(slices.Clone(browsertest.Looks), browsertest.Print) {
		v.look(c)
		v.Readable(c.Name, 50)
		if c.Name == "light" || c.Name == "phone-dark" {
			v.Eval(`for (const d of document.querySelectorAll("details")) d.open = true; ""`)
			if bad := v.Objections(); bad != "" {
				t.Errorf("%s: axe objects:\n%s", c.Name, bad)
			}
			if c.Name == "light" {
				v.Eval(`document.querySelector("h1").style.color = "color-mix(in srgb, var(--bg) 80%, var(--ink))"; document.querySelector(".chart").removeAttribute("aria-label"); ""`)
				if bad := v.Objections(); !strings.Contains(bad, "color-contrast") || !strings.Contains(bad, "svg-img-alt") {
					t.Errorf("%s: axe overlooks planted faults: %s", c.Name, bad)
				}
			}
			v.To(v.url)
		}
		if c.Media == "print" {
			pdf := browsertest.Act(v.Tab, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize()))
			if n := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF")) || n < 3 || n > 30 {
				t.Errorf("%d bytes and %d pages of PDF", len(pdf), n)
			}
			if *browsertest.Shots != "" {
				v.Save("iotax-report-"+c.Name+".pdf", pdf)
			}
		}
		v.ShotWhole("iotax-report-"+c.Name, c.Width)
	}
	v.quiet()
}

// Figures of any length stand apart from each other in the plot.
func TestLongFigures(t *testing.T) {
	run, trials := reporttest.RunOf(6, reporttest.ReadMetrics, reporttest.Reads("a", 100_000, nil), reporttest.Reads("b", 1060, func(c *reporttest.CellSpec) { c.Noise = .08 }))
	v := visiting(t, written(t, report.New(run, trials)))
	v.As(browsertest.Looks[0])
	gaps := v.Eval(`[...document.querySelectorAll(".forest.wide g")].map(g => { const b = [...g.querySelectorAll(".num, .dim, .word")].map(e => e.getBBox()); return b.slice(1).map((x, i) => Math.round(x.x - b[i].x - b[i].width)).join(" ") }).join("; ")`)
	var first, second int
	if _, err := fmt.Sscanf(gaps, "%d %d", &first, &second); err != nil || first < 10 || second < 10 {
		t.Errorf("%q pixels between ratio, interval and verdict", gaps)
	}
}

// A comparison's page stands up to the same.
func TestComparisonInBrowser(t *testing.T) {
	var page bytes.Buffer
	c := comparedAsPage(compare.Options{FailOn: compare.FailOnWorse})
	if err := Comparison(&page, c); err != nil {
		t.Fatal(err)
	}
	v := visiting(t, page.Bytes())
	for _, l := range browsertest.Looks {
		v.look(l)
		v.Readable(l.Name, 50)
		if l.Name == "dark" || l.Name == "phone" {
			if bad := v.Objections(); bad != "" {
				t.Errorf("%s: axe objects:\n%s", l.Name, bad)
			}
		}
		v.ShotWhole("iotax-report-compare-"+l.Name, l.Width)
	}
	if got, want := v.Eval(`document.querySelector("h1").textContent`), format.Unbroken(format.Clean(c.Answer)); got != want {
		t.Errorf("heading %q, want %q", got, want)
	}
	if got := v.Eval(`String(document.querySelectorAll("#cells ~ .scroll tbody tr").length)`); got != strconv.Itoa(len(c.Rows)) {
		t.Errorf("%s rows for %d changes", got, len(c.Rows))
	}
	v.look(browsertest.Looks[0])
	v.saves(ofChanges)
	v.quiet()
}

// The answer, the tiles and the sentences that stand in view fill no more than the first screen, on a desk and on a
// phone, however much there is to say; the rest is behind a heading, which opens without scripts.
func TestFirstScreen(t *testing.T) {
	line := report.New(reporttest.ThroughALine())
	line.HoldBeside(reporttest.ALab())
	pages := map[string]*report.Report{"usual": whole(), "hundred": report.New(reporttest.Hundred()), "line": line, "wordy": wordy()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = Write(w, pages[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	defer server.Close()
	v := &visit{browsertest.Open(t), server.URL}
	browsertest.Call(v.Tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for name, r := range pages {
		for _, l := range browsertest.Looks[:4] {
			v.As(l)
			v.To(v.url + "/" + name)
			what := name + ", " + l.Name
			var seen struct {
				Bottom float64
				Said   []string // in view
				Folded bool
			}
			if err := json.Unmarshal([]byte(v.Eval(firstScreen)), &seen); err != nil {
				t.Fatal(err)
			}
			if seen.Bottom > float64(l.Height) || seen.Bottom < 200 {
				t.Errorf("%s: the assessment ends at %v of %d pixels", what, seen.Bottom, l.Height)
			}
			if spare := float64(l.Height) - seen.Bottom; seen.Folded && spare > 300 {
				t.Errorf("%s: sentences are folded, and %v pixels are empty", what, spare)
			}
			if out := v.Eval(`[...document.querySelectorAll("svg.forest")].filter(e => e.getClientRects().length).flatMap(s => [...s.querySelectorAll("text")].filter(e => {
  const a = e.getBoundingClientRect(), b = s.getBoundingClientRect();
  return a.left < b.left - 1 || a.right > b.right + 1;
}).map(e => e.textContent)).join(", ")`); out != "" {
				t.Errorf("%s: the plot cuts off %s", what, out)
			}
			v.Shot("iotax-first-" + name + "-" + l.Name)
			var want []string
			for i, s := range assess.Of(r).Sentences {
				if i > 0 && s.Kind != assess.SaysSum {
					want = append(want, strings.NewReplacer(format.NBSP, " ", "`", "").Replace(format.Clean(s.Text)))
				}
			}
			if seen.Folded {
				browsertest.Act(v.Tab, chromedp.Click("details.more > summary"))
				if err := json.Unmarshal([]byte(v.Eval(firstScreen)), &seen); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(seen.Said, want) {
				t.Errorf("%s: it says\n%s\nand not\n%s", what, strings.Join(seen.Said, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	v.quiet()
}

// firstScreen is a script that says where the assessment ends, which sentences are in view, and whether some are not.
const firstScreen = `(() => {
  const shown = e => e.getClientRects().length > 0 && e.checkVisibility();
  const said = [...document.querySelectorAll(".said li")].filter(shown), more = [...document.querySelectorAll("details.more")].filter(shown);
  const last = [document.querySelector("h1"), document.querySelector(".tiles"), ...said, ...more.map(d => d.querySelector("summary"))];
  const words = e => { const c = e.cloneNode(true); c.querySelectorAll(".refs").forEach(x => x.remove()); return c.textContent.replace(/\u00a0/g, " ").replace(/\u2060/g, "").trim(); };
  return JSON.stringify({ Bottom: Math.max(...last.filter(Boolean).map(e => e.getBoundingClientRect().bottom + scrollY)), Said: said.map(words), Folded: more.some(d => !d.open) });
})()`

// wordy is a report of long names, in which each check objects to something.
func wordy() *report.Report {
	var cells []reporttest.CellSpec
	rules := []string{"steal", "not-steady", "cache-served", "blocking-submit", "throttle-step", "short-trial", "depth-not-reached"}
	for i := range 9 {
		for w := range 7 {
			c := reporttest.CellSpec{Target: fmt.Sprintf("a target of a long name in a guest cache=unsafe aio=io_uring %d", i), Workload: fmt.Sprintf("workload of four jobs at a depth of 32 number %d", w),
				Values: map[string]float64{"read.iops": 1000 * float64(1+(i*7+w*3)%11)}, Noise: .01 + .1*float64((i+w)%4)}
			if i > 0 {
				c.Findings = []iotax.Finding{{Rule: rules[(i+w)%len(rules)], Severity: []iotax.Severity{iotax.Warning, iotax.Invalid}[(i*w)%5/4], Evidence: "seen"}}
			}
			cells = append(cells, c)
		}
	}
	return report.New(reporttest.RunOf(6, nil, cells...))
}

// Each classic layout, as it is read on a desk and on a phone, in light and dark. The bars with CPU and memory, which
// one of them has beside its table, stand in each.
func TestLayoutsInBrowser(t *testing.T) {
	pages := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(pages[r.URL.Path])
	}))
	defer server.Close()
	v := &visit{browsertest.Open(t), server.URL}
	for _, layout := range iotax.Layouts {
		run, trials := reporttest.LaidOut(layout, reporttest.Detailed)
		pages["/"+layout] = written(t, report.New(run, trials))
		v.To(v.url + "/" + layout)
		// Other tests look at the rest of the page.
		v.Eval(`for (const e of document.querySelectorAll("main > *, .charts figure")) if (!e.matches(":has(#layout), :has([data-save=cost]), [data-save=cost]")) e.remove(); ""`)
		for _, l := range browsertest.Looks[:4] {
			v.As(l)
			what := layout + ", " + l.Name
			v.Readable(what, 50)
			if got := v.Eval(`String([...document.querySelectorAll("#layout ~ .scroll tbody tr, [data-save=cost] .bar")].filter(e => e.getClientRects().length).length)`); len(got) < 2 {
				t.Errorf("%s: %s rows and bars", what, got)
			}
			if l.Name == "light" || l.Name == "phone-dark" {
				if bad := v.Objections(); bad != "" {
					t.Errorf("%s: axe objects:\n%s", what, bad)
				}
			}
			if l.Name == "light" {
				v.Eval(`const cell = document.querySelector("#layout ~ .scroll td"); cell.style.color = "color-mix(in srgb, var(--bg) 80%, var(--ink))"; cell.setAttribute("headers", "nowhere"); ""`)
				if bad := v.Objections(); !strings.Contains(bad, "color-contrast") || !strings.Contains(bad, "td-headers-attr") {
					t.Errorf("%s: axe overlooks planted faults: %s", what, bad)
				}
				v.Eval(`cell.style.color = ""; cell.removeAttribute("headers"); ""`)
			}
			v.ShotWhole("iotax-layout-"+layout+"-"+l.Name, l.Width)
		}
	}
	v.quiet()
}

// Tables sort both ways with what is missing last, and filter.
func TestSortAndFilter(t *testing.T) {
	v := visiting(t, written(t, whole()))
	column := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".all tbody tr")].filter(r => !r.hidden).map(r => r.cells[%d].dataset.v ?? r.cells[%d].textContent).join("|")`, n, n)
	}
	click := func(n int) {
		v.Eval(fmt.Sprintf(`document.querySelector(".all").open = true; document.querySelectorAll(".all thead button")[%d].click(); ""`, n))
	}
	before := v.Eval(column(3))
	for _, down := range []bool{false, true} {
		click(3)
		var got []float64
		missing := false
		for _, s := range strings.Split(v.Eval(column(3)), "|") {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				missing = true
				continue
			}
			if missing {
				t.Errorf("%g after what has no ratio", x)
			}
			got = append(got, x)
		}
		want := slices.Sorted(slices.Values(got))
		if down {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) || len(got) < 8 || !missing {
			t.Errorf("sorted (down: %v): %v", down, got)
		}
		state := map[bool]string{false: "ascending", true: "descending"}[down]
		if got := v.Eval(`document.querySelectorAll(".all thead th")[3].getAttribute("aria-sort")`); got != state {
			t.Errorf("aria-sort %q, want %q", got, state)
		}
	}
	click(1)
	names := strings.Split(v.Eval(column(1)), "|")
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) || v.Eval(column(3)) == before {
		t.Errorf("targets: %q", names)
	}

	filter := func(words string) (int, string) {
		said := v.Eval(fmt.Sprintf(filtering, words))
		return len(strings.FieldsFunc(v.Eval(column(1)), func(r rune) bool { return r == '|' })), said
	}
	all, said := filter("")
	if all != len(names) || said != "" {
		t.Errorf("without a filter %d of %d, %q", all, len(names), said)
	}
	worse, said := filter("WORSE virtio-fs")
	if worse == 0 || worse >= all || said != fmt.Sprintf("%d of %d ratios", worse, all) {
		t.Errorf("worse: %d of %d, %q", worse, all, said)
	}
	if n, _ := filter("-worse"); n == 0 || n >= all {
		t.Errorf("without worse: %d", n)
	}
	if n, said := filter("no such thing"); n != 0 || said != fmt.Sprintf("0 of %d ratios", all) {
		t.Errorf("nothing fits: %d, %q", n, said)
	}

	// One field filters the tables of all workloads, by their names too, and what has no row left is out of view.
	if got := v.Eval(works(`4k write virtio-fs`)); !strings.HasPrefix(got, "2 of ") || !strings.HasSuffix(got, "cells|1|guest virtio-fs, guest virtio-fs") {
		t.Errorf("cells of a workload: %s", got)
	}
	if got := v.Eval(works("")); !strings.HasPrefix(got, "|") || strings.HasPrefix(got, "|1|") {
		t.Errorf("all cells: %s", got)
	}
	if odd := v.Eval(`[...document.querySelectorAll("table")].filter(t => !t.tHead.querySelector("button") || t.tBodies[0].rows.length > 1 &&
  !t.closest(".work .values") && t.closest(".scroll").previousElementSibling?.className !== "filter").map(t => t.outerHTML.slice(0, 120)).join("; ")`); odd != "" {
		t.Errorf("tables that do not sort or filter: %s", odd)
	}

	// The axis below a workload's rows stays below them.
	if last := v.Eval(`document.querySelector(".cells thead button").click(); document.querySelector(".cells tbody").lastElementChild.className`); last != "axis" {
		t.Errorf("the last row of a sorted table is %q", last)
	}
	v.quiet()
}

// works is a script that types words into the filter of all workloads, and returns what it says, how many
// workloads are left, and the targets of their rows.
func works(words string) string {
	return fmt.Sprintf(`(() => {
  const i = document.querySelector(".works input");
  i.value = %q;
  i.dispatchEvent(new Event("input"));
  const left = [...document.querySelectorAll("section.work")].filter(w => !w.hidden);
  return [document.querySelector(".works [role=status]").textContent, left.length,
    left.flatMap(w => [...w.querySelectorAll(".values:not([hidden]) tbody tr:not(.axis):not([hidden])")]).map(r => r.cells[0].textContent).join(", ")].join("|");
})()`, words)
}

// Printed values are sorted by what they mean: 1.3 GiB/s is more than 54 MiB/s.
func TestSortByUnit(t *testing.T) {
	v := visiting(t, written(t, report.New(reporttest.LaidOut("tart", reporttest.Fixture))))
	got := v.Eval(`(() => {
  const body = document.querySelector("#layout ~ .scroll tbody"), cells = ["1.3 GiB/s", "–", "54 MiB/s", "190k IOPS", "171 ± 55 µs", "1.84 ± 0.22 ms", "12 s", "0.10× [0.08, 0.12]"];
  body.replaceChildren(...cells.map(c => { const r = document.createElement("tr"); r.insertCell().textContent = c; return r; }));
  document.querySelector("#layout ~ .scroll thead button").click();
  return [...body.rows].map(r => r.textContent).join(", ");
})()`)
	if want := "171 ± 55 µs, 1.84 ± 0.22 ms, 0.10× [0.08, 0.12], 12 s, 190k IOPS, 54 MiB/s, 1.3 GiB/s, –"; got != want {
		t.Errorf("sorted %s, want %s", got, want)
	}
	v.quiet()
}

// drawings are the kinds of drawings that a report has, and ofChanges that of a comparison. They are read off the
// sources, so that a new one is tried or fails the tests.
const ofChanges = "changes"

func drawings(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext != ".html" && (ext != ".go" || strings.HasSuffix(f.Name(), "_test.go")) {
			continue
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range kindOfDrawing.FindAllSubmatch(text, -1) {
			kinds = append(kinds, string(m[1]))
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	if !slices.Contains(kinds, ofChanges) || len(kinds) < 10 {
		t.Fatalf("only the drawings %q were found", kinds)
	}
	return slices.DeleteFunc(kinds, func(k string) bool { return k == ofChanges })
}

var kindOfDrawing = regexp.MustCompile(`(?:chartView\{Name: |data-save=)"([^"{]+)"`)

// Each drawing can be saved, as an SVG that is whole without the page and as a PNG.
func TestSaveDrawings(t *testing.T) {
	v := visiting(t, written(t, whole()))
	drawn, err := strconv.Atoi(v.Eval(`String(document.querySelectorAll("[data-save]").length)`))
	if err != nil || drawn < 12 {
		t.Fatalf("%d drawings: %v", drawn, err)
	}
	if got := v.Eval(`String(document.querySelectorAll("[data-save] .save button[aria-label^='Save as']").length)`); got != strconv.Itoa(2*drawn) {
		t.Errorf("%s buttons for %d drawings", got, drawn)
	}
	v.saves(drawings(t)...)
	v.quiet()
}

// saves presses the buttons of the first drawing of each kind, and looks at the files.
func (v *visit) saves(kinds ...string) {
	v.Helper()
	dir := v.TempDir()
	if *browsertest.Shots != "" {
		dir = *browsertest.Shots
	}
	browsertest.Call(v.Tab, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir})
	for _, kind := range kinds {
		for k, ending := range []string{"svg", "png"} {
			time.Sleep(120 * time.Millisecond) // Chromium drops, without a word, every download of a page beyond ten in a second
			v.Eval(fmt.Sprintf(`document.querySelectorAll("[data-save=%s] .save button")[%d].click(); ""`, kind, k))
			data := arrives(v.T, filepath.Join(dir, "iotax-"+kind+"."+ending))
			if ending == "png" {
				img, err := png.Decode(bytes.NewReader(data))
				if err != nil {
					v.Errorf("%s: %v", kind, err)
					continue
				}
				colours := map[color.Color]bool{}
				for y := range img.Bounds().Dy() {
					for x := range img.Bounds().Dx() {
						colours[img.At(x, y)] = true
					}
				}
				if img.Bounds().Dx() < 600 || len(colours) < 10 {
					v.Errorf("%s: a picture of %v with %d colours", kind, img.Bounds(), len(colours))
				}
				continue
			}
			s := string(data)
			if strings.Contains(s, "class=") || strings.Contains(s, "var(") || !strings.Contains(s, `xmlns="http://www.w3.org/2000/svg"`) || kind != "boot" && !strings.Contains(s, "font-family=") {
				v.Errorf("%s: needs the page's style:\n%.400s", kind, s)
			}
			if err := xml.Unmarshal(data, new(struct{})); err != nil {
				v.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// The two drawings that need more than a usual run, loads and clients: each stands in the page with its words, inside
// the window, with lines of colours that can be told apart from each other and are not the ground's.
func TestCurvesInBrowser(t *testing.T) {
	v := visiting(t, written(t, whole()))
	for _, l := range browsertest.Looks {
		v.look(l)
		for kind, want := range map[string]struct{ words, lines string }{
			"load":    {"Load and latency · rw=randread bs=4k", "host disk, guest virtio-blk"},
			"clients": {"Clients · store · 4k read", "together, as if alone"},
		} {
			got := v.Eval(fmt.Sprintf(curve, kind))
			for _, w := range []string{want.words, "| " + want.lines + " |", "| inside"} {
				if !strings.Contains(got, w) {
					t.Errorf("%s, %s: no %q in %s", l.Name, kind, w, got)
				}
			}
		}
	}
	v.quiet()
}

// curve is a script that says of a drawing what it tells those who do not see it, the names of its lines, and whether
// all that is drawn lies inside of its frame and of the window, in colours that stand out from the ground by 3 to 1.
const curve = `(() => {
  const figure = document.querySelector("[data-save=%s]"), svg = figure.querySelector("svg"), box = svg.getBoundingClientRect(), bad = [];
  if (!(box.width > 250 && box.height > 80 && box.left >= 0 && box.right <= innerWidth)) bad.push("the drawing is at " + JSON.stringify(box));
  const lum = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4, [r, g, b] = c.match(/[\d.]+/g).map(Number); return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = lum(getComputedStyle(figure).backgroundColor);
  const curves = [...svg.querySelectorAll(".curve")];
  for (const e of [...curves, ...svg.querySelectorAll("circle, text")]) {
    const r = e.getBoundingClientRect();
    if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) bad.push(e.outerHTML.slice(0, 90) + " sticks out");
  }
  for (const e of curves) {
    const a = lum(getComputedStyle(e).stroke);
    if ((Math.max(a, ground) + .05) / (Math.min(a, ground) + .05) < 3) bad.push(e.outerHTML.slice(0, 90) + " is pale");
  }
  if (curves.length < 3) bad.push(curves.length + " lines");
  return [svg.getAttribute("aria-label"), [...svg.querySelectorAll(".label")].map(e => e.textContent).join(", "), bad.join("; ") || "inside"].join(" | ");
})()`

// filtering types words into the filter of all ratios, and returns what it says.
const filtering = `(() => {
  const i = document.querySelector(".all input");
  i.value = %q;
  i.dispatchEvent(new Event("input"));
  return document.querySelector(".all [role=status]").textContent;
})()`

// arrives waits for a file that the browser writes, and reads it.
func arrives(t *testing.T, path string) []byte {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			time.Sleep(50 * time.Millisecond) // Chromium renames a whole file to its name
			return data
		}
	}
	t.Fatalf("%s was not saved", path)
	return nil
}

// Without scripts all is there to read, and nothing asks to be clicked that does nothing.
func TestWithoutScripts(t *testing.T) {
	page := written(t, whole())
	v := visiting(t, page)
	words := `String([...document.querySelectorAll("h1, h2, h3, svg[role=img], td, dd")].length)`
	with := v.Eval(words)
	browsertest.Call(v.Tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	browsertest.Act(v.Tab, chromedp.Navigate(v.url))
	if without := v.Eval(words); without != with || with == "0" {
		t.Errorf("%s elements with scripts, %s without", with, without)
	}
	if n := v.Eval(`String(document.querySelectorAll("button, input").length)`); n != "0" {
		t.Errorf("%s dead controls", n)
	}
	v.Readable("without scripts", 50)
	v.quiet()
}

// A run of a hundred cells is laid out and can be sorted and filtered without a wait.
func TestLargePageInBrowser(t *testing.T) {
	v := visiting(t, written(t, report.New(reporttest.Hundred())))
	v.look(browsertest.Looks[2])
	v.Readable("phone", 50)
	if n := v.Eval(fmt.Sprintf(filtering, "qd8 worse")); !strings.HasSuffix(n, " of 80 ratios") {
		t.Errorf("filtered: %q", n)
	}
	v.quiet()
}
