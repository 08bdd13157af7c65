// Package table presents parts of a report as tables.
package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Layout returns the tables of the report's layout, or nil if the report has no layout. The last column refers to the
// notes.
func Layout(r *report.Report) []block.Table {
	make, ok := map[string]func(*report.Report) []block.Table{"tart": tartTables, "repetitions": repetitionTables,
		"generated": sectionTables, "directions": directionTables}[r.Layout]
	if !ok {
		return nil
	}
	out := make(r)
	for i := range out {
		out[i].Least = len(out[i].Head)
	}
	return out
}

// Worst keeps the rows with the largest losses that fit into the given number of lines. It removes references to notes
// and the columns of single rounds. `more` is the number of omitted rows.
func Worst(all []block.Table, lines int) (out []block.Table, more int) {
	type place struct{ table, row int }
	var order []place
	for i, t := range all {
		for j := range t.Rows {
			order = append(order, place{i, j})
		}
	}
	slices.SortStableFunc(order, func(x, y place) int {
		return cmp.Compare(all[y.table].Rows[y.row].Weight, all[x.table].Rows[x.row].Weight)
	})
	kept := map[place]bool{}
	parts := map[string]bool{} // each part needs a heading, a header and an empty line
	for _, p := range order {
		name := all[p.table].Title
		if all[p.table].Grouped {
			name += all[p.table].Rows[p.row].Cells[0].Text
		}
		parts[name] = true
		if len(kept)+1+3*len(parts) > lines {
			break
		}
		kept[p] = true
	}
	for i, t := range all {
		var rows []block.Row
		for j, r := range t.Rows {
			if kept[place{i, j}] {
				r.Cells = slices.Clone(r.Cells)
				for k := range r.Cells {
					r.Cells[k].Notes = nil
				}
				rows = append(rows, r)
			}
		}
		if t.Rows = rows; rows != nil {
			t = t.Filled(len(t.Head) - 1)
			var columns []int
			for k, head := range t.Head {
				if !strings.HasPrefix(head, "#") {
					columns = append(columns, k)
				}
			}
			out = append(out, t.Columns(columns...))
		}
	}
	return out, len(order) - len(kept)
}

// first returns the section of the first metric of each workload.
func first(r *report.Report) []*report.Section {
	var out []*report.Section
	for i := range r.Sections {
		if r.Sections[i].First {
			out = append(out, &r.Sections[i])
		}
	}
	return out
}

// result returns a row for a table that has no column for verdicts. The last cell of the row refers to the notes. It
// also shows whether the result is invalid, missing, or cannot be ranked or compared.
func result(r *report.Report, s *report.Section, row *report.Row, cells ...string) block.Row {
	out := block.Words(cells...)
	last := block.Cell{Notes: row.Notes}
	switch row.Verdict {
	case stat.NoVerdict, stat.NotComparable, stat.TooManyDiscarded, stat.NoResult, stat.NotRanked:
		last.Text = r.Word(row, true)
	}
	out.Cells, out.Weight = append(out.Cells, last), weight(s, row)
	return out
}

// weight returns the loss as a factor. The baseline's weight is just below the weight of the largest loss, so that both
// are shown.
func weight(s *report.Section, row *report.Row) float64 {
	most := 0.0
	for i := range s.Rows {
		if x := &s.Rows[i]; (x == row || row.Baseline) && x.Ratio != nil && x.Ratio.Estimate > 0 {
			most = math.Max(most, 1/x.Ratio.Estimate)
		}
	}
	if row.Baseline {
		return math.Nextafter(most, 0)
	}
	return most
}

// tartTables returns the table of the benchmark that ships with Tart: a line for each workload and executor (target),
// with bandwidth and IOPS in each direction, and latencies as mean ± standard deviation. The numbers are medians over
// the trials. The deviation is within a trial.
func tartTables(r *report.Report) []block.Table {
	t := block.Table{Title: "Medians over the trials; latencies are mean ± standard deviation inside a trial",
		Head: []string{"name", "executor", "B/W (read)", "B/W (write)", "I/O (read)", "I/O (write)", "latency (read)",
			"latency (write)", "latency (sync)", "notes"},
		Right: []int{2, 3, 4, 5, 6, 7, 8}, Wraps: []int{0, 1}, Grouped: true}
	for _, s := range first(r) {
		for j := range s.Rows {
			row := &s.Rows[j]
			cells := []string{s.Workload, row.Target}
			for _, v := range []struct{ name, unit, suffix string }{{iotax.ValueReadBandwidth, iotax.BytesPerSecond, ""},
				{iotax.ValueWriteBandwidth, iotax.BytesPerSecond, ""}, {iotax.ValueReadIOPS, iotax.PerSecond, " IOPS"},
				{iotax.ValueWriteIOPS, iotax.PerSecond, " IOPS"}} {
				cell := format.Dash
				if x := r.Figure(s.Workload, row, v.name).Estimate; x > 0 {
					cell = format.Number(format.Lone(x), v.unit) + v.suffix
				}
				cells = append(cells, cell)
			}
			for _, of := range []string{"read", "write", "sync"} {
				cell := format.Dash
				if mean := r.Figure(s.Workload, row, of+".latency.mean").Estimate; mean > 0 {
					cell = meanSD(mean, r.Figure(s.Workload, row, of+".latency.sd").Estimate, iotax.Seconds)
				}
				cells = append(cells, cell)
			}
			t.Rows = append(t.Rows, result(r, s, row, cells...))
		}
	}
	return []block.Table{t}
}

// meanSD formats a mean with its standard deviation: "203 ± 156 µs".
func meanSD(mean, sd float64, unit string) string {
	sc := format.ScaleOf(unit, mean)
	m := format.Three(mean/sc.Factor) + sc.Prefix
	if !(sd >= 0) {
		return format.WithUnit(m, sc.Unit)
	}
	return format.WithUnit(m+" ± "+format.Fixed(sd/sc.Factor, format.Places(mean/sc.Factor, math.NaN())-1)+sc.Prefix, sc.Unit)
}

// repetitionTables returns a table for each workload and metric, with a row for each machine and target and a column
// for each round. It marks failed and discarded trials. For an imported run, it lists the successful trials of each
// target in order.
func repetitionTables(r *report.Report) []block.Table {
	failed := map[report.Cell]map[int]bool{}
	rounds := map[string][]int{} // by workload; a round has the same column in all rows
	for _, t := range r.Trials {
		if !slices.Contains(rounds[t.Workload], t.Round) {
			rounds[t.Workload] = append(rounds[t.Workload], t.Round)
		}
		if c := (report.Cell{Target: t.Target, Workload: t.Workload}); t.Err != "" {
			if failed[c] == nil {
				failed[c] = map[int]bool{}
			}
			failed[c][t.Round] = true
		}
	}
	var out []block.Table
	for i := range r.Sections {
		s := &r.Sections[i]
		columns := slices.Sorted(slices.Values(rounds[s.Workload]))
		if r.Run.Imported() { // imported trials have no common rounds
			columns = nil
			for _, row := range s.Rows {
				for len(columns) < row.Ran {
					columns = append(columns, len(columns))
				}
			}
		}
		t := block.Table{Title: format.Subject(s.Workload, s.Label), Head: []string{"machine", "target", "median"}, Wraps: []int{0, 1},
			Right: []int{2}, Keys: 3}
		for k := range columns {
			t.Head, t.Right = append(t.Head, fmt.Sprintf("#%d", k+1)), append(t.Right, 3+k)
		}
		t.Head = append(t.Head, "notes")
		for j := range s.Rows {
			row := &s.Rows[j]
			cells := []string{r.Target(row.Target).Machine, row.Target, format.Number(row.Value, s.Unit)}
			for k, round := range columns {
				if !r.Run.Imported() {
					k = slices.IndexFunc(row.Dots, func(d report.Dot) bool { return d.Round == round })
				}
				switch {
				case k >= 0 && k < len(row.Dots):
					cells = append(cells, repetition(row.Dots[k], s.Unit))
				case failed[report.Cell{Target: row.Target, Workload: s.Workload}][round] && !r.Run.Imported():
					cells = append(cells, "failed")
				default:
					cells = append(cells, "")
				}
			}
			t.Rows = append(t.Rows, result(r, s, row, cells...))
		}
		out = append(out, t)
	}
	return out
}

// repetition formats the value of one trial with three digits. It adds parentheses if the trial is discarded.
func repetition(d report.Dot, unit string) string {
	sc := format.ScaleOf(unit, d.Value)
	s := format.WithUnit("0", sc.Unit)
	if x := d.Value / sc.Factor; x != 0 {
		s = format.WithUnit(format.Three(x)+sc.Prefix, sc.Unit)
	}
	if d.Discarded {
		return "(" + s + ")"
	}
	return s
}

// sectionTables returns a table for each section of the plan. Its columns are the value, the share of the baseline's
// value, the shares of other targets, and the verdict. Workloads without a section are under "Results".
func sectionTables(r *report.Report) []block.Table {
	var out []block.Table
	for i := range r.Sections {
		s := &r.Sections[i]
		title := cmp.Or(r.Workload(s.Workload).Section, "Results")
		k := slices.IndexFunc(out, func(t block.Table) bool { return t.Title == title })
		if k < 0 {
			k = len(out)
			out = append(out, block.Table{Title: title, Right: []int{2, 3}, Wraps: []int{0, 1, 3, 4}, Grouped: true,
				Head: []string{"workload", "target", "value", "of its baseline", "reaches", "verdict"}})
		}
		for j := range s.Rows {
			row := &s.Rows[j]
			value, share, verdict := format.Dash, "", r.Word(row, true)
			if row.Err == "" && row.Value.N > 0 {
				value = format.Value(row.Value, s.Unit)
			}
			var others []string
			switch {
			case row.Baseline:
				verdict = cmp.Or(verdict, "baseline")
			case row.Ratio != nil && row.Against == r.Baseline:
				share = format.Share(row.Ratio.Interval)
			case row.Ratio != nil:
				others = append(others, format.Share(row.Ratio.Interval)+" of "+row.Against)
			}
			for _, sh := range row.Shares {
				others = append(others, format.Share(sh.Ratio)+" of "+sh.Against)
			}
			line := block.Words(format.Subject(s.Workload, s.Label), row.Target, value, share, strings.Join(others, ", "))
			line.Cells, line.Weight = append(line.Cells, block.Cell{Text: verdict, Notes: row.Notes}), weight(s, row)
			out[k].Rows = append(out[k].Rows, line)
		}
	}
	for i := range out {
		out[i] = out[i].Filled(3, 4, 5)
	}
	return out
}

// directionTables returns a table for each workload, with rows for reads, writes, trims and their sum. Bandwidths are
// in both MB/s and MiB/s, because fio prints both and readers confuse them. The sum is computed per trial, not from the
// medians.
func directionTables(r *report.Report) []block.Table {
	var out []block.Table
	for _, s := range first(r) {
		t := block.Table{Title: s.Workload + ": medians over the trials",
			Head: []string{"target", "direction", "IOPS", "B/W (MB/s)", "B/W (MiB/s)", "notes"}, Right: []int{2, 3, 4}, Wraps: []int{0}}
		for j := range s.Rows {
			row := &s.Rows[j]
			var lines []block.Row
			for _, d := range []struct{ value, word string }{{"read", "read"}, {"write", "write"}, {"trim", "trim"}, {"mixed", "sum"}} {
				iops, rate := r.Figure(s.Workload, row, d.value+".iops"), r.Figure(s.Workload, row, d.value+".bandwidth")
				if iops.Estimate > 0 || rate.Estimate > 0 {
					lines = append(lines, result(r, s, row, row.Target, d.word, format.Value(iops, iotax.PerSecond),
						inUnits(rate, 1e6), inUnits(rate, 1<<20)))
				}
			}
			if lines == nil {
				lines = []block.Row{result(r, s, row, row.Target, format.Dash, format.Dash, format.Dash, format.Dash)}
			}
			for i := range lines[1:] {
				lines[i+1].Cells[5] = block.Cell{}
			}
			t.Rows = append(t.Rows, lines...)
		}
		out = append(out, t)
	}
	return out
}

// inUnits formats an interval in multiples of `unit` bytes per second. The column's header names the unit.
func inUnits(i stat.Interval, unit float64) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return format.Dash
	}
	x := i.Estimate / unit
	if !format.Finite(i) || i.Lo == i.Hi {
		return format.Three(x)
	}
	p := format.Places(x, format.Half(i)/unit)
	return fmt.Sprintf("%s [%s, %s]", format.Fixed(x, p), format.Fixed(i.Lo/unit, p), format.Fixed(i.Hi/unit, p))
}
