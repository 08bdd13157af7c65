package text

import (
	"io"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
)

// A chunk is a part of a table that has a heading of its own, or none.
type chunk struct {
	heading string
	table   table.Table
}

// chunks are the table in parts for a terminal of that width.
func chunks(t table.Table, width int) []chunk {
	switch {
	case t.Grouped:
		return groups(t, width)
	case t.Head[0] == "machine" && len(fit(t, width)) < len(t.Head):
		return besideEachOther(t, width)
	}
	return []chunk{{"", t}}
}

// groups are the rows of each value of the first column. Values of one row each stand below each other.
func groups(t table.Table, width int) []chunk {
	var groups [][][]string
	for _, r := range t.Rows {
		if n := len(groups); n == 0 || r[0] != "" && r[0] != groups[n-1][0][0] {
			groups = append(groups, nil)
		}
		n := len(groups) - 1
		groups[n] = append(groups[n], r)
	}
	var out []chunk
	for len(groups) > 0 {
		n := 0
		for n < len(groups) && len(groups[n]) == 1 && groups[n][0][1] == groups[0][0][1] {
			n++
		}
		if n < 2 {
			out = append(out, chunk{groups[0][0][0], fitting(t, groups[0], 0, width)})
			groups = groups[1:]
			continue
		}
		out = append(out, chunk{groups[0][0][1], fitting(t, slices.Concat(groups[:n]...), 1, width)})
		groups = groups[n:]
	}
	return out
}

// fitting is part with what rows are a share of in one column where there is no room for two.
func fitting(t table.Table, rows [][]string, without, width int) table.Table {
	p := part(t, rows, without)
	k := slices.Index(t.Head, table.OfAnother)
	if k < 0 || fit(p, width) != nil {
		return p
	}
	joined := make([][]string, len(rows))
	for i, r := range rows {
		joined[i] = slices.Clone(r)
		joined[i][k-1], joined[i][k] = strings.Trim(r[k-1]+", "+r[k], ", "), ""
	}
	return part(t, joined, without)
}

// part is a table of some rows without one of the first columns, which is its heading, and those in which nothing
// stands. What all cells of a column are a share of stands in its head.
func part(t table.Table, rows [][]string, without int) table.Table {
	var c table.Table
	c.Rows = make([][]string, len(rows))
	for k := range t.Head {
		if k == without || !slices.ContainsFunc(rows, func(r []string) bool { return r[k] != "" && r[k] != format.Dash }) {
			continue
		}
		if slices.Contains(t.Right, k) {
			c.Right = append(c.Right, len(c.Head))
		}
		if slices.Contains(t.Wraps, k) {
			c.Wraps = append(c.Wraps, len(c.Head))
		}
		head, end := t.Head[k], ""
		if shared := table.SharedWhole(rows, k); shared != "" {
			head, end = strings.TrimSpace(shared), shared
		}
		if head == "verdict" && !slices.ContainsFunc(rows, func(r []string) bool { return !onlyMarks(r[k]) }) {
			head = ""
		}
		c.Head = append(c.Head, head)
		for y, r := range rows {
			c.Rows[y] = append(c.Rows[y], strings.TrimSuffix(r[k], end))
		}
	}
	c.Least = len(c.Head)
	return c
}

// besideEachOther are as many repetitions beside each other as there is room for, the others below.
func besideEachOther(t table.Table, width int) []chunk {
	const names = 3 // machine, target and median
	var out []chunk
	last := len(t.Head) - 1
	for from := names; from < last; {
		to := last
		part := func() table.Table {
			p := table.Table{Wraps: t.Wraps, Least: 1}
			cut := func(cells []string) []string {
				row := slices.Concat(cells[:names], cells[from:to])
				if to == last {
					row = append(row, cells[last])
				}
				return row
			}
			p.Head = cut(t.Head)
			for k := names - 1; k < names+to-from; k++ {
				p.Right = append(p.Right, k)
			}
			for _, r := range t.Rows {
				p.Rows = append(p.Rows, cut(r))
			}
			return p
		}
		for to > from+1 && len(fit(part(), width)) < len(part().Head) {
			to--
		}
		p := part()
		p.Least = len(p.Head)
		out = append(out, chunk{"", p})
		from = to
	}
	return out
}

// results are written as the plan's layout wants it, or as one table for each metric.
func (t *textWriter) results() {
	tables := table.Layout(t.Report)
	if tables == nil {
		t.sections()
		return
	}
	if t.Layout == "generated" {
		t.line("")
		t.para(assess.Generated(t.Report), "", "", t.pal.dim)
	}
	for _, table := range tables {
		t.line("")
		t.para(format.Clean(table.Title), "", "  ", t.pal.accent.Bold(t.color))
		for i, part := range chunks(table, t.width) {
			if part.heading != "" && i > 0 {
				t.line("")
			}
			if part.heading != "" {
				t.para(part.heading, "  ", "  ", t.pal.bold)
			}
			t.table(part.table)
		}
	}
}

// markdownTables is false where the report has no layout.
func markdownTables(w io.Writer, r *report.Report) bool {
	tables := table.Layout(r)
	for _, t := range tables {
		tableMarkdown(w, t)
	}
	return tables != nil
}
