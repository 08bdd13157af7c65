package chart

import "math"

// A Flame draws stacks of functions as flame graphs, one below another. The width of a function is its share of the
// time.
type Flame struct {
	Title  string
	Width  float64 // 0 means the constant Width
	Panels []Panel
}

// A Panel is one flame graph.
type Panel struct {
	Heading string
	Frames  []Frame
}

// A Frame is a function in a panel. The functions that it called are drawn above it, side by side.
type Frame struct {
	Name, Title string  // Title is shown on hover
	Share       float64 // of the panel
	Level       int     // shade: above 0 for more than the reference, below 0 for less; up to Levels
	Above       []Frame
}

const (
	flameHeight = 18.0
	thinnest    = 1.0 // minimum width in pixels; narrower functions are not drawn
)

func (f Flame) draw() *canvas {
	c := newCanvas(f.Title, "", f.Width)
	drawn := false
	for _, p := range f.Panels {
		c.text(0, c.height+14, "head", "", shorten(p.Heading, perLine(c.width)))
		depth := depthOf(p.Frames, c.width)
		c.height += 22 + flameHeight*float64(depth)
		c.frames(p.Frames, 0, c.height)
		c.height += 14
		drawn = drawn || depth > 0
	}
	if !drawn {
		return nil
	}
	return c
}

// depthOf returns the number of rows that are drawn for the given functions and the functions above them.
func depthOf(all []Frame, width float64) (depth int) {
	for _, x := range all {
		if x.Share*width >= thinnest {
			depth = max(depth, 1+depthOf(x.Above, width))
		}
	}
	return depth
}

// frames draws functions side by side, starting at x. y is their lower edge.
func (c *canvas) frames(all []Frame, x, y float64) {
	for _, f := range all {
		w := f.Share * c.width
		if w >= thinnest {
			class := "band"
			switch {
			case f.Level > 0:
				class, c.tone = heat(f.Level), "worse"
			case f.Level < 0:
				class, c.tone = heat(-f.Level), "better"
			}
			c.rect(x, y-flameHeight+1, math.Max(.5, w-1), flameHeight-1, class, f.Title)
			c.tone = ""
			if n := perLine(w - 4); n >= 4 {
				c.add(shape{class: "label", x: x + 3, y: y - 5, text: shorten(f.Name, n), title: f.Title})
			}
			c.frames(f.Above, x, y-flameHeight)
		}
		x += w
	}
}
