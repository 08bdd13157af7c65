package html

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/chart"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

// chartView is one drawing of the page.
type chartView struct {
	Name    string // of the file it is saved to
	SVG     template.HTML
	Caption string
	Small   bool // one of many
}

// huesOf gives each target its colour, the same in all drawings; the baseline's is the first.
func huesOf(r *report.Report) map[string]int {
	out := map[string]int{r.Baseline: 0}
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if _, ok := out[row.Target]; !ok {
				out[row.Target] = len(out)
			}
		}
	}
	return out
}

// mostLines is how many lines one plot can tell apart.
const mostLines = chart.Hues

func distributionCharts(d report.Distribution, hues map[string]int) []chartView {
	var out []chartView
	for _, cells := range inParts(d.Cells, func(c report.DistributionCell) bool { return hues[c.Target] == 0 }) {
		p := chart.Plot{Title: format.Clean(d.Label) + " by percentile, " + format.Clean(d.Workload), Height: 200,
			X: chart.Axis{Label: "share of all I/Os, stretched toward 100 %", Lo: 1, Log: true}}
		lo, hi := math.Inf(1), 0.0
		var said []string
		for _, c := range cells {
			l := chart.Line{Name: format.Clean(c.Target), Hue: hues[c.Target]}
			for _, q := range thinned(c.Quantiles, 160) {
				if q.Q < .01 && len(c.Quantiles) > 2 {
					continue // the very fastest would squeeze the rest
				}
				x := 1 / (1 - q.Q)
				l.Points = append(l.Points, chart.Point{X: x, Y: q.Value})
				p.X.Hi = math.Max(p.X.Hi, x)
				lo, hi = math.Min(lo, q.Value), math.Max(hi, q.Value)
			}
			last := c.Quantiles[len(c.Quantiles)-1]
			said = append(said, fmt.Sprintf("%s: median %s, p%s %s", format.Clean(c.Target), format.Number(format.Lone(c.At(.5)), d.Unit),
				strconv.FormatFloat(100*last.Q, 'g', 4, 64), format.Number(format.Lone(last.Value), d.Unit)))
			p.Lines = append(p.Lines, l)
		}
		p.Desc = strings.Join(said, "; ")
		p.X.Ticks = []chart.Tick{{At: 2, Label: "50 %"}, {At: 10, Label: "90 %"}, {At: 100, Label: "99 %"}}
		for at, label := 1e3, "99.9"; at <= p.X.Hi; at, label = at*10, label+"9" {
			p.X.Ticks = append(p.X.Ticks, chart.Tick{At: at, Label: label + " %"})
		}
		p.Y = logAxis(format.Clean(d.Label), lo, hi, d.Unit)
		out = append(out, chartView{Name: "latency", SVG: p.SVG(), Caption: "Latency percentiles of all trials together, both axes logarithmic. A line ends where fewer than 100 I/Os are beyond it."})
	}
	return out
}

// inParts splits cells into parts of at most mostLines, the baseline's in each.
func inParts[T any](cells []T, baseline func(T) bool) [][]T {
	if len(cells) <= mostLines {
		return [][]T{cells}
	}
	var base, rest []T
	for _, c := range cells {
		if baseline(c) {
			base = append(base, c)
		} else {
			rest = append(rest, c)
		}
	}
	var out [][]T
	for part := range slices.Chunk(rest, mostLines-len(base)) {
		out = append(out, slices.Concat(base, part))
	}
	return out
}

// thinned leaves out quantiles that would lie closer together than a step of the drawing's width, and keeps the ends.
func thinned(qs []report.Quantile, steps float64) []report.Quantile {
	x := func(q report.Quantile) float64 { return -math.Log(1 - q.Q) }
	width := x(qs[len(qs)-1])
	var out []report.Quantile
	for i, q := range qs {
		if i > 0 && i < len(qs)-1 && x(q)-x(out[len(out)-1]) < width/steps {
			continue
		}
		out = append(out, q)
	}
	return out
}

// logAxis holds lo to hi with some air, and has labelled ticks.
func logAxis(label string, lo, hi float64, unit string) chart.Axis {
	a := chart.Axis{Label: label, Lo: lo / 1.15, Hi: hi * 1.15, Log: true}
	if !(lo > 0) || math.IsInf(hi, 0) {
		return chart.Axis{}
	}
	for _, t := range format.Ticks(a.Lo, a.Hi) {
		a.Ticks = append(a.Ticks, chart.Tick{At: t, Label: tickLabel(t, unit)})
	}
	return a
}

// linearAxis starts at 0.
func linearAxis(label string, most float64, unit string) chart.Axis {
	a := chart.Axis{Label: label, Hi: most * 1.06}
	if !(most > 0) || math.IsInf(most, 0) {
		return chart.Axis{}
	}
	step := format.Step(most/3.5, unit)
	for k := 0.0; k*step <= a.Hi; k++ {
		a.Ticks = append(a.Ticks, chart.Tick{At: k * step, Label: format.Tick(k*step, step, unit)})
	}
	return a
}

// tickLabel rounds what scaling leaves behind: 0.0002 s is 200 µs and not 200.00000000000003 µs.
func tickLabel(v float64, unit string) string {
	if v == 0 {
		return "0"
	}
	sc := format.ScaleOf(unit, v)
	return format.WithUnit(strconv.FormatFloat(math.Round(v/sc.Factor*1e6)/1e6, 'g', -1, 64)+sc.Prefix, sc.Unit)
}

// pointsPerPanel bounds a panel's size, so that a hundred of them fit into a page that can be mailed.
const pointsPerPanel = 500

func timelineCharts(tl *report.Timeline, hues map[string]int) []chartView {
	var out []chartView
	for _, c := range tl.Cells {
		p := chart.Plot{Title: fmt.Sprintf("%s during the trials of %s, %s", format.Clean(tl.Label), format.Clean(c.Target), format.Clean(tl.Workload)), Width: 330, Height: 110,
			X: chart.Axis{}}
		most := 0.0
		if !tl.Cost {
			p.Bands = []chart.Band{{Lo: c.Mean * (1 - stat.SteadyRange/2), Hi: c.Mean * (1 + stat.SteadyRange/2)}}
			most = c.Mean * (1 + stat.SteadyRange/2)
		}
		for i, t := range c.Trials {
			l := chart.Line{Hue: hues[c.Target], Faint: true, Odd: !tl.Cost && t.Steady.Enough && !t.Steady.Reached}
			if i == 0 {
				l.Name = format.Clean(c.Target)
			}
			for _, pt := range thinnedSeries(t.Series, max(8, pointsPerPanel/len(c.Trials))) {
				l.Points = append(l.Points, pt)
				p.X.Hi, most = math.Max(p.X.Hi, pt.X), math.Max(most, pt.Y)
			}
			// The whole window: where a line ends before it, nothing more was done.
			p.X.Hi = math.Max(p.X.Hi, t.Length)
			p.Lines = append(p.Lines, l)
		}
		step := format.Step(p.X.Hi/5, iotax.Count)
		for k := 0.0; k*step <= p.X.Hi; k++ {
			p.X.Ticks = append(p.X.Ticks, chart.Tick{At: k * step, Label: strconv.FormatFloat(k*step, 'g', 6, 64) + " s"})
		}
		p.Y = linearAxis("", most, tl.Unit)
		switch {
		case tl.Cost:
			p.Note = "at most " + format.Number(format.Lone(most), tl.Unit)
		case c.Told == 0:
			p.Note = "too short to tell"
		case c.Steady == c.Told:
			p.Note = "steady in all trials"
		default:
			p.Note, p.Warn = fmt.Sprintf("steady in %d of %s", c.Steady, format.Plural(c.Told, "trial")), true
		}
		count := format.Plural(len(c.Trials), "trial")
		if c.Count > len(c.Trials) {
			count = fmt.Sprintf("%d of %s, evenly chosen", len(c.Trials), format.Plural(c.Count, "trial"))
			p.Note = fmt.Sprintf("%d of %d shown, %s", len(c.Trials), c.Count, p.Note)
		}
		p.Desc = fmt.Sprintf("%s, mean %s, %s", count, format.Number(format.Lone(c.Mean), tl.Unit), p.Note)
		out = append(out, chartView{Name: "time", SVG: p.SVG(), Small: true})
	}
	return out
}

// thinnedSeries puts each value at the middle of its interval. Where there are more than most, of
// several neighbours the least and the greatest stay, so that a stall is still seen.
func thinnedSeries(s iotax.Series, most int) []chart.Point {
	var all []chart.Point
	from := 0.0
	for i, v := range s.V {
		all = append(all, chart.Point{X: (from + s.T[i]) / 2, Y: v})
		from = s.T[i]
	}
	if len(all) <= most {
		return all
	}
	size := (2*len(all) + most - 1) / most
	var out []chart.Point
	for part := range slices.Chunk(all, size) {
		lo, hi := 0, 0
		for i := range part {
			if part[i].Y < part[lo].Y {
				lo = i
			}
			if part[i].Y > part[hi].Y {
				hi = i
			}
		}
		out = append(out, part[min(lo, hi)])
		if lo != hi {
			out = append(out, part[max(lo, hi)])
		}
	}
	return out
}

func costChart(c *report.Cost, hues map[string]int) chartView {
	b := chart.Bars{Title: "Speed, CPU and memory, " + format.Clean(c.Workload)}
	panels := []chart.Panel{{Label: format.Clean(c.Label)}, {Label: "host CPU per I/O"}, {Label: "serving memory"}}
	units := []string{c.Unit, iotax.Seconds, iotax.Bytes}
	known := make([]bool, len(panels))
	var said []string
	for _, cell := range c.Cells {
		b.Names, b.Hues = append(b.Names, format.Clean(cell.Target)), append(b.Hues, hues[cell.Target])
		words := []string{}
		for k, v := range []stat.Interval{cell.Speed, cell.CPU, cell.Memory} {
			known[k] = known[k] || !math.IsNaN(v.Estimate)
			bar := chart.Bar{Value: v.Estimate, Lo: v.Lo, Hi: v.Hi, Label: format.Number(v, units[k])}
			panels[k].Bars = append(panels[k].Bars, bar)
			words = append(words, panels[k].Label+" "+bar.Label)
		}
		said = append(said, format.Clean(cell.Target)+": "+strings.Join(words, ", "))
	}
	for k := range panels {
		if known[k] {
			b.Panels = append(b.Panels, panels[k])
		}
	}
	b.Desc = strings.Join(said, "; ")
	return chartView{Name: "cost", SVG: b.SVG(), Caption: "Medians over trials with their intervals. Host CPU is that of all processes of this host; serving memory is the most that QEMU and other servers of the target had resident."}
}

func waterfallChart(w *report.Waterfall) chartView {
	f := chart.Waterfall{Title: "What each layer costs, " + format.Clean(format.Subject(w.Workload, w.Label)), StartLabel: format.Value(w.Start, w.Unit)}
	step := func(name string, h report.Hop) chart.Step {
		return chart.Step{Name: name, Ratio: h.Ratio.Estimate, Lo: h.Ratio.Lo, Hi: h.Ratio.Hi, Label: format.Ratio(h.Ratio), Word: format.Verdict(h.Verdict, true), Class: verdictClass(h.Verdict)}
	}
	var said []string
	for i, h := range w.Hops {
		if i == 0 {
			f.Start = format.Clean(h.From)
		}
		f.Steps = append(f.Steps, step(format.Clean(h.To), h))
		said = append(said, fmt.Sprintf("%s on %s %s, %s", format.Clean(h.To), format.Clean(h.From), format.Ratio(h.Ratio), format.Verdict(h.Verdict, false)))
	}
	f.Total = step("end to end", w.Total)
	f.Desc = strings.Join(append(said, "end to end "+format.Ratio(w.Total.Ratio)), "; ")
	lo, hi := f.Range()
	for _, t := range format.Ticks(lo, hi) {
		f.Ticks = append(f.Ticks, chart.Tick{At: t, Label: strconv.FormatFloat(t, 'g', -1, 64) + "×"})
	}
	if !slices.ContainsFunc(f.Ticks, func(t chart.Tick) bool { return t.At == 1 }) {
		f.Ticks = append(f.Ticks, chart.Tick{At: 1, Label: "1×"})
		slices.SortFunc(f.Ticks, func(a, b chart.Tick) int {
			if a.At < b.At {
				return -1
			}
			return 1
		})
	}
	v := chartView{Name: "layers", SVG: f.SVG(), Caption: fmt.Sprintf("Each layer's ratio to the one below it, from the same %s; on the logarithmic axis the steps add up to the whole.", format.Plural(w.Blocks, "block"))}
	if len(w.Missing) > 0 {
		v.Caption += " Without a number here: " + format.Clean(strings.Join(w.Missing, ", ")) + "."
	}
	return v
}

// viewCurve is the curve as a drawing and as a table.
func viewCurve(c report.Curve, hues map[string]int) curveView {
	g := table.Curve(c)
	v := curveView{Title: g.Title, Head: g.Head, Rows: g.Rows}
	p := chart.Plot{Title: g.Title, Height: 220}
	most, lo, hi := 0.0, math.Inf(1), 0.0
	var names []string
	for _, pt := range c.Points {
		most = math.Max(most, pt.Offered)
		for _, cell := range pt.Cells {
			if !slices.Contains(names, cell.Target) {
				names = append(names, cell.Target)
			}
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
	p.X = linearAxis("offered load, I/Os per second; solid: mean, dashed: p99", most, iotax.PerSecond)
	p.Y = logAxis("latency", lo, hi, iotax.Seconds)
	for _, name := range names {
		mean := chart.Line{Name: format.Clean(name), Hue: hues[name], Marks: true, Solid: true}
		p99 := chart.Line{Hue: hues[name], Second: true}
		for _, pt := range c.Points {
			for _, cell := range pt.Cells {
				if cell.Target != name || !(cell.Latency > 0) {
					continue
				}
				mean.Points = append(mean.Points, chart.Point{X: pt.Offered, Y: cell.Latency, Title: fmt.Sprintf("%s at %s: mean %s, p99 %s",
					format.Clean(name), format.Number(format.Lone(pt.Offered), iotax.PerSecond), format.Number(format.Lone(cell.Latency), iotax.Seconds), format.Number(format.Lone(cell.P99), iotax.Seconds))})
				p99.Points = append(p99.Points, chart.Point{X: pt.Offered, Y: cell.P99})
			}
		}
		if len(mean.Points) > 0 {
			p.Lines = append(p.Lines, mean, p99)
		}
	}
	p.Desc = "The table holds the same numbers."
	v.Chart = chartView{Name: "load", SVG: p.SVG()}
	return v
}

// curveView is a curve as a drawing and as a table.
type curveView struct {
	Title string
	Chart chartView
	Head  []string
	Rows  [][]string
}

// viewScaling is the curve as a drawing, with the intervals as upright lines and what clients that left each other
// everything would do together, and as a table.
func viewScaling(c report.Scaling, hues map[string]int) curveView {
	g := table.Scaling(c)
	v := curveView{Title: g.Title, Head: g.Head, Rows: g.Rows}
	p := chart.Plot{Title: g.Title, Height: 220, Desc: "The table holds the same numbers."}
	hue := hues[c.Points[0].Target]
	all := chart.Line{Name: "together", Hue: hue, Marks: true, Solid: true}
	ideal := chart.Line{Name: "as if alone", Hue: hue, Second: true}
	var spans []chart.Line
	most, top := 0, 0.0
	for _, pt := range c.Points {
		x := float64(pt.Clients)
		most = max(most, pt.Clients)
		top = math.Max(top, pt.Value.Estimate)
		all.Points = append(all.Points, chart.Point{X: x, Y: pt.Value.Estimate, Title: fmt.Sprintf("%s: %s", format.Plural(pt.Clients, "client"), format.Value(pt.Value, c.Unit))})
		if format.Finite(pt.Value) {
			top = math.Max(top, pt.Value.Hi)
			spans = append(spans, chart.Line{Hue: hue, Solid: true, Points: []chart.Point{{X: x, Y: pt.Value.Lo}, {X: x, Y: pt.Value.Hi}}})
		}
	}
	if c.Better == iotax.Up {
		first := c.Points[0]
		for _, pt := range c.Points {
			if y := first.Value.Estimate * float64(pt.Clients) / float64(first.Clients); y <= 2*top { // beyond, the rest would lie flat
				ideal.Points = append(ideal.Points, chart.Point{X: float64(pt.Clients), Y: y})
				top = math.Max(top, y)
			}
		}
	}
	p.X = linearAxis("clients at the same moment", float64(most), iotax.Count)
	p.X.Ticks = nil
	for _, pt := range c.Points {
		p.X.Ticks = append(p.X.Ticks, chart.Tick{At: float64(pt.Clients), Label: strconv.Itoa(pt.Clients)})
	}
	p.Y = linearAxis(format.Clean(c.Label), top, c.Unit)
	p.Lines = append(spans, all)
	if len(ideal.Points) > 1 {
		p.Lines = append(p.Lines, ideal)
	}
	v.Chart = chartView{Name: "clients", SVG: p.SVG(), Caption: "Upright lines are 95 % intervals."}
	return v
}
