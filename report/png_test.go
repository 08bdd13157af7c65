package report

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"strings"
	"testing"
)

var picture = flag.String("picture", "", "write the fixture's PNG to this file, to look at")

func colourOf(t *testing.T, s string) color.NRGBA {
	t.Helper()
	c, err := colour(map[string]string{"fill": s}, "fill")
	if err != nil {
		t.Fatal(err)
	}
	return c.(color.NRGBA)
}

func isColour(img image.Image, x, y float64, want color.NRGBA) bool {
	r, g, b, _ := img.At(int(math.Round(x)), int(math.Round(y))).RGBA()
	d := func(a uint32, b uint8) float64 { return math.Abs(float64(a>>8) - float64(b)) }
	return d(r, want.R)+d(g, want.G)+d(b, want.B) < 12
}

// The PNG is the SVG, drawn: of its size, and with the marks, the band and the lines where the SVG has them.
func TestPNG(t *testing.T) {
	r := New(fixture())
	var b bytes.Buffer
	if err := r.PNG(&b); err != nil {
		t.Fatal(err)
	}
	if *picture != "" {
		if err := os.WriteFile(*picture, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	f := r.forest(wideForest)
	if got := img.Bounds().Size(); got.X != int(pngScale*f.Width) || got.Y != int(pngScale*f.Height) {
		t.Errorf("%v pixels, the SVG has %v × %v", got, f.Width, f.Height)
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
	if err := New(nil, nil).PNG(new(bytes.Buffer)); err == nil {
		t.Error("an empty report has a picture")
	}
}

// What is not drawn is an error, and no input panics.
func TestRasterRefuses(t *testing.T) {
	for name, svg := range map[string]string{
		"nothing":     ``,
		"no svg":      `<g/>`,
		"outside":     `<rect width="1" height="1"/>`,
		"no size":     `<svg/>`,
		"huge":        `<svg width="1000000" height="10"/>`,
		"unknown":     `<svg width="10" height="10"><ellipse/></svg>`,
		"curve":       `<svg width="10" height="10"><path d="M0 0C1 1 2 2 3 3"/></svg>`,
		"short point": `<svg width="10" height="10"><path d="M0"/></svg>`,
		"colour name": `<svg width="10" height="10"><rect width="1" height="1" fill="teal"/></svg>`,
		"selector":    `<svg width="10" height="10"><style>a > b { fill: #000000 }</style></svg>`,
		"text inside": `<svg width="10" height="10"><text>a<tspan>b</tspan></text></svg>`,
		"not ended":   `<svg width="10" height="10"><text>a`,
	} {
		if _, err := raster(strings.NewReader(svg), 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCSSOrder(t *testing.T) {
	c, err := raster(strings.NewReader(`<svg width="30" height="10" class="a"><style>
		.a .b { fill: #ff0000 } svg rect { fill: #00ff00 } .c rect { fill: #0000ff }</style>
		<rect x="0" width="10" height="10" fill="#ffffff"/><g class="b"><rect class="b" x="10" width="10" height="10"/></g>
		<g class="c"><rect x="20" width="10" height="10"/></g></svg>`), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"#00ff00", "#ff0000", "#0000ff"} {
		if !isColour(c.Image(), float64(10*i+5), 5, colourOf(t, want)) {
			t.Errorf("rectangle %d is %v, want %s", i, c.Image().At(10*i+5, 5), want)
		}
	}
}
