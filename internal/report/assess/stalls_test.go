package assess

import (
	"strings"
	"testing"

	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

func TestStalls(t *testing.T) {
	if got := Stalls(report.New(reporttest.Detailed())); got != nil {
		t.Errorf("of trials without intervals: %q", got)
	}
	got := Stalls(report.New(reporttest.Stalling(reporttest.Detailed())))
	if len(got) == 0 {
		t.Fatal("no stall")
	}
	for _, s := range got {
		if strings.Contains(s, "9p") { // slow, but not periodic
			continue
		}
		if !strings.Contains(s, " on "+reporttest.VirtioBlk+": the longest ") || !strings.Contains(s, " stall takes 300 ms, and stalls recur every 7.00 s in ") || !strings.HasSuffix(s, " of the time that its I/Os took is in those above 100 ms.") {
			t.Error(s)
		}
	}
}
