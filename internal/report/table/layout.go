package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Layout are the tables of the report's layout; nil where it has none. Notes of a row are told in its last column.
func Layout(r *report.Report) []Table {
	var out []Table
	switch r.Layout {
	case "tart":
		out = tartTables(r)
	case "repetitions":
		out = repetitionTables(r)
	case "generated":
		out = sectionTables(r)
	case "directions":
		out = directionTables(r)
	}
	for i := range out {
		out[i].Least = len(out[i].Head)
	}
	return out
}

// first are the sections of the metrics that decide, one a workload.
func first(r *report.Report) []*report.Section {
	var out []*report.Section
	for i := range r.Sections {
		if r.Sections[i].First {
			out = append(out, &r.Sections[i])
		}
	}
	return out
}

// tartTables are the wide table of the benchmark that ships with Tart: a line for each workload and
// executor, bandwidth and I/Os in each direction, and latencies as mean ± standard deviation. The numbers
// are medians over the trials; the deviation is that inside a trial.
func tartTables(r *report.Report) []Table {
	t := Table{Title: "Medians over the trials; latencies are mean ± standard deviation inside a trial",
		Head:  []string{"name", "executor", "B/W (read)", "B/W (write)", "I/O (read)", "I/O (write)", "latency (read)", "latency (write)", "latency (sync)", "notes"},
		Right: []int{2, 3, 4, 5, 6, 7, 8}, Wraps: []int{0, 1}, Grouped: true}
	for _, s := range first(r) {
		for j := range s.Rows {
			row := &s.Rows[j]
			value := func(name, unit, suffix string) string {
				v := r.Figure(s.Workload, row, name)
				if !(v.Estimate > 0) {
					return format.Dash
				}
				return format.Number(format.Lone(v.Estimate), unit) + suffix
			}
			latency := func(of string) string {
				mean, sd := r.Figure(s.Workload, row, of+".latency.mean"), r.Figure(s.Workload, row, of+".latency.sd")
				if !(mean.Estimate > 0) {
					return format.Dash
				}
				return meanSD(mean.Estimate, sd.Estimate, iotax.Seconds)
			}
			t.Rows = append(t.Rows, []string{format.Clean(s.Workload), format.Clean(row.Target),
				value(iotax.ValueReadBandwidth, iotax.BytesPerSecond, ""), value(iotax.ValueWriteBandwidth, iotax.BytesPerSecond, ""),
				value(iotax.ValueReadIOPS, iotax.PerSecond, " IOPS"), value(iotax.ValueWriteIOPS, iotax.PerSecond, " IOPS"),
				latency("read"), latency("write"), latency("sync"), remark(row)})
		}
	}
	return []Table{t}
}

// meanSD prints "203 ± 156 µs".
func meanSD(mean, sd float64, unit string) string {
	sc := format.ScaleOf(unit, mean)
	m := format.Fixed(mean/sc.Factor, format.Places(mean/sc.Factor, math.NaN())-1) + sc.Prefix
	if !(sd >= 0) {
		return format.WithUnit(m, sc.Unit)
	}
	return format.WithUnit(m+" ± "+format.Fixed(sd/sc.Factor, format.Places(mean/sc.Factor, math.NaN())-1)+sc.Prefix, sc.Unit)
}

// remark is what a table without verdicts must still say of a row: that its number must not be quoted, and
// the numbers of its notes.
func remark(row *report.Row) string {
	var parts []string
	switch row.Verdict {
	case stat.NotComparable, stat.TooManyDiscarded, stat.NoResult, stat.NotRanked:
		parts = append(parts, format.Verdict(row.Verdict, true))
	}
	if len(row.Notes) > 0 {
		parts = append(parts, format.Marks(row.Notes))
	}
	return strings.Join(parts, " ")
}

// repetitionTables are a table for each workload and metric with every repetition beside the others: machine ×
// target × round. A trial that failed, or does not count, is shown as that.
func repetitionTables(r *report.Report) []Table {
	machine := map[string]string{}
	for _, t := range r.Run.Targets {
		machine[t.Name] = t.Machine
	}
	var out []Table
	for i := range r.Sections {
		s := &r.Sections[i]
		// A round stands in one column on all rows, whichever trials it has.
		var rounds []int
		failed := map[report.Cell]map[int]bool{}
		for _, t := range r.Trials {
			if t.Workload != s.Workload {
				continue
			}
			if !slices.Contains(rounds, t.Round) {
				rounds = append(rounds, t.Round)
			}
			if c := (report.Cell{Target: t.Target, Workload: t.Workload}); t.Err != "" {
				if failed[c] == nil {
					failed[c] = map[int]bool{}
				}
				failed[c][t.Round] = true
			}
		}
		slices.Sort(rounds)
		// Imported trials are in rounds of their own: there a repetition is a count.
		columns := len(rounds)
		if r.Run.Imported() {
			columns = 0
			for _, row := range s.Rows {
				columns = max(columns, row.Ran)
			}
		}
		t := Table{Title: format.Subject(s.Workload, s.Label), Head: []string{"machine", "target", "median"}, Wraps: []int{0, 1}, Right: []int{2}, Keys: 3}
		for k := range columns {
			t.Head = append(t.Head, fmt.Sprintf("#%d", k+1))
			t.Right = append(t.Right, 3+k)
		}
		t.Head = append(t.Head, "notes")
		for j := range s.Rows {
			row := &s.Rows[j]
			cells := []string{format.Clean(machine[row.Target]), format.Clean(row.Target), format.Number(row.Value, s.Unit)}
			if r.Run.Imported() {
				for k := range columns {
					cell := ""
					if k < len(row.Dots) {
						cell = repetition(row.Dots[k], s.Unit)
					}
					cells = append(cells, cell)
				}
			} else {
				for _, b := range rounds {
					cell := ""
					if k := slices.IndexFunc(row.Dots, func(d report.Dot) bool { return d.Round == b }); k >= 0 {
						cell = repetition(row.Dots[k], s.Unit)
					} else if failed[report.Cell{Target: row.Target, Workload: s.Workload}][b] {
						cell = "failed"
					}
					cells = append(cells, cell)
				}
			}
			t.Rows = append(t.Rows, append(cells, remark(row)))
		}
		out = append(out, t)
	}
	return out
}

// repetition prints one trial; brackets say that it does not count.
func repetition(d report.Dot, unit string) string {
	sc := format.ScaleOf(unit, d.Value)
	s := format.WithUnit("0", sc.Unit)
	if x := d.Value / sc.Factor; x != 0 { // three digits: enough to see which one stands out
		s = format.WithUnit(format.Fixed(x, format.Places(x, math.NaN())-1)+sc.Prefix, sc.Unit)
	}
	if d.Discarded {
		return "(" + s + ")"
	}
	return s
}

// ofBaseline is the head of the column of shares of the baseline.
const ofBaseline = "of its baseline"

// sectionTables are one table for each section of the plan: what was measured, what share of its right
// baseline that is, and the verdict. Workloads of no section stand together under "Results".
func sectionTables(r *report.Report) []Table {
	section := map[string]string{}
	for _, w := range r.Run.Workloads {
		section[w.Name] = w.Section
	}
	var out []Table
	for i := range r.Sections {
		s := &r.Sections[i]
		title := section[s.Workload]
		if title == "" {
			title = "Results"
		}
		k := slices.IndexFunc(out, func(t Table) bool { return t.Title == title })
		if k < 0 {
			out = append(out, Table{Title: title, Head: []string{"workload", "target", "value", ofBaseline, format.OfAnother, "verdict"}, Right: []int{2, 3, 4}, Wraps: []int{0, 1, 3, 4}, Grouped: true})
			k = len(out) - 1
		}
		for j := range s.Rows {
			row := &s.Rows[j]
			name := ""
			if j == 0 {
				name = format.Subject(s.Workload, s.Label)
			}
			value := format.Dash
			if row.Err == "" && row.Value.N > 0 {
				value = format.Value(row.Value, s.Unit)
			}
			share := ""
			switch {
			case row.Baseline:
				share = "baseline"
			case row.Ratio != nil:
				share = format.Share(row.Ratio.Interval)
				if row.Against != r.Baseline {
					share += format.Of + format.Clean(row.Against)
				}
			}
			var shares []string
			for _, sh := range row.Shares {
				shares = append(shares, format.Share(sh.Ratio)+format.Of+format.Clean(sh.Against))
			}
			out[k].Rows = append(out[k].Rows, []string{format.Clean(name), format.Clean(row.Target), value, share, strings.Join(shares, ", "), strings.TrimSpace(format.Verdict(row.Verdict, true) + " " + format.Marks(row.Notes))})
		}
	}
	for i := range out {
		t := &out[i]
		for _, head := range []string{ofBaseline, format.OfAnother, "verdict"} {
			t.leaveOut(head)
		}
		if k := slices.Index(t.Head, format.OfAnother); k >= 0 {
			if shared := format.SharedWhole(t.Rows, k); shared != "" {
				t.Head[k] = strings.TrimSpace(shared)
				for _, r := range t.Rows {
					r[k] = strings.TrimSuffix(r[k], shared)
				}
			}
		}
	}
	return out
}

// leaveOut leaves out the column of that head where nothing stands in it.
func (t *Table) leaveOut(head string) {
	k := slices.Index(t.Head, head)
	if slices.ContainsFunc(t.Rows, func(r []string) bool { return r[k] != "" }) {
		return
	}
	t.Head = slices.Delete(t.Head, k, k+1)
	for i, r := range t.Rows {
		t.Rows[i] = slices.Delete(r, k, k+1)
	}
	without := func(columns []int) []int {
		var out []int
		for _, c := range columns {
			if c < k {
				out = append(out, c)
			} else if c > k {
				out = append(out, c-1)
			}
		}
		return out
	}
	t.Right, t.Wraps = without(t.Right), without(t.Wraps)
}
