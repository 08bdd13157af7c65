package report

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"iotax"
	"iotax/report/browsertest"
)

var pictures = flag.String("pictures", "", "write the pictures of docs/reports.md into this directory: scripts/pictures does")

// drawn is a run as the pictures show it: the places of the suite quick, ten seconds a trial, made-up numbers.
func drawn() *Report {
	run, trials := detailed()
	run.Targets = run.Targets[:3]
	var kept []*iotax.Trial
	for _, t := range trials {
		if t.Target == hostDisk || t.Target == virtioBlk || t.Target == virtioFS {
			kept = append(kept, t)
		}
	}
	r := New(run, kept)
	r.Waterfalls = withLayers().Waterfalls
	r.Waterfalls[0].Hops = r.Waterfalls[0].Hops[:2]
	r.Waterfalls[0].Total = r.Waterfalls[0].Hops[1]
	r.Waterfalls[0].Total.Ratio.Estimate, r.Waterfalls[0].Total.Ratio.Lo, r.Waterfalls[0].Total.Ratio.Hi = .312, .304, .322
	return r
}

// The pictures in the docs are made by this test and no hand. Without -pictures it makes them for nothing but
// their size, which a repository has to bear.
func TestPictures(t *testing.T) {
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	v := visiting(t, written(t, drawn()))
	for _, p := range []struct {
		name, scheme  string
		width, height int64
		at            string // what stands at the top of the picture
	}{
		{"report-light", "light", 1100, 1000, ""},
		{"report-dark", "dark", 1100, 1000, "#w1"},
		{"report-phone", "light", 390, 844, ""},
	} {
		v.look(browsertest.Look{Scheme: p.scheme, Width: p.width, Height: p.height})
		v.Eval(unpointed)
		y := 0.0
		if p.at != "" {
			y = browsertest.Act(v.Tab, chromedp.Evaluate[float64]("Math.max(0, document.querySelector('"+p.at+"').getBoundingClientRect().top - 24)"))
		}
		v.picture(filepath.Join(dir, p.name+".png"), y, float64(p.width), float64(p.height))
	}
	var c bytes.Buffer
	if err := compared(CompareOptions{FailOn: FailOnWorse, Margin: .05}).HTML(&c); err != nil {
		t.Fatal(err)
	}
	w := visiting(t, c.Bytes())
	w.look(browsertest.Look{Scheme: "light", Width: 1100, Height: 800})
	w.Eval(unpointed)
	w.picture(filepath.Join(dir, "compare.png"), 0, 1100, 800)
}

// unpointed removes what shows only where a reader points.
const unpointed = `document.querySelectorAll(".save").forEach(e => e.remove()); ""`

func (v *visit) picture(path string, y, width, height float64) {
	v.Helper()
	browsertest.Call(v.Tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: int64(y + height), DeviceScaleFactor: 1})
	shot, err := chromedp.Call(v.Ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{X: 0, Y: y, Width: width, Height: height, Scale: 1}})
	if err != nil {
		v.Fatal(err)
	}
	if c, err := png.DecodeConfig(bytes.NewReader(shot.Data)); err != nil || c.Width != int(width) || c.Height != int(height) || len(shot.Data) > 300<<10 {
		v.Errorf("%s: %d bytes, %v: %v", path, len(shot.Data), c, err)
	}
	if err := os.WriteFile(path, shot.Data, 0o644); err != nil {
		v.Fatal(err)
	}
}
