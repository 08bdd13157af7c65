package report

import (
	"math"

	"iotax/stat"
)

// Figure returns the value of a row for the metric `name`: the median over the valid trials, or a quantile of their
// merged histograms. It is NaN if the metric has no value.
func (r *Report) Figure(workload string, row *Row, name string) stat.Interval {
	for i := range r.Sections {
		s := &r.Sections[i]
		if s.Workload != workload || s.Metric != name {
			continue
		}
		if x := s.Row(row.Target); x != nil {
			return x.Value
		}
	}
	for _, f := range row.Secondary {
		if f.Name == name {
			return f.Value
		}
	}
	return stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
}
