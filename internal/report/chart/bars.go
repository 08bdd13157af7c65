package chart

import (
	"html/template"
	"math"
)

// A Bar is one value from 0 on. NaN is a value that is not there; its label says why.
type Bar struct {
	Value, Lo, Hi float64 // the bounds are NaN where there are none
	Label         string
}

// A Panel is one quantity, with a bar for each name of the chart.
type Panel struct {
	Label string
	Bars  []Bar
}

// Bars are horizontal bars: a row for each name, panels side by side, each on a scale of its own that starts at 0.
type Bars struct {
	Title, Desc string
	Names       []string
	Hues        []int // of Names
	Panels      []Panel
}

const (
	barRow    = 40.0
	barHeight = 11.0
)

// SVG draws the bars, Width wide; "" when there is nothing to draw.
func (b *Bars) SVG() template.HTML {
	if len(b.Names) == 0 || len(b.Panels) == 0 {
		return ""
	}
	const gap, head = 16.0, 20.0
	wide := (Width - gap*float64(len(b.Panels)-1)) / float64(len(b.Panels))
	var c canvas
	c.open("bars", b.Title, b.Desc, Width, head+barRow*float64(len(b.Names))+4)
	for k, p := range b.Panels {
		left := (wide + gap) * float64(k)
		c.text(left, 13, "note", "", Shorten(p.Label, perLine(wide)))
		label, top := 0.0, 0.0
		for _, bar := range p.Bars {
			label = math.Max(label, perChar*float64(len([]rune(bar.Label))))
			for _, v := range []float64{bar.Value, bar.Hi} {
				if real(v) {
					top = math.Max(top, v)
				}
			}
		}
		room := math.Max(20, wide-label-8)
		for i, bar := range p.Bars {
			if i >= len(b.Names) {
				break
			}
			y := head + barRow*float64(i) + 20
			c.line(left, y-2, left, y+barHeight+2, "frame")
			end := left
			if top > 0 && real(bar.Value) && bar.Value >= 0 {
				w := math.Max(1, room*bar.Value/top)
				c.WriteString(`<g class="` + HueClass(hueOf(b.Hues, i)) + `">`)
				c.rect(left, y, w, barHeight, "bar", b.Names[i]+": "+bar.Label)
				c.WriteString("</g>")
				end += w
				if real(bar.Lo, bar.Hi) && bar.Lo >= 0 && bar.Hi > bar.Lo {
					lo, hi := left+room*bar.Lo/top, left+room*bar.Hi/top
					c.line(lo, y+barHeight/2, hi, y+barHeight/2, "whisker")
					end = math.Max(end, hi)
				}
			}
			c.text(end+6, y+barHeight-1, "tick", "", bar.Label)
		}
	}
	for i, n := range b.Names {
		c.text(2, head+barRow*float64(i)+15, "label", "", Shorten(n, perLine(Width-8)))
	}
	return c.done()
}

func hueOf(hues []int, i int) int {
	if i < len(hues) {
		return hues[i]
	}
	return i
}
