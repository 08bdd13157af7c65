package report

import (
	"math"

	"iotax/internal/report/format"
	"iotax/stat"
)

// RatioRange returns the axis range for a plot of all ratios. It includes 1 and the margin.
func (r *Report) RatioRange() (lo, hi float64) {
	var ratios []stat.Interval
	for _, row := range r.Rows() {
		if row.Ratio != nil {
			ratios = append(ratios, row.Ratio.Interval)
		}
	}
	return RangeOf(ratios, r.Margin)
}

// RangeOf returns the axis range for a plot of ratios. It includes 1 and the margin. A side that goes beyond 2× ends just
// after a round ratio, so that the largest loss is left of a labelled tick. RangeOf ignores ratios that are too noisy to
// print, because they would compress all the others.
func RangeOf(ratios []stat.Interval, margin float64) (lo, hi float64) {
	lo, hi = 1/(1+math.Max(margin, .02))/1.05, (1+math.Max(margin, .02))*1.05
	for _, e := range ratios {
		if e.Estimate > 0 && !math.IsInf(e.Estimate, 0) && !format.Noisy(e) {
			l, h := e.Estimate, e.Estimate
			if format.Finite(e) {
				l, h = math.Max(e.Lo, e.Estimate/10), math.Min(e.Hi, 10*e.Estimate) // a wide interval would compress all the others
			}
			lo, hi = math.Min(lo, l/1.03), math.Max(hi, h*1.03)
		}
	}
	return 1 / rounded(1/lo), rounded(hi)
}

// rounded returns a ratio of more than 2 rounded up to 1, 2 or 5 in its decade, and a little more.
func rounded(ratio float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(ratio)))
	for _, m := range []float64{1, 2, 5, 10} {
		if ratio > 2 && m*decade*1.03 >= ratio && (m == 1 || m == 10 || decade < 1000) { // longer axes have ticks at powers of 10 only
			return m * decade * 1.03
		}
	}
	return ratio
}
