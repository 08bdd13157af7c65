package text

import (
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report/block"
	"iotax/internal/report/format"
)

// A grid is a table at one level of detail. Its cells are text, including drawings. A row with a single cell is a
// heading for the rows below.
type grid struct {
	head         []string
	rows         [][]string
	tones        [][]block.Tone // by row; nil for headings and headers
	heads        map[int]bool   // rows that are headers of the rows below them
	right, wraps []int
	least, names int // number of columns that are always shown; minimum width of a column of names
	keys         int // number of leading columns that each part of a split table repeats; 0 if the table is not split
}

// A level is the amount of detail of a table.
type level struct {
	short bool // use Cell.Short
	plot  int  // minimum width of spans; 0 omits them
	names int  // names that are wider than this may wrap
}

// levels lists the levels in decreasing detail. The first that fits is used.
var levels = []level{{plot: 24, names: 60}, {plot: 20, names: 24}, {short: true, plot: 17, names: 24}, {short: true, names: 20}, {short: true, names: 13}, {short: true, names: 10}}

const (
	mostPlot     = 44
	widestBar    = 40 // maximum width of a bar in its own column
	besideText   = 12 // maximum width of a bar next to a number
	narrowestBar = 4
)

// gridOf lays out a table. plot is the width of each span, and bar the width of each bar. A width of 0 omits them.
func gridOf(t block.Table, l level, plot, bar int) grid {
	if t.Plot > 0 && plot == 0 {
		t = t.Columns(without(len(t.Head), t.Plot)...)
	}
	g := grid{head: cleaned(t.Head), right: t.Right, wraps: t.Wraps, least: t.Least, names: l.names, keys: t.Keys, heads: map[int]bool{}}
	if g.least == 0 {
		g.least = len(t.Head)
	}
	if t.Plot > 0 {
		g.head[t.Plot] = scale(t, plot)
	}
	for _, r := range t.Rows {
		if r.Heading != "" {
			g.rows, g.tones = append(g.rows, []string{format.Clean(r.Heading)}), append(g.tones, nil)
		}
		if r.Head != nil {
			head := cleaned(r.Head)
			if t.Plot > 0 {
				head[t.Plot] = scale(t, plot)
			}
			g.heads[len(g.rows)] = true
			g.rows, g.tones = append(g.rows, head), append(g.tones, nil)
		}
		if r.Cells == nil {
			continue
		}
		cells, tones := make([]string, len(r.Cells)), make([]block.Tone, len(r.Cells))
		for k, c := range r.Cells {
			cells[k], tones[k] = cellText(c, l.short), c.Tone
			if len(c.Bar) > 0 && bar > 0 {
				cells[k] = strings.TrimLeft(format.Pad(strings.TrimSpace(cells[k]), barText(t, k, l.short))+" "+drawBar(c.Bar, bar), " ")
			}
			if k == t.Plot && k > 0 {
				cells[k] = drawSpan(t, c.Span, plot)
			}
		}
		g.rows, g.tones = append(g.rows, cells), append(g.tones, tones)
	}
	return g
}

// without returns the numbers 0 to n-1 except k.
func without(n, k int) (out []int) {
	for i := range n {
		if i != k {
			out = append(out, i)
		}
	}
	return out
}

// barText returns the width of the text next to the bars of a column, or -1 if the column has no bars.
func barText(t block.Table, k int, short bool) int {
	w := -1
	for _, r := range t.Rows {
		if k < len(r.Cells) && len(r.Cells[k].Bar) > 0 {
			w = max(w, ansi.StringWidth(cellText(r.Cells[k], short)))
		}
	}
	return w
}

func cellText(c block.Cell, short bool) string {
	s := c.Text
	if short && c.Short != "" {
		s = c.Short
	}
	if s == "" {
		return format.Marks(c.Notes)
	}
	return strings.TrimRight(clean(s)+" "+format.Marks(c.Notes), " ")
}

// clean is like format.Clean, but keeps the indentation of a cell.
func clean(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, " "))] + format.Clean(s)
}

func cleaned(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = format.Clean(s)
	}
	return out
}

var shades = map[block.Shade]string{block.Full: "█", block.Lost: "░", block.Gained: "▒"}

// drawBar draws the parts of a bar. A share of 1 is width columns wide. The first part gets at least one column.
func drawBar(parts []block.Part, width int) string {
	s, at := "", 0.0
	for _, p := range parts {
		at += p.Share
		n := int(math.Round(at*float64(width))) - ansi.StringWidth(s)
		if p.Share > 0 && s == "" {
			n = max(1, n)
		}
		s += strings.Repeat(shades[p.Shade], max(0, n))
	}
	return s
}

func column(at float64, width int) int {
	return min(max(int(math.Round(at*float64(width-1))), 0), width-1)
}

func scale(t block.Table, width int) string {
	if width == 0 {
		return ""
	}
	cells := slices.Repeat([]rune{' '}, width)
	put := func(at int, s string) {
		r := []rune(s)
		at = min(max(0, at), width-len(r))
		for i := max(0, at-1); i < min(width, at+len(r)+1); i++ {
			if cells[i] != ' ' {
				return
			}
		}
		copy(cells[at:], r)
	}
	for _, x := range t.Ticks {
		put(column(x.At, width)-(len(x.Label)-1)/2, x.Label)
	}
	return string(cells)
}

// drawSpan draws one interval on the axis, ━━●━━, with a line at t.Zero, where there is no difference.
func drawSpan(t block.Table, s *block.Span, width int) string {
	if width == 0 {
		return ""
	}
	cells := slices.Repeat([]rune{' '}, width)
	zero := column(t.Zero, width)
	cells[zero] = '│'
	switch {
	case s == nil:
	case s.Reference:
		cells[zero] = '┃'
	default:
		from, to := column(s.Lo, width), column(s.Hi, width)
		for i := from; i <= to; i++ {
			cells[i] = '━'
		}
		if s.Lo < 0 {
			cells[from] = '‹'
		}
		if s.Hi > 1 {
			cells[to] = '›'
		}
		cells[column(s.Mid, width)] = '●'
	}
	return string(cells)
}

// widths returns the widths of the columns, and the total width of the grid.
func (g grid) widths() (ws []int, total int) {
	ws = make([]int, len(g.head))
	for _, r := range append([][]string{g.head}, g.rows...) {
		if len(r) < len(g.head) {
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

const (
	narrowest = 12 // minimum width of a name
	leastHead = 10 // minimum width of a column of a matrix
)

// fit returns the widths of as many columns as fit into width. It returns nil if even the required columns do not
// fit.
func (g grid) fit(width int) []int {
	ws, total := g.widths()
	least := map[int]int{}
	for _, i := range g.wraps {
		least[i] = min(ws[i], g.names)
		if i >= g.keys && g.keys > 0 {
			least[i] = min(ws[i], leastHead)
			for _, r := range g.rows {
				least[i] = max(least[i], ansi.StringWidth(r[i]))
			}
			continue
		}
		for _, r := range g.rows { // keep a number and its interval together
			if i >= len(r) {
				continue
			}
			for _, m := range format.Figures.FindAllString(r[i], -1) {
				least[i] = max(least[i], ansi.StringWidth(m)+1) // room for a comma
			}
		}
	}
	for n := len(ws); n >= g.least; n-- {
		out, over := slices.Clone(ws[:n]), total-width
		for over > 0 {
			// Shrink the widest of the columns that may wrap, one character at a time.
			widest := -1
			for _, i := range g.wraps {
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

// table writes a table with as much detail as fits. It splits or stacks a table that does not fit.
func (t *writer) table(b block.Table) {
	if b.Grouped {
		t.inGroups(b)
		return
	}
	bars := 0 // number of columns with bars
	for k := range b.Head {
		if slices.ContainsFunc(b.Rows, func(r block.Row) bool { return k < len(r.Cells) && len(r.Cells[k].Bar) > 0 }) {
			bars++
		}
	}
	alone := bars > 0 && !slices.ContainsFunc(b.Rows, func(r block.Row) bool {
		return slices.ContainsFunc(r.Cells, func(c block.Cell) bool { return len(c.Bar) > 0 && c.Text != "" })
	})
	for _, l := range levels {
		if b.Plot == 0 {
			l.plot = 0
		}
		if b.Keys > 1 && l.names < narrowest {
			break // a split table is easier to read than names on many lines
		}
		g := gridOf(b, l, l.plot, 0)
		if alone && !l.short { // bars are more useful than the text in the last column
			g = gridOf(b, l, l.plot, narrowestBar)
		}
		ws := g.fit(t.width)
		if ws == nil {
			continue
		}
		room := t.width
		for _, w := range ws {
			room -= 2 + w
		}
		bar := besideText
		for k := range ws {
			if text := barText(b, k, l.short); text >= 0 {
				bar = min(bar, ws[k]-text-1+room/bars)
			}
		}
		if bars > 0 && !alone && !l.short && bar < narrowestBar {
			continue // bars are more useful than intervals
		}
		switch {
		case l.plot > 0:
			g = gridOf(b, l, min(mostPlot, l.plot+room), 0)
		case alone && !l.short:
			g = gridOf(b, l, 0, min(widestBar, narrowestBar+room))
		case bars > 0 && bar >= narrowestBar:
			g = gridOf(b, l, 0, bar)
		}
		t.grid(g, g.fit(t.width), b.Ruled)
		return
	}
	l := levels[len(levels)-1]
	if b.Keys > 1 {
		l.names = narrowest
	}
	if b.Keys == 0 {
		t.stacked(gridOf(b, l, 0, 0))
		return
	}
	for from, to := b.Keys, 0; from < len(b.Head); from = to { // repeat the key columns, followed by as many of the remaining columns as fit
		if from > b.Keys {
			t.line("")
		}
		part := func() grid {
			p := b.Columns(slices.DeleteFunc(without(to, -1), func(k int) bool { return k >= b.Keys && k < from })...)
			p.Least, p.Wraps = len(p.Head), slices.DeleteFunc(p.Wraps, func(k int) bool { return k >= b.Keys })
			return gridOf(p, l, 0, 0)
		}
		for to = len(b.Head); to > from+1 && part().fit(t.width) == nil; to-- {
		}
		t.fitted(part(), b.Ruled)
	}
}

// breaks reports whether s would break inside a word in a column of the given width. writer.grid writes such a name on
// its own line.
func breaks(s string, width int) bool {
	return slices.ContainsFunc(strings.Fields(s), func(word string) bool { return ansi.StringWidth(word) > width })
}

// fitted writes g as a grid if it fits, otherwise stacked.
func (t *writer) fitted(g grid, ruled bool) {
	if ws := g.fit(t.width); ws != nil {
		t.grid(g, ws, ruled)
	} else {
		t.stacked(g)
	}
}

func (t *writer) grid(g grid, ws []int, ruled bool) {
	total := 0
	for _, w := range ws {
		total += 2 + w
	}
	rule := func() {
		if ruled {
			t.line("  " + t.pal.dim.Render(strings.Repeat("-", total-2)))
		}
	}
	for i, r := range append([][]string{g.head}, g.rows...) {
		head := i == 0 || g.heads[i-1]
		if i == 0 && (len(g.rows) > 0 && (g.heads[0] || g.heads[1]) || strings.Join(r, "") == "") {
			continue // the rows have their own headers, or the header is empty
		}
		if len(r) < len(g.head) {
			if i > 0 && (g.heads[i]) {
				if i > 1 {
					t.line("")
				}
				t.heading(r[0])
			} else {
				t.para(r[0], "  ", "    ", t.pal.bold)
			}
			continue
		}
		if head && i > 1 && len(g.rows[i-2]) == len(g.head) {
			t.line("")
		}
		cells := make([][]string, len(ws))
		height := 1
		if !head && breaks(r[0], ws[0]) {
			t.para(r[0], "  ", "    ", lipgloss.NewStyle())
			r = slices.Concat([]string{""}, r[1:])
		}
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
				before, after := "", strings.Repeat(" ", max(0, w-ansi.StringWidth(cell)))
				if slices.Contains(g.right, k) {
					before, after = after, ""
				}
				switch {
				case strings.TrimSpace(cell) == "":
				case head:
					cell = t.pal.dim.Render(cell)
				case g.tones != nil && len(g.tones[i-1]) > k && g.tones[i-1][k] != block.Plain:
					cell = t.pal.of(g.tones[i-1][k]).Render(cell)
				}
				line += "  " + before + cell + after
			}
			t.line(line)
		}
		if head {
			rule()
		}
	}
}
