package chart

import (
	"math"
	"strconv"
)

// A Point is a point of a line. Lo and Hi are the interval of Y if they differ. Title is shown on hover.
type Point struct {
	X, Y, Lo, Hi float64
	Title, Href  string
	Out          bool // excluded; drawn hollow
}

// A Line joins points in the given order. A NaN point splits the line.
type Line struct {
	Name   string // in the legend; "" means not listed
	Hue    int    // number of the target, which selects the colour and the dash
	Level  bool   // shows a mean of the values
	Faint  bool   // one of many lines
	Odd    bool   // marks the line as an exception among the other lines
	Solid  bool   // drawn without the dash of its target
	Second bool   // a second line for the same target: thin and dashed
	Marks  bool   // draw a mark at each point
	Loose  bool   // draw only the marks
	Points []Point
}

// A Band shades the area between two values: of Y in a Plot, and of the horizontal axis in Rows.
type Band struct{ Lo, Hi float64 }

// A Rule is a labelled vertical line.
type Rule struct {
	X           float64
	Label, Tone string
}

// A Patch shades a rectangle between four values on the axes. Level ranges from 1, the lightest, to Levels.
type Patch struct {
	X1, X2, Y1, Y2 float64
	Level          int
}

// Levels is the number of shades of patches, and of frames in each direction.
const Levels = 5

// A Plot draws lines on two axes.
type Plot struct {
	Title         string  // the accessible name of the drawing
	Desc          string  // a description for readers who cannot see the drawing
	Width, Height float64 // Height is the height of the frame; a Width of 0 means the constant Width
	X, Y          Axis
	Bands         []Band
	Patches       []Patch // drawn in the hue of the first line
	Lines         []Line
	Rules         []Rule
	Note          string // shown above the frame, right-aligned: "5 of 6 steady"
	Warn          bool   // the note is a warning
}

func (p Plot) draw() *canvas {
	if !p.X.ok() || !p.Y.ok() || len(p.Lines) == 0 {
		return nil
	}
	c := newCanvas(p.Title, p.Desc, p.Width)
	top := 10 + p.legend(c)
	if p.Y.Label != "" || p.Note != "" || p.Rules != nil {
		top += 18
	}
	bottom := top + p.Height
	left, right := 14.0, c.width-14
	for _, t := range p.Y.Ticks {
		left = math.Min(c.width/2, math.Max(left, 12+widthOf(t.Label)))
	}
	c.height = bottom + 22
	if p.X.Label != "" {
		c.height += 17
		c.text(right, bottom+35, "note", "end", shorten(p.X.Label, perLine(right)))
	}
	c.text(2, top-9, "note", "", shorten(p.Y.Label, perLine(c.width-widthOf(p.Note)-12)))
	class := "note"
	if p.Warn {
		class = "warn"
	}
	c.text(right, top-9, class, "end", p.Note)
	for _, b := range p.Bands {
		y1, y2 := p.Y.at(b.Hi, bottom, top), p.Y.at(b.Lo, bottom, top)
		c.rect(left, y1, right-left, math.Max(0, y2-y1), "band", "")
	}
	at := func(x, y float64) point { return point{p.X.at(x, left, right), p.Y.at(y, bottom, top)} }
	p.patches(c, at)
	last := math.Inf(1)
	for _, t := range p.Y.Ticks {
		y := p.Y.at(t.At, bottom, top)
		if !p.Y.has(t.At) || !finite(y) {
			continue
		}
		c.line("grid", left, y, right, y)
		if math.Abs(last-y) >= 15 {
			c.text(left-7, y+4, "tick", "end", shorten(t.Label, perLine(left-9)))
			last = y
		}
	}
	p.X.horizontal(c, left, right, []float64{bottom + 16}, [2]float64{top, bottom})
	c.line("frame", left, bottom, right, bottom)
	for _, r := range p.Rules {
		if x := p.X.at(r.X, left, right); finite(x) {
			c.tone = r.Tone
			c.line("rule", x, top-14, x, bottom)
			at, _, _ := within(x+6+widthOf(r.Label)/2, r.Label, left, c.width)
			c.text(at, top-6, "word", "middle", r.Label)
		}
	}
	for _, l := range p.Lines {
		c.tone = Hue(l.Hue)
		l.draw(c, at)
	}
	return c
}

func heat(level int) string { return "heat" + strconv.Itoa(level) }

// patches draws all patches of a level as one shape. This keeps pages small.
func (p Plot) patches(c *canvas, at func(x, y float64) point) {
	if p.Patches == nil {
		return
	}
	gap := point{math.NaN(), math.NaN()}
	c.tone = Hue(p.Lines[0].Hue)
	for level := 1; level <= Levels; level++ {
		s := shape{class: heat(level), closed: true}
		for _, q := range p.Patches {
			if q.Level == level {
				s.path = append(s.path, at(q.X1, q.Y1), at(q.X2, q.Y1), at(q.X2, q.Y2), at(q.X1, q.Y2), gap)
			}
		}
		if s.path != nil {
			c.add(s)
		}
	}
	c.tone = ""
}

func (l Line) draw(c *canvas, at func(x, y float64) point) {
	s := shape{class: "curve", dash: dash(l.Hue)}
	switch {
	case l.Level:
		s.class, s.dash = "level", ""
	case l.Odd:
		s.class, s.dash = "odd", "4 2"
	case l.Faint:
		s.class, s.dash = "thin", ""
	case l.Second:
		s.class, s.dash = "second", "4 3"
	case l.Solid:
		s.dash = ""
	}
	drawn := false
	for _, pt := range l.Points {
		p := at(pt.X, pt.Y)
		if n := len(s.path); n > 0 && px(p.x) == px(s.path[n-1].x) && px(p.y) == px(s.path[n-1].y) {
			continue
		}
		drawn = drawn || finite(p.x, p.y)
		s.path = append(s.path, p)
	}
	if drawn && !l.Loose {
		c.add(s)
	}
	for _, pt := range l.Points {
		p, lo, hi := at(pt.X, pt.Y), at(pt.X, pt.Lo), at(pt.X, pt.Hi)
		if pt.Hi > pt.Lo {
			c.line("thin", p.x, lo.y, p.x, hi.y)
		}
		if class := map[bool]string{false: "mark", true: "gone"}[pt.Out]; (l.Marks || l.Loose) && finite(p.y) {
			c.circle(p.x, p.y, 3.5, class, pt.Title, pt.Href)
		}
	}
}

// legend draws the names of the lines, and returns the height that they take.
func (p Plot) legend(c *canvas) float64 {
	const swatch, gap = 26.0, 16.0
	x, y, named := 2.0, 14.0, false
	for _, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		name := shorten(l.Name, perLine(c.width-swatch-8))
		w := swatch + widthOf(name)
		if named && x+w > c.width {
			x, y = 2, y+17
		}
		named = true
		c.tone = Hue(l.Hue)
		s := shape{class: "curve", path: []point{{x, y - 4}, {x + 20, y - 4}}}
		switch {
		case l.Second:
			s.class, s.dash = "second", "4 3"
		case !l.Solid && !l.Faint:
			s.dash = dash(l.Hue)
		}
		c.add(s)
		c.tone = ""
		c.text(x+swatch, y, "label", "", name)
		x += w + gap
	}
	if !named {
		return 0
	}
	return y + 6
}
