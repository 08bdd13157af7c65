package html

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"strings"
	"testing"

	"iotax"
	"iotax/report"
	"iotax/report/reporttest"
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

// The PNG is the SVG, drawn: of its size, and with the marks, the band and the lines where the SVG has them.
func TestPNG(t *testing.T) {
	r := report.New(reporttest.Fixture())
	var b bytes.Buffer
	if err := PNG(&b, r); err != nil {
		t.Fatal(err)
	}
	if *pictureFile != "" {
		if err := os.WriteFile(*pictureFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	f := forestOf(r, wideForest)
	if got := img.Bounds().Size(); got.X != int(pngScale*f.Width) || got.Y <= int(pngScale*f.Height) {
		t.Errorf("%v pixels, the plot in it has %v × %v", got, f.Width, f.Height)
	}
	card, band, worse := colourOf(t, lightColours["--card"]), colourOf(t, "#e7eef0"), colourOf(t, "#ad3a06")
	if !isColour(img, 1, 1, card) {
		t.Error("the ground is not that of the page")
	}
	marks := 0
	for _, row := range f.Rows {
		if row.HasMark && row.Class == "worse" {
			marks++
			if !isColour(img, pngScale*row.X, pngScale*row.Y, worse) {
				t.Errorf("%s: no mark at %v, %v", row.Full, row.X, row.Y)
			}
		}
	}
	if marks < 5 {
		t.Errorf("%d marks were looked for", marks)
	}
	if y := pngScale * (f.Top + 3); !isColour(img, pngScale*(f.BandLo+1), y, band) {
		t.Error("no band of equivalence")
	}
	// The letters of the first target's name are on the left of its row: ink that is darker than all lines.
	dark := 0
	for x := range int(pngScale * f.Left) {
		for y := int(pngScale * (f.Rows[0].Y - 8)); y < int(pngScale*(f.Rows[0].Y+8)); y++ {
			if r, g, b, _ := img.At(x, y).RGBA(); r>>8 < 60 && g>>8 < 60 && b>>8 < 60 {
				dark++
			}
		}
	}
	if dark < 300 {
		t.Errorf("%d dark pixels where a name should stand", dark)
	}
	if err := PNG(new(bytes.Buffer), report.New(nil, nil)); err == nil {
		t.Error("an empty report has a picture")
	}
}

// A picture travels without its report: the caveat of emulated guests is in it.
func TestPictureOfEmulatedGuests(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	plain := forestOf(report.New(run, trials), wideForest).Height
	run.Targets[1].Facts = map[string]string{"accel": "tcg"}
	r := report.New(run, trials)
	var svg, picture bytes.Buffer
	if err := errors.Join(SVG(&svg, r), PNG(&picture, r)); err != nil {
		t.Fatal(err)
	}
	if *pictureFile != "" {
		if err := os.WriteFile(*pictureFile+".emulated.png", picture.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(svg.String(), "Guests were EMULATED (QEMU TCG): 1 of 2 targets.</text>") || !strings.Contains(svg.String(), "Do not publish these numbers.") {
		t.Errorf("%s", svg.String())
	}
	img, err := png.Decode(&picture)
	if err != nil {
		t.Fatal(err)
	}
	dark := 0
	for y := int(pngScale * plain); y < img.Bounds().Dy(); y++ {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0x6000 {
				dark++
			}
		}
	}
	if dark < 500 {
		t.Errorf("%d dark pixels below the plot", dark)
	}
}
