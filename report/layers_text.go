package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// bars are the rows of a waterfall as bars of width columns: what is left of the first layer's speed, and
// what the hop took (░) or gave (▒).
func (w Waterfall) bars(width int) []string {
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

// table is the table with bars of that width, and with as many columns of words as are wanted.
func (w Waterfall) table(columns, bars int) wordTable {
	g := wordTable{head: slices.Clone(layerHead[:columns]), rows: w.rows(), wraps: []int{0}, least: 3, right: []int{1, 3}}
	for i := range g.rows {
		g.rows[i] = g.rows[i][:columns]
	}
	if bars > 0 {
		g.head = append(g.head, "left")
		for i, b := range w.bars(bars) {
			g.rows[i] = append(g.rows[i], b)
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
		t.line("")
		t.para(w.title(), "", "  ", t.pal.accent.Bold(t.color))
		// Where not all fits, a picture says more than the verdict.
		columns, bars := len(layerHead), 0
		for k := columns; k >= columns-1; k-- {
			_, total := w.table(k, 0).widths()
			if room := t.width - total - 2; room >= narrowestBar {
				columns, bars = k, min(widestBar, room)
				break
			}
		}
		t.wordTable(w.table(columns, bars))
		t.para(w.foot(t.counted()), "  ", "  ", lipgloss.NewStyle().Inherit(t.pal.dim))
	}
}

func (r *Report) markdownWaterfalls(out io.Writer) {
	for _, w := range r.Waterfalls {
		fmt.Fprintf(out, "\n### %s\n\n", escapeMarkdown(w.title()))
		w.table(len(layerHead), 0).markdown(out)
		fmt.Fprintf(out, "\n%s\n", escapeMarkdown(w.foot(r.counted())))
	}
}

type jsonWaterfall struct {
	Workload string    `json:"workload"`
	Metric   string    `json:"metric"`
	Unit     string    `json:"unit"`
	Chain    []string  `json:"chain"`
	Missing  []string  `json:"missing,omitempty"`
	Blocks   int       `json:"blocks"`
	Start    jsonValue `json:"start"`
	Hops     []jsonHop `json:"hops"`
	Total    jsonHop   `json:"total"`
}

type jsonHop struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Ratio   jsonBounds `json:"ratio"`
	Share   number64   `json:"share"` // of the logarithm of the total; null where the total is not sure
	Verdict string     `json:"verdict"`
	Value   jsonValue  `json:"value"`
}

func (r *Report) jsonWaterfalls() []jsonWaterfall {
	hop := func(h Hop) jsonHop {
		return jsonHop{h.From, h.To, *toBounds(h.Ratio), number64(h.Share), string(h.Verdict), toJSON(h.Value)}
	}
	var out []jsonWaterfall
	for _, w := range r.Waterfalls {
		j := jsonWaterfall{Workload: w.Workload, Metric: w.Metric, Unit: w.Unit, Chain: w.Chain, Missing: w.Missing, Blocks: w.Blocks, Start: toJSON(w.Start), Total: hop(w.Total)}
		for _, h := range w.Hops {
			j.Hops = append(j.Hops, hop(h))
		}
		out = append(out, j)
	}
	return out
}
