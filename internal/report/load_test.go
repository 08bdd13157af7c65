package report

import (
	"testing"

	"iotax/internal/testenv/reporttest"
)

func TestCurve(t *testing.T) {
	rep := New(reporttest.Loaded())
	if len(rep.Curves) != 1 || len(rep.Curves[0].Points) != 3 {
		t.Fatalf("%+v", rep.Curves)
	}
	p := rep.Curves[0].Points
	if p[0].Load != "30 %" || p[2].Offered != 9000 || p[1].Cells[1].Target != "guest" || p[1].Cells[1].Done != 5940 {
		t.Errorf("%+v", p)
	}
	if c := p[2].Cells[0]; !(c.P50 > 1e-3 && c.P99 < 1.2e-3*3 && c.P99 >= c.P50) || c.P99d9 == c.P99d9 {
		t.Errorf("%+v: p99.9 has 54 observations beyond it", c)
	}
	run, trials := reporttest.Loaded()
	rates, err := From(run, Held(trials), "read.iops") // the requested metrics do not affect the points
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rates.Curves[0].Points[1].Cells[1], p[1].Cells[1]; got.Latency != want.Latency || got.Done != want.Done {
		t.Errorf("with another metric %+v, want %+v", got, want)
	}
	if New(reporttest.Fixture()).Curves != nil {
		t.Error("a closed loop has no curve")
	}
}

func TestClosedLoopLatencyIsServiceLatency(t *testing.T) {
	r, ts := reporttest.Loaded()
	for _, x := range ts {
		x.Facts = map[string]string{"iodepth": "8", "numjobs": "2"}
	}
	rep := New(r, ts)
	if got := rep.Sections[0].Label; got != "read service latency mean at QD 16" {
		t.Errorf("label %q", got)
	}
	found := false
	for _, f := range rep.Sections[0].Rows[0].Secondary {
		found = found || f.Label == "read service latency p99 at QD 16"
	}
	if !found || rep.Sections[0].Open != "" {
		t.Errorf("%+v", rep.Sections[0].Rows[0].Secondary)
	}
	if got := New(reporttest.Loaded()).Sections[0].Label; got != "read latency mean" {
		t.Errorf("label of an open loop %q", got)
	}
}
