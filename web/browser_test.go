package web

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"iotax"
	"iotax/store"
)

var shots = flag.String("shots", "", "write pictures of the pages into this directory")

// A tab is a page in a real Chromium with a profile of its own, and all that it complained about or asked for.
type tab struct {
	*testing.T
	ctx      context.Context
	mu       sync.Mutex
	messages []string
	requests []string
	expected func(message string) bool // complaints that belong to what is tried
	axe      string
}

func browser(t *testing.T) *tab {
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
	axe, err := os.ReadFile(filepath.Join("..", "report", "testdata", "axe", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900)}
	for _, f := range []string{"headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "hide-scrollbars"} {
		opts = append(opts, chromedp.Flag(f, true))
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute) // on a machine that does other things too
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx, expected: func(string) bool { return false }, axe: string(axe)}
	err = chromedp.Listen(ctx, func(ev any) {
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
			if !strings.HasPrefix(ev.Request.URL, "data:") {
				b.requests = append(b.requests, ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

func call[P, R any](b *tab, cmd cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, cmd, params); err != nil {
		b.Fatal(err)
	}
}

func act[T any](b *tab, a chromedp.Action[T]) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func (b *tab) to(url string) { b.Helper(); act(b, chromedp.Navigate(url)) }

func (b *tab) js(script string) string {
	b.Helper()
	return act(b, chromedp.Evaluate[string]("String("+script+")"))
}

// until waits for a script to be true, also across pages.
func (b *tab) until(script string) {
	b.Helper()
	var last error
	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+script+")"))
		if last = err; err == nil && ok {
			return
		}
		if b.ctx.Err() != nil {
			break
		}
	}
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText.slice(0, 600)"))
	b.Fatalf("never true: %s (%v)\n%s", script, last, text)
}

// look sets the size of the window and the reader's preference.
func (b *tab) look(width, height int64, scheme string) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// quiet checks that the console is empty and that nothing was fetched from elsewhere.
func (b *tab) quiet(base string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		if !b.expected(m) {
			b.Errorf("console: %s", m)
		}
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, base) {
			b.Errorf("external request: %s", r)
		}
	}
	if len(b.requests) == 0 {
		b.Error("the listener saw no request at all")
	}
}

// looks are the windows that every page must fit, in light and dark.
var looks = []struct {
	name, scheme  string
	width, height int64
}{{"light", "light", 1280, 900}, {"dark", "dark", 1280, 900}, {"phone", "light", 390, 844}, {"phone-dark", "dark", 390, 844}, {"small", "light", 320, 640}}

func (b *tab) fits(page string) {
	b.Helper()
	for _, l := range looks {
		b.look(l.width, l.height, l.scheme)
		if over := b.js(overflow); over != "" {
			b.Errorf("%s, %s: wider than the window: %s", page, l.name, over)
		}
		if bad := b.js(contrast); bad != "" {
			b.Errorf("%s, %s: contrast below WCAG AA: %s", page, l.name, bad)
		}
		if bare := b.js(nameless); bare != "" {
			b.Errorf("%s, %s: without a name for those who do not see it: %s", page, l.name, bare)
		}
		if page != "run" && l.width != 320 { // the report has its own test
			act(b, chromedp.Evaluate[chromedp.Void](b.axe))
			if bad := act(b, chromedp.Evaluate[string](objections, chromedp.EvalAwaitPromise)); bad != "" {
				b.Errorf("%s, %s: axe objects:\n%s", page, l.name, bad)
			}
		}
		b.shot(page, l.name, l.width, l.height)
	}
	b.look(1280, 900, "light")
}

func (b *tab) shot(page, look string, width, height int64) {
	b.Helper()
	if *shots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*shots, "serve-"+page+"-"+look+".png"), act(b, chromedp.CaptureScreenshot()), 0o644); err != nil {
		b.Fatal(err)
	}
}

// The history of a store, a comparison by ticking, a report and a trend, as a visitor goes through them.
func TestBrowser(t *testing.T) {
	db, _ := open(t)
	nightly(60).fill(t, db)
	history{name: "shares-in-a-guest", runs: 2, blocks: 3, seed: 9}.fill(t, db)
	odd := history{name: "odd"}
	for i, status := range []iotax.Status{iotax.Failed, iotax.Interrupted, iotax.Incomplete} {
		run := odd.run(10*i + 3)
		run.Name, run.Status = "<script>alert(1)</script>", status
		if err := db.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	going := nightly(61)
	run := going.run(60)
	trials := going.trials(run, 60)[:23]
	run.Status, run.End = iotax.Running, time.Time{}
	if err := db.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, x := range trials {
		if err := db.Append(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t, Options{Store: db})
	s.now = func() time.Time { return trials[22].Start.Add(17 * time.Second) }
	base := serve(t, s)
	b := browser(t)

	b.to(base + "/")
	b.until(`document.querySelectorAll(".s-runs tbody tr").length == 50`)
	b.fits("history")
	// Sort by name: the address says so, and the first row is another.
	act(b, chromedp.Click(`.s-runs th.s-run a`))
	b.until(`location.search.includes("order=name") && document.querySelector(".s-runs .s-run").ariaSort == "ascending" && document.querySelector("tbody .s-run a").textContent.startsWith("<script>")`)
	act(b, chromedp.Click(`.s-pages a[rel=next]`))
	b.until(`location.search.includes("offset=50") && document.querySelectorAll(".s-runs tbody tr").length == 16`)
	// Filter, by key and by status.
	b.to(base + "/")
	act(b, chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id == "q"`)
	act(b, chromedp.Evaluate[chromedp.Void](`document.getElementById("q").value = ""`)) // the protocol sends the key's character all the same
	act(b, chromedp.KeyEvent("nightly-02\r"))
	b.until(`location.search.includes("q=nightly-02") && document.querySelectorAll(".s-runs tbody tr").length == 10`)
	b.to(base + "/")
	act(b, chromedp.Evaluate[chromedp.Void](`(() => { const s = document.getElementById("status"); s.value = "interrupted"; s.dispatchEvent(new Event("change")); })()`))
	b.until(`location.search.includes("status=interrupted") && document.querySelectorAll(".s-runs tbody tr").length == 1`)

	// Compare what is ticked.
	b.to(base + "/?q=nightly-01")
	b.until(`document.querySelector("[data-tray] button").disabled`)
	act(b, chromedp.Click(`input[value="nightly-019"]`))
	act(b, chromedp.Click(`input[value="nightly-012"]`))
	b.until(`!document.querySelector("[data-tray] button").disabled && document.querySelector("[data-count]").textContent == "2 runs"`)
	act(b, chromedp.Click(`[data-tray] button`))
	b.until(`location.pathname == "/compare" && document.querySelector("h1").textContent.includes("guest virtio-fs")`)
	b.fits("compare")
	b.to(base + "/compare?run=nightly-019&run=nightly-012&run=nightly-003&run=shares-in-a-guest-000")
	b.fits("compare-four")

	// A report, and back.
	b.to(base + "/runs/nightly-040")
	if n := b.js(`document.querySelectorAll("svg.forest").length`); n == "0" {
		t.Error("the report has no plot")
	}
	if c := b.js(`getComputedStyle(document.querySelector(".serve .s-mark")).fontWeight`); c != "680" {
		t.Errorf("the bar has no style: %s", c)
	}
	b.fits("run")
	// Under the server's policy too, drawings can be saved.
	b.js(`(() => { window.saved = ""; HTMLAnchorElement.prototype.click = function () { window.saved += this.download + " "; }; for (const x of document.querySelectorAll("figure .save button")) x.click(); })()`)
	b.until(`window.saved.includes(".svg") && window.saved.includes(".png")`)
	act(b, chromedp.Click(`.serve a[href^="/trends"]`))
	b.until(`location.pathname == "/trends" && document.querySelectorAll(".s-cellist a").length == 6`)
	b.fits("trends")
	act(b, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".s-cellist a")].find(a => a.textContent == "`+share+`").click()`))
	b.until(`location.pathname == "/trend" && document.querySelectorAll("svg.wide .s-change").length == 1`)
	b.fits("trend")
	b.to(base + "/runs/nightly-060/live")
	b.until(`document.querySelector("h1").textContent.startsWith("23 trials, at most")`)
	b.fits("live")
	b.to(base + "/login")
	b.until(`location.pathname == "/"`) // nothing is locked
	b.quiet(base)
}

// A server with a token, a run that goes on beside it, and the end of both, all as real processes.
func TestBrowserLive(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("needs fio")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "iotax")
	if out, err := exec.Command("go", "build", "-o", bin, "iotax/cmd/iotax").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db, secret := filepath.Join(dir, "iotax.db"), filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (*exec.Cmd, io.Reader) {
		t.Helper()
		cmd := exec.Command(bin, append([]string{"--store", db}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	server, out := command("serve", "--listen", "127.0.0.1:0", "--token-file", secret, "--json")
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			server.Process.Kill()
			server.Wait()
		}
	})
	var at struct{ URL string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(at.URL, "/")

	b := browser(t)
	b.expected = func(m string) bool { return strings.Contains(m, "401") }
	b.to(base + "/?q=live")
	b.until(`document.querySelector("h1").textContent == "iotax"`)
	b.fits("login")
	act(b, chromedp.SendKeys(`#token`, "not the token at all\r"))
	b.until(`document.querySelector("#wrong")`)
	act(b, chromedp.SendKeys(`#token`, token+"\r"))
	b.until(`location.search == "?q=live" && document.querySelector(".s-none")`)
	if c := b.js(`document.cookie`); c != "" {
		t.Errorf("scripts can read the cookie: %q", c)
	}

	places := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	for _, p := range places {
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	study := filepath.Join(dir, "study.yaml")
	if err := os.WriteFile(study, []byte("name: two places\ntargets:\n  first place: {dir: "+places[0]+"}\n  second place: {dir: "+places[1]+"}\nworkloads:\n"+
		"  4k random read: {fio: {rw: randread, bs: 4k, size: 4MiB}}\n"+
		"measure: {trial: 300ms, ramp: 100ms, blocks: 6}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run, printed := command("run", study, "--calibrate=no", "-q")
	report := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(printed)
		report <- string(text)
	}()
	// The list shows the run as soon as it is there.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		b.to(base + "/")
		if b.js(`!!document.querySelector(".s-runs .s-state.better")`) == "true" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run does not show up")
		}
	}
	act(b, chromedp.Click(`.s-runs tbody .s-run a`))
	b.until(`location.pathname.endsWith("/live")`)
	act(b, chromedp.Evaluate[chromedp.Void](`window.here = true`))
	b.until(`window.here && /^\d+ trial/.test(document.querySelector("h1").textContent)`)
	count := b.js(`parseInt(document.querySelector("h1").textContent)`)
	b.until(`window.here && parseInt(document.querySelector("h1").textContent) > ` + count)
	b.until(`window.here && document.querySelector(".s-lanes progress").value >= 1`)
	// When the run has ended, its report stands there.
	b.until(`!window.here && !location.pathname.endsWith("/live") && document.querySelector("svg.forest")`)
	text := <-report
	if err := run.Wait(); err != nil && !strings.Contains(err.Error(), "exit status 4") { // the precision may not be reached
		t.Errorf("run: %v\n%s", err, text)
	}

	// Log out.
	b.to(base + "/")
	act(b, chromedp.Click(`.s-bar form button`))
	b.until(`location.pathname == "/login"`)
	b.quiet(base)

	// An open live view does not keep the server from ending, and ending is no failure.
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err := <-ended:
		if stopped = true; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	case <-time.After(patience + 10*time.Second):
		t.Error("serve does not end")
	}
	s, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Get(t.Context(), "latest"); err != nil || errors.Is(err, store.ErrNotFound) || r.Status == iotax.Running {
		t.Errorf("%+v, %v", r, err)
	}
}

// objections are what axe finds against WCAG 2.1 A and AA and its best practices.
const objections = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then(r =>
  r.passes.length < 15 ? "only " + r.passes.length + " rules had something to look at" :
  r.violations.map(v => v.id + " (" + v.impact + ") " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("\n"))`

// overflow names the elements that make the page scroll sideways.
const overflow = `(() => {
  const w = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= w && document.body.scrollWidth <= w) return "";
  return [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > w + 1)
    .slice(0, 5).map(e => e.tagName + "." + (e.getAttribute("class") || "") + " " + e.getBoundingClientRect().right).join("; ") || "body " + document.body.scrollWidth;
})()`

// nameless are fields, links and pictures that a screen reader could not name.
const nameless = `(() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, svg, progress, table")].filter(e => {
  if (e.closest("[aria-hidden=true]") || e.tagName == "TABLE" && e.querySelector("thead th")) return false;
  return !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || e.labels && e.labels.length);
}).slice(0, 5).map(e => e.outerHTML.slice(0, 80)).join("; "))()`

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
    if (!walk.currentNode.nodeValue.trim() || ["TITLE", "DESC", "SCRIPT", "STYLE"].includes(e.tagName.toUpperCase()) || !e.getClientRects().length || e.disabled) continue;
    seen++;
    const s = getComputedStyle(e), svg = e instanceof SVGElement;
    const a = lum(parse(svg ? s.fill : s.color)), b = lum(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(s.fontSize) >= 24 || parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.add(e.tagName + "." + (e.getAttribute("class") || "") + " " + ratio.toFixed(2) + " " + walk.currentNode.nodeValue.trim().slice(0, 20));
  }
  return seen < 5 ? "only " + seen + " texts were looked at" : [...bad].slice(0, 8).join("; ");
})()`
