package report

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/published"
	"iotax/stat"
)

// mounts is a run like the published lima-mounts, on another machine.
func mounts() (*iotax.Run, []*iotax.Trial) {
	cell := func(target, workload string, iops float64) cellSpec {
		return cellSpec{target: target, workload: workload, values: map[string]float64{"read.iops": iops}}
	}
	run, trials := runOf(8, nil,
		cell("host disk", "Random Read", 50000), cell("sshfs", "Random Read", 3000), cell("guest 9p", "Random Read", 14000), cell("VZ virtiofs", "Random Read", 60000),
		cell("host disk", "archive", 50000), cell("guest 9p", "archive", 50000))
	run.Presentation = &iotax.Presentation{Beside: &iotax.Beside{Published: "lima-mounts", Targets: map[string]string{"sshfs": "QEMU reverse-sshfs", "guest 9p": "QEMU 9p"}}}
	return run, trials
}

func TestBeside(t *testing.T) {
	b := New(mounts()).Beside
	if b == nil || len(b.Rows) != 3 || b.Reference != "sshfs" || b.Theirs != "QEMU reverse-sshfs" || !strings.Contains(b.Source, "Lima 0.14.2") {
		t.Fatalf("%+v", b)
	}
	if r := b.Rows[0]; r.Ratio != nil || r.TheirRatio != nil || r.TheirValue.Estimate != 1764 || r.TheirValue.N != 5 || r.Agree != Undecided {
		t.Errorf("the reference: %+v", r)
	}
	// Published: 9p 5814…9037 against 1495…1772.
	if r := b.Rows[1]; !r.Ratio.Contains(14.0/3) || !r.TheirRatio.Bounded() || r.TheirRatio.Estimate < 4 || r.TheirRatio.Estimate > 5 || r.Agree != Overlap {
		t.Errorf("9p: %+v, %+v, %q", r.Ratio, r.TheirRatio, r.Agree)
	}
	if r := b.Rows[2]; r.Target != "VZ virtiofs" || r.Agree != Above {
		t.Errorf("virtiofs: %+v", r)
	}
	if !slices.Contains(b.Unmatched, "guest 9p / archive") || !slices.Contains(b.Unmatched, "host disk / Random Read") || !slices.Contains(b.Unused, "QEMU 9p / random-write") {
		t.Errorf("not published %q, not here %q", b.Unmatched, b.Unused)
	}
	if !strings.Contains(strings.Join(b.Notes, " "), "nothing like host disk") {
		t.Errorf("%q", b.Notes)
	}
}

func TestBesideOthers(t *testing.T) {
	run, trials := mounts()
	run.Presentation = nil
	r := New(run, trials)
	if r.Beside != nil {
		t.Error("published figures that nobody asked for")
	}
	fig := func(workload, target, metric string, values ...float64) (out []published.Figure) {
		for i, v := range values {
			out = append(out, published.Figure{Source: "a paper", Workload: workload, Target: target, Rep: i + 1, Metric: metric, Value: v, Unit: iotax.PerSecond})
		}
		return out
	}
	fs := slices.Concat(fig("rr", "host-disk", "rd", 100), fig("rr", "guest 9P", "rd", 29), fig("rr", "VZ_virtiofs", "rd", 200, 190), fig("rr", "sshfs", "wr", 0))
	r.HoldBeside(fs, iotax.Beside{Published: "paper", Workloads: map[string]string{"Random Read": "rr"}, Metrics: map[string]string{"read.iops": "rd"}}, "beware")
	b := r.Beside
	if len(b.Rows) != 3 || b.Reference != "host disk" || b.Rows[1].Agree != Below || b.Rows[1].TheirRatio.Bounded() || b.Rows[2].Agree != Below || b.Rows[2].Metric != "read.iops" {
		t.Errorf("%+v", b)
	}
	if !strings.Contains(strings.Join(b.Notes, " "), "beware") || slices.Contains(b.Unused, "sshfs / rr") {
		t.Errorf("%q, %q", b.Notes, b.Unused)
	}
	r.HoldBeside(slices.Concat(fs, fig("boot", "vm", "up", 7), fig("boot", "vm", "disk", 3)), iotax.Beside{Published: "paper",
		Values: map[string]string{"guest 9p / archive / read.iops": "vm / boot / up", "host disk / archive / read.iops": "vm / boot / disk", "sshfs / none / x": "vm / boot / up", "odd": "vm / boot / up"}}, "")
	if b := r.Beside; len(b.Rows) != 2 || b.Rows[0].Target != "guest 9p" || b.Rows[0].TheirValue.Estimate != 7 || b.Rows[0].Ratio != nil || b.Rows[1].TheirValue.Estimate != 3 ||
		slices.Contains(b.Unused, "vm / boot") || slices.Contains(b.Unmatched, "guest 9p / archive") || !slices.Contains(b.Unmatched, "sshfs / Random Read") {
		t.Errorf("single figures: %+v", b)
	}
	r.HoldBeside(fig("x", "y", "z", 1), iotax.Beside{Published: "paper"}, "")
	if b := r.Beside; len(b.Rows) != 0 || len(b.Notes) != 1 || !strings.Contains(b.Notes[0], "--beside-map") {
		t.Errorf("%+v", b)
	}
}

// That there was none of what is counted is a figure; a speed of 0 is one that was not measured, on either side.
func TestBesideCounts(t *testing.T) {
	run, trials := runOf(4, map[string][]string{"network": {"bandwidth", "retransmits"}},
		cellSpec{target: "a to b", workload: "network", values: map[string]float64{"bandwidth": 100, "retransmits": 0}},
		cellSpec{target: "c to b", workload: "network", values: map[string]float64{"bandwidth": 0, "retransmits": 3}})
	r := New(run, trials)
	var fs []published.Figure
	for target, v := range map[string]float64{"tcp a": 193, "tcp c": 0} {
		fs = append(fs, published.Figure{Source: "a paper", Workload: "net", Target: target, Rep: 1, Metric: "retransmits", Value: v, Unit: iotax.Count},
			published.Figure{Source: "a paper", Workload: "net", Target: target, Rep: 1, Metric: "bandwidth", Value: v, Unit: iotax.BytesPerSecond})
	}
	r.HoldBeside(fs, iotax.Beside{Published: "paper", Targets: map[string]string{"a to b": "tcp a"}, Workloads: map[string]string{"network": "net"},
		Values: map[string]string{"c to b / network / retransmits": "tcp c / net / retransmits", "c to b / network / bandwidth": "tcp c / net / bandwidth"}}, "")
	got := map[string][2]float64{}
	for _, row := range r.Beside.Rows {
		got[row.Target+" "+row.Metric] = [2]float64{math.Round(row.Value.Estimate), row.TheirValue.Estimate}
		if strings.HasSuffix(row.Metric, "retransmits") && (row.Ratio != nil || row.TheirRatio != nil) {
			t.Errorf("a number of retransmits has a ratio: %+v", row)
		}
	}
	want := map[string][2]float64{"a to b retransmits": {0, 193}, "c to b retransmits": {3, 0}}
	for cell, w := range want {
		if v, ok := got[cell]; !ok || v != w {
			t.Errorf("%s: %v beside the published, want %v", cell, v, w)
		}
	}
	if _, ok := got["c to b bandwidth"]; ok || len(got) != 3 {
		t.Errorf("%v", got)
	}
	var text strings.Builder
	if err := r.text(100)(&text); err != nil || !strings.Contains(text.String(), "network retransmits") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// What is under one heading stands together, whatever the order of what was published, and deviations are no speed.
func TestBesideTogether(t *testing.T) {
	b := Beside{}
	for _, target := range []string{"disk", "share"} {
		for _, metric := range []string{"read.iops", "read.latency.sd", "write.iops"} {
			b.Rows = append(b.Rows, BesideRow{Workload: "w", Target: target, Metric: metric})
		}
	}
	var got []string
	for _, r := range b.together() {
		got = append(got, r.Metric+" "+r.Target)
	}
	if want := []string{"read.iops disk", "read.iops share", "write.iops disk", "write.iops share"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(b.Rows) != 6 {
		t.Error("the rows themselves were changed")
	}
}

func TestAgree(t *testing.T) {
	nan := math.NaN()
	at := func(e, lo, hi float64) *stat.Interval { return &stat.Interval{Estimate: e, Lo: lo, Hi: hi} }
	for _, c := range []struct {
		ours, theirs *stat.Interval
		want         Agreement
	}{
		{at(1, .9, 1.1), at(1.05, nan, nan), Overlap}, {at(1, .9, 1.1), at(1.2, nan, nan), Below}, {at(1, .9, 1.1), at(.8, nan, nan), Above},
		{at(1, .9, 1.1), at(1.2, 1.05, 1.4), Overlap}, {at(1, .9, 1.1), at(1.3, 1.2, 1.4), Below}, {at(1, nan, nan), at(1, .9, 1.1), Undecided},
		{nil, at(1, .9, 1.1), Undecided}, {at(1, .9, 1.1), nil, Undecided}, {at(1, .9, 1.1), at(nan, nan, nan), Undecided},
	} {
		if got := agree(c.ours, c.theirs); got != c.want {
			t.Errorf("%v, %v: %q, want %q", c.ours, c.theirs, got, c.want)
		}
	}
}

func TestGoldenBeside(t *testing.T) {
	r := New(mounts())
	for name, write := range map[string]func(io.Writer) error{"beside-60.txt": r.text(60), "beside-80.txt": r.text(80), "beside-120.txt": r.text(120), "beside.md": r.Markdown, "beside.json": r.JSON} {
		t.Run(name, func(t *testing.T) { golden(t, name, write) })
	}
}
