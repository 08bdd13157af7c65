package report

import (
	"iter"

	"iotax/stat"
)

// Rows yields the rows of all sections in order.
func (r *Report) Rows() iter.Seq2[*Section, *Row] {
	return func(yield func(*Section, *Row) bool) {
		for i := range r.Sections {
			s := &r.Sections[i]
			for j := range s.Rows {
				if !yield(s, &s.Rows[j]) {
					return
				}
			}
		}
	}
}

// Figure returns the value of a row for the metric `name`: the median over the valid trials, or a quantile of their
// merged histograms. It is NaN if the metric has no value.
func (r *Report) Figure(workload string, row *Row, name string) stat.Interval {
	for s, x := range r.Rows() {
		if s.Workload == workload && s.Metric == name && x.Target == row.Target {
			return x.Value
		}
	}
	for _, f := range row.Secondary {
		if f.Name == name {
			return f.Value
		}
	}
	return none()
}
