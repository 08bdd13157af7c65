package report

import (
	"fmt"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// cpuBound adds a note if a cell's median IOPS exceed half of the load generator's limit. The limit is the IOPS that
// fio's null engine reached with one thread on this host, times the number of threads or of CPUs, whichever is smaller.
// In a guest, the load generator reaches fewer IOPS, so a note about a guest may be missing. Cells on other machines,
// for example in containers, are not checked.
func (b *builder) cpuBound(r *Row, s *Section, target iotax.TargetInfo) {
	c := b.Run.Calibration
	elsewhere := target.Facts[iotax.FactMachineKernel] != "" && target.Facts[iotax.FactAccel] == ""
	if c == nil || !(c.NullIOPS > 0) || elsewhere {
		return
	}
	var rates []float64
	threads := 1
	for _, t := range b.Valid(Cell{r.Target, s.Workload}) {
		if rate := totalIOPS(t); rate > 0 {
			rates = append(rates, rate)
		}
		n := 0
		for each := range strings.SplitSeq(t.Facts[iotax.FactNumJobs], " + ") { // one number for each of the concurrent jobs
			own, _ := strconv.Atoi(each)
			n += own
		}
		if clients, err := strconv.Atoi(t.Facts[iotax.FactClients]); err == nil && clients > 1 {
			n *= clients
		}
		threads = max(threads, n)
	}
	if n, err := strconv.Atoi(b.Run.Environment[iotax.FactCPUCount]); err == nil && n > 0 {
		threads = min(threads, n)
	}
	ceiling := c.NullIOPS * float64(threads)
	got := stat.Median(rates).Estimate
	if !(got > ceiling/2) {
		return
	}
	exact := func(x float64) string {
		return format.Number(stat.Interval{Estimate: x, Lo: x, Hi: x}, iotax.PerSecond)
	}
	b.note(r, rules.CPUBound.Found(iotax.AboutCell(r.Target, s.Workload), ""),
		Item{Lead: fmt.Sprintf("more than half of the %s IOPS that the load generator reaches here with an engine that does nothing:", exact(ceiling)),
			Detail: exact(got), Cells: []Cell{{r.Target, s.Workload}}})
}

// totalIOPS returns the sum of the read, write and trim IOPS, or the mixed IOPS if the sum is 0.
func totalIOPS(t *Trial) float64 {
	sum := 0.0
	for v := range t.All() {
		if kind, metric, ok := strings.Cut(v.Name, "."); ok && metric == "iops" && (kind == "read" || kind == "write" || kind == "trim") {
			sum += v.Value
		}
	}
	if v, ok := t.Value(iotax.ValueMixedIOPS); ok && sum == 0 {
		return v.Value
	}
	return sum
}
