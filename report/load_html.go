package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/charmbracelet/x/ansi"

	"iotax"
)

// curveView is a curve as a plot and as a table.
type curveView struct {
	Title, Label  string
	Head          []string
	Rows          [][]string
	Width, Height float64
	Left, Right   float64
	Top, Bottom   float64
	X, Y          []curveTick
	Lines         []curveLine
}

type curveTick struct {
	At    float64
	Label string
}

// curveLine is one target: its mean latency, and its p99 where that is known.
type curveLine struct {
	Target    string
	Class     string
	Mean, P99 string // the points of a polyline
	Dots      []curveDot
	LabelY    float64
}

type curveDot struct {
	X, Y  float64
	Title string
}

// curveColors are classes of the page, in the order in which targets take them.
var curveColors = []string{"accent", "worse", "same", "unlike", "unsure", "void"}

// view lays the plot out: the offered load from 0 on, the latency on a logarithmic axis.
func (c Curve) view() curveView {
	v := curveView{Title: c.title(), Head: curveHead, Rows: c.rows(), Width: 760, Height: 300, Left: 64, Right: 600, Top: 12, Bottom: 258}
	v.Label = c.title()
	most, lo, hi := 0.0, math.Inf(1), 0.0
	for _, p := range c.Points {
		most = math.Max(most, p.Offered)
		for _, cell := range p.Cells {
			for _, y := range []float64{cell.Latency, cell.P99} {
				if y > 0 && !math.IsInf(y, 0) {
					lo, hi = math.Min(lo, y), math.Max(hi, y)
				}
			}
		}
	}
	if !(most > 0) || !(hi >= lo) {
		return v
	}
	most, lo, hi = most*1.03, lo/1.2, hi*1.2
	x := func(r float64) float64 { return v.Left + (v.Right-v.Left)*r/most }
	y := func(s float64) float64 { return v.Bottom - (v.Bottom-v.Top)*math.Log(s/lo)/math.Log(hi/lo) }
	step := niceStep(most/5, iotax.PerSecond)
	for r := 0.0; r <= most; r += step {
		v.X = append(v.X, curveTick{x(r), number(lone(r), iotax.PerSecond)})
	}
	for _, t := range ticks(lo, hi) {
		sc := scaleOf(iotax.Seconds, t)
		// The scale may make 0.0002 s into 200.00000000000003 µs.
		v.Y = append(v.Y, curveTick{y(t), withUnit(strconv.FormatFloat(math.Round(t/sc.factor*1e6)/1e6, 'g', -1, 64)+sc.prefix, sc.unit)})
	}
	var names []string
	for _, p := range c.Points {
		for _, cell := range p.Cells {
			if !slices.Contains(names, cell.Target) {
				names = append(names, cell.Target)
			}
		}
	}
	for _, name := range names {
		l := curveLine{Target: ansi.Truncate(clean(name), 22, "…"), Class: curveColors[len(v.Lines)%len(curveColors)]}
		for _, p := range c.Points {
			for _, cell := range p.Cells {
				if cell.Target != name || !(cell.Latency > 0) {
					continue
				}
				at := func(s float64) string {
					return strconv.FormatFloat(x(p.Offered), 'f', 1, 64) + "," + strconv.FormatFloat(y(s), 'f', 1, 64) + " "
				}
				l.Mean += at(cell.Latency)
				if cell.P99 > 0 {
					l.P99 += at(cell.P99)
				}
				l.LabelY = y(cell.Latency)
				l.Dots = append(l.Dots, curveDot{x(p.Offered), y(cell.Latency),
					clean(name) + " at " + number(lone(p.Offered), iotax.PerSecond) + ": mean " + number(lone(cell.Latency), iotax.Seconds) + ", p99 " + number(lone(cell.P99), iotax.Seconds)})
			}
		}
		if len(l.Dots) > 0 {
			v.Lines = append(v.Lines, l)
		}
	}
	// Names at the ends of the lines, moved apart where they would overlap.
	order := make([]*curveLine, len(v.Lines))
	for i := range v.Lines {
		order[i] = &v.Lines[i]
	}
	slices.SortStableFunc(order, func(a, b *curveLine) int {
		if a.LabelY < b.LabelY {
			return -1
		}
		return 1
	})
	for i := 1; i < len(order); i++ {
		order[i].LabelY = math.Max(order[i].LabelY, order[i-1].LabelY+16)
	}
	return v
}
