package report

import (
	"math"
	"slices"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/report/format"
	"iotax/stat"
)

// choose replaces the headline metrics of all workloads with the requested metrics, if any are requested. It returns an
// error for a requested metric that no workload has.
func (b *builder) choose() error {
	if len(b.metrics) == 0 {
		return nil
	}
	var all []metric.Metric
	missing := slices.Clone(b.metrics)
	for i := range b.workloads {
		w := &b.workloads[i]
		has := b.measured(w.Name)
		all = append(all, has...)
		w.Metrics, w.Chosen = nil, true
		for _, name := range b.metrics {
			if m, ok := metric.Find(has, name); ok {
				w.Metrics = append(w.Metrics, m.Name)
				missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
			}
		}
	}
	if len(missing) > 0 {
		return metric.Unknown("report "+b.Run.ID, missing[0], all)
	}
	return nil
}

// measured returns the metrics that a workload's trials have.
func (b *builder) measured(workload string) (all []metric.Metric) {
	seen, known := map[*outline]bool{}, map[*quantile]bool{}
	for _, t := range b.byWorkload[workload] {
		if t.shape != nil && !seen[t.shape] {
			seen[t.shape] = true
			for _, v := range t.shape.values {
				all = append(all, metric.Metric{Name: v.Name, Unit: v.Unit, Better: v.Better})
			}
		}
		for _, x := range t.tails {
			if known[x.quantile] {
				continue
			}
			known[x.quantile] = true
			for _, q := range metric.Quantiles {
				all = append(all, metric.Metric{Name: x.of + "." + q, Unit: x.unit, Better: iotax.Down})
			}
		}
	}
	return all
}

// Logs returns the natural logarithms of xs.
func Logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

// BinError returns the maximum error of the logarithm of a ratio of two values of a metric. It is 0 unless the metric
// is a quantile, because only quantiles are the values of histogram bins.
func BinError(metric string) float64 {
	if _, _, quantile := iotax.Quantile(metric); quantile {
		return 2 * stat.HistogramError
	}
	return 0
}

// RatioOf returns the interval of the ratio of target to base, paired by round, for s.Metric and s.Better. It
// replaces o.Starts with the start indexes of the pairs. Both slices must be ordered by round.
func (s *Section) RatioOf(base, target []Dot, o stat.Options) (stat.Interval, error) {
	d, err := s.logRatios(base, target, false, &o)
	if err != nil {
		return format.Lone(math.NaN()), err
	}
	return stat.Hull(d, o)
}

// logRatios returns the log ratios of target to base (see stat.LogRatios), and sets o.Starts and o.Hidden.
func (s *Section) logRatios(base, target []Dot, discarded bool, o *stat.Options) ([]float64, error) {
	p := PairDots(base, target, discarded)
	o.Starts = p.Starts
	_, q, _ := iotax.Quantile(s.Metric)
	return stat.LogRatios(p.Values, p.tails, q, s.Better, o)
}

// Pairs contains the trials of two rows, paired by round.
type Pairs struct {
	Values [2][]float64   // of the reference and of the target
	Starts []int          // start index of the target's trial
	tails  [2][]stat.Tail // only of trials with a histogram
}

// PairDots pairs the trials of two rows. Both slices must be ordered by round. Discarded rounds are included only if
// discarded is set.
func PairDots(base, target []Dot, discarded bool) (p Pairs) {
	for i, j := 0, 0; i < len(base) && j < len(target); {
		switch b, t := &base[i], &target[j]; {
		case b.Round < t.Round || i+1 < len(base) && base[i+1].Round == b.Round:
			i++
		case t.Round < b.Round || j+1 < len(target) && target[j+1].Round == t.Round:
			j++
		default:
			i, j = i+1, j+1
			if !discarded && (b.Discarded || t.Discarded) {
				continue
			}
			p.Starts = append(p.Starts, t.Start)
			for side, dot := range []*Dot{b, t} {
				p.Values[side] = append(p.Values[side], dot.Value)
				if dot.tail != nil {
					p.tails[side] = append(p.tails[side], *dot.tail)
				}
			}
		}
	}
	return p
}
