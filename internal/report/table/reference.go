package table

import (
	"cmp"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/stat"
)

// ReferenceTitle returns a title with the publication and the target that ratios are relative to.
func ReferenceTitle(b *report.Reference) string {
	s := "Reference: " + b.Name + " · " + b.Source
	if b.Reference != "" {
		s += " · ratios to " + b.Reference
		if format.Fold(b.Theirs) != format.Fold(b.Reference) {
			s += " (" + b.Theirs + ")"
		}
	}
	return s
}

// Reference returns a table of ratios with their published counterparts, and a table of figures without a ratio. In the
// first table, each combination of workload and metric has a heading.
func Reference(b *report.Reference) []block.Table {
	g := block.Table{Head: []string{"target", "ratio here", "published", "", "here", "published"}, Wraps: []int{0},
		Right: []int{1, 2, 4, 5}, Least: 4}
	alone := block.Table{Head: []string{"workload", "target", "here", "published", ""}, Wraps: []int{0, 1}, Right: []int{2, 3}, Least: 4}
	last := ""
	for _, row := range together(b) {
		ratio := func(i *stat.Interval) string {
			switch {
			case i != nil:
				return format.Ratio(*i)
			case row.Target == b.Reference:
				return "1"
			}
			return format.Dash
		}
		workload := format.Subject(row.Workload, row.Label)
		here, published := format.Number(row.Value, row.Unit), format.Number(row.Published.Value, row.Unit)
		if row.Ratio == nil && row.Published.Ratio == nil && row.Target != b.Reference {
			alone.Rows = append(alone.Rows, block.Words(workload, row.Target, here, published, row.Invalid))
			continue
		}
		line := block.Words("  "+row.Target, ratio(row.Ratio), ratio(row.Published.Ratio), cmp.Or(row.Invalid, string(row.Agree)), here, published)
		if workload != last {
			last, line.Heading = workload, workload
		}
		g.Rows = append(g.Rows, line)
	}
	return slices.DeleteFunc([]block.Table{g, alone.Filled(4)}, func(g block.Table) bool { return g.Rows == nil })
}

// together returns the rows grouped by heading, without standard deviations.
func together(b *report.Reference) []report.ReferenceRow {
	rows := slices.DeleteFunc(slices.Clone(b.Rows), func(r report.ReferenceRow) bool { return strings.HasSuffix(r.Metric, ".sd") })
	at := map[[2]string]int{}
	for i, r := range rows {
		if k := [2]string{r.Workload, r.Metric}; at[k] == 0 {
			at[k] = i + 1
		}
	}
	slices.SortStableFunc(rows, func(x, y report.ReferenceRow) int {
		return at[[2]string{x.Workload, x.Metric}] - at[[2]string{y.Workload, y.Metric}]
	})
	return rows
}

// ReferenceLeft returns the notes, and sentences about cells without a counterpart.
func ReferenceLeft(b *report.Reference) []string {
	out := b.Notes
	if len(b.Unmatched) > 0 {
		out = append(out[:len(out):len(out)], "Not published: "+strings.Join(format.Cut(b.Unmatched, format.Listed, "cell"), ", ")+".")
	}
	if len(b.Unused) > 0 {
		out = append(out[:len(out):len(out)], "Not in this run: "+strings.Join(format.Cut(b.Unused, format.Listed, "published cell"), ", ")+".")
	}
	return out
}
