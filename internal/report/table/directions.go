package table

import (
	"fmt"
	"math"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// directionTables are a table for each workload in which reads, writes and their sum stand below each other,
// with bandwidths in both families of units: fio prints MiB/s and MB/s side by side, and readers take one for the
// other. The sum is that of each trial, not of the medians.
func directionTables(r *report.Report) []Table {
	var out []Table
	for _, s := range first(r) {
		t := Table{Title: format.Clean(s.Workload) + ": medians over the trials",
			Head: []string{"target", "direction", "IOPS", "B/W (MB/s)", "B/W (MiB/s)", "notes"}, Right: []int{2, 3, 4}, Wraps: []int{0}}
		for j := range s.Rows {
			row := &s.Rows[j]
			name, remark, told := format.Clean(row.Target), remark(row), false
			for _, d := range []struct{ value, word string }{{"read", "read"}, {"write", "write"}, {"trim", "trim"}, {"mixed", "sum"}} {
				iops, rate := r.Figure(s.Workload, row, d.value+".iops"), r.Figure(s.Workload, row, d.value+".bandwidth")
				if !(iops.Estimate > 0) && !(rate.Estimate > 0) {
					continue
				}
				t.Rows = append(t.Rows, []string{name, d.word, format.Value(iops, iotax.PerSecond), inUnits(rate, 1e6), inUnits(rate, 1<<20), remark})
				remark, told = "", true
			}
			if !told {
				t.Rows = append(t.Rows, []string{name, format.Dash, format.Dash, format.Dash, format.Dash, remark})
			}
		}
		out = append(out, t)
	}
	return out
}

// inUnits prints an interval in units of that many bytes per second, which stand in the column's head.
func inUnits(i stat.Interval, unit float64) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return format.Dash
	}
	x := i.Estimate / unit
	if !format.Finite(i) || i.Lo == i.Hi {
		return format.Fixed(x, format.Places(x, math.NaN())-1)
	}
	p := format.Places(x, format.Half(i)/unit)
	return fmt.Sprintf("%s [%s, %s]", format.Fixed(x, p), format.Fixed(i.Lo/unit, p), format.Fixed(i.Hi/unit, p))
}
