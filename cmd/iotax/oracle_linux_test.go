package main

import (
	"encoding/json"
	"math"
	"testing"

	"iotax/internal/testenv/long"
)

// QEMU limits two disks of a guest to IOPS in the ratio 100 to 62. The interval must contain the ratio, with a
// tolerance of 2 %.
func TestKnownRatioComesBack(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	plan := s.write("oracle.yaml", `
baseline: fast
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  host: {dir: a}
  fast: {on: guest, disk: {of: host, iops: 200}}
  slow: {on: guest, disk: {of: host, iops: 124}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 1, size: 8MiB}}}
measure: {protocol: "fixed:6x1s", ramp: 300ms, cold: false}
`)
	r := s.iotax("run", plan, "--json", "--calibrate=no").works(t, exitOK)
	var out struct {
		Cells []struct {
			Target string
			Ratio  *struct{ Estimate, Lo, Hi float64 }
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatal(err, r)
	}
	for _, c := range out.Cells {
		if c.Target != "slow" {
			continue
		}
		if c.Ratio == nil {
			t.Fatal(r)
		}
		t.Logf("%+v", *c.Ratio)
		// With six rounds of one second, the interval is wide. So the estimate must be near the ratio, too.
		if c.Ratio.Lo > 0.62*1.02 || c.Ratio.Hi < 0.62*0.98 || math.Abs(c.Ratio.Estimate/0.62-1) > 0.2 {
			t.Errorf("the ratio is 0.62, and came out as %+v", *c.Ratio)
		}
		return
	}
	t.Fatal("no such target", r)
}
