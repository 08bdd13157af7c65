package html

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

func viewSection(r *report.Report, s report.Section, trend func(compare.CellMetric) string) sectionView {
	v := sectionView{Label: s.Label}
	switch s.Better {
	case iotax.Up:
		v.Direction = "more is better"
	case iotax.Down:
		v.Direction = "less is better"
	}
	top := 0.0
	blocks := map[int]bool{}
	for _, row := range s.Rows {
		for _, d := range row.Dots {
			top = math.Max(top, d.Value)
			blocks[d.Block] = true
		}
	}
	inOrder := slices.Sorted(maps.Keys(blocks))
	step := format.Step(top/4, s.Unit)
	top *= 1.04
	x := func(value float64) float64 { return 100 * value / top }
	if top > 0 {
		for k := 0; float64(k)*step <= top; k++ {
			t := tickView{X: x(float64(k) * step), Anchor: "middle", Label: "0", First: k == 0}
			if k == 0 {
				t.Anchor = "start"
			} else {
				t.Label = format.Tick(float64(k)*step, step, s.Unit)
			}
			if t.X > 92 {
				t.Anchor = "end"
			}
			v.Ticks = append(v.Ticks, t)
		}
	}
	for _, row := range s.Rows {
		rv := rowView{Target: format.Clean(row.Target), Baseline: row.Baseline, Verdict: format.Verdict(row.Verdict, false), Class: verdictClass(row.Verdict),
			Notes: row.Notes, Err: format.Clean(row.Err), HasValue: row.Err == "" && row.Value.N > 0}
		if i := slices.IndexFunc(r.Run.Targets, func(t iotax.TargetInfo) bool { return t.Name == row.Target }); i >= 0 {
			rv.Storage = format.Clean(r.Run.Targets[i].Storage())
		}
		if rv.HasValue {
			full := format.Value(row.Value, s.Unit)
			rv.Value, rv.Bounds = format.Split(full)
			rv.ValueOrder = order(row.Value.Estimate)
			if trend != nil {
				rv.Trend = trend(compare.CellMetric{Target: row.Target, Workload: s.Workload, Metric: s.Metric})
			}
		}
		if row.Ratio != nil {
			rv.Ratio, rv.RatioBounds = format.Split(format.Ratio(row.Ratio.Interval))
			rv.RatioOrder = order(row.Ratio.Estimate)
			if row.Against != r.Baseline {
				rv.To = format.Clean(row.Against)
			}
		}
		if row.Baseline {
			rv.RatioOrder = "1"
		}
		rv.Trials = fmt.Sprintf("%s, %d failed, %d in discarded blocks", format.Plural(row.Ran, "trial"), row.Failed, row.Discarded)
		if len(row.Dots) > mostDots {
			rv.Trials += fmt.Sprintf("; of those that lie together about %d are drawn", mostDots)
		}
		if top > 0 {
			rv.HasInterval = format.Finite(row.Value)
			rv.Median, rv.Lo, rv.Hi = x(row.Value.Estimate), x(row.Value.Lo), x(row.Value.Hi)
			common := 0 // dots that are neither discarded nor out of the way: those are drawn, whatever their number
			for _, d := range row.Dots {
				if !d.Discarded && d.Tag == stat.Inside {
					if common++; !part(common, len(row.Dots), mostDots) {
						continue
					}
				}
				i, _ := slices.BinarySearch(inOrder, d.Block)
				dv := dotView{X: x(d.Value), Y: 20, Title: fmt.Sprintf("block %d: %s", d.Block, format.Number(stat.Interval{Estimate: d.Value, Lo: d.Value * .995, Hi: d.Value * 1.005}, s.Unit))}
				if len(inOrder) > 1 {
					dv.Y = 7 + 26*float64(i)/float64(len(inOrder)-1)
				}
				if d.Discarded {
					dv.Class, dv.Title = "gone", dv.Title+", discarded"
				} else if d.Tag != stat.Inside {
					dv.Title += ", " + string(d.Tag) + " outlier"
				}
				rv.Dots = append(rv.Dots, dv)
			}
		}
		v.Rows = append(v.Rows, rv)
	}
	return v
}

// secondaryTable lists what else a workload's cells measured: a row each, a column for each target.
func secondaryTable(s report.Section) (columns []string, rows []secondaryView) {
	at := map[string]int{}
	for _, r := range s.Rows {
		if len(r.Secondary) == 0 {
			continue
		}
		for _, f := range r.Secondary {
			i, ok := at[f.Name]
			if !ok {
				i = len(rows)
				at[f.Name] = i
				label := f.Label
				if f.Merged {
					label += ", all trials together"
				}
				rows = append(rows, secondaryView{Label: label})
			}
			cell := format.Value(f.Value, f.Unit)
			switch {
			case f.Short:
				cell = fmt.Sprintf("n/a (%s beyond)", format.Plural(f.Beyond, "sample"))
			case f.Merged:
				e := f.Value.Estimate
				f.Value.Lo, f.Value.Hi = e*(1-2*stat.HistogramError), e*(1+2*stat.HistogramError)
				cell = format.Number(f.Value, f.Unit)
			}
			for len(rows[i].Cells) < len(columns) {
				rows[i].Cells = append(rows[i].Cells, format.Dash)
			}
			rows[i].Cells = append(rows[i].Cells, cell)
		}
		columns = append(columns, format.Clean(r.Target))
	}
	for i := range rows {
		for len(rows[i].Cells) < len(columns) {
			rows[i].Cells = append(rows[i].Cells, format.Dash)
		}
	}
	return columns, rows
}
