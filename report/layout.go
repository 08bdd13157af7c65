package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/report/format"
	"iotax/stat"
)

// A LayoutTable is a table of a classic layout, in words. Notes of its rows are told in its last column.
type LayoutTable struct {
	Title string
	Head  []string
	Rows  [][]string
	Right []int // columns of numbers
	Wraps []int // columns of names

	// Grouped says that the first column is the same on several rows: a terminal shows it as a heading.
	Grouped bool
}

// LayoutTables are the tables of the report's layout; nil where it has none.
func (r *Report) LayoutTables() []LayoutTable {
	switch r.Layout {
	case "tart":
		return r.tartTables()
	case "repetitions":
		return r.repetitionTables()
	case "generated":
		return r.sectionTables()
	case "directions":
		return r.directionTables()
	}
	return nil
}

// first are the sections of the metrics that decide, one a workload.
func (r *Report) first() []*Section {
	var out []*Section
	for i := range r.Sections {
		if r.Sections[i].First {
			out = append(out, &r.Sections[i])
		}
	}
	return out
}

// figure is the median of a value over the trials of a row that count; NaN where it was not measured. A
// headline metric stands in its section, all else in Secondary.
func (r *Report) figure(workload string, row *Row, name string) stat.Interval {
	for i := range r.Sections {
		s := &r.Sections[i]
		if s.Workload != workload || s.Metric != name {
			continue
		}
		if x := s.row(row.Target); x != nil {
			return x.Value
		}
	}
	for _, f := range row.Secondary {
		if f.Name == name {
			return f.Value
		}
	}
	return stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
}

// tartTables are the wide table of the benchmark that ships with Tart: a line for each workload and
// executor, bandwidth and I/Os in each direction, and latencies as mean ± standard deviation. The numbers
// are medians over the trials; the deviation is that inside a trial.
func (r *Report) tartTables() []LayoutTable {
	t := LayoutTable{Title: "Medians over the trials; latencies are mean ± standard deviation inside a trial",
		Head:  []string{"name", "executor", "B/W (read)", "B/W (write)", "I/O (read)", "I/O (write)", "latency (read)", "latency (write)", "latency (sync)", "notes"},
		Right: []int{2, 3, 4, 5, 6, 7, 8}, Wraps: []int{0, 1}, Grouped: true}
	for _, s := range r.first() {
		for j := range s.Rows {
			row := &s.Rows[j]
			value := func(name, unit, suffix string) string {
				v := r.figure(s.Workload, row, name)
				if !(v.Estimate > 0) {
					return format.Dash
				}
				return format.Number(format.Lone(v.Estimate), unit) + suffix
			}
			latency := func(of string) string {
				mean, sd := r.figure(s.Workload, row, of+".latency.mean"), r.figure(s.Workload, row, of+".latency.sd")
				if !(mean.Estimate > 0) {
					return format.Dash
				}
				return meanSD(mean.Estimate, sd.Estimate, iotax.Seconds)
			}
			t.Rows = append(t.Rows, []string{format.Clean(s.Workload), format.Clean(row.Target),
				value("read.bandwidth", iotax.BytesPerSecond, ""), value("write.bandwidth", iotax.BytesPerSecond, ""),
				value("read.iops", iotax.PerSecond, " IOPS"), value("write.iops", iotax.PerSecond, " IOPS"),
				latency("read"), latency("write"), latency("sync"), row.remark()})
		}
	}
	return []LayoutTable{t}
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
func (row *Row) remark() string {
	var parts []string
	switch row.Verdict {
	case stat.NotComparable, stat.TooManyVoid, stat.NoResult, stat.NotRanked:
		parts = append(parts, format.Verdict(row.Verdict, true))
	}
	if len(row.Notes) > 0 {
		parts = append(parts, format.Marks(row.Notes))
	}
	return strings.Join(parts, " ")
}

// repetitionTables are a table for each workload and metric with every repetition beside the others: machine ×
// target × block. A trial that failed, or does not count, is shown as that.
func (r *Report) repetitionTables() []LayoutTable {
	machine := map[string]string{}
	for _, t := range r.Run.Targets {
		machine[t.Name] = t.Machine
	}
	var out []LayoutTable
	for i := range r.Sections {
		s := &r.Sections[i]
		// A block stands in one column on all rows, whichever trials it has.
		var blocks []int
		failed := map[Cell]map[int]bool{}
		for _, t := range r.Trials {
			if t.Workload != s.Workload {
				continue
			}
			if !slices.Contains(blocks, t.Block) {
				blocks = append(blocks, t.Block)
			}
			if c := (Cell{t.Target, t.Workload}); t.Err != "" {
				if failed[c] == nil {
					failed[c] = map[int]bool{}
				}
				failed[c][t.Block] = true
			}
		}
		slices.Sort(blocks)
		// Imported trials are in blocks of their own: there a repetition is a count.
		columns := len(blocks)
		if r.Run.Imported() {
			columns = 0
			for _, row := range s.Rows {
				columns = max(columns, row.Ran)
			}
		}
		t := LayoutTable{Title: format.Subject(s.Workload, s.Label), Head: []string{"machine", "target", "median"}, Wraps: []int{0, 1}, Right: []int{2}}
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
				for _, b := range blocks {
					cell := ""
					if k := slices.IndexFunc(row.Dots, func(d Dot) bool { return d.Block == b }); k >= 0 {
						cell = repetition(row.Dots[k], s.Unit)
					} else if failed[Cell{row.Target, s.Workload}][b] {
						cell = "failed"
					}
					cells = append(cells, cell)
				}
			}
			t.Rows = append(t.Rows, append(cells, row.remark()))
		}
		out = append(out, t)
	}
	return out
}

// repetition prints one trial; brackets say that it does not count.
func repetition(d Dot, unit string) string {
	sc := format.ScaleOf(unit, d.Value)
	s := format.WithUnit("0", sc.Unit)
	if x := d.Value / sc.Factor; x != 0 { // three digits: enough to see which one stands out
		s = format.WithUnit(format.Fixed(x, format.Places(x, math.NaN())-1)+sc.Prefix, sc.Unit)
	}
	if d.Void {
		return "(" + s + ")"
	}
	return s
}

// of stands between a share and what it is a share of, where that is not the baseline.
const of = " of "

// The heads of the columns of shares.
const (
	ofBaseline = "of its baseline"
	ofAnother  = "of another"
)

// sectionTables are one table for each section of the plan: what was measured, what share of its right
// baseline that is, and the verdict. Workloads of no section stand together under "Results".
func (r *Report) sectionTables() []LayoutTable {
	section := map[string]string{}
	for _, w := range r.Run.Workloads {
		section[w.Name] = w.Section
	}
	var out []LayoutTable
	for i := range r.Sections {
		s := &r.Sections[i]
		title := section[s.Workload]
		if title == "" {
			title = "Results"
		}
		k := slices.IndexFunc(out, func(t LayoutTable) bool { return t.Title == title })
		if k < 0 {
			out = append(out, LayoutTable{Title: title, Head: []string{"workload", "target", "value", ofBaseline, ofAnother, "verdict"}, Right: []int{2, 3, 4}, Wraps: []int{0, 1, 3, 4}, Grouped: true})
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
					share += of + format.Clean(row.Against)
				}
			}
			var shares []string
			for _, sh := range row.Shares {
				shares = append(shares, format.Share(sh.Ratio)+of+format.Clean(sh.Against))
			}
			out[k].Rows = append(out[k].Rows, []string{format.Clean(name), format.Clean(row.Target), value, share, strings.Join(shares, ", "), strings.TrimSpace(format.Verdict(row.Verdict, true) + " " + format.Marks(row.Notes))})
		}
	}
	for i := range out {
		t := &out[i]
		for _, head := range []string{ofBaseline, ofAnother, "verdict"} {
			t.leaveOut(head)
		}
		if k := slices.Index(t.Head, ofAnother); k >= 0 {
			if shared := sharedWhole(t.Rows, k); shared != "" {
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
func (t *LayoutTable) leaveOut(head string) {
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

// generated says when, with what and on what a report by sections was made.
func (r *Report) generated() string {
	s := "Generated"
	if !r.Run.Start.IsZero() {
		s += " on " + r.Run.Start.UTC().Format("2006-01-02 15:04 UTC")
	}
	s += " with iotax " + format.Clean(r.Run.Version)
	if env := r.environmentLine(); env != "" {
		s += ", " + format.Clean(env)
	}
	return s + "."
}
