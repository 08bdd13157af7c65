package browsertest

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	list     = flag.String("list", "", "file with a picture a line: NAME ADDRESS SCHEME WIDTHxHEIGHT, and the selector of what stands at the top")
	pictures = flag.String("pictures", "", "write the pictures of the list into this directory: scripts/pictures does")
)

// TestPictures takes the pictures in the docs. Without -list, it takes one picture of a built-in page.
func TestPictures(t *testing.T) {
	dir, lines := *pictures, []byte(nil)
	if *list == "" {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `<!DOCTYPE html><title>t</title><style>@media (prefers-color-scheme: dark) { body { background: #102030 } }</style><p style="height:900px">above</p><h2>below</h2><p style="height:900px">`)
		}))
		defer server.Close()
		dir, lines = t.TempDir(), fmt.Appendf(nil, "own %s dark 390x200 h2\n", server.URL)
	} else {
		var err error
		if lines, err = os.ReadFile(*list); err != nil {
			t.Fatal(err)
		}
	}
	b := Open(t)
	taken := 0
	for line := range strings.Lines(string(lines)) {
		w := strings.SplitN(strings.TrimSpace(line), " ", 5)
		if len(w) < 4 {
			t.Fatalf("not a picture: %q", line)
		}
		l := Look{Name: w[0], Scheme: w[2]}
		if _, err := fmt.Sscanf(w[3], "%dx%d", &l.Width, &l.Height); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		b.As(l)
		b.To(w[1])
		// Leave out elements that appear only under the pointer.
		b.Eval(`document.querySelectorAll(".save").forEach(e => e.remove()); ""`)
		y := 0.0
		if len(w) > 4 {
			y = Act(b, chromedp.Evaluate[float64](fmt.Sprintf("Math.max(0, document.querySelector(%q).getBoundingClientRect().top + scrollY - 8)", w[4])))
		}
		Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.Width, Height: int64(y) + l.Height, DeviceScaleFactor: 1})
		shot, err := chromedp.Call(b.Ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{X: 0, Y: y, Width: float64(l.Width), Height: float64(l.Height), Scale: 1}})
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(shot.Data))
		if err != nil || img.Bounds().Dx() != int(l.Width) || img.Bounds().Dy() != int(l.Height) || len(shot.Data) > 300<<10 { // larger files do not belong in the repository
			t.Errorf("%s: %d bytes: %v", l.Name, len(shot.Data), err)
			continue
		}
		if r, g, bl, _ := img.At(2, 2).RGBA(); l.Scheme == "dark" && r+g+bl > 3*0x7000 {
			t.Errorf("%s: the ground is light in the dark", l.Name)
		}
		if err := os.WriteFile(filepath.Join(dir, l.Name+".png"), shot.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		taken++
	}
	if taken == 0 {
		t.Error("no picture was taken")
	}
}
