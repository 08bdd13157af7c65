package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

// shownRows is how many rows of a comparison stand in the open in Markdown: with the answer and the gate,
// about a screen of a pull request.
const shownRows = 12

// MarkdownComparison writes the comparison as a comment to a pull request: the answer, the gate, and the rows that
// decide it; everything else is folded up.
func MarkdownComparison(w io.Writer, c *compare.Comparison) error {
	var b strings.Builder
	notes, refs := c.Notes()
	fmt.Fprintf(&b, "### iotax: B against A\n\n**%s**\n\n", escapeMarkdown(c.Answer))
	if banner := c.Banner(); banner != "" {
		fmt.Fprintf(&b, "> **%s**\n\n", escapeMarkdown(banner))
	}
	if g := c.Gate(); g != "" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(g))
	}
	shown := important(c)
	markdownTable(c, &b, shown, refs)
	for i, f := range c.Findings {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- ")
		markdownNote(&b, report.Note{Finding: f, Items: []report.Item{{Evidence: f.Evidence}}})
	}
	fold := func(summary string, body func()) {
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", summary)
		body()
		b.WriteString("\n</details>\n")
	}
	if len(shown) < len(c.Rows) {
		fold(fmt.Sprintf("All %s", format.Plural(len(c.Rows), "cell")), func() {
			all := make([]*compare.Change, len(c.Rows))
			for i := range c.Rows {
				all[i] = &c.Rows[i]
			}
			markdownTable(c, &b, all, refs)
		})
	}
	if len(notes) > 0 {
		fold(format.Plural(len(notes), "note"), func() {
			for _, n := range notes {
				fmt.Fprintf(&b, "%d. ", n.Number)
				markdownNote(&b, n)
			}
		})
	}
	for i, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
		if len(only) > 0 {
			fold(fmt.Sprintf("%s only in %s", format.Plural(len(only), "cell"), "AB"[i:i+1]), func() {
				for _, k := range only {
					fmt.Fprintf(&b, "- %s\n", escapeMarkdown(k.String()))
				}
			})
		}
	}
	if len(c.Differences) > 0 {
		fold(format.Plural(len(c.Differences), "difference")+" in the environment", func() {
			b.WriteString("| | where | A | B |\n|:--|:--|:--|:--|\n")
			for _, d := range c.Differences {
				where := d.Place(3)
				if where == "" {
					where = "run"
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escapeMarkdown(d.Key), escapeMarkdown(where), format.OrDash(escapeMarkdown(d.A)), format.OrDash(escapeMarkdown(d.B)))
			}
		})
	}
	fold("How it was compared", func() {
		fmt.Fprintf(&b, "A: %s  \nB: %s\n\n%s\n", escapeMarkdown(compare.RunLine(c.A)), escapeMarkdown(compare.RunLine(c.B)), escapeMarkdown(c.Method()))
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// important are the rows that stand in the open, in their order: all where they are few, else what is
// worse, better or lost, filled up with the others.
func important(c *compare.Comparison) []*compare.Change {
	weight := func(r *compare.Change) int {
		switch {
		case r.Verdict == stat.Worse:
			return 0
		case r.Lost:
			return 1
		case r.Verdict == stat.Better:
			return 2
		case r.Holm:
			return 3
		}
		return 4
	}
	order := make([]int, len(c.Rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return weight(&c.Rows[x]) - weight(&c.Rows[y]) })
	if len(order) > shownRows {
		order = order[:shownRows]
	}
	slices.Sort(order)
	out := make([]*compare.Change, len(order))
	for i, k := range order {
		out[i] = &c.Rows[k]
	}
	return out
}

func markdownTable(c *compare.Comparison, b *strings.Builder, rows []*compare.Change, refs map[compare.CellMetric][]int) {
	if len(rows) == 0 {
		return
	}
	loss := slices.ContainsFunc(rows, func(r *compare.Change) bool { return r.Loss != nil })
	head, rule := "| target | workload | A | B | B/A |", "|:--|:--|--:|--:|--:|"
	if loss {
		head, rule = head+" against "+escapeMarkdown(c.A.Baseline)+" |", rule+"--:|"
	}
	b.WriteString(head + " verdict |\n" + rule + ":--|\n")
	for _, r := range rows {
		value := func(i stat.Interval) string {
			if i.N == 0 {
				return format.Dash
			}
			return escapeMarkdown(format.Spread(i, r.Unit))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | ", escapeMarkdown(r.Target), escapeMarkdown(format.Subject(r.Workload, r.Label)), value(r.A), value(r.B))
		if r.Ratio != nil {
			b.WriteString(escapeMarkdown(format.Ratio(r.Ratio.Interval)))
		}
		b.WriteString(" | ")
		if loss {
			if r.Loss != nil {
				b.WriteString(escapeMarkdown(format.Ratio(r.Loss.Interval)))
			}
			b.WriteString(" | ")
		}
		verdict := format.Verdict(r.Verdict, false)
		if verdict == "" {
			verdict = "baseline"
		} else {
			verdict = "**" + verdict + "**"
		}
		var ns []string
		for _, n := range refs[r.CellMetric] {
			ns = append(ns, fmt.Sprint(n))
		}
		if len(ns) > 0 {
			verdict += " <sup>" + strings.Join(ns, " ") + "</sup>"
		}
		b.WriteString(verdict + " |\n")
	}
}
