package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/published"
	"iotax/internal/report/format"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func TestReference(t *testing.T) {
	b := New(reporttest.Mounts()).Reference
	if b == nil || len(b.Rows) != 3 || b.Reference != "sshfs" || b.Theirs != "QEMU reverse-sshfs" || !strings.Contains(b.Source, "Lima 0.14.2") {
		t.Fatalf("%+v", b)
	}
	if r := b.Rows[0]; r.Ratio != nil || r.Published.Ratio != nil || r.Published.Value.Estimate != 1764 || r.Published.Value.N != 5 || r.Agree != Undecided {
		t.Errorf("the reference: %+v", r)
	}
	// The published figures range from 5814 to 9037 for 9p, and from 1495 to 1772 for the reference target.
	if r := b.Rows[1]; !r.Ratio.Contains(14.0/3) || !r.Published.Ratio.Bounded() || r.Published.Ratio.Estimate < 4 || r.Published.Ratio.Estimate > 5 || r.Agree != Overlap {
		t.Errorf("9p: %+v, %+v, %q", r.Ratio, r.Published.Ratio, r.Agree)
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

// If the result of a target or of the reference target is invalid, their ratio is not compared with the published one.
func TestReferenceOfInvalid(t *testing.T) {
	for invalid, want := range map[string]string{"guest 9p": format.Cached, "sshfs": string(stat.NotComparable)} {
		run, trials := reporttest.Mounts()
		for _, x := range trials {
			if x.Target == invalid {
				x.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
			}
		}
		rows := New(run, trials).Reference.Rows
		if rows[1].Agree != Undecided || rows[1].Invalid != want || rows[2].Agree == Undecided != (invalid == "sshfs") {
			t.Errorf("%s: %+v", invalid, rows)
		}
	}
}

func TestReferenceOfOthers(t *testing.T) {
	run, trials := reporttest.Mounts()
	run.Presentation = nil
	r := New(run, trials)
	if r.Reference != nil {
		t.Error("published figures that nobody asked for")
	}
	fig := func(workload, target, metric string, values ...float64) (out []published.Figure) {
		for i, v := range values {
			out = append(out, published.Figure{Source: "a paper", Workload: workload, Target: target, Rep: i + 1, Metric: metric, Value: v, Unit: iotax.PerSecond})
		}
		return out
	}
	fs := slices.Concat(fig("rr", "host-disk", "rd", 100), fig("rr", "guest 9P", "rd", 29), fig("rr", "VZ_virtiofs", "rd", 200, 190), fig("rr", "sshfs", "wr", 0))
	r.HoldReference(fs, iotax.Reference{Published: "paper", Workloads: map[string]string{"Random Read": "rr"}, Metrics: map[string]string{"read.iops": "rd"}}, "beware")
	b := r.Reference
	if len(b.Rows) != 3 || b.Reference != "host disk" || b.Rows[1].Agree != Below || b.Rows[1].Published.Ratio.Bounded() || b.Rows[2].Agree != Below || b.Rows[2].Metric != "read.iops" {
		t.Errorf("%+v", b)
	}
	if !strings.Contains(strings.Join(b.Notes, " "), "beware") || slices.Contains(b.Unused, "sshfs / rr") {
		t.Errorf("%q, %q", b.Notes, b.Unused)
	}
	r.HoldReference(slices.Concat(fs, fig("boot", "vm", "up", 7), fig("boot", "vm", "disk", 3)), iotax.Reference{Published: "paper",
		Values: map[string]string{"guest 9p / archive / read.iops": "vm / boot / up", "host disk / archive / read.iops": "vm / boot / disk", "sshfs / none / x": "vm / boot / up", "odd": "vm / boot / up"}}, "")
	if b := r.Reference; len(b.Rows) != 2 || b.Rows[0].Target != "guest 9p" || b.Rows[0].Published.Value.Estimate != 7 || b.Rows[0].Ratio != nil || b.Rows[1].Published.Value.Estimate != 3 ||
		slices.Contains(b.Unused, "vm / boot") || slices.Contains(b.Unmatched, "guest 9p / archive") || !slices.Contains(b.Unmatched, "sshfs / Random Read") {
		t.Errorf("single figures: %+v", b)
	}
	r.HoldReference(fig("x", "y", "z", 1), iotax.Reference{Published: "paper"}, "")
	if b := r.Reference; len(b.Rows) != 0 || len(b.Notes) != 1 || !strings.Contains(b.Notes[0], "--reference-map") {
		t.Errorf("%+v", b)
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
