package fio

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// If an I/O stalls, fio delays the report, but the runtime in it is from before the stall. The interval ends when fio
// prints the report.
func TestReportsLate(t *testing.T) {
	report := func(runtime, printed, ios int) string {
		return fmt.Sprintf(`{"fio version": "fio-3.33", "timestamp": %d, "timestamp_ms": %d, "jobs": [{"jobname": "a", "read": {"io_bytes": %d, "runtime": %d, "total_ios": %d,
			"lat_ns": {"min": 1000, "max": 1000, "mean": 1000, "N": %[5]d, "bins": {"1000": %[5]d}}}}]}
`, (int(1e12)+printed)/1000, int(1e12)+printed, 4096*ios, runtime, ios)
	}
	text := report(1000, 1002, 100) + report(2000, 6502, 101) + report(7000, 7003, 150) + report(8000, 8900, 200)
	last, intervals, err := Reports([]byte(text))
	if err != nil || strings.TrimSpace(string(last)) != strings.TrimSpace(report(8000, 8900, 200)) {
		t.Fatalf("%v, %s", err, last)
	}
	want := [][3]float64{{0, 1, 100}, {1, 6.5, 1}, {6.5, 7.001, 49}, {7.001, 8, 50}}
	if len(intervals) != len(want) {
		t.Fatalf("%v", intervals)
	}
	for k, i := range intervals {
		for n, got := range []float64{i.From, i.To, float64(i.Bins[0].Count)} {
			if math.Abs(got-want[k][n]) > 1e-6 {
				t.Errorf("interval %d is from %v to %v s with %d I/Os, want %v", k, i.From, i.To, i.Bins[0].Count, want[k])
				break
			}
		}
	}
	// A trial of one second is one interval, even if fio had no time for a status report. A long trial without
	// status reports has no intervals.
	for runtime, want := range map[int]int{1001: 1, 8000: 0} {
		if _, intervals, err := Reports([]byte(report(runtime, runtime+1, 100))); err != nil || len(intervals) != want {
			t.Errorf("the only report, after %d ms: %v, %v", runtime, intervals, err)
		}
	}
}
