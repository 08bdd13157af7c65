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
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/internal/testenv/browsertest"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/reporttest"
)

// A visit is a page opened in a browser.
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

// look opens the page with the window size and the theme of l.
func (v *visit) look(l browsertest.Look) {
	v.Helper()
	v.As(l)
	v.To(v.url)
}

// quiet fails the test if the browser logged a message, or requested anything except the page.
func (v *visit) quiet() { v.Helper(); v.Quiet(v.url + "/") }

func written(t *testing.T, r *report.Report) []byte {
	t.Helper()
	d, err := document.Page(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, d, Frame{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The page logs nothing to the console and makes no other requests. It is readable on a desktop, on a phone, and in
// print, passes the accessibility checks of axe, and can be used with a keyboard.
func TestPageInBrowser(t *testing.T) {
	long.Test(t)
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
				if bad := v.Keyboard(100); bad != "" {
					t.Errorf("%s, with a keyboard: %s", c.Name, bad)
				}
				v.Eval(`document.querySelector("h1").style.color = "color-mix(in srgb, var(--bg) 80%, var(--ink))"; document.querySelector(".chart").removeAttribute("aria-label"); ""`)
				if bad := v.Objections(); !strings.Contains(bad, "color-contrast") || !strings.Contains(bad, "svg-img-alt") {
					t.Errorf("%s: axe overlooks planted faults: %s", c.Name, bad)
				}
				for fault, want := range map[string]string{`tile.style.outline = "none"`: "no visible focus", `tile.tabIndex = -1`: "the focus is on",
					`tile.removeAttribute("href"); tile.onclick = () => {}`: "only for a mouse"} {
					v.To(v.url)
					v.Eval(`const tile = document.querySelector(".tiles a"); ` + fault + `; ""`)
					if bad := v.Keyboard(100); !strings.Contains(bad, want) {
						t.Errorf("%q, and not that %q: %s", bad, want, fault)
					}
				}
			}
			v.To(v.url)
		}
		if c.Media == "print" {
			pdf := browsertest.Act(v.Tab, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize()))
			if n := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF")) || n < 3 || n > 35 {
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

// Long numbers do not touch each other in the plot.
func TestLongFigures(t *testing.T) {
	run, trials := reporttest.RunOf(6, reporttest.ReadMetrics, reporttest.Reads("a", 100_000, nil), reporttest.Reads("b", 1060, func(c *reporttest.CellSpec) { c.Noise = .08 }))
	v := visiting(t, written(t, report.New(run, trials)))
	v.As(browsertest.Looks[0])
	gaps := v.Eval(`(() => {
  const rows = new Map();
  for (const e of document.querySelectorAll(".wide svg :is(.label, .head, .note, .word)")) {
    const b = e.getBBox();
    if (b.y > 30) rows.set(Math.round(b.y), [...(rows.get(Math.round(b.y)) ?? []), b]);
  }
  return [...rows.values()].filter(bs => bs.length === 4).map(bs => bs.sort((a, b) => a.x - b.x).slice(1).map((b, i) => Math.round(b.x - bs[i].x - bs[i].width)).join(" ")).join("; ");
})()`)
	var name, first, second int
	if _, err := fmt.Sscanf(gaps, "%d %d %d", &name, &first, &second); err != nil || first < 5 || second < 5 {
		t.Errorf("%q pixels between name, ratio, interval and verdict", gaps)
	}
}

// The page of a comparison is readable and accessible on a desktop and a phone, and its plot can be saved.
func TestComparisonInBrowser(t *testing.T) {
	var page bytes.Buffer
	c := comparedAsPage(compare.Options{FailOn: compare.FailOnWorse})
	if err := Write(&page, document.Comparison([]*compare.Comparison{c}, document.ComparisonOptions{}), Frame{}); err != nil {
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
		if l.Name == "phone" {
			if bad := v.Keyboard(20); bad != "" {
				t.Errorf("%s, with a keyboard: %s", l.Name, bad)
			}
			v.look(l)
		}
		v.ShotWhole("iotax-report-compare-"+l.Name, l.Width)
	}
	if got, want := v.Eval(`document.querySelector("h1").textContent`), format.Unbroken(format.Clean(c.Answer)); got != want {
		t.Errorf("heading %q, want %q", got, want)
	}
	if got := v.Eval(`String(document.querySelector("main > .scroll").querySelectorAll("tbody tr").length)`); got != strconv.Itoa(len(c.Rows)) {
		t.Errorf("%s rows for %d changes", got, len(c.Rows))
	}
	v.look(browsertest.Looks[0])
	v.saves(ofChanges)
	v.quiet()
}

// The answer, the banner and the tiles fit on the first screen of a desktop and of a phone. At most six further
// sentences are visible, and all others are in a fold that opens without scripts. The plot of ratios labels the ratio 1
// and does not cut off text.
func TestFirstScreen(t *testing.T) {
	long.Test(t)
	line := report.New(reporttest.ThroughALine())
	line.HoldReference(reporttest.ALab())
	pages := map[string]*report.Report{"usual": whole(), "hundred": report.New(reporttest.Hundred()), "line": line, "wordy": wordy(), "quick": report.New(reporttest.Quick())}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if rep := pages[strings.TrimPrefix(r.URL.Path, "/")]; rep != nil {
			_, _ = w.Write(written(t, rep))
		}
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
				Said   []string // visible sentences
				Folded bool
			}
			look := func() {
				t.Helper()
				if err := json.Unmarshal([]byte(v.Eval(firstScreen)), &seen); err != nil {
					t.Fatal(err)
				}
			}
			look()
			if seen.Bottom > float64(l.Height) || seen.Bottom < 150 {
				t.Errorf("%s: the tiles end at %v of %d pixels", what, seen.Bottom, l.Height)
			}
			if len(seen.Said) > 6 {
				t.Errorf("%s: %d sentences in view", what, len(seen.Said))
			}
			v.Shot("iotax-first-" + name + "-" + l.Name)
			for view, ones := range map[string]string{"last": "100 %", "first": "1×"} {
				v.Eval(`document.querySelector(".views label:` + view + `-of-type").click() ?? ""`)
				var plot struct {
					Ones []string // visible labels of the ratio 1
					Top  float64  // distance of the first label from the top of the plot, in pixels
					Cut  []string
				}
				if err := json.Unmarshal([]byte(v.Eval(plotted)), &plot); err != nil {
					t.Fatal(err)
				}
				if plot.Cut != nil || plot.Top > 60 || !slices.Equal(slices.Compact(plot.Ones), []string{ones}) { // a tall plot has a second axis at the bottom
					t.Errorf("%s: the %s view of the plot is labelled %q from %g pixels on, and cuts off %q", what, view, plot.Ones, plot.Top, plot.Cut)
				}
			}
			var want []string
			for _, s := range assess.Of(r).Sentences[1:] {
				want = append(want, strings.NewReplacer(format.NBSP, " ", "`", "").Replace(format.Clean(s.Text)))
			}
			if seen.Folded {
				v.Eval(`document.querySelector("details.more > summary").click() ?? ""`)
				look()
			}
			if !slices.Equal(seen.Said, want) {
				t.Errorf("%s: it says\n%s\nand not\n%s", what, strings.Join(seen.Said, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	v.quiet()
}

// plotted is a script that returns the labels of the ratio 1 in the plot of ratios, their position, and the texts that
// are cut off.
const plotted = `(() => {
  const out = { Ones: [], Top: 1e6, Cut: null };
  for (const s of document.querySelectorAll("#ratios svg"))
    for (const e of s.querySelectorAll("text")) {
      if (!e.getClientRects().length) continue;
      const a = e.getBoundingClientRect(), b = s.getBoundingClientRect();
      if (a.left < b.left - 1 || a.right > b.right + 1) out.Cut = [...out.Cut ?? [], e.textContent];
      if (e.matches(".tick") && ["1×", "100 %"].includes(e.textContent)) {
        out.Ones.push(e.textContent);
        out.Top = Math.min(out.Top, a.top - b.top);
      }
    }
  return JSON.stringify(out);
})()`

// firstScreen is a script that returns the position of the bottom of the tiles, the visible sentences, and whether
// other sentences are folded.
const firstScreen = `(() => {
  const shown = e => e.getClientRects().length > 0 && e.checkVisibility();
  const more = [...document.querySelectorAll("details.more")].filter(shown);
  const words = e => { const c = e.cloneNode(true); c.querySelectorAll(".refs").forEach(x => x.remove()); return c.textContent.replace(/\u00a0/g, " ").replace(/\u2060/g, "").trim(); };
  return JSON.stringify({ Bottom: document.querySelector(".tiles").getBoundingClientRect().bottom + scrollY,
    Said: [...document.querySelectorAll(".said li")].filter(shown).map(words), Folded: more.some(d => !d.open) });
})()`

// wordy returns a report with long names and many findings.
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

// Each classic layout is readable on a desktop and on a phone, in the light and the dark theme. It shows at least ten
// rows and bars.
func TestLayoutsInBrowser(t *testing.T) {
	long.Test(t)
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
		// Remove the rest of the page, which other tests check.
		v.Eval(`let seen = 0; for (const e of document.querySelectorAll("main > *, .charts figure")) if (!e.matches("h1, h2, .charts:has([data-save=cost]), [data-save=cost]") && !(e.matches(".scroll") && !seen++)) e.remove(); ""`)
		for _, l := range browsertest.Looks[:4] {
			v.As(l)
			what := layout + ", " + l.Name
			v.Readable(what, 50)
			if got := v.Eval(`String([...document.querySelectorAll("main > .scroll tbody tr, [data-save=cost] .bar")].filter(e => e.getClientRects().length).length)`); len(got) < 2 {
				t.Errorf("%s: %s rows and bars", what, got)
			}
			if l.Name == "light" || l.Name == "phone-dark" {
				if bad := v.Objections(); bad != "" {
					t.Errorf("%s: axe objects:\n%s", what, bad)
				}
			}
			if l.Name == "light" {
				v.Eval(`const cell = document.querySelector("main > .scroll td"); cell.style.color = "color-mix(in srgb, var(--bg) 80%, var(--ink))"; cell.setAttribute("headers", "nowhere"); ""`)
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

// Tables can be filtered, and sorted in both directions with missing values last.
func TestSortAndFilter(t *testing.T) {
	v := visiting(t, written(t, whole()))
	column := func(n int) string {
		return fmt.Sprintf(`all = document.querySelector("#ratios").parentElement.nextElementSibling; [...all.querySelectorAll("tbody tr")].filter(r => !r.hidden).map(r => r.cells[%d].textContent.replace(/[\u2060\u00a0]/g, " ")).join("|")`, n)
	}
	click := func(n int) {
		v.Eval(fmt.Sprintf(`all.open = true; all.querySelectorAll("thead button")[%d].click(); ""`, n))
	}
	before := v.Eval(column(3))
	for _, down := range []bool{false, true} {
		click(3)
		var got []float64
		missing := false
		for _, s := range strings.Split(v.Eval(column(3)), "|") {
			figure, _, _ := strings.Cut(s, "×")
			x, err := strconv.ParseFloat(figure, 64)
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
		if got := v.Eval(`all.querySelectorAll("thead th")[3].getAttribute("aria-sort")`); got != state {
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
	if worse == 0 || worse >= all || said != fmt.Sprintf("%d of %d rows", worse, all) {
		t.Errorf("worse: %d of %d, %q", worse, all, said)
	}
	if n, _ := filter("-worse"); n == 0 || n >= all {
		t.Errorf("without worse: %d", n)
	}
	if n, said := filter("no such thing"); n != 0 || said != fmt.Sprintf("0 of %d rows", all) {
		t.Errorf("nothing fits: %d, %q", n, said)
	}

	if odd := v.Eval(`[...document.querySelectorAll("table")].filter(t => !t.tHead.querySelector("button") || t.tBodies[0].rows.length > 8 &&
  t.closest(".scroll").previousElementSibling?.className !== "filter").map(t => t.outerHTML.slice(0, 120)).join("; ")`); odd != "" {
		t.Errorf("tables that do not sort or filter: %s", odd)
	}
	v.quiet()
}

// Sorting compares values, not text: 1.3 GiB/s is more than 54 MiB/s.
func TestSortByUnit(t *testing.T) {
	v := visiting(t, written(t, report.New(reporttest.LaidOut("tart", reporttest.Fixture))))
	got := v.Eval(`(() => {
  const body = document.querySelector("main > .scroll tbody"), cells = ["1.3 GiB/s", "–", "54 MiB/s", "190k IOPS", "171 ± 55 µs", "1.84 ± 0.22 ms", "12 s", "0.10× [0.08, 0.12]"];
  body.replaceChildren(...cells.map(c => { const r = document.createElement("tr"); r.insertCell().textContent = c; return r; }));
  document.querySelector("main > .scroll thead button").click();
  return [...body.rows].map(r => r.textContent).join(", ");
})()`)
	if want := "171 ± 55 µs, 1.84 ± 0.22 ms, 0.10× [0.08, 0.12], 12 s, 190k IOPS, 54 MiB/s, 1.3 GiB/s, –"; got != want {
		t.Errorf("sorted %s, want %s", got, want)
	}
	v.quiet()
}

// ofChanges is the kind of the drawing that shows the changes in a comparison.
const ofChanges = "changes"

// drawings returns the kinds of drawings in a report. It reads them from the source of package document, so that new
// kinds are also tested.
func drawings(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir("../document")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join("..", "document", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range kindOfDrawing.FindAllSubmatch(text, -1) {
			kinds = append(kinds, string(m[1]))
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	if !slices.Contains(kinds, ofChanges) || len(kinds) < 9 {
		t.Fatalf("only the drawings %q were found", kinds)
	}
	return slices.DeleteFunc(kinds, func(k string) bool { return k == ofChanges })
}

var kindOfDrawing = regexp.MustCompile(`(?:block\.Chart\{|\{\{)Name: "([a-z]+)"`)

// Each kind of drawing can be saved as a self-contained SVG file and as a PNG file.
func TestSaveDrawings(t *testing.T) {
	v := visiting(t, written(t, whole()))
	drawn, err := strconv.Atoi(v.Eval(`String(document.querySelectorAll("[data-save]").length)`))
	if err != nil || drawn < 12 {
		t.Fatalf("%d drawings: %v", drawn, err)
	}
	if got := v.Eval(`String(document.querySelectorAll("[data-save] .save button").length)`); got != strconv.Itoa(2*drawn) {
		t.Errorf("%s buttons for %d drawings", got, drawn)
	}
	v.saves(drawings(t)...)
	v.quiet()
}

// saves clicks the save buttons of the first drawing of each kind, and checks the files.
func (v *visit) saves(kinds ...string) {
	v.Helper()
	dir := v.TempDir()
	if *browsertest.Shots != "" {
		dir = *browsertest.Shots
	}
	browsertest.Call(v.Tab, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir})
	for _, kind := range kinds {
		for k, ending := range []string{"svg", "png"} {
			time.Sleep(120 * time.Millisecond) // Chromium silently drops downloads if a page starts more than ten per second
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
			if strings.Contains(s, "class=") || strings.Contains(s, "var(") || !strings.Contains(s, `xmlns="http://www.w3.org/2000/svg"`) || !strings.Contains(s, "font-family=") {
				v.Errorf("%s: needs the page's style:\n%.400s", kind, s)
			}
			if err := xml.Unmarshal(data, new(struct{})); err != nil {
				v.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// The charts of load and of clients appear with their texts inside the window. Their lines contrast with the
// background.
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

// curve is a script that returns a description of a drawing, the names of its lines, and its faults, or "inside" if it
// has none.
const curve = `(() => {
  const figure = document.querySelector("[data-save=%s]"), svg = figure.querySelector("svg"), box = svg.getBoundingClientRect(), bad = [];
  if (!(box.width > 250 && box.height > 80 && box.left >= 0 && box.right <= innerWidth)) bad.push("the drawing is at " + JSON.stringify(box));
  const lum = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4, [r, g, b] = c.match(/[\d.]+/g).map(Number); return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = lum(getComputedStyle(figure).backgroundColor);
  const curves = [...svg.querySelectorAll(".curve, .second")];
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

// filtering is a script that types text into the filter of all ratios and returns the status text.
const filtering = `(() => {
  const all = document.querySelector("#ratios").parentElement.nextElementSibling, i = all.querySelector("input");
  i.value = %q;
  i.dispatchEvent(new Event("input"));
  return all.querySelector("[role=status]").textContent;
})()`

// arrives waits for a file that the browser downloads, and returns its contents.
func arrives(t *testing.T, path string) []byte {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			time.Sleep(50 * time.Millisecond) // Chromium renames the file when the download is complete
			return data
		}
	}
	t.Fatalf("%s was not saved", path)
	return nil
}

// Without scripts, the page shows the same contents, but no controls that need scripts.
func TestWithoutScripts(t *testing.T) {
	page := written(t, whole())
	v := visiting(t, page)
	words := `String([...document.querySelectorAll("h1, h2, h3, svg[role=img]:not(.save *), td, dd")].length)`
	with := v.Eval(words)
	browsertest.Call(v.Tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	browsertest.Act(v.Tab, chromedp.Navigate(v.url))
	if without := v.Eval(words); without != with || with == "0" {
		t.Errorf("%s elements with scripts, %s without", with, without)
	}
	if n := v.Eval(`String(document.querySelectorAll("button, input:not(.views input)").length)`); n != "0" {
		t.Errorf("%s dead controls", n)
	}
	v.Readable("without scripts", 50)
	v.quiet()
}

// The page of a run with a hundred cells is readable and can be filtered.
func TestLargePageInBrowser(t *testing.T) {
	v := visiting(t, written(t, report.New(reporttest.Hundred())))
	v.look(browsertest.Looks[2])
	v.Readable("phone", 50)
	if n := v.Eval(fmt.Sprintf(filtering, "qd8 worse")); !strings.HasSuffix(n, " of 80 rows") {
		t.Errorf("filtered: %q", n)
	}
	v.quiet()
}
