package report

import (
	"math"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/report/format"
	"iotax/stat"
)

// choose replaces the headline metrics of all workloads with the requested metrics, if any are requested. It returns an
// error for a requested metric that no workload has.
func (b *builder) choose() error {
	missing := map[string]bool{}
	var all []metric.Metric
	for _, name := range b.metrics {
		missing[name] = true
	}
	for i := range b.workloads {
		w := &b.workloads[i]
		if len(b.metrics) == 0 {
			break
		}
		has := b.measured(w.Name)
		all = append(all, has...)
		w.Metrics = nil
		for _, name := range b.metrics {
			if m, ok := metric.Find(has, name); ok {
				w.Metrics = append(w.Metrics, m.Name)
				delete(missing, name)
			}
		}
		w.Chosen = true
	}
	for _, name := range b.metrics {
		if missing[name] {
			return metric.Unknown("report "+b.Run.ID, name, all)
		}
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

// PairDots returns the values of two rows, paired by round. Both slices must be ordered by round. Discarded rounds are
// included only if discarded is set.
func PairDots(base, target []Dot, discarded bool) (bs, xs []float64) {
	pairs := pairDots(base, target, discarded)
	bs, xs = make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		bs[i], xs[i] = p[0].Value, p[1].Value
	}
	return bs, xs
}

// PairStarts returns the start index of each pair that PairDots returns without discarded rounds.
func PairStarts(base, target []Dot) []int { return startsOf(pairDots(base, target, false)) }

// BinError returns the maximum error of the logarithm of a ratio of two values of a metric. It is 0 unless the metric
// is a quantile: its values are those of the bins of a histogram.
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
	var values [2][]float64
	var tails [2][]stat.Tail
	pairs := pairDots(base, target, discarded)
	for _, pair := range pairs {
		for side, dot := range pair {
			values[side] = append(values[side], dot.Value)
			if dot.tail != nil {
				tails[side] = append(tails[side], *dot.tail)
			}
		}
	}
	o.Starts = startsOf(pairs)
	_, q, _ := iotax.Quantile(s.Metric)
	return stat.LogRatios(values, tails, q, s.Better, o)
}

// startsOf returns the start index of each pair's target trial.
func startsOf(pairs [][2]*Dot) []int {
	out := make([]int, len(pairs))
	for i, p := range pairs {
		out[i] = p[1].Start
	}
	return out
}

func pairDots(base, target []Dot, discarded bool) [][2]*Dot {
	pairs := make([][2]*Dot, 0, len(target))
	for i, j := 0, 0; i < len(base) && j < len(target); {
		switch b, t := &base[i], &target[j]; {
		case b.Round < t.Round || i+1 < len(base) && base[i+1].Round == b.Round:
			i++
		case t.Round < b.Round || j+1 < len(target) && target[j+1].Round == t.Round:
			j++
		default:
			if discarded || !b.Discarded && !t.Discarded {
				pairs = append(pairs, [2]*Dot{b, t})
			}
			i, j = i+1, j+1
		}
	}
	return pairs
}
