// Package chart draws every chart of iotax: lines over two axes (Plot), and marks, bars and dots in rows (Rows). The caller
// passes numbers with their labels. The package does not depend on benchmarks.
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

// Hues is the number of colours. Target k has colour k modulo Hues. From Hues on, its dash differs.
const Hues = 8

// Width is the width of a drawing whose text is readable on a phone (about 360 pixels).
const Width = 400

// perChar is the width of a 12-pixel character in the widest usual sans-serif font.
const perChar = 7.3

// Hue returns the tone of target k.
func Hue(k int) string { return "h" + strconv.Itoa(((k%Hues)+Hues)%Hues) }

// dash returns the stroke-dasharray of target k, "" for a solid line. Neighbours differ, so that lines can be distinguished
// without colour.
func dash(k int) string {
	return []string{"", "", "7 3", "2 2.5", "", "9 3 2 3", "5 2", "2 4"}[(((k+2*(k/Hues))%Hues)+Hues)%Hues]
}

// A Drawing is a chart: a Plot or Rows.
type Drawing interface {
	draw() *canvas // nil if there is nothing to draw
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
	class, tone string // tone: the colour of a target or a verdict
	x, y, r     float64
	text        string
	anchor      string
	path        []point // a NaN point splits it
	closed      bool
	dash        string
	title, href string
	view        int // if not 0, shown only in the first or second view
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

// line joins points, given as alternating x and y.
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

// within shifts a text centred at x so that it stays between lo and hi.
func within(x float64, text string, lo, hi float64) (at, from, to float64) {
	half := widthOf(text) / 2
	at = math.Max(lo+half, math.Min(x, hi-half))
	return at, at - half, at + half
}

func widthOf(s string) float64 { return perChar * float64(utf8.RuneCountInString(s)) }

// perLine returns the number of characters that fit into a width.
func perLine(width float64) int { return int(width / perChar) }

func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// shorten cuts the middle out of s if it has more than most characters. Names from a matrix begin alike and differ at their
// ends.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 3 {
		return s
	}
	head := (most - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-1-head):])
}
