package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// A Tick is a mark on an axis.
type Tick struct {
	At    float64
	Label string
}

// An Axis maps values to a line, those outside [Lo, Hi] to its ends. A logarithmic one has Lo > 0.
type Axis struct {
	Label  string
	Lo, Hi float64
	Log    bool
	Ticks  []Tick
}

func (a Axis) ok() bool { return real(a.Lo, a.Hi) && a.Hi > a.Lo && (!a.Log || a.Lo > 0) }

// at is the place of v between from and to; NaN where v has none.
func (a Axis) at(v, from, to float64) float64 {
	lo, hi := a.Lo, a.Hi
	if a.Log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	t := (v - lo) / (hi - lo)
	if math.IsNaN(t) {
		return t
	}
	return from + math.Min(1, math.Max(0, t))*(to-from)
}

// A Point of a line; a title is shown when a reader points at it.
type Point struct {
	X, Y  float64
	Title string
}

// A Line joins points in the order given. A point that is not a number parts it.
type Line struct {
	Name   string // in the legend; "" is not listed
	Hue    int    // whose it is
	Faint  bool   // one of many
	Odd    bool   // one that is not like the others should be
	Solid  bool   // without the dash of its hue
	Second bool   // a second line of the same thing: thin and dashed
	Marks  bool   // a dot at each point
	Points []Point
}

// A Band shades what lies between two values of Y.
type Band struct{ Lo, Hi float64 }

// A Plot is lines over two axes.
type Plot struct {
	Title  string  // the accessible name
	Desc   string  // what a reader who cannot see it must know
	Width  float64 // Width when 0
	Height float64 // of the frame
	X, Y   Axis
	Bands  []Band
	Lines  []Line
	Note   string // below the legend, at the right: "5 of 6 steady"
	Warn   bool   // the note is a warning
}

// SVG draws the plot. A plot without a usable axis or line is "".
func (p *Plot) SVG() template.HTML {
	if !p.X.ok() || !p.Y.ok() || len(p.Lines) == 0 {
		return ""
	}
	var c canvas
	width := p.Width
	if !(width > 0) || math.IsInf(width, 0) {
		width = Width
	}
	legend, legendHeight := p.legend(width)
	top := 10 + legendHeight
	if p.Y.Label != "" || p.Note != "" {
		top += 18
	}
	bottom := top + p.Height
	left, right := 14.0, width-14
	for _, t := range p.Y.Ticks {
		left = math.Max(left, 12+perChar*float64(len([]rune(t.Label))))
	}
	height := bottom + 22
	if p.X.Label != "" {
		height += 17
	}
	c.open("plot", p.Title, p.Desc, width, height)
	c.WriteString(legend)
	c.text(2, top-9, "note", "", p.Y.Label)
	class := "note"
	if p.Warn {
		class += " warn"
	}
	c.text(right, top-9, class, "end", p.Note)
	for _, b := range p.Bands {
		y1, y2 := p.Y.at(b.Hi, bottom, top), p.Y.at(b.Lo, bottom, top)
		c.rect(left, y1, right-left, y2-y1, "band", "")
	}
	lastY := math.Inf(1)
	for _, t := range p.Y.Ticks {
		y := p.Y.at(t.At, bottom, top)
		if t.At < p.Y.Lo || t.At > p.Y.Hi || !real(y) {
			continue
		}
		c.line(left, y, right, y, "grid")
		if math.Abs(lastY-y) >= 15 {
			c.text(left-7, y+4, "tick", "end", t.Label)
			lastY = y
		}
	}
	p.xTicks(&c, left, right, top, bottom, width)
	c.line(left, bottom, right, bottom, "frame")
	if p.X.Label != "" {
		c.text(right, bottom+36, "note", "end", p.X.Label)
	}
	for _, l := range p.Lines {
		p.line(&c, l, left, right, top, bottom)
	}
	return c.done()
}

// xTicks leaves out labels that would touch the one before.
func (p *Plot) xTicks(c *canvas, left, right, top, bottom, width float64) {
	last := math.Inf(-1)
	for _, t := range p.X.Ticks {
		x := p.X.at(t.At, left, right)
		if t.At < p.X.Lo || t.At > p.X.Hi || !real(x) {
			continue
		}
		c.line(x, top, x, bottom, "grid")
		half, anchor := perChar*float64(len([]rune(t.Label)))/2, "middle"
		from := x - half
		switch {
		case x+half > width-2:
			anchor, from = "end", x-2*half
		case from < 2:
			anchor, from = "start", x
		}
		if from < last+5 {
			continue
		}
		c.text(x, bottom+17, "tick", anchor, t.Label)
		last = from + 2*half
	}
}

func (p *Plot) line(c *canvas, l Line, left, right, top, bottom float64) {
	class := HueClass(l.Hue)
	if l.Faint {
		class += " faint"
	}
	if l.Odd {
		class += " odd"
	}
	dash := Dash(l.Hue)
	if l.Faint || l.Solid {
		dash = ""
	}
	if l.Odd {
		dash = "4 2"
	}
	if l.Second {
		class, dash = class+" second", "4 3"
	}
	var d strings.Builder
	joined := false
	lastX, lastY := math.NaN(), math.NaN()
	for _, pt := range l.Points {
		x, y := p.X.at(pt.X, left, right), p.Y.at(pt.Y, bottom, top)
		if !real(x, y) {
			joined = false
			continue
		}
		if joined && num(x) == num(lastX) && num(y) == num(lastY) {
			continue
		}
		op := "L"
		if !joined {
			op = "M"
		}
		d.WriteString(op + num(x) + " " + num(y))
		joined, lastX, lastY = true, x, y
	}
	if d.Len() == 0 {
		return
	}
	fmt.Fprintf(c, `<g class="%s"><path class="curve" d="%s"`, class, d.String())
	if dash != "" {
		fmt.Fprintf(c, ` stroke-dasharray="%s"`, dash)
	}
	c.WriteString("/>")
	if l.Marks {
		for _, pt := range l.Points {
			if x, y := p.X.at(pt.X, left, right), p.Y.at(pt.Y, bottom, top); real(x, y) {
				fmt.Fprintf(c, `<circle cx="%s" cy="%s" r="3.5">`, num(x), num(y))
				if pt.Title != "" {
					fmt.Fprintf(c, "<title>%s</title>", html.EscapeString(pt.Title))
				}
				c.WriteString("</circle>")
			}
		}
	}
	c.WriteString("</g>")
}

// legend lists the named lines in rows, and says how high that is.
func (p *Plot) legend(width float64) (string, float64) {
	var c canvas
	const swatch, gap = 26.0, 16.0
	x, y, named := 2.0, 14.0, false
	for _, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		name := Shorten(l.Name, perLine(width-swatch-8))
		w := swatch + perChar*float64(len([]rune(name)))
		if named && x+w > width {
			x, y = 2, y+17
		}
		named = true
		fmt.Fprintf(&c, `<g class="%s"><path class="curve" d="M%s %sh20"`, HueClass(l.Hue), num(x), num(y-4))
		if dash := Dash(l.Hue); dash != "" && !l.Solid && !l.Faint {
			fmt.Fprintf(&c, ` stroke-dasharray="%s"`, dash)
		}
		c.WriteString("/></g>")
		c.text(x+swatch, y, "label", "", name)
		x += w + gap
	}
	if !named {
		return "", 0
	}
	return c.String(), y + 6
}
