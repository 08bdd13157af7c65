package report

import (
	"bytes"
	"context"
	"encoding/xml"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write pictures of the page into this directory")

// browser starts a real Chromium with a profile of its own.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, p := range []string{"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"} {
		if _, err := os.Stat(p); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("needs chromium")
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900)}
	for _, f := range []string{"headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "hide-scrollbars"} {
		opts = append(opts, chromedp.Flag(f, true))
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*time.Minute) // seconds where nothing else runs
	t.Cleanup(cancel)
	return ctx
}

// A visit is one page in a browser, and what went wrong there meanwhile.
type visit struct {
	*testing.T
	ctx context.Context
	url string

	mu                 sync.Mutex
	messages, requests []string
}

// visiting serves page to a browser and opens it.
func visiting(t *testing.T, page []byte) *visit {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}))
	t.Cleanup(server.Close)
	v := &visit{T: t, ctx: browser(t), url: server.URL}
	err := chromedp.Listen(v.ctx, func(ev any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			v.messages = append(v.messages, string(ev.Type))
		case *runtime.EventExceptionThrown:
			v.messages = append(v.messages, ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			v.messages = append(v.messages, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "data:") && !strings.HasPrefix(ev.Request.URL, "blob:") {
				v.requests = append(v.requests, ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	call(t, v.ctx, network.Enable, network.EnableParams{})
	call(t, v.ctx, log.Enable, cdp.Empty{})
	call(t, v.ctx, runtime.Enable, cdp.Empty{})
	act(t, v.ctx, chromedp.Navigate(v.url))
	return v
}

// quiet fails the test if the browser said or fetched anything.
func (v *visit) quiet() {
	v.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.messages) > 0 {
		v.Errorf("console: %q", v.messages)
	}
	for _, r := range v.requests {
		if r != v.url+"/" {
			v.Errorf("external request: %s", r)
		}
	}
	if len(v.requests) == 0 {
		v.Error("the listener saw no request at all, not even the page's own")
	}
}

// looks are the ways in which the page is read.
var looks = []struct {
	name, scheme, media string
	width, height       int64
}{
	{"light", "light", "", 1280, 900},
	{"dark", "dark", "", 1280, 900},
	{"phone", "light", "", 390, 844},
	{"phone-dark", "dark", "", 390, 844},
	{"small", "light", "", 320, 640},
	{"print", "light", "print", 794, 1123},
}

func (v *visit) look(media, scheme string, width, height int64) {
	v.Helper()
	call(v.T, v.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	call(v.T, v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	act(v.T, v.ctx, chromedp.Navigate(v.url))
}

func (v *visit) eval(expression string) string {
	v.Helper()
	return act(v.T, v.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
}

func written(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The page in a real browser: no message on the console, no request but its own, nothing that sticks
// out sideways on a desk or a phone, readable colours in light and dark, and nothing that axe objects to.
func TestPageInBrowser(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	v := visiting(t, written(t, withLayers()))
	for _, c := range looks {
		v.look(c.media, c.scheme, c.width, c.height)
		if over := v.eval(overflow); over != "" {
			t.Errorf("%s: wider than the window: %s", c.name, over)
		}
		if bad := v.eval(contrast); bad != "" {
			t.Errorf("%s: contrast below WCAG AA: %s", c.name, bad)
		}
		if c.name == "light" || c.name == "phone-dark" {
			v.eval(`for (const d of document.querySelectorAll("details")) d.open = true; ""`)
			act(t, v.ctx, chromedp.Evaluate[bool](string(axe)+"; true"))
			if bad := v.eval(objections); bad != "" {
				t.Errorf("%s: axe objects:\n%s", c.name, bad)
			}
			v.eval(`document.querySelector("h1").style.color = "color-mix(in srgb, var(--bg) 80%, var(--ink))"; document.querySelector(".chart").removeAttribute("aria-label"); ""`)
			if bad := v.eval(objections); !strings.Contains(bad, "color-contrast") || !strings.Contains(bad, "svg-img-alt") {
				t.Errorf("%s: axe overlooks planted faults: %s", c.name, bad)
			}
			act(t, v.ctx, chromedp.Navigate(v.url))
		}
		if c.media == "print" {
			pdf := act(t, v.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize()))
			if n := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF")) || n < 3 || n > 20 {
				t.Errorf("%d bytes and %d pages of PDF", len(pdf), n)
			}
			if *shots != "" {
				save(t, c.name+".pdf", pdf)
			}
		}
		if *shots != "" {
			v.shoot(c.name, c.width)
		}
	}
	v.quiet()
}

// A comparison's page stands up to the same.
func TestComparisonInBrowser(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	c := compared(CompareOptions{FailOn: FailOnWorse})
	if err := c.HTML(&page); err != nil {
		t.Fatal(err)
	}
	v := visiting(t, page.Bytes())
	for _, l := range looks[:4] {
		v.look(l.media, l.scheme, l.width, l.height)
		if over := v.eval(overflow); over != "" {
			t.Errorf("%s: wider than the window: %s", l.name, over)
		}
		if l.name == "dark" || l.name == "phone" {
			act(t, v.ctx, chromedp.Evaluate[bool](string(axe)+"; true"))
			if bad := v.eval(objections); bad != "" {
				t.Errorf("%s: axe objects:\n%s", l.name, bad)
			}
		}
		if *shots != "" {
			v.shoot("compare-"+l.name, l.width)
		}
	}
	if got, want := v.eval(`document.querySelector("h1").textContent`), bind(clean(c.Answer)); got != want {
		t.Errorf("heading %q, want %q", got, want)
	}
	if got := v.eval(`String(document.querySelectorAll("#cells ~ .scroll tbody tr").length)`); got != strconv.Itoa(len(c.Rows)) {
		t.Errorf("%s rows for %d changes", got, len(c.Rows))
	}
	v.quiet()
}

// shoot takes a picture of the whole page.
func (v *visit) shoot(name string, width int64) {
	v.Helper()
	height := act(v.T, v.ctx, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	call(v.T, v.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	save(v.T, name+".png", act(v.T, v.ctx, chromedp.CaptureScreenshot()))
}

// Tables sort both ways with what is missing last, and filter.
func TestSortAndFilter(t *testing.T) {
	v := visiting(t, written(t, withLayers()))
	column := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".all tbody tr")].filter(r => !r.hidden).map(r => r.cells[%d].dataset.v ?? r.cells[%d].textContent).join("|")`, n, n)
	}
	click := func(n int) {
		v.eval(fmt.Sprintf(`document.querySelector(".all").open = true; document.querySelectorAll(".all thead button")[%d].click(); ""`, n))
	}
	before := v.eval(column(3))
	for _, down := range []bool{false, true} {
		click(3)
		var got []float64
		missing := false
		for _, s := range strings.Split(v.eval(column(3)), "|") {
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
		if got := v.eval(`document.querySelectorAll(".all thead th")[3].getAttribute("aria-sort")`); got != state {
			t.Errorf("aria-sort %q, want %q", got, state)
		}
	}
	click(1)
	names := strings.Split(v.eval(column(1)), "|")
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) || v.eval(column(3)) == before {
		t.Errorf("targets: %q", names)
	}

	filter := func(words string) (int, string) {
		said := v.eval(fmt.Sprintf(filtering, words))
		return len(strings.FieldsFunc(v.eval(column(1)), func(r rune) bool { return r == '|' })), said
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

	// The axis below a workload's rows stays below them.
	if last := v.eval(`document.querySelector(".cells thead button").click(); document.querySelector(".cells tbody").lastElementChild.className`); last != "axis" {
		t.Errorf("the last row of a sorted table is %q", last)
	}
	v.quiet()
}

// Printed values are sorted by what they mean: 1.3 GiB/s is more than 54 MiB/s.
func TestSortByUnit(t *testing.T) {
	v := visiting(t, written(t, laidOut("tart")))
	got := v.eval(`(() => {
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

// Each drawing can be saved, as an SVG that is whole without the page and as a PNG.
func TestSaveDrawings(t *testing.T) {
	v := visiting(t, written(t, withLayers()))
	dir := t.TempDir()
	if *shots != "" {
		dir = *shots
	}
	call(t, v.ctx, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir})
	drawings, err := strconv.Atoi(v.eval(`String(document.querySelectorAll("figure[data-save]").length)`))
	if err != nil || drawings < 10 {
		t.Fatalf("%d drawings: %v", drawings, err)
	}
	if got := v.eval(`String(document.querySelectorAll("figure[data-save] .save button[aria-label^='Save as']").length)`); got != strconv.Itoa(2*drawings) {
		t.Errorf("%s buttons for %d drawings", got, drawings)
	}
	for _, kind := range []string{"ratios", "latency", "cost", "time", "layers"} {
		for k, ending := range []string{"svg", "png"} {
			v.eval(fmt.Sprintf(`document.querySelectorAll("figure[data-save=%s] .save button")[%d].click(); ""`, kind, k))
			data := arrives(t, filepath.Join(dir, "iotax-"+kind+"."+ending))
			if ending == "png" {
				img, err := png.Decode(bytes.NewReader(data))
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					continue
				}
				colours := map[color.Color]bool{}
				for y := range img.Bounds().Dy() {
					for x := range img.Bounds().Dx() {
						colours[img.At(x, y)] = true
					}
				}
				if img.Bounds().Dx() < 600 || len(colours) < 10 {
					t.Errorf("%s: a picture of %v with %d colours", kind, img.Bounds(), len(colours))
				}
				continue
			}
			s := string(data)
			if strings.Contains(s, "class=") || strings.Contains(s, "var(") || !strings.Contains(s, `xmlns="http://www.w3.org/2000/svg"`) || !strings.Contains(s, "font-family=") {
				t.Errorf("%s: needs the page's style:\n%.400s", kind, s)
			}
			if err := xml.Unmarshal(data, new(struct{})); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	v.quiet()
}

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
	page := written(t, withLayers())
	v := visiting(t, page)
	words := `String([...document.querySelectorAll("h1, h2, h3, svg[role=img], td, dd")].length)`
	with := v.eval(words)
	call(t, v.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	act(t, v.ctx, chromedp.Navigate(v.url))
	if without := v.eval(words); without != with || with == "0" {
		t.Errorf("%s elements with scripts, %s without", with, without)
	}
	if n := v.eval(`String(document.querySelectorAll("button, input").length)`); n != "0" {
		t.Errorf("%s dead controls", n)
	}
	if over := v.eval(overflow); over != "" {
		t.Errorf("wider than the window: %s", over)
	}
	v.quiet()
}

// A run of a hundred cells is laid out and can be sorted and filtered without a wait.
func TestLargePageInBrowser(t *testing.T) {
	v := visiting(t, written(t, New(hundred())))
	v.look("", "light", 390, 844)
	if over := v.eval(overflow); over != "" {
		t.Errorf("wider than the window: %s", over)
	}
	if *shots != "" {
		v.look("", "light", 1280, 900)
		save(t, "hundred.png", act(t, v.ctx, chromedp.CaptureScreenshot()))
	}
	if n := v.eval(fmt.Sprintf(filtering, "qd8 worse")); !strings.HasSuffix(n, " of 80 ratios") {
		t.Errorf("filtered: %q", n)
	}
	v.quiet()
}

func call[P, R any](t *testing.T, ctx context.Context, cmd cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(ctx, cmd, params); err != nil {
		t.Fatal(err)
	}
}

func act[T any](t *testing.T, ctx context.Context, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func save(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(*shots, "iotax-report-"+name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// overflow names the elements that make the page scroll sideways.
const overflow = `(() => {
  const w = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= w && document.body.scrollWidth <= w) return "";
  return [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > w + 1)
    .slice(0, 5).map(e => e.tagName + "." + (e.getAttribute("class") || "") + " " + e.getBoundingClientRect().right).join("; ") || "body " + document.body.scrollWidth;
})()`

// contrast names visible texts whose colour stands out less than WCAG AA asks (4.5, large text 3).
const contrast = `(() => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const lum = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || ["TITLE", "DESC"].includes(e.tagName.toUpperCase()) || !e.getClientRects().length) continue;
    seen++;
    const s = getComputedStyle(e), svg = e instanceof SVGElement;
    const a = lum(parse(svg ? s.fill : s.color)), b = lum(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(s.fontSize) >= 24 || parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.add(e.tagName + "." + (e.getAttribute("class") || "") + " " + ratio.toFixed(2) + " " + walk.currentNode.nodeValue.trim().slice(0, 20));
  }
  return seen < 50 ? "only " + seen + " texts were looked at" : [...bad].slice(0, 8).join("; ");
})()`

// objections are what axe finds against WCAG 2.1 A and AA and its best practices.
const objections = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then(r =>
  r.passes.length < 15 ? "only " + r.passes.length + " rules had something to look at" :
  r.violations.map(v => v.id + " (" + v.impact + ") " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("\n"))`
