package report

import (
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
		{.004, .01, .02, stat.Worse, "≤ 0.020×", .003, 1.2},
		{8, 20, 45, stat.Better, "≥ 8.0×", .9, 50},
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
}
