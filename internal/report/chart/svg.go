// Package chart draws plots as SVG: pure functions from numbers and ready-made labels to markup. What a
// number means, its unit and its rounding are the caller's.
//
// Colours are classes, so that one drawing serves light, dark and print: text is "tick", "label" and "note",
// lines are "grid" and "frame", and what belongs to the k-th thing that is compared is "h0" to "h7", which set
// the current colour. Sizes are in pixels of the drawing's own width.
package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Hues is the number of colours; the k-th thing has that of k modulo Hues, and another dash from there on.
const Hues = 8

// Width is the width of a drawing in which text can be read on a phone (about 360 pixels) and on half a desk.
const Width = 400

// perChar is the width of a character in the widest usual sans-serif, at the 11.5 px of the page's style.
const perChar = 6.7

// HueClass is the class of the k-th thing's colour.
func HueClass(k int) string { return "h" + strconv.Itoa(((k%Hues)+Hues)%Hues) }

// Dash is the k-th thing's stroke-dasharray, "" for a solid line. Neighbours differ, so that no line is known by
// its colour alone.
func Dash(k int) string {
	return []string{"", "", "7 3", "2 2.5", "", "9 3 2 3", "5 2", "2 4"}[(((k+2*(k/Hues))%Hues)+Hues)%Hues]
}

// canvas gathers markup. Numbers that are none draw nothing, they never reach the markup.
type canvas struct{ strings.Builder }

func (c *canvas) open(class, title, desc string, w, h float64) {
	label := title
	if desc != "" {
		label += ". " + desc
	}
	fmt.Fprintf(c, `<svg class="chart %s" viewBox="0 0 %s %s" role="img" aria-label="%s">`, class, num(w), num(h), html.EscapeString(label))
}

func (c *canvas) done() template.HTML {
	c.WriteString("</svg>")
	return template.HTML(c.String()) // made here, from escaped text
}

func (c *canvas) text(x, y float64, class, anchor, s string) {
	if s == "" || !real(x, y) {
		return
	}
	fmt.Fprintf(c, `<text x="%s" y="%s"`, num(x), num(y))
	if class != "" {
		fmt.Fprintf(c, ` class="%s"`, class)
	}
	if anchor != "" {
		fmt.Fprintf(c, ` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(c, ">%s</text>", html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	if real(x1, y1, x2, y2) {
		fmt.Fprintf(c, `<path class="%s" d="M%s %sL%s %s"/>`, class, num(x1), num(y1), num(x2), num(y2))
	}
}

func (c *canvas) rect(x, y, w, h float64, class, title string) {
	if !real(x, y, w, h) {
		return
	}
	fmt.Fprintf(c, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, class, num(x), num(y), num(math.Max(0, w)), num(math.Max(0, h)))
	if title == "" {
		c.WriteString("/>")
		return
	}
	fmt.Fprintf(c, "><title>%s</title></rect>", html.EscapeString(title))
}

// perLine is how many characters fit into a width.
func perLine(width float64) int { return int(width / perChar) }

func num(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

func real(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// Shorten cuts the middle out of s where it is longer than most characters: names from a matrix begin alike and
// differ at their ends.
func Shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 3 {
		return s
	}
	head := (most - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-1-head):])
}
