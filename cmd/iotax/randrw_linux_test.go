package main

import (
	"strings"
	"testing"

	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/suite"
	"iotax/internal/testenv/long"
)

// Every shipped suite is a valid plan.
func TestSuitesParse(t *testing.T) {
	t.Parallel()
	for _, name := range suite.Names() {
		src, _ := suite.Source(name)
		p, err := plan.Parse(name, src, kinds.All())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Name != name || len(p.Targets) < 2 || len(p.Workloads) == 0 {
			t.Errorf("%s: %s with %d targets and %d workloads", name, p.Name, len(p.Targets), len(p.Workloads))
		}
	}
}

// The suite "randrw" measures a directory and, with --destroy, a block device.
func TestRandrwOnDevice(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	dev := s.bare("image")
	words := []string{"run", "randrw", "dir:a", "device:" + dev, "--size", "8MiB", "--protocol", "fixed:2x300ms", "--calibrate=no"}
	empty := s.sum("image")
	// Without --destroy, this suite measures only the directory.
	s.iotax(words...).works(t, 0, "block devices are only read, and the job writes", "--destroy "+dev)
	if s.sum("image") != empty {
		t.Fatal("the device was written to")
	}
	out := s.iotax(append(words, "--destroy", dev, "--details")...).works(t, 0, "everything on "+dev).stdout
	if s.sum("image") == empty {
		t.Error("nothing was written")
	}
	for _, want := range []string{"MB/s", "MiB/s", "4k random read/write", "1M sequential read", "1M sequential write", "device:" + dev, "sum"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	run, trials := s.trials()
	seen := map[string]int{}
	for _, tr := range trials {
		wants := map[string][]string{"4k random read/write": {"read.iops", "write.iops", "read.bandwidth", "write.bandwidth"},
			"1M sequential read": {"read.bandwidth"}, "1M sequential write": {"write.bandwidth"}}[tr.Workload]
		for _, name := range wants {
			if v, ok := tr.Value(name); !ok || !(v.Value > 0) {
				t.Errorf("%s: %s is %v: %s", tr.Cell(), name, v.Value, tr.Err)
			}
		}
		seen[tr.Cell()]++
	}
	if len(seen) != 6 || len(trials) != 12 {
		t.Errorf("%d trials of %v", len(trials), seen)
	}
	if f := run.Targets[1].Facts; !strings.Contains(f["device.destroyed"], dev) {
		t.Errorf("facts of the device: %v", f)
	}
}
