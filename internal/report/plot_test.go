package report

import (
	"math"
	"testing"

	"iotax/internal/report/format"
	"iotax/stat"
)

// If a ratio with a verdict has a wide interval, only one bound is printed. The range of a plot includes the ratio, and
// its interval only up to a limit.
func TestRangeOfWideVerdicts(t *testing.T) {
	for _, c := range []struct {
		lo, estimate, hi float64
		verdict          stat.Verdict
		ratio            string
		least, most      float64 // bounds of the range
	}{
		{.004, .01, .02, stat.Worse, "≤ 0.020×", 1 / 515.1, 1.2},
		{8, 20, 45, stat.Better, "≥ 8.0×", .9, 51.51},
		{2, 10, 1e9, stat.Better, "≥ 2.0×", .9, 110},
		{.3, 1, 3, stat.Inconclusive, stat.TooNoisy, .9, 1.1},
	} {
		i := stat.Interval{Estimate: c.estimate, Lo: c.lo, Hi: c.hi, N: 6}
		if v := stat.Judge(i, .02); v != c.verdict || format.Ratio(i) != c.ratio {
			t.Errorf("%v: %s, %s; want %s, %s", i, v, format.Ratio(i), c.verdict, c.ratio)
		}
		if lo, hi := RangeOf([]stat.Interval{i}, .02); lo < c.least || hi > c.most || c.verdict != stat.Inconclusive && (lo > c.estimate || hi < c.estimate) {
			t.Errorf("%v: a plot from %g to %g", i, lo, hi)
		}
	}
	for ratio, end := range map[float64]float64{1.5: 1.545, 2.5: 5.15, 10: 10.3, 39: 51.5, 1200: 10300} {
		lo, _ := RangeOf([]stat.Interval{{Estimate: 1 / ratio, Lo: 1 / ratio, Hi: 1 / ratio}}, .02)
		_, hi := RangeOf([]stat.Interval{{Estimate: ratio, Lo: ratio, Hi: ratio}}, .02)
		if math.Abs(hi/end-1) > 1e-9 || math.Abs(lo*end-1) > 1e-9 {
			t.Errorf("ratio %g: a plot from 1/%g or to %g, want %g", ratio, 1/lo, hi, end)
		}
	}
}
