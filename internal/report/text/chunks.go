package text

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report/format"
)

// A chunk is a part of a grid that has a heading of its own.
type chunk struct {
	heading string
	grid    grid
}

// inGroups writes a grid whose first column is a heading.
func (t *writer) inGroups(g grid) {
	g.names = narrowest
	for i, c := range groups(g, t.width) {
		if i > 0 {
			t.line("")
		}
		t.para(c.heading, "  ", "  ", t.pal.bold)
		if ws := c.grid.fit(t.width); ws != nil {
			t.grid(c.grid, ws, false)
		} else {
			t.stacked(c.grid)
		}
	}
}

// groups are the rows of each value of the first column. Values of one row each stand below each other.
func groups(g grid, width int) []chunk {
	var groups [][][]string
	for _, r := range g.rows {
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
			out = append(out, chunk{groups[0][0][0], fitting(g, groups[0], 0, width)})
			groups = groups[1:]
			continue
		}
		out = append(out, chunk{groups[0][0][1], fitting(g, slices.Concat(groups[:n]...), 1, width)})
		groups = groups[n:]
	}
	return out
}

// fitting is part with what rows are a share of in one column where there is no room for two.
func fitting(g grid, rows [][]string, without, width int) grid {
	p := part(g, rows, without)
	k := slices.Index(g.head, format.OfAnother)
	if k < 0 || p.fit(width) != nil {
		return p
	}
	joined := make([][]string, len(rows))
	for i, r := range rows {
		joined[i] = slices.Clone(r)
		joined[i][k-1], joined[i][k] = strings.Trim(r[k-1]+", "+r[k], ", "), ""
	}
	return part(g, joined, without)
}

// part is a grid of some rows without one of the first columns, which is its heading, and those in which nothing
// stands. What all cells of a column are a share of stands in its head.
func part(g grid, rows [][]string, without int) grid {
	c := grid{names: g.names, rows: make([][]string, len(rows))}
	for k := range g.head {
		if k == without || !slices.ContainsFunc(rows, func(r []string) bool { return r[k] != "" && r[k] != format.Dash }) {
			continue
		}
		if slices.Contains(g.right, k) {
			c.right = append(c.right, len(c.head))
		}
		if slices.Contains(g.wraps, k) {
			c.wraps = append(c.wraps, len(c.head))
		}
		head, end := g.head[k], ""
		if shared := format.SharedWhole(rows, k); shared != "" {
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

// stacked writes the cells of a row below its first, each with its heading.
func (t *writer) stacked(g grid) {
	head := g.head
	for i, r := range g.rows {
		switch {
		case g.heads[i]:
			head = r
			continue
		case len(r) < len(g.head):
			if i > 0 {
				t.line("")
			}
			t.heading(r[0])
			continue
		}
		t.para(r[0], "  ", "    ", t.pal.bold)
		line := ""
		for k := 1; k < len(r); k++ {
			part := spoken(head[k], r[k])
			switch {
			case r[k] == "" || r[k] == format.Dash:
			case line == "":
				line = part
			case onlyMarks(part) && ansi.StringWidth("    "+line+" "+part) <= t.width:
				line += " " + part
			case ansi.StringWidth("    "+line+", "+part) <= t.width:
				line += ", " + part
			default:
				t.para(line, "    ", "      ", lipgloss.NewStyle())
				line = part
			}
		}
		if line != "" {
			t.para(line, "    ", "      ", lipgloss.NewStyle())
		}
	}
}

// onlyMarks reports whether a cell has no word but marks of notes.
func onlyMarks(cell string) bool { return !strings.ContainsFunc(cell, unicode.IsLetter) }

// spoken is a cell with its heading, as it would be said: "0.7 % [0.5–1.1] of its baseline", "worse".
func spoken(head, cell string) string {
	switch {
	case head == "value" || head == "verdict" || cell == "baseline" || strings.Contains(cell, format.Of):
		return cell
	case strings.HasPrefix(head+" ", strings.TrimPrefix(format.Of, " ")):
		return cell + " " + head
	}
	return strings.TrimSpace(head + " " + cell)
}
