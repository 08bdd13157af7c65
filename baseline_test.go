package iotax_test

import (
	"testing"

	"iotax"
)

// If a workload does not run at the run's baseline, the first target that the workload lists replaces the baseline.
func TestBaselineOf(t *testing.T) {
	r := &iotax.Run{Baseline: "host", Workloads: []iotax.WorkloadInfo{
		{Name: "everywhere"}, {Name: "some", At: []string{"disk", "host"}}, {Name: "guests", At: []string{"disk", "share"}},
	}}
	for workload, want := range map[string]string{"everywhere": "host", "some": "host", "guests": "disk", "unknown": "host"} {
		if got := r.BaselineOf(workload); got != want {
			t.Errorf("%s: %s, want %s", workload, got, want)
		}
	}
	all := func(string) bool { return true }
	if got := (iotax.TargetInfo{Name: "share"}).Reference(r.BaselineOf("guests"), all); got != "disk" {
		t.Errorf("share is compared with %q", got)
	}
	if got := (iotax.TargetInfo{Name: "disk"}).Reference(r.BaselineOf("guests"), all); got != "" {
		t.Errorf("disk is compared with %q", got)
	}
}
