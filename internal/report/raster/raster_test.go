package raster

import (
	"image/color"
	"strings"
	"testing"
)

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
		"selector":    `<svg width="10" height="10"><style>a! { fill: #000000 }</style></svg>`,
		"text inside": `<svg width="10" height="10"><text>a<tspan>b</tspan></text></svg>`,
	} {
		if _, err := draw(strings.NewReader(svg), 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCSSOrder(t *testing.T) {
	c, err := draw(strings.NewReader(`<svg width="30" height="10" class="a"><style>
		.a .b { fill: #ff0000 } svg rect { fill: #00ff00 } .c rect { fill: #0000ff }</style>
		<rect x="0" width="10" height="10" fill="#ffffff"/><g class="b"><rect class="b" x="10" width="10" height="10"/></g>
		<g class="c"><rect x="20" width="10" height="10"/></g></svg>`), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []color.Color{color.RGBA{0, 255, 0, 255}, color.RGBA{255, 0, 0, 255}, color.RGBA{0, 0, 255, 255}} {
		if got := c.Image().At(10*i+5, 5); got != want {
			t.Errorf("rectangle %d is %v, want %v", i, got, want)
		}
	}
}
