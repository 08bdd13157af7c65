package html

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type rgb [3]float64 // linear RGB, each from 0 to 1

func linear(t *testing.T, hex string) rgb {
	t.Helper()
	if len(hex) == 3 {
		hex = fmt.Sprintf("%c%[1]c%c%[2]c%c%[3]c", hex[0], hex[1], hex[2])
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || len(hex) != 6 {
		t.Fatalf("%q is not a colour", hex)
	}
	var c rgb
	for i := range c {
		x := float64(n>>(16-8*i)&255) / 255
		if c[i] = math.Pow((x+.055)/1.055, 2.4); x <= .04045 {
			c[i] = x / 12.92
		}
	}
	return c
}

func (c rgb) by(m [3][3]float64) rgb {
	var out rgb
	for i, row := range m {
		out[i] = min(1, max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2]))
	}
	return out
}

func (c rgb) luminance() float64 { return .2126*c[0] + .7152*c[1] + .0722*c[2] }

// lab returns the colour in CIE L*a*b* under D65.
func (c rgb) lab() (l, a, b float64) {
	f := func(t float64) float64 {
		if t > 216./24389 {
			return math.Cbrt(t)
		}
		return (24389./27*t + 16) / 116
	}
	x := f((.4124564*c[0] + .3575761*c[1] + .1804375*c[2]) / .95047)
	y := f(.2126729*c[0] + .7151522*c[1] + .0721750*c[2])
	z := f((.0193339*c[0] + .1191920*c[1] + .9503041*c[2]) / 1.08883)
	return 116*y - 16, 500 * (x - y), 200 * (y - z)
}

// apart returns the distance between two colours as CIE76 ΔE. Differences become visible at about 2.
func apart(x, y rgb) float64 {
	l, a, b := x.lab()
	m, c, d := y.lab()
	return math.Sqrt((l-m)*(l-m) + (a-c)*(a-c) + (b-d)*(b-d))
}

// sights maps kinds of colour vision to the matrices that simulate them. In each kind except "all cones", one type of
// cone is absent (Machado, Oliveira and Fernandes 2009, severity 1).
var sights = map[string][3][3]float64{
	"all cones":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}},
	"deuteranopia": {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}},
	"tritanopia":   {{1.255528, -.076749, -.178779}, {-.078411, .930809, .147602}, {.004733, .691367, .303900}},
}

// With each kind of colour vision, targets have distinguishable colours. The colours contrast with their background in
// the light and the dark theme and in print.
func TestPalette(t *testing.T) {
	hue, ground := regexp.MustCompile(`--h(\d): #([0-9a-f]+);`), regexp.MustCompile(`--(?:bg|card): #([0-9a-f]+);`)
	blocks := slices.DeleteFunc(strings.Split(PageCSS, ":root {"), func(s string) bool { return !strings.Contains(s, "--h0:") })
	if len(blocks) != 3 {
		t.Fatalf("%d sets of colours, not those of light, dark and paper", len(blocks))
	}
	for i, kind := range []string{"light", "dark", "paper"} {
		block, _, _ := strings.Cut(blocks[i], "}")
		var hues, grounds []rgb
		for k, m := range hue.FindAllStringSubmatch(block, -1) {
			if m[1] != strconv.Itoa(k) {
				t.Fatalf("%s: hue %s in place %d", kind, m[1], k)
			}
			hues = append(hues, linear(t, m[2]))
		}
		for _, m := range ground.FindAllStringSubmatch(block, -1) {
			grounds = append(grounds, linear(t, m[1]))
		}
		if len(hues) != 8 || len(grounds) != 2 {
			t.Fatalf("%s: %d hues on %d grounds", kind, len(hues), len(grounds))
		}
		for sight, m := range sights {
			for j, x := range hues {
				for k, y := range hues[:j] {
					if d := apart(x.by(m), y.by(m)); d < 9 {
						t.Errorf("%s, %s: h%d and h%d are %.1f apart", kind, sight, k, j, d)
					}
				}
			}
		}
		for j, x := range hues {
			for _, g := range grounds {
				hi, lo := max(x.luminance(), g.luminance()), min(x.luminance(), g.luminance())
				if ratio := (hi + .05) / (lo + .05); ratio < 4.5 {
					t.Errorf("%s: h%d has a contrast of %.2f", kind, j, ratio)
				}
			}
		}
	}
}
