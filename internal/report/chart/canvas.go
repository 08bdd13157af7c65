// Package chart draws every chart of iotax: lines over two axes (Plot), and marks, bars and dots in rows (Rows). The caller
// brings the numbers with ready-made labels; the package knows nothing of benchmarks.
//
// A drawing is a list of shapes. On a page their colours are classes, so that one drawing serves light, dark and print. As a
// file, SVG or PNG, it has the light colours. Sizes are in pixels of the drawing's own width.
package chart

import (
	"math"
	"strconv"
	"unicode/utf8"

	"iotax/internal/report/format"
)

// Hues is the number of colours of compared things; the k-th has that of k modulo Hues, and another dash from there on.
const Hues = 8

// Width is the width of a drawing in which text can be read on a phone (about 360 pixels) and on half a desk.
const Width = 400

// perChar is the width of a character of 12 pixels in the widest usual sans-serif.
const perChar = 7.3

// Hue is the tone of the k-th compared thing.
func Hue(k int) string { return "h" + strconv.Itoa(((k%Hues)+Hues)%Hues) }

// dash is the k-th thing's stroke-dasharray, "" for a solid line. Neighbours differ, so that no line depends on its colour
// alone.
func dash(k int) string {
	return []string{"", "", "7 3", "2 2.5", "", "9 3 2 3", "5 2", "2 4"}[(((k+2*(k/Hues))%Hues)+Hues)%Hues]
}

// A Drawing is a chart: a Plot or Rows.
type Drawing interface {
	draw() *canvas // nil where nothing can be drawn
}

// A canvas holds the shapes of a drawing. Numbers that are not finite draw nothing.
type canvas struct {
	title, desc   string
	width, height float64
	tone          string // of the shapes that follow
	view          int    // of the shapes that follow
	linked        bool
	shapes        []shape
}

// A shape is a text, a circle, or a path; a rectangle is a path of four corners.
type shape struct {
	class, tone string // tone: the colour of what is compared, or of a verdict
	x, y, r     float64
	text        string
	anchor      string
	path        []point // a point that is NaN parts it
	closed      bool
	dash        string
	title, href string
	view        int // where not 0: shown only in the first or second view
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

// line joins points, given as x and y in turn.
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

// within moves a text that has its middle at x so that it stays between lo and hi.
func within(x float64, text string, lo, hi float64) (at, from, to float64) {
	half := widthOf(text) / 2
	at = math.Max(lo+half, math.Min(x, hi-half))
	return at, at - half, at + half
}

func widthOf(s string) float64 { return perChar * float64(utf8.RuneCountInString(s)) }

// perLine is how many characters fit into a width.
func perLine(width float64) int { return int(width / perChar) }

func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// shorten cuts the middle out of s where it is longer than most characters: names from a matrix begin alike and differ at
// their ends.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 3 {
		return s
	}
	head := (most - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-1-head):])
}
