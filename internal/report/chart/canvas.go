// Package chart draws every chart of iotax: lines on two axes (Plot), marks, bars and dots in rows (Rows), and flame
// graphs (Flame).
//
// On a page, CSS classes set the colours, so that the same drawing works in light and dark themes and in print. SVG and
// PNG files use the colours of the light theme. Sizes are in pixels at the drawing's nominal width.
package chart

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"iotax/internal/report/format"
)

// Hues is the number of colours. Target k gets colour k modulo Hues. Targets k and k+Hues get different dashes.
const Hues = 8

// Width is the default width of a drawing. The text of a drawing of this width is readable on a phone (about 360
// pixels).
const Width = 400

// perChar is the width of a 12-pixel character in the widest common sans-serif font.
const perChar = 7.3

// Hue returns the name of the colour of target k.
func Hue(k int) string { return "h" + strconv.Itoa(((k%Hues)+Hues)%Hues) }

// dash returns the stroke-dasharray of target k, or "" for a solid line.
func dash(k int) string {
	return []string{"", "", "7 3", "2 2.5", "", "9 3 2 3", "5 2", "2 4"}[(((k+2*(k/Hues))%Hues)+Hues)%Hues]
}

// A Drawing is a chart: a Plot, Rows, a Flame, or a File with one of these.
type Drawing interface {
	draw() *canvas // nil if there is nothing to draw
}

// A canvas collects the shapes of a drawing. Except for add, its methods ignore shapes with coordinates that are not
// finite.
type canvas struct {
	title, desc   string
	width, height float64
	tone          string // of the shapes added next
	view          int    // of the shapes added next
	linked        bool
	shapes        []shape
}

// newCanvas returns an empty canvas. A width of 0 means the constant Width.
func newCanvas(title, desc string, width float64) *canvas {
	if width == 0 {
		width = Width
	}
	return &canvas{title: title, desc: desc, width: width}
}

// A shape is a text, a circle, or a path. A rectangle is a path with four corners.
type shape struct {
	class, tone string // tone is the colour of a target or a verdict
	x, y, r     float64
	text        string
	anchor      string
	path        []point // a NaN point starts a new segment
	closed      bool
	dash        string
	title, href string
	view        int // 0: always shown; 1 or 2: shown only in that view
}

type point struct{ x, y float64 }

func (c *canvas) add(s shape) {
	s.tone, s.view, s.text, s.title = c.tone, c.view, format.Clean(s.text), format.Clean(s.title)
	c.linked = c.linked || s.href != ""
	c.shapes = append(c.shapes, s)
}

func (c *canvas) text(x, y float64, class, anchor, text string) {
	if text != "" && finite(x, y) {
		c.add(shape{class: class, x: x, y: y, anchor: anchor, text: text})
	}
}

// line adds a line through points, given as alternating x and y.
func (c *canvas) line(class string, at ...float64) {
	if finite(at...) {
		s := shape{class: class}
		for i := 0; i+1 < len(at); i += 2 {
			s.path = append(s.path, point{at[i], at[i+1]})
		}
		c.add(s)
	}
}

func (c *canvas) rect(x, y, w, h float64, class, title string) {
	if w = math.Max(0, w); finite(x, y, w, h) {
		c.add(shape{class: class, path: []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, closed: true, title: title})
	}
}

func (c *canvas) circle(x, y, r float64, class, title, href string) {
	if finite(x, y) {
		c.add(shape{class: class, x: x, y: y, r: r, title: title, href: href})
	}
}

// within shifts a text centred at x so that it stays between lo and hi. It returns the new centre and the ends of the
// text.
func within(x float64, text string, lo, hi float64) (at, from, to float64) {
	half := widthOf(text) / 2
	at = math.Max(lo+half, math.Min(x, hi-half))
	return at, at - half, at + half
}

func widthOf(s string) float64 { return perChar * float64(utf8.RuneCountInString(s)) }

// perLine returns the number of characters that fit into width.
func perLine(width float64) int { return int(width / perChar) }

func finite(xs ...float64) bool {
	return !slices.ContainsFunc(xs, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// shorten replaces the middle of s with "…" if s has more than `most` characters, unless `most` is below 3. It keeps
// the end, because names that a plan generates from a matrix differ at their end.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 3 {
		return s
	}
	head := (most - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-1-head):])
}
