package trend

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"iotax"
	"iotax/internal/report/chart"
	"iotax/internal/report/document"
)

const (
	wideTrend   = 860
	narrowTrend = 358
)

// chart plots the value or the ratio of the metric in each run on a logarithmic axis. The runs are evenly spaced.
func (d *Trend) chart(width float64) chart.Plot {
	unit := d.Unit
	if d.ByRatio {
		unit = iotax.Count
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	widen := func(v float64) {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	for _, dot := range d.Dots {
		widen(dot.Value.Estimate)
	}
	most, least := hi*2, lo/2 // a very wide interval must not flatten the rest of the chart
	for _, dot := range d.Dots {
		if dot.Value.Bounded() {
			widen(math.Max(dot.Value.Lo, least))
			widen(math.Min(dot.Value.Hi, most))
		}
	}
	p := chart.Plot{Title: fmt.Sprintf("%d runs; ", len(d.Dots)) + d.answer(), Width: width, Height: 280,
		X: chart.Axis{Hi: float64(len(d.Dots))}, Y: chart.Log("", lo, hi, unit)}
	if d.ByRatio {
		p.Y = chart.Ratios(p.Y.Lo, p.Y.Hi)
		if !(p.Y.Lo > 0) {
			p.Y = chart.Axis{}
		}
	}
	form := time.DateOnly
	if day(d.Dots[0].Run) == day(d.Dots[len(d.Dots)-1].Run) {
		form = "15:04" // all runs are from one day
	}
	line := chart.Line{Hue: 1, Loose: true}
	labelled := 1 + len(d.Dots)*80/int(width) // label every n-th run
	for i, dot := range d.Dots {
		at := float64(i) + .5
		label := dot.Run.Start.UTC().Format(form)
		if n := len(p.X.Ticks); i%labelled == 0 && (n == 0 || p.X.Ticks[n-1].Label != label) {
			p.X.Ticks = append(p.X.Ticks, chart.Tick{At: at, Label: label})
		}
		if !(dot.Value.Estimate > 0) {
			continue
		}
		pt := chart.Point{X: at, Y: dot.Value.Estimate, Out: dot.Unlike != "", Href: "/runs/" + url.PathEscape(dot.Run.ID),
			Title: fmt.Sprintf("%s, %s: %s", dot.Run.Start.UTC().Format("2006-01-02 15:04"), dot.Run.ID, d.text(dot.Value))}
		if pt.Out {
			pt.Title += "; takes no part: " + dot.Unlike
		}
		if dot.Value.Bounded() && dot.Value.Lo > 0 {
			pt.Lo, pt.Hi = dot.Value.Lo, dot.Value.Hi
		}
		line.Points = append(line.Points, pt)
	}
	p.Lines = append(d.levels(), line)
	for _, c := range d.Changes {
		p.Rules = append(p.Rules, chart.Rule{X: float64(c.After), Label: d.words().Estimate(c.Ratio), Tone: document.VerdictTone(c.Verdict)})
	}
	return p
}

// levels returns a line for each group of dots that the changes separate. The height of a line is the geometric mean of
// the group's included dots.
func (d *Trend) levels() (out []chart.Line) {
	bounds := []int{0}
	for _, c := range d.Changes {
		bounds = append(bounds, c.After)
	}
	bounds = append(bounds, len(d.Dots))
	for k := range len(bounds) - 1 {
		sum, n := 0.0, 0
		for _, dot := range d.Dots[bounds[k]:bounds[k+1]] {
			if dot.Unlike == "" {
				sum, n = sum+math.Log(dot.Value.Estimate), n+1
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

func (d *Trend) bounded() bool {
	for _, dot := range d.Dots {
		if dot.Value.Bounded() && dot.Value.Lo > 0 {
			return true
		}
	}
	return false
}
