package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
)

// loaded is a run of an open loop at three loads on two targets, the loads out of order.
func loaded() (*iotax.Run, []*iotax.Trial) {
	r := &iotax.Run{ID: "r", Name: "loads", Baseline: "host", Alpha: .05, Targets: []iotax.TargetInfo{{Name: "host"}, {Name: "guest"}}}
	var ts []*iotax.Trial
	for _, share := range []int{90, 30, 60} {
		w := fmt.Sprintf("4k load=%d%%", share)
		r.Workloads = append(r.Workloads, iotax.WorkloadInfo{Name: w, Metrics: []string{"read.latency.mean"}})
		for block := range 6 {
			for i, target := range []string{"host", "guest"} {
				latency := 100e-6 * float64(1+i) * (1 + float64(block)/100) / (1 - float64(share)/100)
				h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: latency, Count: 9000}, {Value: 3 * latency, Count: 100}}}
				ts = append(ts, &iotax.Trial{Target: target, Workload: w, Block: block, Seq: len(ts), Length: time.Second, Histograms: []iotax.Histogram{h},
					Facts: map[string]string{"load": fmt.Sprintf("%d %%", share), "load.job": "rw=randread bs=4k numjobs=128", "iodepth": "1", "numjobs": "128"},
					Values: []iotax.Value{{Name: "read.iops", Value: 99 * float64(share), Unit: iotax.PerSecond, Better: iotax.Up},
						{Name: "read.latency.mean", Value: latency, Unit: iotax.Seconds, Better: iotax.Down}, {Name: "load.offered", Value: 100 * float64(share), Unit: iotax.PerSecond}}})
			}
		}
	}
	return r, ts
}

func TestCurve(t *testing.T) {
	rep := New(loaded())
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
	for _, width := range []int{60, 80, 120} {
		var b bytes.Buffer
		if err := rep.Text(&b, TextOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(l, "\n"))); n > width {
				t.Errorf("%d columns in place of %d: %s", n, width, l)
			}
		}
		for _, want := range []string{"Load and latency", "3.00k (30 %)", "open loop at 90 %"} {
			if !strings.Contains(b.String(), want) && !strings.Contains(b.String(), strings.Replace(want, "3.00k", "3.0k", 1)) {
				t.Errorf("at %d columns it lacks %q:\n%s", width, want, b.String())
			}
		}
	}
	var html, md bytes.Buffer
	if err := rep.HTML(&html); err != nil {
		t.Fatal(err)
	}
	if err := rep.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	_, plot, _ := strings.Cut(html.String(), `data-save="load"`)
	plot, _, _ = strings.Cut(plot, "</figure>")
	if n := strings.Count(plot, `<path class="curve"`); n != 6 {
		t.Errorf("%d lines in the plot, want mean, p99 and the legend's of two targets", n)
	}
	if !strings.Contains(md.String(), "| offered IOPS | target | done |") {
		t.Errorf("no table in %s", md.String())
	}
	if New(fixture()).Curves != nil {
		t.Error("a closed loop has no curve")
	}
}

func TestClosedLoopLatencyIsServiceLatency(t *testing.T) {
	r, ts := loaded()
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
	if got := New(loaded()).Sections[0].Label; got != "read latency mean" {
		t.Errorf("label of an open loop %q", got)
	}
}
