package report

import (
	"math"
	"slices"

	"iotax"
	"iotax/stat"
)

// quantiles lists the quantiles that are computed from merged histograms.
var quantiles = []struct {
	q    float64
	name string
}{{.5, "p50"}, {.99, "p99"}, {.999, "p99.9"}}

// secondary returns the metrics of a cell's valid trials that are not headline metrics, and its latency quantiles. The
// quantiles are computed from merged histograms if there are any, because percentiles of several trials must not be
// averaged. Such a quantile has no value if fewer than 100 observations lie beyond it.
func (b *builder) secondary(w iotax.WorkloadInfo, target string) []Figure {
	trials := b.Valid(Cell{target, w.Name})
	var figures []Figure
	fromHistograms := map[string]bool{}
	for _, h := range b.histograms[Cell{target, w.Name}] {
		for _, q := range quantiles {
			full := h.Name + "." + q.name
			fromHistograms[full] = true
			v, ok := stat.Quantile(h.Histogram, q.q)
			if !ok {
				v = math.NaN()
			}
			figures = append(figures, Figure{Name: full, Label: b.latencyLabel(w.Name, full), Unit: h.Unit, Better: iotax.Down, Merged: true,
				Beyond: stat.Beyond(h.Histogram, q.q), Short: !ok,
				Value: stat.Interval{Estimate: v, Lo: math.NaN(), Hi: math.NaN(), N: h.trials}})
		}
	}

	// Collect the values of each name, in the order of first appearance.
	var order []iotax.Value
	var values [][]float64
	var starts [][]int // of the values
	column := func(v iotax.Value) int {
		// Also omit the cost of the observation, and totals that repeat other values.
		if fromHistograms[v.Name] || slices.Contains(w.Metrics, v.Name) || v.Name == "iops" || v.Name == "bandwidth" || v.Name == iotax.ValueWatchCost {
			return -1
		}
		i := slices.IndexFunc(order, func(o iotax.Value) bool { return o.Name == v.Name })
		if i < 0 {
			i = len(order)
			order, values, starts = append(order, v), append(values, make([]float64, 0, len(trials))), append(starts, nil)
		}
		return i
	}
	var of *outline // the outline that `columns` describes
	var columns []int
	for _, t := range trials {
		if t.shape != of {
			of, columns = t.shape, columns[:0]
			for v := range t.All() {
				columns = append(columns, column(v))
			}
		}
		for i, x := range t.xs {
			if c := columns[i]; c >= 0 {
				values[c], starts[c] = append(values[c], x), append(starts[c], t.StartIndex)
			}
		}
	}
	for i, v := range order {
		figures = append(figures, Figure{Name: v.Name, Label: b.latencyLabel(w.Name, v.Name), Unit: v.Unit, Better: v.Better,
			Value: stat.MedianOfStarts(values[i], stat.Options{Starts: starts[i]})})
	}
	return figures
}
