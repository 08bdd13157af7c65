package web

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"iotax/internal/report/format"
	"iotax/internal/report/html"
	"iotax/stat"
)

// A trendShape is the size of a chart in pixels.
type trendShape struct {
	ID                               string
	Width, Height, Left, Right       float64
	Top, Bottom, DateGap, MarkRadius float64
}

var (
	wideTrend   = trendShape{ID: "wide", Width: 1040, Height: 360, Left: 84, Right: 16, Top: 30, Bottom: 34, DateGap: 96, MarkRadius: 4}
	narrowTrend = trendShape{ID: "narrow", Width: 358, Height: 280, Left: 62, Right: 8, Top: 28, Bottom: 32, DateGap: 84, MarkRadius: 3.5}
)

// A trendChart is a number over runs, evenly spaced in their order, on a logarithmic axis.
type trendChart struct {
	trendShape
	PlotRight, PlotBottom float64
	Ticks                 []chartTick
	Dates                 []chartTick
	Dots                  []chartDot
	Levels                []chartLevel
	Changes               []chartChange
	One                   float64 // of a ratio: where 1 lies; 0 is outside
	HasInterval           bool    // whether any dot has one
	Desc                  string
}

type chartTick struct {
	At     float64
	Label  string
	Anchor string
}

type chartDot struct {
	X, Y, Lo, Hi float64
	HasInterval  bool
	Unlike       bool
	Title, Href  string
}

type chartLevel struct {
	X1, X2, Y float64
	Title     string
}

type chartChange struct {
	X            float64
	Label, Class string
	LabelX       float64
	Anchor       string
}

func (d *trendData) chart(shape trendShape) *trendChart {
	c := &trendChart{trendShape: shape, PlotRight: shape.Width - shape.Right, PlotBottom: shape.Height - shape.Bottom}
	lo, hi := math.Inf(1), math.Inf(-1)
	widen := func(v float64) {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	for _, dot := range d.dots {
		widen(dot.value.Estimate)
	}
	// An absurd interval of two blocks must not flatten the rest.
	most, least := hi*2, lo/2
	for _, dot := range d.dots {
		if dot.value.Bounded() {
			widen(math.Max(dot.value.Lo, least))
			widen(math.Min(dot.value.Hi, most))
		}
	}
	if !(lo > 0) || math.IsInf(hi, 0) {
		return nil
	}
	room := math.Max(math.Log(hi/lo)*.06, .01)
	from, to := math.Log(lo)-room, math.Log(hi)+room
	y := func(v float64) float64 {
		t := (math.Log(v) - from) / (to - from)
		return c.PlotBottom - min(1, max(0, t))*(c.PlotBottom-c.Top)
	}
	step := (c.PlotRight - c.Left) / float64(len(d.dots))
	x := func(i float64) float64 { return c.Left + (i+.5)*step }

	values := ticksBetween(math.Exp(from), math.Exp(to))
	digits := 0
	for _, v := range values {
		_, after, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
		digits = max(digits, len(after))
	}
	for _, v := range values {
		label := strconv.FormatFloat(v, 'f', digits, 64) + "×"
		if !d.byRatio {
			label = format.Value(stat.Interval{Estimate: v, Lo: v, Hi: v}, d.unit) // "50k"
		}
		c.Ticks = append(c.Ticks, chartTick{At: y(v), Label: label})
	}
	if d.byRatio && math.Log(1) > from && math.Log(1) < to {
		c.One = y(1)
	}
	form := time.DateOnly
	if day(d.dots[0].run) == day(d.dots[len(d.dots)-1].run) {
		form = "15:04" // all on one day
	}
	last := math.Inf(-1)
	for i, dot := range d.dots {
		at := x(float64(i))
		if at-last < c.DateGap || at > c.PlotRight-30 && i > 0 {
			continue
		}
		tick := chartTick{At: at, Label: dot.run.Start.UTC().Format(form), Anchor: "middle"}
		last = at
		if at-c.Left < 36 {
			tick.At, tick.Anchor = math.Max(c.Left, at-4), "start"
			last = tick.At + 36
		}
		c.Dates = append(c.Dates, tick)
	}
	for i, dot := range d.dots {
		if !(dot.value.Estimate > 0) {
			continue
		}
		cd := chartDot{X: x(float64(i)), Y: y(dot.value.Estimate), Unlike: dot.unlike != "", Href: "/runs/" + url.PathEscape(dot.run.ID)}
		cd.Title = fmt.Sprintf("%s, %s: %s", dot.run.Start.UTC().Format("2006-01-02 15:04"), dot.run.ID, d.text(dot.value))
		if cd.Unlike {
			cd.Title += "; takes no part: " + format.Clean(dot.unlike)
		}
		if dot.value.Bounded() && dot.value.Lo > 0 {
			cd.HasInterval, cd.Lo, cd.Hi = true, y(dot.value.Lo), y(dot.value.Hi)
			c.HasInterval = true
		}
		c.Dots = append(c.Dots, cd)
	}
	c.levels(d, x, y)
	c.Desc = fmt.Sprintf("%d runs; ", len(d.dots)) + d.answer(len(d.dots))
	return c
}

// levels draws the geometric mean of each segment, and the changes between them.
func (c *trendChart) levels(d *trendData, x func(float64) float64, y func(float64) float64) {
	bounds := []int{0}
	for _, ch := range d.changes {
		bounds = append(bounds, ch.after)
	}
	bounds = append(bounds, len(d.dots))
	for k := range len(bounds) - 1 {
		sum, n := 0.0, 0
		for _, dot := range d.dots[bounds[k]:bounds[k+1]] {
			if dot.unlike == "" {
				sum, n = sum+math.Log(dot.value.Estimate), n+1
			}
		}
		if n == 0 {
			continue
		}
		mean := math.Exp(sum / float64(n))
		c.Levels = append(c.Levels, chartLevel{X1: x(float64(bounds[k]) - .45), X2: x(float64(bounds[k+1]) - .55), Y: y(mean),
			Title: fmt.Sprintf("level of %d runs: %s", n, d.text(stat.Interval{Estimate: mean, Lo: math.NaN(), Hi: math.NaN()}))})
	}
	for _, ch := range d.changes {
		cc := chartChange{X: x(float64(ch.after) - .5), Class: html.VerdictClass(ch.verdict), Anchor: "start"}
		cc.Label, _ = parted(format.Ratio(ch.change))
		if cc.LabelX = cc.X + 5; cc.X > c.PlotRight-60 {
			cc.LabelX, cc.Anchor = cc.X-5, "end"
		}
		c.Changes = append(c.Changes, cc)
	}
}

// ticksBetween are three to seven round numbers between lo and hi: equal steps where the range is small, else
// 1, 2 and 5 times powers of ten.
func ticksBetween(lo, hi float64) []float64 {
	var out []float64
	if hi/lo > 8 {
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= lo && v <= hi && (m == 1 || hi/lo < 200) {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/3)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(m*step) <= 6 {
			step *= m
			break
		}
	}
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		v, err := strconv.ParseFloat(strconv.FormatFloat(k*step, 'g', 10, 64), 64) // 0.30000000000000004
		if err == nil {
			out = append(out, v)
		}
	}
	return out
}
