package web

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"iotax"
	"iotax/internal/report/chart"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
)

const (
	wideTrend   = 860
	narrowTrend = 358
)

// chart is the number over runs, evenly spaced in their order, on a logarithmic axis.
func (d *trendData) chart(width float64) chart.Plot {
	unit := d.unit
	if d.byRatio {
		unit = iotax.Count
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	widen := func(v float64) {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	for _, dot := range d.dots {
		widen(dot.value.Estimate)
	}
	most, least := hi*2, lo/2 // an absurd interval of two rounds must not flatten the rest
	for _, dot := range d.dots {
		if dot.value.Bounded() {
			widen(math.Max(dot.value.Lo, least))
			widen(math.Min(dot.value.Hi, most))
		}
	}
	p := chart.Plot{Title: fmt.Sprintf("%d runs; ", len(d.dots)) + d.answer(len(d.dots)), Width: width, Height: 280,
		X: chart.Axis{Hi: float64(len(d.dots))}, Y: chart.Log("", lo, hi, unit)}
	if d.byRatio {
		p.Y = chart.Ratios(p.Y.Lo, p.Y.Hi)
		if !(p.Y.Lo > 0) {
			p.Y = chart.Axis{}
		}
	}
	form := time.DateOnly
	if day(d.dots[0].run) == day(d.dots[len(d.dots)-1].run) {
		form = "15:04" // all on one day
	}
	line := chart.Line{Hue: 1, Loose: true}
	labelled := 1 + len(d.dots)*80/int(width) // each so many runs
	for i, dot := range d.dots {
		at := float64(i) + .5
		if i%labelled == 0 {
			p.X.Ticks = append(p.X.Ticks, chart.Tick{At: at, Label: dot.run.Start.UTC().Format(form)})
		}
		if !(dot.value.Estimate > 0) {
			continue
		}
		pt := chart.Point{X: at, Y: dot.value.Estimate, Out: dot.unlike != "", Href: "/runs/" + url.PathEscape(dot.run.ID),
			Title: fmt.Sprintf("%s, %s: %s", dot.run.Start.UTC().Format("2006-01-02 15:04"), dot.run.ID, d.text(dot.value))}
		if pt.Out {
			pt.Title += "; takes no part: " + dot.unlike
		}
		if dot.value.Bounded() && dot.value.Lo > 0 {
			pt.Lo, pt.Hi = dot.value.Lo, dot.value.Hi
		}
		line.Points = append(line.Points, pt)
	}
	p.Lines = append(d.levels(), line)
	for _, c := range d.changes {
		label, _ := format.Split(format.Ratio(c.change))
		p.Rules = append(p.Rules, chart.Rule{X: float64(c.after), Label: label, Tone: document.VerdictTone(c.verdict)})
	}
	return p
}

// levels are the geometric means of the segments between changes.
func (d *trendData) levels() (out []chart.Line) {
	bounds := []int{0}
	for _, c := range d.changes {
		bounds = append(bounds, c.after)
	}
	bounds = append(bounds, len(d.dots))
	for k := range len(bounds) - 1 {
		sum, n := 0.0, 0
		for _, dot := range d.dots[bounds[k]:bounds[k+1]] {
			if dot.unlike == "" {
				sum, n = sum+math.Log(dot.value.Estimate), n+1
			}
		}
		if n > 0 {
			mean := math.Exp(sum / float64(n))
			out = append(out, chart.Line{Level: true, Points: []chart.Point{{X: float64(bounds[k]) + .05, Y: mean},
				{X: float64(bounds[k+1]) - .05, Y: mean}}})
		}
	}
	return out
}

// bounded reports whether a dot has an interval.
func (d *trendData) bounded() bool {
	for _, dot := range d.dots {
		if dot.value.Bounded() && dot.value.Lo > 0 {
			return true
		}
	}
	return false
}
