package report

import (
	"slices"
	"testing"

	"iotax"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func TestAgainst(t *testing.T) {
	run, trials := reporttest.RunOf(8, nil,
		reporttest.CellSpec{Target: "disk", Workload: "read", Values: map[string]float64{"read.bandwidth": 1000}},
		reporttest.CellSpec{Target: "share", Workload: "read", Values: map[string]float64{"read.bandwidth": 30}},
		reporttest.CellSpec{Target: "export", Workload: "read", Values: map[string]float64{"read.bandwidth": 60}},
		reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 64}},
		reporttest.CellSpec{Target: "s3", Workload: "download", Values: map[string]float64{"download.bandwidth": 32}},
	)
	run.Workloads[1].Kind = "network"
	reporttest.Against(run, "share", "export", "disk", "tcp") // the row of export, the reference of share, comes later
	reporttest.Against(run, "s3", "tcp")
	r := New(run, trials)

	share := row(t, r, "read", "read.bandwidth", "share")
	if share.Against != "export" || !share.Ratio.Contains(.5) || share.Verdict != stat.Worse || !slices.Contains(ruleIDs(r, share), "compared-with-another") {
		t.Errorf("share: %+v, notes %q", share, ruleIDs(r, share))
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

// If the reference of a row is invalid, the row is not comparable. If another target that the plan compares the row
// with is invalid, the row only lacks the ratio to that target.
func TestAgainstCondemned(t *testing.T) {
	bad := []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "the device read 3 %"}}
	run, trials := reporttest.RunOf(8, nil,
		reporttest.CellSpec{Target: "disk", Workload: "read", Values: map[string]float64{"read.iops": 1000}},
		reporttest.CellSpec{Target: "a", Workload: "read", Values: map[string]float64{"read.iops": 500}, Findings: bad},
		reporttest.CellSpec{Target: "b", Workload: "read", Values: map[string]float64{"read.iops": 400}},
		reporttest.CellSpec{Target: "c", Workload: "read", Values: map[string]float64{"read.iops": 300}},
	)
	reporttest.Against(run, "b", "a")
	reporttest.Against(run, "c", "disk", "a")
	r := New(run, trials)
	for target, want := range map[string]stat.Verdict{"a": stat.NotComparable, "b": stat.NotComparable, "c": stat.Worse} {
		if got := row(t, r, "read", "read.iops", target); got.Verdict != want || len(got.Shares) > 0 {
			t.Errorf("%s: %q, shares %v, want %q", target, got.Verdict, got.Shares, want)
		}
	}
}

// If only some targets run a workload, the other targets have no rows in its sections. A row without a reference has no
// verdict.
func TestAt(t *testing.T) {
	r := New(reporttest.SomeTargets())
	if len(r.Sections) != 2 || len(r.Sections[0].Rows) != 2 || len(r.Sections[1].Rows) != 1 {
		t.Fatalf("%+v", r.Sections)
	}
	if s3 := r.Sections[1].Rows[0]; s3.Verdict != stat.NoVerdict || s3.Ratio != nil || s3.Value.N != 8 {
		t.Errorf("%+v", s3)
	}
}
