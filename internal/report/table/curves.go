package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Waterfall are the waterfall as a table: the first target, the hops, and the whole.
func Waterfall(w report.Waterfall) Table {
	share := func(h report.Hop) string {
		if math.IsNaN(h.Share) {
			return ""
		}
		return fmt.Sprintf("%.0f %%", math.Round(100*h.Share)+0)
	}
	out := [][]string{{format.Clean(w.Chain[0]), format.Number(w.Start, w.Unit), "", "", ""}}
	for _, h := range w.Hops {
		out = append(out, []string{"+ " + format.Clean(h.To), format.Number(h.Value, w.Unit), format.Ratio(h.Ratio), share(h), format.Verdict(h.Verdict, true)})
	}
	out = append(out, []string{"= the whole", "", format.Ratio(w.Total.Ratio), share(w.Total), format.Verdict(w.Total.Verdict, true)})
	return Table{Title: "Layers · " + format.Subject(w.Workload, w.Label), Head: []string{"layer", "value", "hop", "share", "verdict"}, Rows: out, Wraps: []int{0}, Least: 3, Right: []int{1, 3}}
}

// WaterfallFoot says from how many rounds, and what is missing.
func WaterfallFoot(w report.Waterfall, counted string) string {
	s := fmt.Sprintf("The hops multiply to the whole; %s in which all of them have a number", format.Plural(w.Rounds, counted))
	if len(w.Missing) > 0 {
		s += "; without a number here: " + format.Enumerate(w.Missing, 5, "target")
	}
	return s + "."
}

// curveTitle names a curve: "rw=randread bs=4k".
func curveTitle(c report.Curve) string {
	var words []string
	for w := range strings.FieldsSeq(format.Clean(c.Job)) {
		if strings.HasPrefix(w, "rw=") || strings.HasPrefix(w, "bs") {
			words = append(words, w)
		}
	}
	return "Load and latency · " + strings.Join(words, " ") + ", open loop: latency counts from the intended time"
}

// Curve are the curve as a table, empty where nothing was done at any load.
func Curve(c report.Curve) Table {
	out := Table{Title: curveTitle(c), Head: []string{"offered IOPS", "target", "done", "mean", "p50", "p99", "p99.9"}, Wraps: []int{1}, Right: []int{0, 2, 3, 4, 5, 6}, Least: 4}
	for _, p := range c.Points {
		for i, cell := range p.Cells {
			if math.IsNaN(cell.Done) {
				continue
			}
			offered := ""
			if i == 0 {
				offered = format.Number(format.Lone(p.Offered), iotax.PerSecond) + " (" + format.Clean(p.Load) + ")"
			}
			row := []string{offered, format.Clean(cell.Target), format.Number(format.Lone(cell.Done), iotax.PerSecond)}
			for _, v := range []float64{cell.Latency, cell.P50, cell.P99, cell.P99d9} {
				row = append(row, format.Number(format.Lone(v), iotax.Seconds))
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// Scaling are the scaling as a table. What stands under "each" is what a client has of what one has alone.
func Scaling(c report.Scaling) Table {
	share := func(i stat.Interval) string {
		if math.IsNaN(i.Estimate) {
			return format.Dash
		}
		return format.Share(i)
	}
	var out [][]string
	for i, p := range c.Points {
		ratio, each := "1", "100 %"
		if i > 0 {
			ratio, each = format.Ratio(p.Ratio), share(eachOf(c, p))
		}
		out = append(out, []string{strconv.Itoa(p.Clients), format.Value(p.Value, c.Unit), ratio, each, share(p.MinMax), share(p.Jain)})
	}
	return Table{Title: fmt.Sprintf("Clients · %s · %s", format.Clean(c.Target), format.Clean(format.Subject(c.Workload, c.Label))),
		Head: []string{"clients", "together", fmt.Sprintf("to %s", format.Plural(c.Points[0].Clients, "client")), "each", "slowest to fastest", "Jain's index"},
		Rows: out, Right: []int{0, 1, 2, 3, 4, 5}, Least: 3}
}

// eachOf is what a client keeps, on the average, of what it has at the first point.
func eachOf(c report.Scaling, p report.ScalingPoint) stat.Interval {
	f := float64(c.Points[0].Clients) / float64(p.Clients)
	if c.Better == iotax.Down { // a time is each client's own
		f = 1
	}
	return stat.Interval{Estimate: f * p.Ratio.Estimate, Lo: f * p.Ratio.Lo, Hi: f * p.Ratio.Hi, N: p.Ratio.N}
}
