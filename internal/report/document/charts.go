package document

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/chart"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

// VerdictTone returns the name of a verdict's colour.
func VerdictTone(v stat.Verdict) string {
	switch v {
	case stat.Worse:
		return "worse"
	case stat.Better:
		return "better"
	case stat.Equivalent, stat.BelowMargin:
		return "same"
	case stat.Inconclusive, stat.TooFew:
		return "unsure"
	case stat.NoVerdict:
		return "soft"
	case stat.NotRanked:
		return "unlike"
	}
	return "invalid"
}

var marks = map[string]chart.Mark{"same": chart.Diamond, "unsure": chart.Hollow, "unlike": chart.Hollow, "invalid": chart.Cross}

var verdictKeys = []block.Key{{Tone: "worse", Text: "worse"}, {Tone: "better", Text: "better"}, {Tone: "same",
	Text: "inside the margin (diamond)"},
	{Tone: "unsure", Text: "too noisy or not ranked (hollow)"}, {Tone: "invalid", Text: "invalid, for example cached (cross)"}}

const (
	wideForest   = 860
	narrowForest = 358
	pictureLine  = 110 // characters in a line below a forest plot of wideForest
)

// ratioRow returns a row for a ratio with its interval. i is nil if there is no ratio.
func ratioRow(name string, i *stat.Interval, v stat.Verdict) chart.Row {
	nan := math.NaN()
	r := chart.Row{Name: name, Word: format.Verdict(v, true), Tone: VerdictTone(v), At: nan, Lo: nan, Hi: nan}
	r.Mark = marks[r.Tone]
	if i != nil && i.Estimate > 0 {
		r.At = i.Estimate
		r.Figure, r.Bounds = format.Split(format.Ratio(*i))
		if format.Finite(*i) && i.Lo > 0 {
			r.Lo, r.Hi = i.Lo, i.Hi
		}
	}
	return r
}

// forestRow returns a row of a forest plot. Its texts are for both views of the plot: multiples, and percentages of the
// baseline.
func forestRow(name string, i *stat.Interval, v stat.Verdict, words format.Contrast) chart.Row {
	r := ratioRow(name, i, v)
	if r.Figure != "" {
		r.Figure, r.Bounds = words.Multiple(*i)
		switch {
		case (v == stat.Worse || v == stat.Better) && strings.ContainsRune(r.Figure, ' '):
			r.Brief = r.Figure
		case r.Tone == "unsure" || r.Tone == "invalid":
			r.Brief = r.Word
		}
		r.Other[0], r.Other[1] = format.OfBaseline(*i)
	}
	return r
}

// forest returns a plot of the ratios on an axis from lo to hi, or nil if no row has a ratio.
func forest(title string, rows []chart.Row, margin, lo, hi float64, width float64) *chart.Rows {
	if !slices.ContainsFunc(rows, func(r chart.Row) bool { return r.At > 0 }) {
		return nil
	}
	var said []string
	heading := ""
	for _, r := range rows {
		if r.Heading != "" {
			heading = r.Heading
		}
		if r.At > 0 {
			said = append(said, heading+", "+r.Name+": "+strings.TrimSpace(r.Figure+" "+r.Bounds)+", "+r.Word)
		}
	}
	heads := [3]string{"ratio", "95 % interval", "verdict"}
	if !slices.ContainsFunc(rows, func(r chart.Row) bool { return r.Bounds != "" }) {
		heads[1] = "" // the ratios contain their bounds, as in "at least 3×"
	}
	axis, percent := chart.Multiples(lo, hi)
	axis.Label = title + ", logarithmic"
	return &chart.Rows{Title: title + ", with 95 % intervals, on a logarithmic axis", Desc: strings.Join(said, "; "), Width: width,
		Rows: rows, Axis: axis, Other: percent, Zero: 1, Band: chart.Band{Lo: 1 / (1 + margin), Hi: 1 + margin},
		Ends: [2]string{"← worse", "better →"}, Heads: heads}
}

// Forest returns the plot of all ratios of a report. Each section goes from the largest loss to the smallest. Forest
// returns nil if there are no ratios.
func Forest(r *report.Report, width float64) *chart.Rows {
	var rows []chart.Row
	for i := range r.Sections {
		s := &r.Sections[i]
		words := format.ContrastOf(s.Metric, s.Better, s.Unit)
		var part, without []chart.Row
		for _, row := range slices.Backward(byLosses(s)) {
			word := r.Word(row, true)
			switch {
			case row.Baseline || row.Verdict == stat.NoVerdict:
			case row.Ratio == nil:
				x := forestRow(row.Target, nil, row.Verdict, words)
				x.Word = word
				without = append(without, x)
			default:
				x := forestRow(row.Target, &row.Ratio.Interval, row.Verdict, words)
				if x.Word != word {
					x.Word, x.Brief = word, word
				}
				part = append(part, x)
			}
		}
		if part = append(part, without...); part != nil {
			part[0].Heading = format.Subject(s.Workload, s.Label)
		}
		rows = append(rows, part...)
	}
	lo, hi := r.RatioRange()
	return forest("Ratio of each target to the baseline", rows, r.Margin, lo, hi, width)
}

// Picture returns the forest plot as a file for documents and slides, with the report's banner, and the file system and
// device of each target. If the report has no ratio, the error wraps chart.ErrNothing.
func Picture(r *report.Report) (chart.File, error) {
	f := Forest(r, wideForest)
	if f == nil {
		return chart.File{}, fmt.Errorf("draw picture: the report has no ratio: %w", chart.ErrNothing)
	}
	head := strings.TrimPrefix(format.Clean(r.Run.Name)+": ratio to "+format.Clean(r.Baseline), ": ")
	out := chart.File{Drawing: f, Head: []string{head}}
	if !r.Run.Start.IsZero() {
		out.Head[0] += ", " + r.Run.Start.UTC().Format("2 January 2006")
	}
	for line := range strings.SplitAfterSeq(strings.Replace(r.Banner(), ". ", ".\n", 1), "\n") { // the first sentence gets its own line
		if line != "" {
			out.Foot = append(out.Foot, line)
		}
	}
	if targets := assess.Targets(r); targets != "" {
		out.Foot = append(out.Foot, format.Wrap(targets, pictureLine)...)
	}
	return out, nil
}

// changeForest returns the plot of the changes in comparisons, or nil if there are no ratios.
func changeForest(title string, all []*compare.Comparison, at []map[compare.CellMetric]*compare.Change,
	width float64) *chart.Rows {
	var rows []chart.Row
	var ratios []stat.Interval
	last := ""
	for _, k := range compare.CellMetrics(all[0].A) {
		for i, c := range all {
			ch := at[i][k]
			if ch == nil {
				continue
			}
			var ratio *stat.Interval
			if e := ch.Judged(c.By); e != nil {
				ratio = &e.Interval
				ratios = append(ratios, e.Interval)
			}
			row := forestRow(k.Target, ratio, ch.Verdict, format.ContrastOf(ch.Metric, ch.Better, ch.Unit))
			if len(all) > 1 {
				row.Name += ", " + c.Letter
			}
			if h := format.Subject(k.Workload, ch.Label); h != last {
				row.Heading, last = h, h
			}
			rows = append(rows, row)
		}
	}
	lo, hi := report.RangeOf(ratios, all[0].Margin)
	return forest(title, rows, all[0].Margin, lo, hi, width)
}

// huesOf gives each target one colour for all drawings. The baseline has the first colour.
func huesOf(r *report.Report) map[string]int {
	out := map[string]int{r.Baseline: 0}
	for _, row := range r.Rows() {
		if _, ok := out[row.Target]; !ok {
			out[row.Target] = len(out)
		}
	}
	return out
}

// mostDots is the maximum number of dots in a chart row, not counting discarded trials and outliers.
const mostDots = 200

// trialsChart draws the trials of a section as dots (see mostDots), with the first round at the top. If starts have
// several rounds, each start has a colour.
func trialsChart(r *report.Report, s *report.Section) block.Chart {
	c := chart.Rows{Title: "Every trial, " + format.Subject(s.Workload, s.Label)}
	top, last := 0.0, 0
	rounds := map[int]map[int]bool{} // by start
	for _, row := range s.Rows {
		for _, d := range row.Dots {
			top, last = math.Max(top, d.Value), max(last, d.Round)
			if rounds[d.Start] == nil {
				rounds[d.Start] = map[int]bool{}
			}
			rounds[d.Start][d.Round] = true
		}
	}
	starts := slices.Sorted(maps.Keys(rounds))
	coloured := len(starts) > 1 && slices.ContainsFunc(starts, func(k int) bool { return len(rounds[k]) > 1 })
	for _, row := range s.Rows {
		if row.Err != "" || row.Value.N == 0 {
			continue
		}
		out := chart.Row{Name: row.Target, Figure: format.Number(row.Value, s.Unit), Mark: chart.Dots, At: row.Value.Estimate,
			Lo: row.Value.Lo, Hi: row.Value.Hi, Dots: []chart.Dot{}}
		common := 0 // dots that are neither discarded nor outliers; those two kinds are always drawn
		for _, d := range row.Dots {
			title := fmt.Sprintf("%s %d: %s", r.Counted(), d.Round+1, format.Number(stat.Interval{Estimate: d.Value, Lo: d.Value * .995,
				Hi: d.Value * 1.005}, s.Unit))
			tone := ""
			if coloured {
				tone = chart.Hue(d.Start)
				title += fmt.Sprintf(", start %d", d.Start)
			}
			switch {
			case d.Discarded:
				title += ", discarded"
			case d.Tag != stat.Inside:
				title += ", " + string(d.Tag) + " outlier"
			default:
				if common++; !part(common, len(row.Dots), mostDots) {
					continue
				}
			}
			out.Dots = append(out.Dots, chart.Dot{At: d.Value, Level: float64(d.Round) / float64(max(1, last)), Out: d.Discarded,
				Tone: tone, Title: title})
		}
		c.Rows = append(c.Rows, out)
		c.Desc += fmt.Sprintf("%s: %s, %d failed, %d discarded. ", row.Target, format.Plural(row.Ran, "trial"), row.Failed,
			row.Discarded)
	}
	c.Axis = chart.Linear("", top, s.Unit)
	out := block.Chart{Name: "trials", Drawing: c, Caption: format.Capital(s.Label) + ": a dot for each trial, the first " +
		r.Counted() + " on top; the line is the median, the shade its interval."}
	switch {
	case coloured && len(starts) <= chart.Hues:
		for _, k := range starts {
			out.Key = append(out.Key, block.Key{Tone: chart.Hue(k), Text: fmt.Sprintf("start %d", k)})
		}
	case coloured:
		out.Caption += fmt.Sprintf(" Successive starts have different colours, which repeat after %d starts.", chart.Hues)
	}
	return out
}

// `part` selects k of n items evenly: it reports whether item i, counted from 1, is selected.
func part(i, n, k int) bool { return n <= k || i*k/n != (i-1)*k/n }

func distributionCharts(d report.Distribution, hues map[string]int) (out []block.Chart) {
	for _, cells := range inParts(d.Cells, func(c report.DistributionCell) bool { return hues[c.Target] == 0 }) {
		p := chart.Plot{Title: d.Label + " by percentile, " + d.Workload, Height: 200,
			X: chart.Axis{Label: "share of all I/Os, stretched toward 100 %", Lo: 1, Log: true}}
		lo, hi := math.Inf(1), 0.0
		var said []string
		for _, c := range cells {
			l := chart.Line{Name: c.Target, Hue: hues[c.Target]}
			for _, q := range thinned(c.Quantiles, 160) {
				if q.Q < .01 && len(c.Quantiles) > 2 {
					continue // the fastest I/Os would compress the axis
				}
				x := 1 / (1 - q.Q)
				l.Points = append(l.Points, chart.Point{X: x, Y: q.Value})
				p.X.Hi = math.Max(p.X.Hi, x)
				lo, hi = math.Min(lo, q.Value), math.Max(hi, q.Value)
			}
			last := c.Quantiles[len(c.Quantiles)-1]
			said = append(said, fmt.Sprintf("%s: median %s, p%s %s", c.Target, format.Number(format.Lone(c.At(.5)), d.Unit),
				strconv.FormatFloat(100*last.Q, 'g', 4, 64), format.Number(format.Lone(last.Value), d.Unit)))
			p.Lines = append(p.Lines, l)
		}
		p.Desc = strings.Join(said, "; ")
		p.X.Ticks = []chart.Tick{{At: 2, Label: "50 %"}, {At: 10, Label: "90 %"}, {At: 100, Label: "99 %"}}
		for at, label := 1e3, "99.9"; at <= p.X.Hi; at, label = at*10, label+"9" {
			p.X.Ticks = append(p.X.Ticks, chart.Tick{At: at, Label: label + " %"})
		}
		p.Y = chart.Log(d.Label, lo, hi, d.Unit)
		out = append(out, block.Chart{Name: "latency", Drawing: p,
			Caption: "Latency percentiles of all trials together, both axes logarithmic. " +
				"A line ends where fewer than 100 I/Os are beyond it."})
	}
	return out
}

// inParts splits cells into groups of at most chart.Hues, so that readers can distinguish the lines of a plot. Each
// group includes the baseline.
func inParts[T any](cells []T, baseline func(T) bool) [][]T {
	if len(cells) <= chart.Hues {
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
	for part := range slices.Chunk(rest, chart.Hues-len(base)) {
		out = append(out, slices.Concat(base, part))
	}
	return out
}

// thinned removes quantiles that are closer together than 1/steps of the axis. It keeps both ends.
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

// pointsPerPanel is the approximate maximum number of points in a panel. It keeps a page with a hundred panels small
// enough for an email.
const pointsPerPanel = 500

func timelineCharts(tl *report.Timeline, hues map[string]int) (out []block.Chart) {
	for _, c := range tl.Cells {
		p := chart.Plot{Title: fmt.Sprintf("%s during the trials of %s, %s", tl.Label, c.Target, tl.Workload), Width: 330, Height: 110}
		most := 0.0
		if !tl.Cost {
			p.Bands = []chart.Band{{Lo: c.Mean * (1 - stat.SteadyRange/2), Hi: c.Mean * (1 + stat.SteadyRange/2)}}
			most = c.Mean * (1 + stat.SteadyRange/2)
		}
		for i, t := range c.Trials {
			l := chart.Line{Hue: hues[c.Target], Faint: true, Odd: !tl.Cost && t.Steady.Enough && !t.Steady.Reached}
			if i == 0 {
				l.Name = c.Target
			}
			for _, pt := range thinnedSeries(t.Series, max(8, pointsPerPanel/len(c.Trials))) {
				l.Points = append(l.Points, pt)
				p.X.Hi, most = math.Max(p.X.Hi, pt.X), math.Max(most, pt.Y)
			}
			// Show the whole window: a line that ends earlier means that no more I/O completed.
			p.X.Hi = math.Max(p.X.Hi, t.Length)
			p.Lines = append(p.Lines, l)
		}
		p.X.Ticks = secondTicks(p.X.Hi)
		p.Y = chart.Linear("", most, tl.Unit)
		switch {
		case tl.Cost:
			p.Note = "at most " + format.Number(format.Lone(most), tl.Unit)
		case c.Judged == 0:
			p.Note = "too short to judge"
		case c.Steady == c.Judged:
			p.Note = "steady in all trials"
		default:
			p.Note, p.Warn = fmt.Sprintf("steady in %d of %s", c.Steady, format.Plural(c.Judged, "trial")), true
		}
		count := format.Plural(len(c.Trials), "trial")
		if c.Count > len(c.Trials) {
			count = fmt.Sprintf("%d of %s, evenly chosen", len(c.Trials), format.Plural(c.Count, "trial"))
			p.Note = fmt.Sprintf("%d of %d shown, %s", len(c.Trials), c.Count, p.Note)
		}
		p.Desc = fmt.Sprintf("%s, mean %s, %s", count, format.Number(format.Lone(c.Mean), tl.Unit), p.Note)
		out = append(out, block.Chart{Name: "time", Drawing: p, Small: true})
	}
	return out
}

// heatCharts draws a patch for each time interval and latency range that contains I/Os.
func heatCharts(heats []report.Heat, hues map[string]int) (out []block.Chart) {
	lo, hi := math.Inf(1), 0.0
	for _, h := range heats { // one axis for all charts, so that they can be compared
		for _, c := range h.Cells {
			lo, hi = math.Min(lo, c.Lo), math.Max(hi, c.Hi)
		}
	}
	for _, h := range heats {
		p := chart.Plot{Title: fmt.Sprintf("%s over time, %s, %s", h.Label, h.Target, h.Workload), Width: 330, Height: 150,
			X: chart.Axis{Hi: h.Length}, Y: chart.Log("", lo, hi, iotax.Seconds), Note: h.Label,
			Lines: []chart.Line{{Name: h.Target, Hue: hues[h.Target], Solid: true}},
			Desc:  fmt.Sprintf("trial %d, longest stall %s", h.Round+1, format.Number(format.Lone(h.Longest), iotax.Seconds))}
		p.X.Ticks = secondTicks(h.Length)
		for _, c := range h.Cells {
			level := 1
			for _, bound := range []float64{.01, .03, .1, .3} {
				if c.Share > bound {
					level++
				}
			}
			p.Patches = append(p.Patches, chart.Patch{X1: c.From, X2: c.To, Y1: c.Lo, Y2: c.Hi, Level: level})
		}
		out = append(out, block.Chart{Name: "heat", Drawing: p, Small: true})
	}
	return out
}

// secondTicks returns the ticks of a time axis from 0 to `most` seconds.
func secondTicks(most float64) (ticks []chart.Tick) {
	step := format.Step(most/5, iotax.Count)
	for k := 0.0; k*step <= most; k++ {
		ticks = append(ticks, chart.Tick{At: k * step, Label: format.Plain(k*step) + " s"})
	}
	return ticks
}

// thinnedSeries returns a point for each value, at the middle of its interval. If there are more than `most` points, it
// keeps the minimum and the maximum of each group of neighbouring points, so that stalls remain visible.
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
	var out []chart.Point
	for part := range slices.Chunk(all, (2*len(all)+most-1)/most) {
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

// costCharts returns bar charts of the targets' speed, host CPU time per I/O, and serving memory. It omits a chart
// without positive values.
func costCharts(c *report.Cost, hues map[string]int) (out []block.Chart) {
	for _, q := range []struct {
		label, unit, caption string
		of                   func(report.CostCell) stat.Interval
	}{
		{c.Label, c.Unit, "medians over trials with their intervals.", func(c report.CostCell) stat.Interval { return c.Speed }},
		{"host CPU per I/O", iotax.Seconds, "CPU time of all processes of this host.",
			func(c report.CostCell) stat.Interval { return c.CPU }},
		{"serving memory", iotax.Bytes, "the most that QEMU and other servers of the target had resident.",
			func(c report.CostCell) stat.Interval { return c.Memory }},
	} {
		d := chart.Rows{Title: format.Capital(q.label) + ", " + c.Workload, Zero: math.NaN()}
		top := 0.0
		var said []string
		for _, cell := range c.Cells {
			v := q.of(cell)
			row := chart.Row{Name: cell.Target, Figure: format.Number(v, q.unit), Tone: chart.Hue(hues[cell.Target]), Mark: chart.Bar,
				At: v.Estimate, Lo: v.Lo, Hi: v.Hi}
			for _, x := range []float64{v.Estimate, v.Hi} {
				if x > top && !math.IsInf(x, 0) {
					top = x
				}
			}
			d.Rows = append(d.Rows, row)
			said = append(said, cell.Target+": "+q.label+" "+row.Figure)
		}
		d.Desc, d.Axis = strings.Join(said, "; "), chart.Linear("", top, q.unit)
		if top > 0 {
			out = append(out, block.Chart{Name: "cost", Drawing: d, Caption: format.Capital(q.label) + ": " + q.caption})
		}
	}
	return out
}

// waterfallChart draws a bar for each layer and one for the total. The bar of a layer starts at the end of the previous
// one.
func waterfallChart(w report.Waterfall, counted string) block.Chart {
	d := chart.Rows{Title: "What each layer costs, " + format.Subject(w.Workload, w.Label), Zero: 1}
	lo, hi, at := 1.0, 1.0, 1.0
	see := func(v float64) {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	add := func(name string, h report.Hop, from float64) {
		row := ratioRow(name, &h.Ratio, h.Verdict)
		row.Mark, row.From, row.At, row.Lo, row.Hi, row.Joined = chart.Bar, from, from*row.At, from*row.Lo, from*row.Hi, true
		for _, v := range []float64{row.At, row.Lo, row.Hi} {
			see(v)
		}
		d.Rows = append(d.Rows, row)
	}
	d.Rows = []chart.Row{{Name: w.Chain[0], Figure: format.Value(w.Start, w.Unit), Tone: "soft", Mark: chart.Bar, From: 1, At: 1,
		Lo: math.NaN(), Hi: math.NaN()}}
	var said []string
	for _, h := range w.Hops {
		add(h.To, h, at)
		if r := h.Ratio.Estimate; r > 0 && !math.IsInf(r, 0) {
			at *= r
		}
		said = append(said, fmt.Sprintf("%s on %s %s, %s", h.To, h.From, format.Ratio(h.Ratio), format.Verdict(h.Verdict, false)))
	}
	add("end to end", w.Total, 1)
	d.Desc = strings.Join(append(said, "end to end "+format.Ratio(w.Total.Ratio)), "; ")
	pad := math.Max(1.05, math.Pow(hi/lo, .04))
	d.Axis = chart.Ratios(lo/pad, hi*pad)
	return block.Chart{Name: "layers", Drawing: d, Caption: "Each layer's ratio to the one below it, from the same " +
		format.Plural(w.Rounds, counted) + "; on the logarithmic axis the steps add up to the whole."}
}

// curveChart plots latency against load: solid lines are means, dashed lines p99.
func curveChart(c report.Curve, title string, hues map[string]int) block.Chart {
	p := chart.Plot{Title: title, Height: 220, Desc: "The table holds the same numbers."}
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
	p.X = chart.Linear("offered load, I/Os per second", most, iotax.PerSecond)
	p.Y = chart.Log("latency", lo, hi, iotax.Seconds)
	for _, name := range names {
		mean := chart.Line{Name: name, Hue: hues[name], Marks: true, Solid: true}
		p99 := chart.Line{Hue: hues[name], Second: true}
		for _, pt := range c.Points {
			for _, cell := range pt.Cells {
				if cell.Target != name || !(cell.Latency > 0) || cell.Invalid != "" {
					continue
				}
				mean.Points = append(mean.Points, chart.Point{X: pt.Offered, Y: cell.Latency,
					Title: fmt.Sprintf("%s at %s: mean %s, p99 %s", name,
						format.Number(format.Lone(pt.Offered), iotax.PerSecond), format.Number(format.Lone(cell.Latency),
							iotax.Seconds), format.Number(format.Lone(cell.P99), iotax.Seconds))})
				p99.Points = append(p99.Points, chart.Point{X: pt.Offered, Y: cell.P99})
			}
		}
		if len(mean.Points) > 0 {
			p.Lines = append(p.Lines, mean, p99)
		}
	}
	return block.Chart{Name: "load", Drawing: p, Caption: "Solid lines are means, dashed ones the 99th percentile."}
}

// scalingChart plots a metric against the number of clients. If more is better, a second line shows ideal scaling.
func scalingChart(c report.Scaling, title string, hues map[string]int) block.Chart {
	p := chart.Plot{Title: title, Height: 220, Desc: "The table holds the same numbers."}
	hue := hues[c.Points[0].Target]
	all := chart.Line{Name: "together", Hue: hue, Marks: true, Solid: true}
	ideal := chart.Line{Name: "as if alone", Hue: hue, Second: true}
	most, top := 0, 0.0
	for _, pt := range c.Points {
		most, top = max(most, pt.Clients), math.Max(top, pt.Value.Estimate)
		out := chart.Point{X: float64(pt.Clients), Y: pt.Value.Estimate, Title: fmt.Sprintf("%s: %s", format.Plural(pt.Clients,
			"client"), format.Value(pt.Value, c.Unit))}
		if format.Finite(pt.Value) {
			top = math.Max(top, pt.Value.Hi)
			out.Lo, out.Hi = pt.Value.Lo, pt.Value.Hi
		}
		all.Points = append(all.Points, out)
	}
	if c.Better == iotax.Up {
		first := c.Points[0]
		for _, pt := range c.Points {
			if y := first.Value.Estimate * float64(pt.Clients) / float64(first.Clients); y <= 2*top { // a higher ideal line would flatten the measured one
				ideal.Points = append(ideal.Points, chart.Point{X: float64(pt.Clients), Y: y})
				top = math.Max(top, y)
			}
		}
	}
	p.X = chart.Linear("clients at the same moment", float64(most), iotax.Count)
	p.X.Ticks = nil
	for _, pt := range c.Points {
		p.X.Ticks = append(p.X.Ticks, chart.Tick{At: float64(pt.Clients), Label: strconv.Itoa(pt.Clients)})
	}
	p.Y = chart.Linear(c.Label, top, c.Unit)
	p.Lines = []chart.Line{all}
	if len(ideal.Points) > 1 {
		p.Lines = append(p.Lines, ideal)
	}
	return block.Chart{Name: "clients", Drawing: p, Caption: "Upright lines are 95 % intervals."}
}

func bootChart(machine string, boot []iotax.Phase) block.Chart {
	slices.SortFunc(boot, func(a, b iotax.Phase) int { return int(a.At - b.At) })
	end := boot[len(boot)-1].At
	d := chart.Rows{Title: "Boot of " + machine, Axis: chart.Axis{Hi: end.Seconds()}, Zero: math.NaN()}
	last := 0.0
	for i, p := range boot {
		at := p.At.Round(1e6).String()
		d.Rows = append(d.Rows, chart.Row{Name: p.Name, Figure: at, Tone: chart.Hue(1 + i%3), Mark: chart.Bar, From: last,
			At: p.At.Seconds(), Lo: math.NaN(), Hi: math.NaN()})
		d.Desc += p.Name + " at " + at + ". "
		last = p.At.Seconds()
	}
	return block.Chart{Name: "boot", Drawing: d, Caption: machine + ": first command after " + end.Round(1e6).String()}
}
