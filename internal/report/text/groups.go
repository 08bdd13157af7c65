package text

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report/block"
	"iotax/internal/report/format"
)

// inGroups writes each value of the first column as a heading above its rows. If several consecutive values have a
// single row each, with the same text in the second column, this text is their common heading instead.
func (t *writer) inGroups(b block.Table) {
	var groups [][]block.Row
	name := func(i, k int) string { return groups[i][0].Cells[k].Text }
	for _, r := range b.Rows {
		n := len(groups)
		if n == 0 || r.Cells[0].Text != name(n-1, 0) {
			groups = append(groups, nil)
			n++
		}
		groups[n-1] = append(groups[n-1], r)
	}
	for first := true; len(groups) > 0; first = false {
		if !first {
			t.line("")
		}
		n, heading := 0, 0 // heading is the column that contains the heading
		for n < len(groups) && len(groups[n]) == 1 && name(n, 1) == name(0, 1) {
			n++
		}
		if n > 1 {
			heading = 1
		}
		t.para(name(0, heading), "  ", "  ", t.pal.bold)
		n = max(1, n)
		part := b
		part.Rows, part.Head = slices.Concat(groups[:n]...), slices.Clone(b.Head)
		groups = groups[n:]
		any := func(k int, is func(block.Cell) bool) bool {
			return slices.ContainsFunc(part.Rows, func(r block.Row) bool { return is(r.Cells[k]) })
		}
		keep := slices.DeleteFunc(without(len(b.Head), heading), func(k int) bool {
			if !any(k, func(c block.Cell) bool { return c.Text != "" }) {
				part.Head[k] = ""
			}
			return !any(k, func(c block.Cell) bool { return c.Text != "" && c.Text != format.Dash || c.Notes != nil })
		})
		t.fitted(gridOf(part.Columns(keep...), level{names: narrowest}, 0, 0), false)
	}
}

// stacked writes the first cell of each row on its own line, and below it the other cells that have a value. It writes
// the header before each of these cells, unless the header is "value" or "verdict".
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
			part := r[k]
			if head[k] != "value" && head[k] != "verdict" {
				part = strings.TrimSpace(head[k] + " " + r[k])
			}
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

// onlyMarks reports whether a cell has no letters, for example only references to notes.
func onlyMarks(cell string) bool { return !strings.ContainsFunc(cell, unicode.IsLetter) }
