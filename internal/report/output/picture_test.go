package output

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/chart"
	"iotax/internal/testenv/reporttest"
)

var pictureFile = flag.String("picture", "", "write the fixture's PNG to this file, to look at")

func colourOf(t *testing.T, s string) color.NRGBA {
	t.Helper()
	c := color.NRGBA{A: 255}
	if _, err := fmt.Sscanf(s, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		t.Fatal(err)
	}
	return c
}

func isColour(img image.Image, x, y float64, want color.NRGBA) bool {
	r, g, b, _ := img.At(int(math.Round(x)), int(math.Round(y))).RGBA()
	d := func(a uint32, b uint8) float64 { return math.Abs(float64(a>>8) - float64(b)) }
	return d(r, want.R)+d(g, want.G)+d(b, want.B) < 12
}

// The PNG has PNGScale times the size of the SVG, with marks and the equivalence band in the same places. It also shows
// text.
func TestPicture(t *testing.T) {
	r := report.New(reporttest.Fixture())
	svg, img := pictures(t, r)
	var width, height float64
	if _, err := fmt.Sscanf(svg[strings.Index(svg, "width="):], `width="%g" height="%g"`, &width, &height); err != nil {
		t.Fatal(err)
	}
	if got := img.Bounds().Size(); got.X != int(chart.PNGScale*width) || got.Y != int(chart.PNGScale*height) {
		t.Errorf("%v pixels for %v × %v", got, width, height)
	}
	if strings.Contains(svg, "var(") || strings.Contains(svg, "class=") || !strings.Contains(svg, "1.41× slower") {
		t.Error("the picture needs a browser, or shows no ratio")
	}
	if !strings.Contains(svg, "ratio to "+reporttest.HostDisk+", 1") {
		t.Errorf("no baseline and date in %.900s", svg)
	}
	if !isColour(img, 1, 1, colourOf(t, "#ffffff")) {
		t.Error("the ground is not that of the page")
	}
	marks := 0
	for _, m := range regexp.MustCompile(`<circle fill="(#[0-9a-f]+)" stroke="none" cx="([0-9.]+)" cy="([0-9.]+)"`).FindAllStringSubmatch(svg, -1) {
		marks++
		x, _ := strconv.ParseFloat(m[2], 64)
		y, _ := strconv.ParseFloat(m[3], 64)
		if !isColour(img, chart.PNGScale*x, chart.PNGScale*y, colourOf(t, m[1])) {
			t.Errorf("no mark at %v, %v", x, y)
		}
	}
	if marks < 5 {
		t.Errorf("%d marks were looked for", marks)
	}
	band := regexp.MustCompile(`fill="(#[0-9a-f]+)" stroke="none" d="M([0-9.]+) ([0-9.]+)H`).FindStringSubmatch(svg)
	x, _ := strconv.ParseFloat(band[2], 64)
	y, _ := strconv.ParseFloat(band[3], 64)
	if !isColour(img, chart.PNGScale*(x+1), chart.PNGScale*(y+3), colourOf(t, band[1])) {
		t.Error("no band of equivalence")
	}
	if n := dark(img, image.Rect(0, 0, 500, 500)); n < 300 {
		t.Errorf("%d dark pixels where names should be", n)
	}
	for _, format := range []string{"svg", "png"} {
		if err := Write(io.Discard, report.New(nil, nil), format, false); err == nil {
			t.Errorf("%s: an empty report has a picture", format)
		}
	}
}

// pictures returns the picture of the report as SVG and as PNG.
func pictures(t *testing.T, r *report.Report) (string, image.Image) {
	t.Helper()
	var svg, picture bytes.Buffer
	if err := errors.Join(Write(&svg, r, "svg", false), Write(&picture, r, "png", false)); err != nil {
		t.Fatal(err)
	}
	if *pictureFile != "" {
		if err := os.WriteFile(*pictureFile, picture.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := xml.Unmarshal(svg.Bytes(), new(struct{})); err != nil {
		t.Error(err)
	}
	img, err := png.Decode(&picture)
	if err != nil {
		t.Fatal(err)
	}
	return svg.String(), img
}

// dark counts the dark pixels, which belong to letters.
func dark(img image.Image, in image.Rectangle) (n int) {
	in = in.Intersect(img.Bounds())
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0x6000 {
				n++
			}
		}
	}
	return n
}

// A picture may be shared without its report, so it contains the warning about emulated guests.
func TestPictureOfEmulatedGuests(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	_, plain := pictures(t, report.New(run, trials))
	run.Targets[1].Facts = map[string]string{"accel": "tcg"}
	svg, img := pictures(t, report.New(run, trials))
	if !strings.Contains(svg, "Guests were EMULATED (QEMU TCG): do not publish.</text>") || !strings.Contains(svg, "KVM is usually far faster.") {
		t.Errorf("%s", svg)
	}
	below := img.Bounds()
	below.Min.Y = plain.Bounds().Max.Y - 30
	if n := dark(img, below); n < 500 {
		t.Errorf("%d dark pixels below the plot", n)
	}
}

// Every format that people read, and those for programs except the test results of JUnit and GitHub, contains the file
// system and the device of each target.
func TestStorageInEveryFormat(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	run.Targets[0].Facts = map[string]string{"filesystem": "ext4", "device.name": "vda"}
	run.Targets[1].Facts = map[string]string{"filesystem": "xfs", "device.name": "sdb"}
	r := report.New(run, trials)
	for _, details := range []bool{true, false} {
		for _, format := range []string{"txt", "md", "html", "json", "svg", "benchfmt"} {
			var b bytes.Buffer
			if err := Write(&b, r, format, details); err != nil {
				t.Fatal(err)
			}
			for _, on := range []string{"ext4 on vda", "xfs on sdb"} {
				if !strings.Contains(b.String(), on) {
					t.Errorf("%s, details %v: no %q", format, details, on)
				}
			}
		}
	}
}
