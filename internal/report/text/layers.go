package text

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"iotax/internal/report"
	"iotax/internal/report/table"
)

// layerBars are the rows of a waterfall as bars of width columns: what is left of the first layer's speed, and
// what the hop took (░) or gave (▒).
func layerBars(w report.Waterfall, width int) []string {
	levels := []float64{1}
	top := 1.0
	for _, h := range w.Hops {
		levels = append(levels, levels[len(levels)-1]*h.Ratio.Estimate)
		top = math.Max(top, levels[len(levels)-1])
	}
	columns := func(x float64) int { return int(math.Round(x / top * float64(width))) }
	out := []string{strings.Repeat("█", columns(1))}
	for i := range w.Hops {
		before, after := columns(levels[i]), columns(levels[i+1])
		switch {
		case after >= before:
			out = append(out, strings.Repeat("█", before)+strings.Repeat("▒", after-before))
		default:
			out = append(out, strings.Repeat("█", after)+strings.Repeat("░", before-after))
		}
	}
	return append(out, strings.Repeat("█", columns(levels[len(levels)-1])))
}

// layerTable is the table with bars of that width, and with as many columns of words as are wanted.
func layerTable(w report.Waterfall, columns, bars int) table.Table {
	g := table.Waterfall(w)
	g.Head = g.Head[:columns]
	for i := range g.Rows {
		g.Rows[i] = g.Rows[i][:columns]
	}
	if bars > 0 {
		g.Head = append(g.Head, "left")
		for i, b := range layerBars(w, bars) {
			g.Rows[i] = append(g.Rows[i], b)
		}
	}
	return g
}

const (
	widestBar    = 40
	narrowestBar = 10
)

func (t *textWriter) waterfalls() {
	for _, w := range t.Waterfalls {
		g := table.Waterfall(w)
		t.line("")
		t.para(g.Title, "", "  ", t.pal.accent.Bold(t.color))
		// Where not all fits, a picture says more than the verdict.
		columns, bars := len(g.Head), 0
		for k := columns; k >= columns-1; k-- {
			_, total := widths(layerTable(w, k, 0))
			if room := t.width - total - 2; room >= narrowestBar {
				columns, bars = k, min(widestBar, room)
				break
			}
		}
		t.table(layerTable(w, columns, bars))
		t.para(table.WaterfallFoot(w, t.Counted()), "  ", "  ", lipgloss.NewStyle().Inherit(t.pal.dim))
	}
}

func markdownWaterfalls(out io.Writer, r *report.Report) {
	for _, w := range r.Waterfalls {
		tableMarkdown(out, table.Waterfall(w))
		fmt.Fprintf(out, "\n%s\n", escapeMarkdown(table.WaterfallFoot(w, r.Counted())))
	}
}
