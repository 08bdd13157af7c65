package assess

import (
	"fmt"
	"slices"
	"strings"

	"iotax/internal/metric"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// stallShare is the minimum share of a cell's total I/O time that I/Os above 100 ms must take for the cell to be
// reported, unless its stalls recur.
const stallShare = 0.01

// Stalls returns a sentence for each cell and direction whose I/Os stalled: either stalls recur regularly in most
// trials, or I/Os above 100 ms take at least stallShare of the I/O time. The numbers are medians over the trials.
func Stalls(r *report.Report) (out []string) {
	trials := r.Counting()
	seen := map[report.Cell]bool{}
	for s, row := range r.Rows() {
		cell := report.Cell{Target: row.Target, Workload: s.Workload}
		if seen[cell] { // a workload has a section for each metric
			continue
		}
		seen[cell] = true
		values := map[string][]float64{}
		var directions []string
		for _, t := range trials[cell] {
			for v := range t.All() {
				if d, _, ok := strings.Cut(v.Name, ".stall."); ok {
					values[v.Name] = append(values[v.Name], v.Value)
					if !slices.Contains(directions, d) {
						directions = append(directions, d)
					}
				}
			}
		}
		for _, d := range directions {
			m := metric.Stalls(d)
			longest, periods, share := values[m[0].Name], values[m[1].Name], values[m[3].Name]
			above := stat.Median(share).Estimate
			if 2*len(periods) <= len(longest) && !(above >= stallShare) {
				continue
			}
			text := fmt.Sprintf("%s on %s: the longest %s stall takes %s", s.Workload, row.Target, d, about(longest, m[0].Unit))
			if 2*len(periods) > len(longest) {
				text += fmt.Sprintf(", and stalls recur every %s in %d of %s", about(periods, m[1].Unit), len(periods), format.Plural(len(longest), "trial"))
			}
			out = append(out, format.Clean(fmt.Sprintf("%s; %s of the time that its I/Os took is in those above 100 ms.", text, format.Percent(above))))
		}
	}
	return format.Cut(out, mostStalls, "cell")
}

// mostStalls is the maximum number of sentences about stalls in a report.
const mostStalls = 10

// about formats the median of the values with two significant digits.
func about(values []float64, unit string) string {
	v := stat.Median(values).Estimate
	return format.Number(stat.Interval{Estimate: v, Lo: v * .98, Hi: v * 1.02}, unit)
}
