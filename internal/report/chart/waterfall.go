package chart

import (
	"html/template"
	"math"
)

// A Step multiplies what the steps before it left.
type Step struct {
	Name          string
	Ratio, Lo, Hi float64 // NaN where unknown
	Label         string  // the ratio in figures
	Word          string  // the verdict
	Class         string  // of the verdict: "worse", "better", "same", "unsure"…
}

// A Waterfall is a chain of ratios from 1 on, each bar starting where the last one ended, on a logarithmic axis: their
// lengths add up to the total's.
type Waterfall struct {
	Title, Desc string
	Start       string // what 1 is
	StartLabel  string // its value
	Steps       []Step
	Total       Step
	Ticks       []Tick // for a ratio between the least and the most
}

const fallRow = 42.0

// Range is the least and the most ratio that the drawing shows.
func (w *Waterfall) Range() (lo, hi float64) {
	lo, hi = 1, 1
	at := 1.0
	see := func(v float64) {
		if v > 0 && real(v) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	for _, s := range w.Steps {
		if s.Ratio > 0 && real(s.Ratio) {
			see(at * s.Lo)
			see(at * s.Hi)
			at *= s.Ratio
			see(at)
		}
	}
	see(w.Total.Lo)
	see(w.Total.Hi)
	see(w.Total.Ratio)
	pad := math.Max(1.05, math.Pow(hi/lo, .04))
	return lo / pad, hi * pad
}

// SVG draws the waterfall, Width wide; "" when it has no step.
func (w *Waterfall) SVG() template.HTML {
	if len(w.Steps) == 0 {
		return ""
	}
	var c canvas
	lo, hi := w.Range()
	x := Axis{Lo: lo, Hi: hi, Log: true}
	left, right, top := 10.0, Width-10.0, 8.0
	rows := float64(len(w.Steps) + 2)
	bottom := top + fallRow*rows
	c.open("fall", w.Title, w.Desc, Width, bottom+24)
	last := math.Inf(-1)
	for _, t := range w.Ticks {
		at := x.at(t.At, left, right)
		if t.At < lo || t.At > hi || !real(at) {
			continue
		}
		class := "grid"
		if t.At == 1 {
			class = "frame"
		}
		c.line(at, top, at, bottom, class)
		half := perChar * float64(len([]rune(t.Label))) / 2
		mid := math.Min(math.Max(at, half+1), Width-half-1)
		if mid-half > last+6 {
			c.text(mid, bottom+17, "tick", "middle", t.Label)
			last = mid + half
		}
	}
	y := top
	row := func(name, label, word, class string) {
		room := perLine(Width-8) - len([]rune(label)) - len([]rune(word)) - 3
		c.text(2, y+14, "label", "", Shorten(name, max(8, room)))
		c.WriteString(`<g class="` + class + `">`)
		c.text(Width-2, y+14, "word", "end", joined(label, word))
		c.WriteString("</g>")
	}
	bar := func(s Step, from float64) float64 {
		to := from * s.Ratio
		if !(to > 0) || !real(to) {
			return from
		}
		a, b := x.at(from, left, right), x.at(to, left, right)
		c.WriteString(`<g class="` + s.Class + `">`)
		c.rect(math.Min(a, b), y+20, math.Max(2, math.Abs(b-a)), 12, "bar", s.Name+": "+s.Label)
		if s.Lo > 0 && real(s.Lo, s.Hi) && s.Hi > s.Lo {
			c.line(x.at(from*s.Lo, left, right), y+26, x.at(from*s.Hi, left, right), y+26, "whisker")
		}
		c.WriteString("</g>")
		return to
	}
	row(w.Start, w.StartLabel, "", "base")
	one := x.at(1, left, right)
	c.rect(one-2, y+20, 4, 12, "start", "")
	at := 1.0
	for _, s := range w.Steps {
		before := x.at(at, left, right)
		y += fallRow
		c.line(before, y-10, before, y+20, "joint")
		row(s.Name, s.Label, s.Word, s.Class)
		at = bar(s, at)
	}
	y += fallRow
	c.line(2, y, Width-2, y, "frame")
	row(w.Total.Name, w.Total.Label, w.Total.Word, w.Total.Class)
	bar(w.Total, 1)
	return c.done()
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}
