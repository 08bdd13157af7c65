package report_test

import (
	"math"
	"testing"

	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// A heat map shows the trial with the longest stall, second by second. The shares of a second add up to 1.
func TestHeats(t *testing.T) {
	r := report.New(reporttest.Stalling(reporttest.Detailed()))
	all, err := r.Heats(r.Counting())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for workload, heats := range all {
		for _, h := range heats {
			shares, stalls := map[float64]float64{}, 0
			for _, c := range h.Cells {
				shares[c.From] += c.Share
				if c.Lo <= .3 && c.Hi > .3 {
					stalls++
				}
			}
			for from, share := range shares {
				if math.Abs(share-1) > 1e-9 {
					t.Errorf("%s on %s: the shares of second %v are %v together", workload, h.Target, from, share)
				}
			}
			if stalling := h.Target == reporttest.VirtioBlk; len(shares) != 40 || stalling != (stalls > 4) || stalling != (h.Longest == .3) {
				t.Errorf("%s on %s: %d seconds, %d with a stall, the longest %v s", workload, h.Target, len(shares), stalls, h.Longest)
			}
			found++
		}
	}
	if found < 6 {
		t.Errorf("%d heat maps", found)
	}
	r = report.New(reporttest.Detailed())
	if all, err := r.Heats(r.Counting()); err != nil || len(all) > 0 {
		t.Errorf("of trials without intervals: %v, %v", all, err)
	}
}
