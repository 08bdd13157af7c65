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

// cpuBound adds a note if a cell comes near the limit of the load generator: its median IOPS exceed half of what
// fio's null engine reaches with as many threads, but at most one per CPU. The limit is this host's. A guest has a
// lower one, so the note may be missing there. Cells on other machines are not checked.
func (b *builder) cpuBound(r *Row, s *Section, trials []*Trial, target iotax.TargetInfo) {
	c := b.Run.Calibration
	elsewhere := target.Facts[iotax.FactMachineKernel] != "" && target.Facts[iotax.FactAccel] == ""
	if c == nil || !(c.NullIOPS > 0) || elsewhere {
		return
	}
	var rates []float64
	threads := 1
	for _, t := range trials {
		if !b.Counts(t) {
			continue
		}
		if rate := totalIOPS(t); rate > 0 {
			rates = append(rates, rate)
		}
		if n, err := strconv.Atoi(t.Facts[iotax.FactNumJobs]); err == nil && n > threads {
			threads = n
		}
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

// totalIOPS returns the IOPS in all directions.
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
