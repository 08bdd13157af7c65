package web

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"iotax"
	"iotax/internal/store"
	"iotax/internal/testenv/browsertest"
	"iotax/internal/testenv/long"
)

// A tab adds helpers for the pages of this server to a browser tab.
type tab struct{ *browsertest.Tab }

// js evaluates a script and returns its result as a string.
func (b tab) js(script string) string { b.Helper(); return b.Eval("String(" + script + ")") }

// fits checks that a page is readable in all browsertest.Looks and usable with a keyboard, and that axe finds no fault
// in it. It skips axe in windows that are 320 pixels wide.
func (b tab) fits(page string) {
	b.Helper()
	for _, l := range browsertest.Looks {
		b.As(l)
		b.Readable(page+", "+l.Name, 5)
		if l.Width != 320 {
			if bad := b.Objections(); bad != "" {
				b.Errorf("%s, %s: axe objects:\n%s", page, l.Name, bad)
			}
		}
		b.Shot("serve-" + page + "-" + l.Name)
	}
	b.As(browsertest.Looks[0])
	if bad := b.Tab.Keyboard(2); bad != "" {
		b.Errorf("%s, with a keyboard: %s", page, bad)
	}
}

// TestBrowser visits the history of a store, compares ticked runs, and follows links to reports and trends.
func TestBrowser(t *testing.T) {
	long.Test(t)
	db, _ := open(t)
	nightly(60).fill(t, db)
	history{name: "shares-in-a-guest", runs: 2, rounds: 3, seed: 9}.fill(t, db)
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
	b := tab{browsertest.Open(t)}

	b.To(base + "/")
	b.Until(`document.querySelectorAll(".s-runs tbody tr").length == 50`)
	b.fits("history")
	// Sort by name: the address changes, and so does the first row.
	browsertest.Act(b.Tab, chromedp.Click(`.s-runs th.s-run a`))
	b.Until(`location.search.includes("order=name") && document.querySelector(".s-runs .s-run").ariaSort == "ascending" && document.querySelector("tbody .s-run a").textContent.startsWith("<script>")`)
	browsertest.Act(b.Tab, chromedp.Click(`.s-pages a[rel=next]`))
	b.Until(`location.search.includes("offset=50") && document.querySelectorAll(".s-runs tbody tr").length == 16`)
	// Filter with the keyboard and by status.
	b.To(base + "/")
	browsertest.Act(b.Tab, chromedp.KeyEvent("/"))
	b.Until(`document.activeElement.id == "q"`)
	browsertest.Act(b.Tab, chromedp.Evaluate[chromedp.Void](`document.getElementById("q").value = ""`)) // the DevTools protocol also types the shortcut's character into the field
	browsertest.Act(b.Tab, chromedp.KeyEvent("nightly-02\r"))
	b.Until(`location.search.includes("q=nightly-02") && document.querySelectorAll(".s-runs tbody tr").length == 10`)
	b.To(base + "/")
	browsertest.Act(b.Tab, chromedp.Evaluate[chromedp.Void](`(() => { const s = document.getElementById("status"); s.value = "interrupted"; s.dispatchEvent(new Event("change")); })()`))
	b.Until(`location.search.includes("status=interrupted") && document.querySelectorAll(".s-runs tbody tr").length == 1`)

	b.To(base + "/?q=nightly-01")
	b.Until(`document.querySelector("[data-tray] button").disabled`)
	browsertest.Act(b.Tab, chromedp.Click(`input[value="nightly-019"]`))
	browsertest.Act(b.Tab, chromedp.Click(`input[value="nightly-012"]`))
	b.Until(`!document.querySelector("[data-tray] button").disabled && document.querySelector("[data-count]").textContent == "2 runs"`)
	browsertest.Act(b.Tab, chromedp.Click(`[data-tray] button`))
	b.Until(`location.pathname == "/compare" && document.querySelector("h1").textContent.includes("guest virtio-fs")`)
	b.fits("compare")
	b.To(base + "/compare?run=nightly-019&run=nightly-012&run=nightly-003&run=shares-in-a-guest-000")
	b.fits("compare-four")
	// Follow a number to its trend, which is judged by value like the comparison.
	browsertest.Act(b.Tab, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".scroll tbody tr")].find(r => r.textContent.includes("`+share+`") && r.querySelector("a[href^='/trend']")).querySelector("a[href^='/trend']").click()`))
	b.Until(`location.pathname == "/trend" && location.search.includes("by=value") && document.querySelector("main").textContent.includes(" at ` + share + ` got worse")`)

	// Open a report, then trends from it.
	b.To(base + "/runs/nightly-040")
	if n := b.js(`document.querySelectorAll("#ratios svg").length`); n == "0" {
		t.Error("the report has no plot")
	}
	if c := b.js(`getComputedStyle(document.querySelector(".serve .s-mark")).fontWeight`); c != "680" {
		t.Errorf("the bar has no style: %s", c)
	}
	b.fits("run")
	// The content security policy of the server allows saving drawings.
	b.js(`(() => { window.saved = ""; HTMLAnchorElement.prototype.click = function () { window.saved += this.download + " "; }; for (const x of document.querySelectorAll("figure .save button")) x.click(); })()`)
	b.Until(`window.saved.includes(".svg") && window.saved.includes(".png")`)
	browsertest.Act(b.Tab, chromedp.Click(`main > .scroll tbody tr:nth-child(3) a[href^="/trend"]`))
	b.Until(`location.pathname == "/trend" && document.querySelector("main").textContent.includes(" at ` + share + ` got worse")`)
	b.To(base + "/runs/nightly-040")
	browsertest.Act(b.Tab, chromedp.Click(`.serve a[href^="/trends"]`))
	b.Until(`location.pathname == "/trends" && document.querySelectorAll(".s-cellist a").length == 6`)
	b.fits("trends")
	browsertest.Act(b.Tab, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".s-cellist a")].find(a => a.textContent == "`+share+`").click()`))
	b.Until(`location.pathname == "/trend" && document.querySelectorAll("#trend .wide .rule").length == 1`)
	b.fits("trend")
	b.To(base + "/runs/nightly-060/live")
	b.Until(`document.querySelector("h1").textContent.startsWith("23 trials, at most")`)
	b.fits("live")
	b.To(base + "/login")
	b.Until(`location.pathname == "/"`) // without a token, the login page redirects to the history
	b.Quiet(base)
}

// TestBrowserLive runs a server with a token and a concurrent measurement as real processes, and stops both.
func TestBrowserLive(t *testing.T) {
	long.Test(t)
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
	if s, err := store.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	} else if err := s.Close(); err != nil {
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

	b := tab{browsertest.Open(t)}
	b.Expected = func(m string) bool { return strings.Contains(m, "401") }
	b.To(base + "/?q=live")
	b.Until(`document.querySelector("h1").textContent == "iotax"`)
	b.fits("login")
	browsertest.Act(b.Tab, chromedp.SendKeys(`#token`, "not the token at all\r"))
	b.Until(`document.querySelector("#wrong")`)
	browsertest.Act(b.Tab, chromedp.SendKeys(`#token`, token+"\r"))
	b.Until(`location.search == "?q=live" && document.querySelector(".s-none")`)
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
		"measure: {trial: 300ms, ramp: 100ms, rounds: {min: 200, max: 200}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run, printed := command("run", study, "--calibrate=no", "-q")
	report := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(printed)
		report <- string(text)
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		b.To(base + "/")
		if b.js(`!!document.querySelector(".s-runs .s-state.better")`) == "true" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run does not show up")
		}
	}
	browsertest.Act(b.Tab, chromedp.Click(`.s-runs tbody .s-run a`))
	b.Until(`location.pathname.endsWith("/live")`)
	browsertest.Act(b.Tab, chromedp.Evaluate[chromedp.Void](`window.here = true`))
	b.Until(`window.here && /^\d+ trial/.test(document.querySelector("h1").textContent)`)
	count := b.js(`parseInt(document.querySelector("h1").textContent)`)
	b.Until(`window.here && parseInt(document.querySelector("h1").textContent) > ` + count)
	b.Until(`window.here && document.querySelector(".s-lanes progress").value >= 6`)
	// Interrupt the run only now, so that it lasts until the browser has seen its progress. The live view then changes
	// to the report.
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	b.Until(`!window.here && !location.pathname.endsWith("/live") && document.querySelector("#ratios svg")`)
	text := <-report
	if err := run.Wait(); err == nil || !strings.Contains(err.Error(), "exit status 130") {
		t.Errorf("the interrupted run: %v\n%s", err, text)
	}

	b.To(base + "/")
	browsertest.Act(b.Tab, chromedp.Click(`.s-bar form button`))
	b.Until(`location.pathname == "/login"`)
	b.Quiet(base)

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
