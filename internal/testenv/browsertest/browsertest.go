// Package browsertest opens pages in a real Chromium for tests. It reports console messages, network requests, elements
// that overflow the window, and accessibility problems.
package browsertest

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Shots is the directory for screenshots of the pages; "" means no screenshots.
var Shots = flag.String("shots", "", "write pictures of the pages into this directory")

// A Tab is a page in a browser with its own profile. It records the page's console messages and requests.
type Tab struct {
	*testing.T
	Ctx      context.Context
	Expected func(message string) bool // reports whether the test expects a console message

	mu                 sync.Mutex
	messages, requests []string
}

// Open starts a browser. The browser ends with the test. Without a Chromium, Open skips the test.
func Open(t *testing.T) *Tab {
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
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute) // a test takes seconds on an idle machine
	t.Cleanup(cancel)
	b := &Tab{T: t, Ctx: ctx, Expected: func(string) bool { return false }}
	err := chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			b.messages = append(b.messages, string(ev.Type))
		case *runtime.EventExceptionThrown:
			b.messages = append(b.messages, ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			b.messages = append(b.messages, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "data:") && !strings.HasPrefix(ev.Request.URL, "blob:") {
				b.requests = append(b.requests, ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	Call(b, network.Enable, network.EnableParams{})
	Call(b, log.Enable, cdp.Empty{})
	Call(b, runtime.Enable, cdp.Empty{})
	return b
}

// Call sends a command of the DevTools protocol. It fails the test on an error.
func Call[P, R any](b *Tab, cmd cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.Ctx, cmd, params); err != nil {
		b.Fatal(err)
	}
}

// Act runs an action, waits until it is done, and returns its result. It fails the test on an error.
func Act[T any](b *Tab, a chromedp.Action[T]) T {
	b.Helper()
	v, err := chromedp.Run(b.Ctx, a)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// To opens a URL.
func (b *Tab) To(url string) { b.Helper(); Act(b, chromedp.Navigate(url)) }

// Eval returns the result of a script. The result must be a string, or a promise of one.
func (b *Tab) Eval(script string) string {
	b.Helper()
	return Act(b, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
}

// Until waits until a script returns true, even if the tab loads another page meanwhile. It fails the test after 60 s.
func (b *Tab) Until(script string) {
	b.Helper()
	var last error
	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(b.Ctx, chromedp.Evaluate[bool]("!!("+script+")"))
		if last = err; err == nil && ok {
			return
		}
		if b.Ctx.Err() != nil {
			break
		}
	}
	text, _ := chromedp.Run(b.Ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText.slice(0, 600)"))
	b.Fatalf("never true: %s (%v)\n%s", script, last, text)
}

// Quiet fails the test if the console has an unexpected message, if the page requested a URL that does not start with
// base, or if no request was recorded.
func (b *Tab) Quiet(base string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		if !b.Expected(m) {
			b.Errorf("console: %s", m)
		}
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, base) {
			b.Errorf("external request: %s", r)
		}
	}
	if len(b.requests) == 0 {
		b.Error("the listener saw no request at all, not even the page's own")
	}
}

// A Look is a window size and color scheme with which a page is tested.
type Look struct {
	Name, Scheme, Media string
	Width, Height       int64
}

// Looks lists the window sizes and color schemes that every page must support.
var Looks = []Look{
	{"light", "light", "", 1280, 900},
	{"dark", "dark", "", 1280, 900},
	{"phone", "light", "", 390, 844},
	{"phone-dark", "dark", "", 390, 844},
	{"small", "light", "", 320, 640},
}

// Print is the look of a page that is printed on paper.
var Print = Look{"print", "light", "print", 794, 1123}

// As applies the window size, the color scheme and the media type of l. It turns off motion, so that tests need not
// wait for animations to end.
func (b *Tab) As(l Look) {
	b.Helper()
	b.size(l.Width, l.Height)
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: l.Media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

func (b *Tab) size(width, height int64) {
	b.Helper()
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
}

// Readable fails the test if the page overflows the window horizontally, if the contrast of a text is below WCAG AA, or
// if an element has no accessible name. `least` is the minimum number of texts on the page, so that the test cannot
// pass on an empty page.
func (b *Tab) Readable(what string, least int) {
	b.Helper()
	if over := b.Eval(overflow); over != "" {
		b.Errorf("%s: wider than the window: %s", what, over)
	}
	if bad := b.Eval(fmt.Sprintf(contrast, least)); bad != "" {
		b.Errorf("%s: contrast below WCAG AA: %s", what, bad)
	}
	if bare := b.Eval(nameless); bare != "" {
		b.Errorf("%s: without a name for those who do not see it: %s", what, bare)
	}
}

// Keyboard opens all folds and presses Tab through the page. Faults are elements that only a mouse can use, and a focus
// that does not follow the order of the page, is not visible, or is outside the window. Keyboard returns the first
// fault, or "" if there is none. `least` is the minimum number of elements, so that the check cannot pass on an empty
// page.
func (b *Tab) Keyboard(least int) string {
	b.Helper()
	n, err := strconv.Atoi(b.Eval(reachable))
	if err != nil {
		b.Fatal(err)
	}
	if n < least {
		return fmt.Sprintf("only %d elements for a keyboard", n)
	}
	bad := b.Eval(`mouseOnly`)
	for k := 0; k < n && bad == ""; k++ {
		Act(b, chromedp.KeyEvent("\t"))
		bad = b.Eval(fmt.Sprintf("focused(%d)", k))
	}
	return bad
}

//go:embed axe/axe.min.js
var axe string

// Objections returns the violations of WCAG 2.1 A and AA and of best practices that axe finds, or "" if there are none.
// It also objects if fewer than 15 of axe's rules pass, as on an empty page.
func (b *Tab) Objections() string {
	b.Helper()
	Act(b, chromedp.Evaluate[bool](axe+"; true"))
	return b.Eval(objections)
}

// Shot takes a screenshot of the window if -shots is set.
func (b *Tab) Shot(name string) {
	b.Helper()
	if *Shots != "" {
		b.Save(name+".png", Act(b, chromedp.CaptureScreenshot()))
	}
}

// ShotWhole takes a screenshot of the full height of the page in a window of the given width, if -shots is set.
func (b *Tab) ShotWhole(name string, width int64) {
	b.Helper()
	if *Shots != "" {
		b.size(width, Act(b, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`)))
		b.Shot(name)
	}
}

// Save writes a file to the directory of the screenshots.
func (b *Tab) Save(name string, data []byte) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(*Shots, name), data, 0o644); err != nil {
		b.Fatal(err)
	}
}

const objections = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then(r =>
  r.passes.length < 15 ? "only " + r.passes.length + " rules had something to look at" :
  r.violations.map(v => v.id + " (" + v.impact + ") " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("\n"))`

// reachable is a script that returns the number of elements that a keyboard must reach. If a radio button is checked,
// the script counts only that button of the group. The script defines mouseOnly, which lists elements that only a
// mouse can use, and focused, which returns what is wrong with the focus after Tab number k.
const reachable = `(() => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  document.body.tabIndex = -1;
  document.body.focus(); // Tab starts from the focus, which may be on a field of the page
  document.body.removeAttribute("tabindex");
  const text = e => e.outerHTML.slice(0, 120);
  const usable = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const all = [...document.querySelectorAll(usable)].filter(e => e.getClientRects().length && e.checkVisibility({ visibilityProperty: true }) && !e.disabled &&
    !(e.type === "radio" && !e.checked && document.querySelector("input:checked[name='" + e.name + "']")));
  window.mouseOnly = [...document.querySelectorAll("body *")].filter(e => e.getClientRects().length && (getComputedStyle(e).cursor === "pointer" || e.onclick) && !e.closest(usable + ", label"))
    .slice(0, 5).map(e => "only for a mouse: " + text(e)).join("; ");
  window.focused = k => {
    const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
    if (e !== all[k]) return "the focus is on " + text(e) + ", and not on " + text(all[k]);
    if (s.outlineStyle === "none" || !(parseFloat(s.outlineWidth) >= 1)) return "no visible focus on " + text(e);
    return r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth ? "" : "outside the window: " + text(e);
  };
  return String(all.length);
})()`

// overflow lists the elements that make the page scroll horizontally.
const overflow = `(() => {
  const w = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= w && document.body.scrollWidth <= w) return "";
  return [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > w + 1)
    .slice(0, 5).map(e => e.tagName + "." + (e.getAttribute("class") || "") + " " + e.getBoundingClientRect().right).join("; ") || "body " + document.body.scrollWidth;
})()`

// nameless lists elements that have no accessible name.
const nameless = `(() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, svg, progress, table")].filter(e => {
  if (e.closest("[aria-hidden=true]") || e.tagName == "TABLE" && e.querySelector("thead th")) return false;
  return !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || e.labels && e.labels.length);
}).slice(0, 5).map(e => e.outerHTML.slice(0, 80)).join("; "))()`

// contrast lists visible texts with less contrast than WCAG AA requires (4.5; large text 3).
const contrast = `(() => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const lum = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || ["TITLE", "DESC", "SCRIPT", "STYLE"].includes(e.tagName.toUpperCase()) || !e.getClientRects().length || e.disabled) continue;
    seen++;
    const s = getComputedStyle(e), svg = e instanceof SVGElement;
    const a = lum(parse(svg ? s.fill : s.color)), b = lum(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(s.fontSize) >= 24 || parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.add(e.tagName + "." + (e.getAttribute("class") || "") + " " + ratio.toFixed(2) + " " + walk.currentNode.nodeValue.trim().slice(0, 20));
  }
  return seen < %d ? "only " + seen + " texts were looked at" : [...bad].slice(0, 8).join("; ");
})()`
