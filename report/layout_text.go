package report

import (
	"fmt"
	"io"
	"slices"
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
		return t.groups()
	case t.Head[0] == "machine" && len(g.fit(width)) < len(g.head):
		return t.besideEachOther(width)
	default:
		return []chunk{{"", g}}
	}
}

// groups are the rows of each value of the first column, without the columns in which nothing stands.
func (t LayoutTable) groups() []chunk {
	var out []chunk
	for i, r := range t.Rows {
		if i == 0 || r[0] != "" && r[0] != out[len(out)-1].heading {
			out = append(out, chunk{heading: r[0]})
		}
		c := &out[len(out)-1].table
		c.rows = append(c.rows, r)
	}
	for i := range out {
		c := &out[i].table
		var keep []int
		for k := 1; k < len(t.Head); k++ {
			if slices.ContainsFunc(c.rows, func(r []string) bool { return r[k] != "" && r[k] != dash }) {
				if slices.Contains(t.Right, k) {
					c.right = append(c.right, len(keep))
				}
				if slices.Contains(t.Wraps, k) {
					c.wraps = append(c.wraps, len(keep))
				}
				keep = append(keep, k)
				c.head = append(c.head, t.Head[k])
			}
		}
		for y, r := range c.rows {
			var row []string
			for _, k := range keep {
				row = append(row, r[k])
			}
			c.rows[y] = row
		}
		c.least = len(c.head)
	}
	return out
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
		t.para(clean(table.Title), "", "  ", t.pal.accent.Bold(t.color))
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
