package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Waterfall returns a table with the first target, the hops and the total, with a bar for the remaining speed.
func Waterfall(w report.Waterfall) block.Table {
	levels, top := []float64{1}, 1.0
	for _, h := range w.Hops {
		levels = append(levels, levels[len(levels)-1]*h.Ratio.Estimate)
		top = math.Max(top, levels[len(levels)-1])
	}
	t := block.Table{Title: "Layers · " + format.Subject(w.Workload, w.Label),
		Head:  []string{"layer", "value", "hop", "share", "left", "verdict"},
		Wraps: []int{0}, Right: []int{1, 3}, Least: 3}
	add := func(name, value string, h *report.Hop, bar ...block.Part) {
		row := block.Words(name, value, "", "", "", "")
		if h != nil {
			row.Cells[2].Text, row.Cells[5].Text = format.Ratio(h.Ratio), format.Verdict(h.Verdict, true)
			if share := float64(h.Share); !math.IsNaN(share) {
				row.Cells[3].Text = fmt.Sprintf("%.0f %%", math.Round(100*share)+0)
			}
		}
		row.Cells[4].Bar = bar
		t.Rows = append(t.Rows, row)
	}
	add(w.Chain[0], format.Number(w.Start, w.Unit), nil, block.Part{Share: 1 / top})
	for i, h := range w.Hops {
		before, now := levels[i]/top, levels[i+1]/top
		bar := []block.Part{{Share: now}, {Share: before - now, Shade: block.Lost}}
		if now >= before {
			bar = []block.Part{{Share: before}, {Share: now - before, Shade: block.Gained}}
		}
		add("+ "+h.To, format.Number(h.Value, w.Unit), &h, bar...)
	}
	add("= the whole", "", &w.Total, block.Part{Share: levels[len(levels)-1] / top})
	return t
}

// WaterfallFoot returns a sentence with the number of rounds and the missing targets.
func WaterfallFoot(w report.Waterfall, counted string) string {
	s := fmt.Sprintf("The hops multiply to the whole; %s in which all of them have a number", format.Plural(w.Rounds, counted))
	if len(w.Missing) > 0 {
		s += "; without a number here: " + format.Enumerate(w.Missing, 5, "target")
	}
	return s + "."
}

// Curve returns a table of latency by load, with the share of late arrivals and a mark at invalid results. It omits
// targets whose rate of completed I/Os is unknown.
func Curve(c report.Curve) block.Table {
	var job []string
	for w := range strings.FieldsSeq(format.Clean(c.Job)) {
		if strings.HasPrefix(w, "rw=") || strings.HasPrefix(w, "bs") {
			job = append(job, w)
		}
	}
	out := block.Table{Title: "Load and latency · " + strings.Join(job, " ") + ", open loop: latency counts from the intended time",
		Head: []string{"offered IOPS", "target", "done", "mean", "p50", "p99", "p99.9", "late", ""}, Wraps: []int{1},
		Right: []int{0, 2, 3, 4, 5, 6, 7}, Least: 4}
	for _, p := range c.Points {
		offered := format.Number(format.Lone(p.Offered), iotax.PerSecond)
		if p.Load != "" {
			offered += " (" + p.Load + ")"
		}
		for _, cell := range p.Cells {
			if math.IsNaN(cell.Done) {
				continue
			}
			row := []string{offered, cell.Target, format.Number(format.Lone(cell.Done), iotax.PerSecond)}
			for _, v := range []float64{cell.Latency, cell.P50, cell.P99, cell.P99d9} {
				row = append(row, format.Number(format.Lone(v), iotax.Seconds))
			}
			late := ""
			if !math.IsNaN(cell.Late) {
				late = format.Number(format.Lone(cell.Late), iotax.RatioUnit)
			}
			out.Rows = append(out.Rows, block.Words(append(row, late, cell.Invalid)...))
			offered = "" // only in the first row of the point
		}
	}
	return out.Filled(7, 8)
}

// Scaling returns a table of the metric for each number of clients. The column "each" is the speed of a single client
// relative to that in the first row.
func Scaling(c report.Scaling) block.Table {
	share := func(i stat.Interval) string {
		if math.IsNaN(i.Estimate) {
			return format.Dash
		}
		return format.Share(i)
	}
	t := block.Table{Title: fmt.Sprintf("Clients · %s · %s", c.Target, format.Subject(c.Workload, c.Label)),
		Head: []string{"clients", "together", "to " + format.Plural(c.Points[0].Clients, "client"), "each",
			"slowest to fastest", "Jain's index"},
		Right: []int{0, 1, 2, 3, 4, 5}, Least: 3}
	for i, p := range c.Points {
		ratio, each := "1", "100 %"
		if i > 0 {
			f := float64(c.Points[0].Clients) / float64(p.Clients)
			if c.Better == iotax.Down { // a time is already the time of one client
				f = 1
			}
			ratio = format.Ratio(p.Ratio)
			each = share(stat.Interval{Estimate: f * p.Ratio.Estimate, Lo: f * p.Ratio.Lo, Hi: f * p.Ratio.Hi, N: p.Ratio.N})
		}
		t.Rows = append(t.Rows, block.Words(strconv.Itoa(p.Clients), format.Value(p.Value, c.Unit), ratio, each, share(p.MinMax),
			share(p.Jain)))
	}
	return t
}
