package assess

import (
	"testing"

	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// The options name every value, including numjobs=1 if other trials have more jobs.
func TestJob(t *testing.T) {
	cell := func(target, work, jobs string) reporttest.CellSpec {
		return reporttest.CellSpec{Target: target, Workload: work, Values: map[string]float64{"read.iops": 1000}, Facts: map[string]string{"ioengine": "psync", "numjobs": jobs}}
	}
	for want, cells := range map[string][]reporttest.CellSpec{
		"fio: psync.":                      {cell("a", "r", "1"), cell("b", "r", "1")},
		"fio: psync, numjobs=2.":           {cell("a", "r", "2"), cell("b", "r", "2")},
		"fio: psync, numjobs=1 or 2.":      {cell("a", "r", "1"), cell("b", "r", "2")}, // imported
		"fio: psync, numjobs=1 (many: 4).": {cell("a", "one", "1"), cell("a", "many", "4")},
	} {
		if got := Job(report.New(reporttest.RunOf(2, nil, cells...))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
