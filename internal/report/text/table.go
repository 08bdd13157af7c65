package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report/format"
	"iotax/internal/report/table"
)

const narrowest = 12 // columns that a name keeps

func widths(g table.Table) (ws []int, total int) {
	ws = make([]int, len(g.Head))
	for _, r := range append([][]string{g.Head}, g.Rows...) {
		if len(r) < len(g.Head) {
			continue
		}
		for i, c := range r {
			ws[i] = max(ws[i], ansi.StringWidth(c))
		}
	}
	for _, w := range ws {
		total += 2 + w
	}
	return ws, total
}

// fit chooses the widths of as many columns as fit into width; none where even the least do not.
func fit(g table.Table, width int) []int {
	ws, total := widths(g)
	least := map[int]int{}
	for _, i := range g.Wraps {
		least[i] = narrowest
		for _, r := range g.Rows { // a figure keeps its interval beside it
			if i >= len(r) {
				continue
			}
			for _, m := range format.Figures.FindAllString(r[i], -1) {
				least[i] = max(least[i], ansi.StringWidth(m)+1) // and a comma
			}
		}
	}
	for n := len(ws); n >= g.Least; n-- {
		out, over := slices.Clone(ws[:n]), total-width
		for over > 0 {
			// The widest of the columns that may wrap gives way, one column at a time: they end up alike.
			widest := -1
			for _, i := range g.Wraps {
				if i < n && out[i] > least[i] && (widest < 0 || out[i] > out[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			out[widest]--
			over--
		}
		if over <= 0 {
			return out
		}
		total -= 2 + ws[n-1]
	}
	return nil
}

// table writes g. Names in the columns that may wrap give way first, then columns from the right down to g.Least; what does
// not fit even so is stacked, a heading a line.
func (t *textWriter) table(g table.Table) {
	ws := fit(g, t.width)
	if ws == nil {
		t.stackedTable(g)
		return
	}
	for i, r := range append([][]string{g.Head}, g.Rows...) {
		if len(r) < len(g.Head) {
			t.para(r[0], "  ", "    ", t.pal.bold)
			continue
		}
		cells := make([][]string, len(ws))
		height := 1
		for k, w := range ws {
			cells[k] = []string{r[k]}
			if ansi.StringWidth(r[k]) > w {
				indent := r[k][:len(r[k])-len(strings.TrimLeft(r[k], " "))]
				cells[k] = format.Wrap(r[k], w-len(indent))
				for y := range cells[k] {
					cells[k][y] = indent + cells[k][y]
				}
			}
			height = max(height, len(cells[k]))
		}
		for y := range height {
			line := ""
			for k, w := range ws {
				cell := ""
				if y < len(cells[k]) {
					cell = cells[k][y]
				}
				if slices.Contains(g.Right, k) {
					cell = strings.Repeat(" ", max(0, w-ansi.StringWidth(cell))) + cell
				}
				line += "  " + format.Pad(cell, w)
			}
			if line = strings.TrimRight(line, " "); i == 0 {
				line = t.pal.dim.Render(line)
			}
			t.line(line)
		}
	}
}

// stackedTable writes the cells of a row below its first, each with its heading.
func (t *textWriter) stackedTable(g table.Table) {
	for _, r := range g.Rows {
		t.para(r[0], "  ", "    ", t.pal.bold)
		line := ""
		for k := 1; k < len(r); k++ {
			part := spoken(g.Head[k], r[k])
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
	case head == "value" || head == "verdict" || cell == "baseline" || strings.Contains(cell, table.Of):
		return cell
	case strings.HasPrefix(head+" ", strings.TrimPrefix(table.Of, " ")):
		return cell + " " + head
	}
	return strings.TrimSpace(head + " " + cell)
}

// tableMarkdown writes g under its title, if it has one.
func tableMarkdown(w io.Writer, g table.Table) {
	if g.Title != "" {
		fmt.Fprintf(w, "\n### %s\n\n", escapeMarkdown(g.Title))
	}
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, c := range cells {
			escaped[i] = escapeMarkdown(c)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(escaped, " | "))
	}
	line(g.Head)
	for i := range g.Head {
		if slices.Contains(g.Right, i) {
			fmt.Fprint(w, "|--:")
		} else {
			fmt.Fprint(w, "|:--")
		}
	}
	fmt.Fprintln(w, "|")
	for _, r := range g.Rows {
		line(r)
	}
}
