package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/stat"
)

// A cellSpec makes the trials of a cell: their values are around center, times what their block shares.
type cellSpec struct {
	target, workload string
	values           map[string]float64 // by name; the unit follows from it
	facts            map[string]string
	findings         []iotax.Finding
	noise            float64 // 0.01 where it is 0
}

// wobble is noise without a seed: the same for every run of the test, of a size near 1.
func wobble(i, j int) float64 { return math.Sin(float64(7*i+3*j) + math.Sqrt2*float64(i*j%5)) }

// runOf makes a run of n blocks out of cells; the first target is the baseline. Workloads have the metrics
// given, or the only value that their cells have.
func runOf(n int, metrics map[string][]string, cells ...cellSpec) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Name: "made", Baseline: cells[0].target, Precision: .05, Margin: .05, Alpha: stat.AlphaFixed}
	var trials []*iotax.Trial
	for j, c := range cells {
		if !slices.ContainsFunc(run.Targets, func(t iotax.TargetInfo) bool { return t.Name == c.target }) {
			run.Targets = append(run.Targets, iotax.TargetInfo{Name: c.target, Machine: "host", Durability: iotax.Durable})
		}
		if !slices.ContainsFunc(run.Workloads, func(w iotax.WorkloadInfo) bool { return w.Name == c.workload }) {
			w := iotax.WorkloadInfo{Name: c.workload, Kind: "fio", Metrics: metrics[c.workload]}
			if w.Metrics == nil {
				for name := range c.values {
					w.Metrics = []string{name}
				}
			}
			run.Workloads = append(run.Workloads, w)
		}
		for i := range n {
			t := &iotax.Trial{Run: "r", Target: c.target, Workload: c.workload, Block: i, Seq: i*len(cells) + j, Facts: c.facts, Findings: c.findings}
			noise := c.noise
			if noise == 0 {
				noise = .01
			}
			for name, v := range c.values {
				unit, better := unitOf(name)
				t.Values = append(t.Values, iotax.Value{Name: name, Value: v * math.Exp(.03*wobble(i, 0)+noise*wobble(i, j+1)), Unit: unit, Better: better})
			}
			slices.SortFunc(t.Values, func(a, b iotax.Value) int { return len(a.Name) - len(b.Name) })
			trials = append(trials, t)
		}
	}
	return run, trials
}

func unitOf(name string) (string, iotax.Better) {
	switch {
	case name == "bandwidth" || name[max(0, len(name)-10):] == ".bandwidth":
		return iotax.BytesPerSecond, iotax.Up
	case name[max(0, len(name)-5):] == ".iops":
		return iotax.PerSecond, iotax.Up
	case name == "retransmits":
		return iotax.Count, iotax.Neither
	}
	return iotax.Seconds, iotax.Down
}

func against(run *iotax.Run, target string, names ...string) {
	for i := range run.Targets {
		if run.Targets[i].Name == target {
			run.Targets[i].Against = names
		}
	}
}

func TestAgainst(t *testing.T) {
	run, trials := runOf(8, nil,
		cellSpec{target: "disk", workload: "read", values: map[string]float64{"read.bandwidth": 1000}},
		cellSpec{target: "share", workload: "read", values: map[string]float64{"read.bandwidth": 30}},
		cellSpec{target: "export", workload: "read", values: map[string]float64{"read.bandwidth": 60}},
		cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 64}},
		cellSpec{target: "s3", workload: "download", values: map[string]float64{"download.bandwidth": 32}},
	)
	run.Workloads[1].Kind = "network"
	against(run, "share", "export", "disk", "tcp") // export is listed after it
	against(run, "s3", "tcp")
	r := New(run, trials)

	share := row(t, r, "read", "read.bandwidth", "share")
	if share.Against != "export" || !share.Ratio.Contains(.5) || share.Verdict != stat.Worse || !slices.Contains(rules(r, share), "compared-with-another") {
		t.Errorf("share: %+v, notes %q", share, rules(r, share))
	}
	if len(share.Shares) != 2 || share.Shares[0].Against != "disk" || !share.Shares[0].Ratio.Contains(.03) ||
		share.Shares[1].Against != "tcp" || share.Shares[1].Workload != "network" || !share.Shares[1].Ratio.Contains(30.0/64) {
		t.Errorf("shares: %+v", share.Shares)
	}
	export := row(t, r, "read", "read.bandwidth", "export")
	if export.Against != "disk" || !export.Ratio.Contains(.06) || len(export.Shares) > 0 || len(export.Notes) > 0 {
		t.Errorf("export: %+v", export)
	}
	s3 := row(t, r, "download", "download.bandwidth", "s3")
	if s3.Against != "" || s3.Ratio != nil || s3.Verdict != stat.NoVerdict || len(s3.Shares) != 1 || !s3.Shares[0].Ratio.Contains(.5) || s3.Shares[0].Metric != "bandwidth" {
		t.Errorf("s3: %+v", s3)
	}
}

// What condemns a target condemns those that are held against it, and not those that are not.
func TestAgainstCondemned(t *testing.T) {
	bad := []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "the device read 3 %"}}
	run, trials := runOf(8, nil,
		cellSpec{target: "disk", workload: "read", values: map[string]float64{"read.iops": 1000}},
		cellSpec{target: "a", workload: "read", values: map[string]float64{"read.iops": 500}, findings: bad},
		cellSpec{target: "b", workload: "read", values: map[string]float64{"read.iops": 400}},
		cellSpec{target: "c", workload: "read", values: map[string]float64{"read.iops": 300}},
	)
	against(run, "b", "a")
	against(run, "c", "disk", "a")
	r := New(run, trials)
	for target, want := range map[string]stat.Verdict{"a": stat.NotComparable, "b": stat.NotComparable, "c": stat.Worse} {
		if got := row(t, r, "read", "read.iops", target); got.Verdict != want || len(got.Shares) > 0 {
			t.Errorf("%s: %q, shares %v, want %q", target, got.Verdict, got.Shares, want)
		}
	}
}

// A workload that is done at some of the targets has no rows for the others, and no verdict where what it
// is compared with is among them.
func TestAt(t *testing.T) {
	run, trials := runOf(8, nil,
		cellSpec{target: "disk", workload: "read", values: map[string]float64{"read.iops": 1000}},
		cellSpec{target: "guest", workload: "read", values: map[string]float64{"read.iops": 500}},
		cellSpec{target: "s3", workload: "get", values: map[string]float64{"download.bandwidth": 30}},
	)
	run.Workloads[0].At, run.Workloads[1].At = []string{"disk", "guest"}, []string{"s3"}
	r := New(run, trials)
	if len(r.Sections) != 2 || len(r.Sections[0].Rows) != 2 || len(r.Sections[1].Rows) != 1 {
		t.Fatalf("%+v", r.Sections)
	}
	if s3 := r.Sections[1].Rows[0]; s3.Verdict != stat.NoVerdict || s3.Ratio != nil || s3.Value.N != 8 {
		t.Errorf("%+v", s3)
	}
	if strings.Contains(r.Answer, "cannot be judged") {
		t.Error(r.Answer)
	}
	run.Workloads, run.Targets = run.Workloads[1:], run.Targets[2:]
	if got := New(run, trials[:0:0]).Answer; got != "Nothing was measured." {
		t.Error(got)
	}
	run.Baseline = "disk"
	if got := New(run, slices.DeleteFunc(trials, func(x *iotax.Trial) bool { return x.Target != "s3" })).Answer; got != "No workload was done at two targets that are compared: values stand alone." {
		t.Error(got)
	}
}
