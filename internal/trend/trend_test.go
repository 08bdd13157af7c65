package trend

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/store"
	"iotax/stat"
)

// Runs of the same day are labelled with their times. Runs of several days are labelled with their dates.
func TestTrendWithinADay(t *testing.T) {
	epoch := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		between      time.Duration
		label, title string
	}{{time.Minute, "02:30", "since the run of 1 March 2026, 02:35"}, {24 * time.Hour, "2026-03-01", "since the run of 6 March 2026"}} {
		d := Trend{Options: Options{Cell: store.Cell{Workload: "w", Target: "t"}}, ByRatio: true}
		for i := range 10 {
			x := 1 - .5*float64(i/5)
			d.Dots = append(d.Dots, Dot{Run: iotax.Run{ID: fmt.Sprint(i), Start: epoch.Add(time.Duration(i) * c.between)}, Value: stat.Interval{Estimate: x, Lo: x, Hi: x, N: 6}})
		}
		d.Changes = []Change{{Before: 4, After: 5, Ratio: stat.Interval{Estimate: .5, Lo: .4, Hi: .6}, Verdict: stat.Worse}}
		if dates := d.chart(wideTrend).X.Ticks; len(dates) == 0 || dates[0].Label != c.label {
			t.Errorf("every %v: %+v", c.between, dates)
		}
		if got := d.answer(); !strings.HasSuffix(got, c.title) {
			t.Errorf("every %v: %s", c.between, got)
		}
		if len(d.Since(5)) != 1 || len(d.Since(4)) != 0 {
			t.Errorf("changes of the last runs: %v, %v", d.Since(5), d.Since(4))
		}
	}
}
