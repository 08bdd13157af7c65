package report

import (
	"math"
	"strings"
	"testing"

	"iotax"
	"iotax/report/format"
)

// clients is a run of 1, 2 and 4 clients on something that carries two, and the last of which shares it
// unevenly.
func clients(noise float64) (*iotax.Run, []*iotax.Trial) {
	cell := func(name string, iops, minMax, jain float64) cellSpec {
		v := map[string]float64{"read.iops": iops}
		if minMax > 0 {
			v["fairness.min-max"], v["fairness.jain"] = minMax, jain
		}
		return cellSpec{target: name, workload: "4k read", values: v, noise: noise}
	}
	run, trials := runOf(8, readMetrics, cell("store clients=1", 10000, 0, 0), cell("store clients=2", 20000, .95, .99), cell("store clients=4", 20000, .4, .8), cell("other", 5000, 0, 0))
	for i, n := range []string{"1", "2", "4"} {
		run.Targets[i].Labels = map[string]string{"clients": n}
		run.Targets[i].Facts = map[string]string{"clients": n}
	}
	return run, trials
}

func TestScaling(t *testing.T) {
	r := New(clients(.005))
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
	rows := r.Scalings[0].rows()
	if !strings.HasPrefix(rows[2][3], "50") || !strings.HasPrefix(rows[2][4], "40") || rows[0][4] != format.Dash {
		t.Errorf("rows %q", rows)
	}
	if got := says(r, SaysUneven); len(got) != 1 || !strings.HasPrefix(got[0].Text, "The 4 clients of store / 4k read do not share alike: the slowest reaches 40") {
		t.Errorf("%+v", got)
	}
	if got := says(New(clients(1)), SaysUneven); len(got) != 0 {
		t.Errorf("of an interval that is too wide: %+v", got)
	}
	var text, md strings.Builder
	if err := r.Text(&text, TextOptions{Width: 120}); err != nil {
		t.Fatal(err)
	}
	if err := r.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	page := string(written(t, r))
	for name, s := range map[string]string{"text": text.String(), "Markdown": md.String(), "page": page} {
		if !strings.Contains(s, "Clients · store · 4k read IOPS") || !strings.Contains(s, "slowest to fastest") {
			t.Errorf("%s lacks the table of clients", name)
		}
	}
	if !strings.Contains(page, `data-save="clients"`) {
		t.Error("the page has no curve")
	}
	if n := New(runOf(8, readMetrics, reads("disk", 1, nil))).Scalings; n != nil {
		t.Errorf("no clients: %+v", n)
	}
}
