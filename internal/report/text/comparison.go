package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Comparison writes the comparison for a terminal: the answer, the gate, a table, its notes, and in what the
// runs differ. No line is wider than the width.
func Comparison(w io.Writer, c *compare.Comparison, o Options) error {
	if o.Width == 0 {
		o.Width = 80
	}
	notes, refs := c.Notes()
	t := &compareWriter{textWriter: textWriter{Report: &report.Report{Notes: notes}, width: max(40, o.Width), pal: newPalette(o.Color), color: o.Color}, c: c, refs: refs}
	t.para(c.Answer, "", "", t.pal.bold)
	t.banner(c.Banner())
	if g := c.Gate(); g != "" {
		style := t.pal.good
		if c.Failed {
			style = t.pal.bad
		}
		t.para(g, "", "  ", style)
	}
	t.line("")
	t.para(compare.RunLine(c.A), "A  ", "   ", t.pal.dim)
	t.para(compare.RunLine(c.B), "B  ", "   ", t.pal.dim)
	t.table()
	t.missing()
	if len(c.Findings)+len(notes) > 0 {
		t.line("")
	}
	for _, f := range c.Findings {
		t.note("•", report.Note{Finding: f, Items: []report.Item{{Evidence: f.Evidence}}})
	}
	for _, n := range notes {
		t.note(format.Mark(n.Number), n)
	}
	t.differences()
	t.line("")
	t.para(c.Method(), "", "  ", t.pal.dim)
	_, err := io.WriteString(w, t.out.String())
	return err
}

type compareWriter struct {
	textWriter
	c    *compare.Comparison
	refs map[compare.CellMetric][]int
}

// compareRow is a row's cells before they are laid out.
type compareRow struct {
	target, a, b, ratio, loss, verdict, marks string
	v                                         stat.Verdict
}

// compareLayouts in order of richness; the first that fits is taken.
var compareLayouts = []struct {
	spread, loss, short bool
	name                int // names of targets that are longer may be wrapped
}{
	{spread: true, loss: true, name: 24}, {loss: true, name: 24}, {loss: true, short: true, name: 24},
	{spread: true, name: 24}, {name: 20}, {short: true, name: 10},
}

func (t *compareWriter) table() {
	c := t.c
	anyLoss := false
	for _, r := range c.Rows {
		anyLoss = anyLoss || r.Loss != nil
	}
	lossHead := "against " + format.Clean(c.A.Baseline)
	if ansi.StringWidth(lossHead) > 24 {
		lossHead = "against baseline"
	}
	var rows []compareRow
	var wTarget, wA, wB, wRatio, wLoss, wVerdict int
	fits, showLoss := false, false
	for _, l := range compareLayouts {
		if l.loss && !anyLoss {
			continue
		}
		rows, wTarget, wA, wB, wRatio, wLoss, wVerdict = nil, 0, 1, 1, len("B/A"), 0, 0
		for _, r := range c.Rows {
			row := t.cells(r, l.spread, l.short)
			rows = append(rows, row)
			wTarget = max(wTarget, ansi.StringWidth(row.target))
			wA, wB = max(wA, ansi.StringWidth(row.a)), max(wB, ansi.StringWidth(row.b))
			wRatio = max(wRatio, ansi.StringWidth(row.ratio))
			wLoss = max(wLoss, ansi.StringWidth(row.loss))
			wVerdict = max(wVerdict, ansi.StringWidth(strings.TrimSpace(row.verdict+" "+row.marks)))
		}
		rest := t.width - 2 - 2 - wA - 2 - wB - 2 - wRatio - 2 - wVerdict
		if showLoss = l.loss; showLoss {
			wLoss = max(wLoss, ansi.StringWidth(lossHead))
			rest -= 2 + wLoss
		}
		if fits = rest >= min(wTarget, l.name); fits {
			wTarget = min(wTarget, rest)
			break
		}
	}
	last := ""
	for i, r := range c.Rows {
		if head := r.Workload + " · " + r.Label; head != last {
			last = head
			t.line("")
			t.para(r.Workload+" · "+format.Remainder(r.Workload, r.Label), "", "  ", t.pal.accent.Bold(t.color))
			if fits {
				h := "  " + format.Pad("", wTarget) + "  " + format.Pad("A", wA) + "  " + format.Pad("B", wB) + "  " + format.Pad("B/A", wRatio)
				if showLoss {
					h += "  " + format.Pad(lossHead, wLoss)
				}
				t.line(t.pal.dim.Render(strings.TrimRight(h, " ")))
			}
		}
		row := rows[i]
		if !fits {
			t.stacked(row, anyLoss)
			continue
		}
		names := format.Break(row.target, wTarget)
		if len(names) == 0 {
			names = []string{format.Dash}
		}
		l := "  " + format.Pad(names[0], wTarget) + "  " + format.Pad(row.a, wA) + "  " + format.Pad(row.b, wB) + "  " + format.Pad(row.ratio, wRatio)
		if showLoss {
			l += "  " + format.Pad(row.loss, wLoss)
		}
		t.line(l + "  " + t.judged(row.v, row.verdict, row.marks))
		// Nothing stands beside the rest of a long name: it may use the whole width.
		t.para(strings.TrimSpace(strings.TrimPrefix(row.target, names[0])), "    ", "    ", lipgloss.NewStyle())
		if !showLoss && row.loss != "" {
			t.para("against "+c.A.Baseline+" "+row.loss, "    ", "      ", t.pal.dim)
		}
	}
}

func (t *compareWriter) cells(r compare.Change, withSpread, short bool) compareRow {
	value := func(i stat.Interval) string {
		switch {
		case i.N == 0:
			return format.Dash
		case withSpread:
			return format.Spread(i, r.Unit)
		}
		return format.Number(i, r.Unit)
	}
	row := compareRow{target: format.Clean(r.Target), a: value(r.A), b: value(r.B), verdict: format.Verdict(r.Verdict, short), v: r.Verdict, marks: format.Marks(t.refs[r.CellMetric])}
	if r.Ratio != nil {
		row.ratio = format.Ratio(r.Ratio.Interval)
	}
	if r.Loss != nil {
		row.loss = format.Ratio(r.Loss.Interval)
	}
	return row
}

// stacked is the layout for narrow terminals.
func (t *compareWriter) stacked(row compareRow, loss bool) {
	t.para(row.target, "  ", "    ", t.pal.bold)
	t.para(row.a+" → "+row.b+"  "+row.ratio, "    ", "      ", t.pal.dim)
	if loss && row.loss != "" {
		t.para("against "+t.c.A.Baseline+" "+row.loss, "    ", "      ", t.pal.dim)
	}
	if row.verdict != "" {
		t.line("    " + t.judged(row.v, row.verdict, row.marks))
	}
}

// missing lists the cells that only one run has.
func (t *compareWriter) missing() {
	for i, only := range [][]compare.CellMetric{t.c.OnlyA, t.c.OnlyB} {
		if len(only) == 0 {
			continue
		}
		t.line("")
		t.para("Only in "+"AB"[i:i+1], "", "  ", t.pal.accent.Bold(t.color))
		for k, cell := range only {
			if k == shownOnly && len(only) > shownOnly+1 {
				t.line(fmt.Sprintf("  and %d more", len(only)-k))
				break
			}
			t.para(cell.String(), "  ", "    ", t.pal.dim)
		}
	}
}

const (
	shownOnly        = 8
	shownDifferences = 12
	longestFact      = 160
)

// differences lists in what the runs differ beside the numbers.
func (t *compareWriter) differences() {
	if len(t.c.Differences) == 0 {
		return
	}
	t.line("")
	t.para("Differences", "", "  ", t.pal.accent.Bold(t.color))
	for i, d := range t.c.Differences {
		if i == shownDifferences && len(t.c.Differences) > i+1 {
			t.line(fmt.Sprintf("  and %d more (--format json lists all)", len(t.c.Differences)-i))
			break
		}
		s := format.Clean(d.Key) + ": " + brief(d)
		if where := d.Place(3); where != "" {
			s += " (" + format.Clean(where) + ")"
		}
		t.para(s, "  ", "    ", t.pal.dim)
	}
}

// brief is the change of a fact, shown where it begins when it is long.
func brief(d compare.Difference) string {
	a, b := format.Clean(d.A), format.Clean(d.B)
	if ansi.StringWidth(a)+ansi.StringWidth(b) <= longestFact {
		return d.Step()
	}
	// Words that both have at the start and at the end say nothing.
	x, y := strings.Fields(a), strings.Fields(b)
	from := 0
	for from < len(x) && from < len(y) && x[from] == y[from] {
		from++
	}
	to := 0
	for to < len(x)-from && to < len(y)-from && x[len(x)-1-to] == y[len(y)-1-to] {
		to++
	}
	cut := func(w []string) string {
		s := strings.Join(w[from:len(w)-to], " ")
		if s == "" {
			s = format.Dash
		}
		return "… " + ansi.Truncate(s, longestFact/2, "…")
	}
	return cut(x) + " → " + cut(y)
}
