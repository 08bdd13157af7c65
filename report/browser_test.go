package report

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	ctx, cancel = context.WithTimeout(ctx, 50*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The page in a real browser: no message on the console, no request but its own, nothing that sticks
// out sideways on a desk or a phone, readable colours in light and dark.
func TestPageInBrowser(t *testing.T) {
	var html bytes.Buffer
	if err := New(fixture()).HTML(&html); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html.Bytes())
	}))
	defer server.Close()

	ctx := browser(t)
	var mu sync.Mutex
	var messages, requests []string
	err := chromedp.Listen(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			messages = append(messages, string(ev.Type))
		case *runtime.EventExceptionThrown:
			messages = append(messages, ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			messages = append(messages, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "data:") {
				requests = append(requests, ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	call(t, ctx, network.Enable, network.EnableParams{})
	call(t, ctx, log.Enable, cdp.Empty{})
	call(t, ctx, runtime.Enable, cdp.Empty{})

	for _, c := range []struct {
		name, scheme, media string
		width, height       int64
	}{
		{"light", "light", "", 1280, 900},
		{"dark", "dark", "", 1280, 900},
		{"phone", "light", "", 390, 844},
		{"phone-dark", "dark", "", 390, 844},
		{"small", "light", "", 320, 640},
		{"print", "light", "print", 794, 1123},
	} {
		size := emulation.SetDeviceMetricsOverrideParams{Width: c.width, Height: c.height, DeviceScaleFactor: 1, Mobile: c.width < 500}
		call(t, ctx, emulation.SetDeviceMetricsOverride, size)
		call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: c.media,
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}}})
		act(t, ctx, chromedp.Navigate(server.URL))
		if over := act(t, ctx, chromedp.Evaluate[string](overflow)); over != "" {
			t.Errorf("%s: wider than the window: %s", c.name, over)
		}
		if bad := act(t, ctx, chromedp.Evaluate[string](contrast)); bad != "" {
			t.Errorf("%s: contrast below WCAG AA: %s", c.name, bad)
		}
		if *shots == "" {
			continue
		}
		if c.media == "print" {
			save(t, c.name+".pdf", act(t, ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize())))
		}
		size.Height = act(t, ctx, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
		call(t, ctx, emulation.SetDeviceMetricsOverride, size)
		save(t, c.name+".png", act(t, ctx, chromedp.CaptureScreenshot()))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(messages) > 0 {
		t.Errorf("console: %q", messages)
	}
	for _, r := range requests {
		if r != server.URL+"/" {
			t.Errorf("external request: %s", r)
		}
	}
	if len(requests) == 0 {
		t.Error("the listener saw no request at all, not even the page's own")
	}
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
