// Package text writes reports and comparisons for a terminal, and as Markdown.
package text

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

// Options say what the terminal can show.
type Options struct {
	Width int  // columns; 0 means 80, less than 40 counts as 40
	Color bool // the caller looks at the terminal and at NO_COLOR
}

// palette styles text, or leaves it alone. The 16 base colours follow the user's own theme.
type palette struct{ bold, dim, good, bad, unsure, accent lipgloss.Style }

func newPalette(color bool) palette {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.Ascii)
	if color {
		r.SetColorProfile(termenv.ANSI)
	}
	s := r.NewStyle
	return palette{bold: s().Bold(true), dim: s().Faint(true), accent: s().Foreground(lipgloss.Color("6")),
		good: s().Foreground(lipgloss.Color("4")).Bold(true), bad: s().Foreground(lipgloss.Color("1")).Bold(true), unsure: s().Foreground(lipgloss.Color("3"))}
}

func (p palette) verdict(v stat.Verdict) lipgloss.Style {
	switch v {
	case stat.Worse, stat.TooManyDiscarded, stat.NotComparable, stat.NoResult:
		return p.bad
	case stat.Better:
		return p.good
	case stat.Inconclusive, stat.TooFew, stat.NotRanked:
		return p.unsure
	}
	return p.dim
}

// Write writes the report for a terminal: the answer, a table, its notes, and where the numbers come
// from. No line is wider than the width, whatever the names are.
func Write(w io.Writer, r *report.Report, o Options) error {
	if o.Width == 0 {
		o.Width = 80
	}
	t := &textWriter{Report: r, width: max(40, o.Width), pal: newPalette(o.Color), color: o.Color}
	left := t.assessment()
	if s := assess.Targets(r); s != "" {
		t.line("")
		t.para(s, "", "  ", t.pal.dim)
	}
	t.results()
	t.waterfalls()
	t.curves()
	for _, c := range t.Scalings {
		g := table.Scaling(c)
		t.line("")
		t.para(g.Title, "", "  ", t.pal.accent.Bold(t.color))
		t.table(g)
	}
	t.beside()
	t.notes()
	t.rest(left)
	t.foot()
	_, err := io.WriteString(w, t.out.String())
	return err
}

type textWriter struct {
	*report.Report
	out   strings.Builder
	width int
	pal   palette
	color bool
}

func (t *textWriter) line(s string) {
	t.out.WriteString(strings.TrimRight(s, " "))
	t.out.WriteByte('\n')
}

// para writes s wrapped, the first line after first and the others after rest.
func (t *textWriter) para(s, first, rest string, style lipgloss.Style) {
	indent := first
	for _, l := range format.Break(format.Bind(format.Clean(s)), t.width-max(ansi.StringWidth(first), ansi.StringWidth(rest))) {
		t.line(indent + style.Render(strings.ReplaceAll(l, format.NBSP, " ")))
		indent = rest
	}
}

// textRow is a row's cells before they are laid out.
type textRow struct {
	target, value, ratio, verdict, marks string
	row                                  report.Row
}

func (t *textWriter) cells(s report.Section, r report.Row, wide, short bool) textRow {
	c := textRow{target: format.Clean(r.Target), row: r, marks: format.Marks(r.Notes)}
	switch {
	case r.Err != "" || r.Value.N == 0:
		c.value = format.Dash
	case wide:
		c.value = format.Value(r.Value, s.Unit)
	default:
		c.value = format.Spread(r.Value, s.Unit)
	}
	switch {
	case r.Baseline:
		c.ratio = "1 (baseline)"
	case r.Ratio != nil:
		c.ratio = format.Ratio(r.Ratio.Interval)
	}
	c.verdict = format.Verdict(r.Verdict, short)
	return c
}

// A layout is what is shown in how many columns.
type layout struct {
	wide  bool // bounds of values in figures rather than ± per cent
	short bool // abbreviated verdicts
	plot  int  // least columns of the plot; 0 is none
	name  int  // names of targets that are longer may be wrapped
}

// layouts in order of richness; the first that fits is taken. What does not fit at all is stacked.
var layouts = []layout{
	{wide: true, plot: 24, name: 60},
	{wide: true, plot: 20, name: 24},
	{plot: 17, name: 24},
	{name: 20},
	{short: true, name: 13},
}

const mostPlot = 44

func (t *textWriter) sections() {
	var rows [][]textRow
	var wTarget, wValue, wRatio, wVerdict int
	fits := false
	for _, l := range layouts {
		rows, wTarget, wValue, wRatio, wVerdict = nil, 0, 0, 0, 0
		for _, s := range t.Sections {
			var rs []textRow
			for _, r := range s.Rows {
				c := t.cells(s, r, l.wide, l.short)
				rs = append(rs, c)
				wTarget = max(wTarget, ansi.StringWidth(c.target))
				wValue = max(wValue, ansi.StringWidth(c.value))
				wRatio = max(wRatio, ansi.StringWidth(c.ratio))
				wVerdict = max(wVerdict, ansi.StringWidth(strings.TrimSpace(c.verdict+" "+c.marks)))
			}
			wValue = max(wValue, ansi.StringWidth(format.Clean(s.Short)))
			rows = append(rows, rs)
		}
		rest := t.width - 2 - 2 - wValue - 2 - wRatio - 2 - wVerdict
		if l.plot > 0 {
			rest -= 2 + l.plot
		}
		if fits = rest >= min(wTarget, l.name); fits {
			wTarget = min(wTarget, rest)
			break
		}
	}
	if !fits {
		t.stacked(rows)
		return
	}
	plot := min(mostPlot, t.width-2-wTarget-2-wValue-2-wRatio-2-wVerdict-2)
	ax := t.axis(plot)
	lastWorkload := ""
	for i, s := range t.Sections {
		t.line("")
		if s.Workload != lastWorkload || i == 0 {
			t.para(assess.Heading(t.Report, s), "", "  ", t.pal.accent.Bold(t.color))
			lastWorkload = s.Workload
		}
		head := "  " + format.Pad("", wTarget) + "  " + format.Pad(format.Clean(s.Short), wValue) + "  " + format.Pad("ratio", wRatio)
		if plot >= layouts[2].plot {
			head += "  " + ax.scale()
		}
		t.line(t.pal.dim.Render(strings.TrimRight(head, " ")))
		for _, c := range rows[i] {
			names := format.Break(c.target, wTarget)
			if len(names) == 0 {
				names = []string{format.Dash}
			}
			l := "  " + format.Pad(names[0], wTarget) + "  " + format.Pad(c.value, wValue) + "  " + format.Pad(c.ratio, wRatio)
			if plot >= layouts[2].plot {
				l += "  " + ax.draw(c.row, t.pal)
			}
			t.line(l + "  " + t.judged(c.row.Verdict, c.verdict, c.marks))
			for _, n := range names[1:] {
				t.line("    " + n)
			}
		}
	}
}

// curves writes a table of latencies for each curve. Columns that do not fit are left out, the last
// quantile first.
func (t *textWriter) curves() {
	for _, c := range t.Curves {
		g := table.Curve(c)
		if len(g.Rows) == 0 {
			continue
		}
		t.line("")
		t.para(g.Title, "", "  ", t.pal.accent.Bold(t.color))
		all := append([][]string{g.Head}, g.Rows...)
		widths, total := make([]int, len(g.Head)), 0
		for k := range g.Head {
			for _, r := range all {
				widths[k] = max(widths[k], ansi.StringWidth(r[k]))
			}
			total += 2 + widths[k]
		}
		columns := len(g.Head)
		for columns > g.Least && total > t.width {
			columns--
			total -= 2 + widths[columns]
		}
		if over := total - t.width; over > 0 { // only the name of a target can be that long
			widths[1] = max(8, widths[1]-over)
		}
		for i, r := range all {
			l, rest := "", []string(nil)
			for k := range columns {
				cell := r[k]
				if k == 1 {
					if parts := format.Break(cell, widths[1]); len(parts) > 1 {
						cell, rest = parts[0], parts[1:]
					}
				}
				l += "  " + format.Pad(cell, widths[k])
			}
			if l = strings.TrimRight(l, " "); i == 0 {
				l = t.pal.dim.Render(l)
			}
			t.line(l)
			for _, part := range rest {
				t.line(strings.Repeat(" ", 4+widths[0]) + "  " + part)
			}
		}
	}
}

// judged is a verdict and its marks. Where there are none nothing stands for them: a space before an
// empty style would be one column too many.
func (t *textWriter) judged(v stat.Verdict, word, marks string) string {
	var parts []string
	if word != "" {
		parts = append(parts, t.pal.verdict(v).Render(word))
	}
	if marks != "" {
		parts = append(parts, t.pal.dim.Render(marks))
	}
	return strings.Join(parts, " ")
}

// stacked is the layout for narrow terminals: the name on one line, its numbers below.
func (t *textWriter) stacked(rows [][]textRow) {
	for i, s := range t.Sections {
		t.line("")
		t.para(assess.Heading(t.Report, s), "", "  ", t.pal.accent.Bold(t.color))
		t.para(s.Label, "  ", "  ", t.pal.dim)
		for _, c := range rows[i] {
			t.para(c.target, "  ", "    ", t.pal.bold)
			// Each part stays on one line where the width allows it.
			line := "    "
			for _, part := range []string{c.value, c.ratio, strings.TrimSpace(c.verdict + " " + c.marks)} {
				switch {
				case part == "":
				case line == "    ":
					line += part
				case ansi.StringWidth(line+"  "+part) <= t.width:
					line += "  " + part
				default:
					t.line(line)
					line = "      " + part
				}
			}
			if ansi.StringWidth(line) <= t.width {
				t.line(line)
			} else {
				t.para(line, "    ", "      ", lipgloss.NewStyle())
			}
		}
	}
}

// A textAxis maps ratios to columns, logarithmically, one axis for the whole report.
type textAxis struct {
	lo, hi, margin float64
	width          int
}

func (t *textWriter) axis(width int) textAxis {
	lo, hi := t.RatioRange()
	return textAxis{lo, hi, t.Margin, width}
}

func (a textAxis) column(x float64) int {
	c := int(math.Round((math.Log(x) - math.Log(a.lo)) / (math.Log(a.hi) - math.Log(a.lo)) * float64(a.width-1)))
	return min(max(c, 0), a.width-1)
}

// scale is the axis in figures: its ends and 1.
func (a textAxis) scale() string {
	cells := slices.Repeat([]rune{' '}, a.width)
	put := func(at int, s string) {
		r := []rune(s)
		at = min(max(0, at), a.width-len(r))
		for i := max(0, at-1); i < min(a.width, at+len(r)+1); i++ {
			if cells[i] != ' ' {
				return
			}
		}
		copy(cells[at:], r)
	}
	put(a.column(1), "1")
	for _, x := range format.Ticks(a.lo, a.hi) {
		s := strconv.FormatFloat(x, 'g', -1, 64)
		put(a.column(x)-(len(s)-1)/2, s)
	}
	return string(cells)
}

// draw is one interval on the axis: ├──●──┤ with the line of no difference.
func (a textAxis) draw(r report.Row, p palette) string {
	cells := slices.Repeat([]rune{' '}, a.width)
	one := a.column(1)
	cells[one] = '│'
	e := r.Ratio
	style := p.verdict(r.Verdict)
	var from, to int
	if e != nil && e.Estimate > 0 && !math.IsInf(e.Estimate, 0) && !format.Noisy(e.Interval) {
		mid := a.column(e.Estimate)
		from, to = mid, mid
		if format.Finite(e.Interval) {
			from, to = a.column(e.Lo), a.column(e.Hi)
			for i := from; i <= to; i++ {
				cells[i] = '━'
			}
			if e.Lo < a.lo {
				cells[from] = '‹'
			}
			if e.Hi > a.hi {
				cells[to] = '›'
			}
		}
		cells[mid] = '●'
	} else {
		if r.Baseline {
			cells[one] = '┃'
		}
		return p.dim.Render(string(cells))
	}
	return p.dim.Render(string(cells[:from])) + style.Render(string(cells[from:to+1])) + p.dim.Render(string(cells[to+1:]))
}

func (t *textWriter) notes() {
	if len(t.General)+len(t.Common)+len(t.Notes) == 0 {
		return
	}
	t.line("")
	for _, n := range slices.Concat(t.General, t.Common) {
		t.note("•", n)
	}
	for _, n := range t.Notes {
		t.note(format.Mark(n.Number), n)
	}
}

func (t *textWriter) note(label string, n report.Note) {
	indent := strings.Repeat(" ", 2+len(strconv.Itoa(len(t.Notes))))
	style := t.pal.dim
	switch n.Severity {
	case iotax.Warning:
		style = t.pal.unsure
	case iotax.Invalid:
		style = t.pal.bad
	}
	rule := format.Clean(n.Rule)
	body := format.Break(format.Bind(rule+": "+format.Clean(strings.Join(n.Sentences(report.ShownItems), "; "))), t.width-len(indent))
	first := format.Pad(label, len(indent))
	for _, l := range body {
		l = strings.ReplaceAll(l, format.NBSP, " ")
		if rest, ok := strings.CutPrefix(l, rule+":"); ok && first != indent {
			l = style.Render(rule+":") + rest
		}
		t.line(first + l)
		first = indent
	}
	if n.Hint != "" {
		t.para(n.Hint, indent+"→ ", indent+"  ", t.pal.dim)
	}
}

func (t *textWriter) foot() {
	t.line("")
	if s := assess.Environment(t.Report); s != "" && t.Layout != "generated" { // that one begins with it
		t.para(s, "", "  ", t.pal.dim)
	}
	t.para(assess.Protocol(t.Report)+". "+assess.Method(t.Report), "", "  ", t.pal.dim)
	t.para(assess.Noise(t.Report), "", "  ", t.pal.dim)
	if s := assess.Objects(t.Report); s != "" {
		t.para(s, "", "  ", t.pal.dim)
	}
	if t.Run.ID == "" {
		return
	}
	indent, l := "next: ", ""
	for _, c := range assess.Next(t.Report) {
		switch {
		case l == "":
			l = c
		case ansi.StringWidth(indent+l+" · "+c) <= t.width:
			l += " · " + c
		default:
			t.para(l, indent, "      ", t.pal.dim)
			indent, l = "      ", c
		}
	}
	t.para(l, indent, "      ", t.pal.dim)
}
