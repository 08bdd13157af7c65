package chart

import (
	"math"
	"slices"
	"strings"

	"iotax/internal/report/format"
)

// A Mark selects how a row's value is drawn.
type Mark int

const (
	Circle  Mark = iota
	Diamond      // equivalent
	Hollow       // undecided
	Cross        // invalid
	Bar          // from From to At
	Dots         // with a line at At and a shaded interval
)

// A Dot is one observation of a row.
type Dot struct {
	At    float64
	Level float64 // vertical position, from 0 at the top to 1 at the bottom
	Out   bool    // not counted
	Tone  string  // "" means the colour of all dots of a drawing without tones
	Title string
}

// A Row is one value. A NaN value is not drawn.
type Row struct {
	Heading              string // shown above this row; applies to the rows that follow
	Name                 string
	Figure, Bounds, Word string    // Word is the verdict
	Brief                string    // replaces Figure and Word in the first view of drawings without columns
	Other                [2]string // Figure and Bounds in the second view
	Tone                 string
	Mark                 Mark
	From, At, Lo, Hi     float64
	Dots                 []Dot
	Joined               bool // draws a vertical line from the row above to this row, at From
}

// Rows draws marks, bars or dots on a common horizontal axis. In drawings at least Wide pixels wide, names and numbers
// are at the sides, otherwise above each row. With Ends, the axis is at the top, and tall drawings have another one at
// the bottom. Without Ends, it is at the bottom, without its label.
type Rows struct {
	Title, Desc string
	Width       float64 // 0 means the constant Width
	Axis        Axis
	Zero        float64   // position of a reference line, which is drawn only if it is within the axis
	Band        Band      // shaded area
	Ends        [2]string // labels of the two sides of Zero
	Heads       [3]string // headers of the columns Figure, Bounds and Word
	Other       []Tick    // ticks of the second view; nil if there is only one view
	Rows        []Row
}

// Wide is the minimum width of rows with columns.
const Wide = 700

const (
	headRow   = 30.0
	textRow   = 18.0
	wideRow   = 28.0
	nameWidth = 250.0
	tall      = 400.0
)

func (r Rows) draw() *canvas {
	if !r.Axis.ok() || len(r.Rows) == 0 {
		return nil
	}
	c := newCanvas(r.Title, r.Desc, r.Width)
	left, right, top, across := 10.0, c.width-10, 8.0, c.width
	if r.Ends[0] != "" {
		top = 56 // below the headers, the ends and the ticks
	}
	var columns [3]float64 // of figure, bounds and word
	if c.width >= Wide {
		left, right, columns = r.columns(c.width)
		across = columns[0]
	}
	ys, bottom := r.places(c.width, top)
	bands := [][2]float64{{top, bottom}}
	if columns[0] == 0 { // without columns, grid lines would cross the text above the marks
		bands = nil
		for _, p := range ys {
			if p.height > 0 {
				bands = append(bands, [2]float64{p.mid - p.height/2, p.mid + p.height/2})
			}
		}
	}
	if r.Band.Hi > r.Band.Lo {
		lo, hi := r.Axis.at(r.Band.Lo, left, right), r.Axis.at(r.Band.Hi, left, right)
		for _, b := range bands {
			c.rect(lo, b[0], hi-lo, b[1]-b[0], "band", "")
		}
	}
	views := []int{0}
	if r.Other != nil {
		views = []int{1, 2}
	}
	axis, labels := r.Axis, []float64{bottom + 16}
	if r.Ends[0] != "" {
		c.text(2, 14, "note", "", shorten(axis.Label, perLine(across)))
		if labels[0] = top - 6; bottom-top > tall {
			labels = append(labels, bottom+16)
		}
	}
	for _, c.view = range views {
		if c.view == 2 {
			axis.Ticks = r.Other
		}
		axis.horizontal(c, left, right, labels, bands...)
	}
	c.view = 0
	if c.height = bottom + 4; len(axis.Ticks) > 0 && slices.Max(labels) > bottom {
		c.height = bottom + 24
	}
	zero := r.Axis.at(r.Zero, left, right)
	if r.Axis.has(r.Zero) && finite(zero) {
		for _, b := range bands {
			c.line("frame", zero, b[0], zero, b[1])
		}
		_, from, _ := within(zero+8+widthOf(r.Ends[1])/2, r.Ends[1], widthOf(r.Ends[0])+24, c.width-2)
		c.text(from, top-24, "note", "", r.Ends[1])
		c.text(math.Min(zero-8, from-16), top-24, "note", "end", r.Ends[0])
	}
	for k, s := range r.Heads {
		if columns[0] > 0 {
			c.text(columns[k], 14, "note", "", s)
		}
	}
	for i, row := range r.Rows {
		y := ys[i]
		c.tone = ""
		c.text(2, y.head, "head", "", shorten(row.Heading, perLine(c.width-8)))
		for k, l := range y.name {
			c.text(2, y.text+textRow*float64(k), "label", "", l)
		}
		c.tone = row.Tone
		mid := y.mid + 4.5
		for _, c.view = range views {
			figure := [2]string{row.Figure, row.Bounds}
			if c.view == 2 {
				figure = row.Other
			}
			if columns[0] > 0 {
				class := "head"
				if row.Mark == Hollow || row.Mark == Cross { // an estimate without a verdict
					class = "note"
				}
				c.text(columns[0], mid, class, "", figure[0])
				c.text(columns[1], mid, "note", "", figure[1])
			} else {
				s := strings.Trim(figure[0]+", "+row.Word, ", ")
				if row.Brief != "" && c.view < 2 {
					s = row.Brief
				}
				c.text(c.width-2, y.text, "word", "end", s)
			}
		}
		if c.view = 0; columns[0] > 0 {
			c.text(columns[2], mid, "word", "", row.Word)
		}
		if row.Joined && i > 0 {
			x := r.Axis.at(row.From, left, right)
			c.line("joint", x, ys[i-1].mid+6, x, y.mid-6)
		}
		row.draw(c, y.mid, func(v float64) float64 { return r.Axis.at(v, left, right) }, r.Axis)
	}
	c.tone = ""
	return c
}

// columns returns the left and right ends of the plot, and the positions of the columns next to it. The columns are
// wide enough for their widest texts.
func (r Rows) columns(width float64) (left, right float64, at [3]float64) {
	ws := [3]float64{52, 108, 104} // default widths, so that most plots have the same layout
	for _, row := range r.Rows {
		for k, s := range []string{row.Figure, row.Bounds, row.Word, row.Other[0], row.Other[1]} {
			ws[k%3] = math.Max(ws[k%3], 1.15*widthOf(s)) // some texts are bold
		}
	}
	right = width
	for k := 2; k >= 0; k-- {
		at[k] = right - ws[k]
		right = at[k] - 12
	}
	return nameWidth, math.Max(nameWidth+100, right-8), at
}

// A place contains the vertical positions of the parts of a row.
type place struct {
	head, text, mid float64
	height          float64 // height of the mark, in drawings without columns
	name            []string
}

// places stacks the rows and wraps long names. It also returns the bottom of the last row.
func (r Rows) places(width, y float64) (out []place, bottom float64) {
	for _, row := range r.Rows {
		var p place
		if p.head = math.NaN(); row.Heading != "" {
			y += headRow
			p.head = y - 10
		}
		if width >= Wide {
			p.name = format.Break(format.Clean(row.Name), perLine(nameWidth-16))
			height := wideRow + textRow*float64(max(0, len(p.name)-1))
			p.mid, p.text = y+height/2, y+wideRow/2+4.5
			y += height
		} else {
			p.name = format.Break(format.Clean(row.Name), perLine(width-8-math.Max(widthOf(row.Figure),
				widthOf(row.Other[0]))-widthOf(", "+row.Word)))
			p.text = y + 14
			y += textRow * float64(max(1, len(p.name)))
			height := 20.0
			switch {
			case row.Dots != nil:
				height = 40
			case !finite(row.At):
				height = 4
			}
			p.mid = y + height/2
			if height > 4 {
				p.height = height
			}
			y += height + 2
		}
		out = append(out, p)
	}
	return out, y + 4
}

// draw draws the row's value centred at y.
func (row Row) draw(c *canvas, y float64, x func(float64) float64, a Axis) {
	at, lo, hi := x(row.At), x(row.Lo), x(row.Hi)
	bounded := finite(row.Lo, row.Hi, lo, hi) && row.Hi > row.Lo
	title := strings.TrimSpace(row.Name + ": " + row.Figure + " " + row.Bounds)
	switch {
	case row.Mark == Bar:
		if from := x(row.From); finite(at, from) {
			c.rect(math.Min(from, at), y-6, math.Max(2, math.Abs(at-from)), 12, "bar", title)
		}
		if bounded {
			c.line("whisker", lo, y, hi, y)
		}
	case row.Mark == Dots:
		if bounded {
			c.rect(lo, y-17, hi-lo, 34, "range", "")
		}
		c.line("level", at, y-19, at, y+19)
		for _, d := range row.Dots {
			class := "dot"
			switch {
			case d.Out:
				class = "gone"
			case d.Tone != "":
				class = "toned"
			}
			c.tone = d.Tone
			c.circle(x(d.At), y-13+26*d.Level, 3.2, class, d.Title, "")
		}
	case finite(at):
		if bounded {
			c.line("interval", lo, y, hi, y)
			for _, end := range []struct {
				x, inner float64
				cut      bool
			}{{lo, 6, row.Lo < a.Lo}, {hi, -6, row.Hi > a.Hi}} {
				if end.cut { // the interval continues: draw an arrow
					c.line("cross", end.x+end.inner, y-5, end.x, y, end.x+end.inner, y+5)
				} else if hi-lo > 16 {
					c.line("whisker", end.x, y-5, end.x, y+5)
				}
			}
		}
		switch row.Mark {
		case Diamond:
			c.add(shape{class: "mark", path: []point{{at - 6, y}, {at, y - 6}, {at + 6, y}, {at, y + 6}}, closed: true, title: title})
		case Cross:
			c.line("cross", at-5, y-5, at+5, y+5)
			c.line("cross", at-5, y+5, at+5, y-5)
		case Hollow:
			c.circle(at, y, 4.5, "hollow", title, "")
		default:
			c.circle(at, y, 4.5, "mark", title, "")
		}
	}
}
