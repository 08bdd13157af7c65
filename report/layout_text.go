package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"iotax/report/format"
)

// A chunk is a part of a table that has a heading of its own, or none.
type chunk struct {
	heading string
	table   wordTable
}

// chunks are the table in parts for a terminal of that width.
func (t LayoutTable) chunks(width int) []chunk {
	switch g := t.words(); {
	case t.Grouped:
		return t.groups(width)
	case t.Head[0] == "machine" && len(g.fit(width)) < len(g.head):
		return t.besideEachOther(width)
	default:
		return []chunk{{"", g}}
	}
}

// groups are the rows of each value of the first column. Values of one row each stand below each other.
func (t LayoutTable) groups(width int) []chunk {
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
			out = append(out, chunk{groups[0][0][0], t.fitting(groups[0], 0, width)})
			groups = groups[1:]
			continue
		}
		out = append(out, chunk{groups[0][0][1], t.fitting(slices.Concat(groups[:n]...), 1, width)})
		groups = groups[n:]
	}
	return out
}

// fitting is part with what rows are a share of in one column where there is no room for two.
func (t LayoutTable) fitting(rows [][]string, without, width int) wordTable {
	p := t.part(rows, without)
	k := slices.Index(t.Head, ofAnother)
	if k < 0 || p.fit(width) != nil {
		return p
	}
	joined := make([][]string, len(rows))
	for i, r := range rows {
		joined[i] = slices.Clone(r)
		joined[i][k-1], joined[i][k] = strings.Trim(r[k-1]+", "+r[k], ", "), ""
	}
	return t.part(joined, without)
}

// part is a table of some rows without one of the first columns, which is its heading, and those in which nothing
// stands. What all cells of a column are a share of stands in its head.
func (t LayoutTable) part(rows [][]string, without int) wordTable {
	var c wordTable
	c.rows = make([][]string, len(rows))
	for k := range t.Head {
		if k == without || !slices.ContainsFunc(rows, func(r []string) bool { return r[k] != "" && r[k] != format.Dash }) {
			continue
		}
		if slices.Contains(t.Right, k) {
			c.right = append(c.right, len(c.head))
		}
		if slices.Contains(t.Wraps, k) {
			c.wraps = append(c.wraps, len(c.head))
		}
		head, end := t.Head[k], ""
		if shared := sharedWhole(rows, k); shared != "" {
			head, end = strings.TrimSpace(shared), shared
		}
		if head == "verdict" && !slices.ContainsFunc(rows, func(r []string) bool { return !onlyMarks(r[k]) }) {
			head = ""
		}
		c.head = append(c.head, head)
		for y, r := range rows {
			c.rows[y] = append(c.rows[y], strings.TrimSuffix(r[k], end))
		}
	}
	c.least = len(c.head)
	return c
}

// sharedWhole is how all shares in a column end, " of tcp node04 to node01"; "" where they are of different things.
func sharedWhole(rows [][]string, k int) string {
	shared := ""
	for _, r := range rows {
		_, whole, found := strings.Cut(r[k], of)
		switch {
		case r[k] == "":
		case !found || strings.Contains(r[k], ", ") || shared != "" && shared != of+whole:
			return ""
		default:
			shared = of + whole
		}
	}
	return shared
}

// besideEachOther are as many repetitions beside each other as there is room for, the others below.
func (t LayoutTable) besideEachOther(width int) []chunk {
	const names = 3 // machine, target and median
	var out []chunk
	last := len(t.Head) - 1
	for from := names; from < last; {
		to := last
		part := func() wordTable {
			p := wordTable{wraps: t.Wraps, least: 1}
			cut := func(cells []string) []string {
				row := slices.Concat(cells[:names], cells[from:to])
				if to == last {
					row = append(row, cells[last])
				}
				return row
			}
			p.head = cut(t.Head)
			for k := names - 1; k < names+to-from; k++ {
				p.right = append(p.right, k)
			}
			for _, r := range t.Rows {
				p.rows = append(p.rows, cut(r))
			}
			return p
		}
		for to > from+1 && len(part().fit(width)) < len(part().head) {
			to--
		}
		p := part()
		p.least = len(p.head)
		out = append(out, chunk{"", p})
		from = to
	}
	return out
}

func (t LayoutTable) words() wordTable {
	return wordTable{head: t.Head, rows: t.Rows, right: t.Right, wraps: t.Wraps, least: len(t.Head)}
}

// tables writes the results: as the plan's layout wants it, or as one table for each metric.
func (t *textWriter) tables() {
	tables := t.LayoutTables()
	if tables == nil {
		t.table()
		return
	}
	if t.Layout == "generated" {
		t.line("")
		t.para(t.generated(), "", "", t.pal.dim)
	}
	for _, table := range tables {
		t.line("")
		t.para(format.Clean(table.Title), "", "  ", t.pal.accent.Bold(t.color))
		for i, part := range table.chunks(t.width) {
			if part.heading != "" && i > 0 {
				t.line("")
			}
			if part.heading != "" {
				t.para(part.heading, "  ", "  ", t.pal.bold)
			}
			t.wordTable(part.table)
		}
	}
}

// markdownTables is false where the report has no layout.
func (r *Report) markdownTables(w io.Writer) bool {
	tables := r.LayoutTables()
	for _, t := range tables {
		fmt.Fprintf(w, "\n### %s\n\n", escapeMarkdown(t.Title))
		t.words().markdown(w)
	}
	return tables != nil
}

type jsonTable struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

type jsonLayout struct {
	Name   string      `json:"name"`
	Tables []jsonTable `json:"tables"`
}

func (r *Report) jsonLayout() *jsonLayout {
	tables := r.LayoutTables()
	if tables == nil {
		return nil
	}
	out := &jsonLayout{Name: r.Layout}
	for _, t := range tables {
		out.Tables = append(out.Tables, jsonTable{t.Title, t.Head, t.Rows})
	}
	return out
}
