package fiojob

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"iotax/internal/testenv/worktest"
)

// BenchmarkNBDByHand measures the same ratio as BenchmarkAgainstByHand, for fio's nbd engine. fio and the server have
// one CPU each, both under iotax and by hand. Otherwise, placement by the scheduler would change the results by more
// than the expected difference.
//
//	go test -run xxx -bench NBDByHand -benchtime 1x -timeout 30m ./internal/workload/fiojob
func BenchmarkNBDByHand(b *testing.B) {
	target, server := worktest.AnExport(b)
	if out, err := exec.Command("taskset", "--all-tasks", "--pid", "--cpu-list", "0", strconv.Itoa(server.Process.Pid)).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		hand, ours := alternate(b, 200, 400*time.Millisecond, target.Place.Path, total, "size", "16MiB", "iodepth", "16", "cpus_allowed", "1")
		r := medianRatio(hand, ours, func(r rates) float64 { return r.wall })
		b.ReportMetric(r.Estimate, "ratio")
		b.ReportMetric(r.Lo, "ratio-from")
		b.ReportMetric(r.Hi, "ratio-to")
		c := medianRatio(hand, ours, func(r rates) float64 { return r.cpu })
		b.ReportMetric(c.Estimate, "cpu-ratio")
		b.ReportMetric(c.Lo, "cpu-ratio-from")
		b.ReportMetric(c.Hi, "cpu-ratio-to")
	}
	b.ReportMetric(0, "ns/op")
}
