package report

import (
	"math"
	"testing"

	"iotax/internal/testenv/reporttest"
)

func TestScaling(t *testing.T) {
	r := New(reporttest.Clients(.005))
	if len(r.Scalings) != 1 || r.Scalings[0].Target != "store" || len(r.Scalings[0].Points) != 3 {
		t.Fatalf("%+v", r.Scalings)
	}
	points := r.Scalings[0].Points
	for i, want := range []float64{math.NaN(), 2, 2} {
		got := points[i].Ratio
		if math.IsNaN(want) != math.IsNaN(got.Estimate) || math.Abs(got.Estimate-want) > .05 || i > 0 && !(got.Lo <= got.Estimate && got.Estimate <= got.Hi) {
			t.Errorf("%d clients: %+v, want %v", points[i].Clients, got, want)
		}
	}
	run, trials := reporttest.Clients(.005)
	for _, x := range trials {
		if x.Target == "store clients=2" && x.Round < 3 {
			x.Discarded = "clock-insane: 3 %"
		}
	}
	if s := New(run, trials).Scalings; len(s) != 1 || len(s[0].Points) != 2 {
		t.Errorf("with too many discarded trials: %+v", s)
	}
	if n := New(reporttest.RunOf(8, reporttest.ReadMetrics, reporttest.Reads("disk", 1, nil))).Scalings; n != nil {
		t.Errorf("no clients: %+v", n)
	}
}
