package document

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

const (
	importantRows    = 12 // with the answer and the gate, about a screen of a pull request
	shownOnly        = 8
	shownDifferences = 12
	longestFact      = 160
)

// Comparison is the document of a comparison: the answer, the gate, the rows, its notes, and in what the runs differ.
func Comparison(c *compare.Comparison) block.Document {
	d := beginning(c)
	notes, refs := c.Notes()
	d.Blocks = append(d.Blocks, runs(c)...)
	if len(c.Rows) > 0 {
		d.Blocks = append(d.Blocks, changes(c, all(c), refs))
	}
	for i, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
		if len(only) > 0 {
			d.Blocks = append(d.Blocks, block.Heading{Text: "Only in " + "AB"[i:i+1]}, cellList(only, shownOnly))
		}
	}
	if n := append(findings(c), noteList(notes)...); n != nil {
		d.Blocks = append(d.Blocks, block.Notes{Items: n})
	}
	if len(c.Differences) > 0 {
		d.Blocks = append(d.Blocks, block.Heading{Text: "Differences"}, differences(c))
	}
	d.Blocks = append(d.Blocks, block.Paragraph{Text: c.Method(), Tone: block.Quiet})
	return d
}

// FoldedComparison is a comparison as a comment to a pull request: the answer, the gate, and the rows that decide it;
// everything else is folded.
func FoldedComparison(c *compare.Comparison) block.Document {
	d := beginning(c)
	notes, refs := c.Notes()
	rows := important(c)
	if len(rows) > 0 {
		d.Blocks = append(d.Blocks, changes(c, rows, refs))
	}
	if n := findings(c); n != nil {
		d.Blocks = append(d.Blocks, block.Notes{Items: n})
	}
	fold := func(summary string, blocks ...block.Block) {
		d.Blocks = append(d.Blocks, block.Fold{Summary: summary, Blocks: blocks})
	}
	if len(rows) < len(c.Rows) {
		fold("All "+format.Plural(len(c.Rows), "cell"), changes(c, all(c), refs))
	}
	if len(notes) > 0 {
		fold(format.Plural(len(notes), "note"), block.Notes{Items: noteList(notes)})
	}
	for i, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
		if len(only) > 0 {
			fold(fmt.Sprintf("%s only in %s", format.Plural(len(only), "cell"), "AB"[i:i+1]), cellList(only, len(only)))
		}
	}
	if len(c.Differences) > 0 {
		fold(format.Plural(len(c.Differences), "difference")+" in the environment", differenceTable(c))
	}
	fold("How it was compared", append(runs(c), block.Paragraph{Text: c.Method()})...)
	return d
}

func beginning(c *compare.Comparison) block.Document {
	d := block.Document{Title: "iotax: B against A", Blocks: []block.Block{block.Answer{Text: c.Answer}}}
	if s := c.Banner(); s != "" {
		d.Blocks = append(d.Blocks, block.Banner{Texts: []string{s}})
	}
	if c.Gate() != "" {
		d.Blocks = append(d.Blocks, gate(c))
	}
	return d
}

// gate is whether the comparison passes.
func gate(c *compare.Comparison) block.Paragraph {
	p := block.Paragraph{Text: c.Gate(), Tone: block.Good, Joined: true}
	if c.Failed {
		p.Tone = block.Bad
	}
	return p
}

// differenceTable are all differences of the runs beyond their numbers.
func differenceTable(c *compare.Comparison) block.Table {
	t := block.Table{Head: []string{"", "where", "A", c.SideName(1)}, Wraps: []int{0, 1, 2, 3}}
	for _, x := range c.Differences {
		where := x.Place(3)
		if where == "" {
			where = "run"
		}
		t.Rows = append(t.Rows, block.Words(x.Key, where, format.OrDash(x.A), format.OrDash(x.B)))
	}
	return t
}

func runs(c *compare.Comparison) []block.Block {
	return []block.Block{block.Paragraph{Text: "A: " + compare.RunLine(c.A), Tone: block.Quiet}, block.Paragraph{Text: "B: " + compare.RunLine(c.B), Tone: block.Quiet, Joined: true}}
}

func findings(c *compare.Comparison) (out []block.Note) {
	for _, f := range c.Findings {
		out = append(out, Note(report.Note{Finding: f, Items: []report.Item{{Evidence: f.Evidence}}}))
	}
	return out
}

func noteList(notes []report.Note) (out []block.Note) {
	for _, n := range notes {
		out = append(out, Note(n))
	}
	return out
}

func cellList(cells []compare.CellMetric, shown int) block.List {
	var l block.List
	for i, k := range cells {
		if i == shown && len(cells) > shown+1 {
			l.Items = append(l.Items, block.Item{Text: fmt.Sprintf("and %d more", len(cells)-i)})
			break
		}
		l.Items = append(l.Items, block.Item{Text: k.String(), Tone: block.Quiet})
	}
	return l
}

func differences(c *compare.Comparison) block.List {
	var l block.List
	for i, d := range c.Differences {
		if i == shownDifferences && len(c.Differences) > i+1 {
			l.Items = append(l.Items, block.Item{Text: fmt.Sprintf("and %d more (--format json lists all)", len(c.Differences)-i)})
			break
		}
		s := format.Clean(d.Key) + ": " + brief(d)
		if where := d.Place(3); where != "" {
			s += " (" + format.Clean(where) + ")"
		}
		l.Items = append(l.Items, block.Item{Text: s, Tone: block.Quiet})
	}
	return l
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

func all(c *compare.Comparison) []*compare.Change {
	out := make([]*compare.Change, len(c.Rows))
	for i := range c.Rows {
		out[i] = &c.Rows[i]
	}
	return out
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
	if len(order) > importantRows {
		order = order[:importantRows]
	}
	slices.Sort(order)
	out := make([]*compare.Change, len(order))
	for i, k := range order {
		out[i] = &c.Rows[k]
	}
	return out
}

// changes are rows of a comparison as a table.
func changes(c *compare.Comparison, rows []*compare.Change, refs map[compare.CellMetric][]int) block.Table {
	t := block.Table{Head: []string{"target", "A", "B", "B/A", "verdict"}, Wraps: []int{0}}
	loss := slices.ContainsFunc(rows, func(r *compare.Change) bool { return r.Loss != nil })
	if loss {
		// By loss it decides; else it gives way first.
		t.Head, t.Least = append(t.Head, "against "+c.A.Baseline), len(t.Head)
	}
	last := ""
	for _, r := range rows {
		value := func(i stat.Interval) block.Cell {
			if i.N == 0 {
				return block.Cell{Text: format.Dash}
			}
			return block.Cell{Text: format.Spread(i, r.Unit), Short: format.Number(i, r.Unit)}
		}
		row := block.Row{Cells: []block.Cell{{Text: r.Target}, value(r.A), value(r.B), {}, {Text: format.Verdict(r.Verdict, false), Short: format.Verdict(r.Verdict, true), Tone: tone(r.Verdict), Notes: refs[r.CellMetric]}}}
		if head := format.Subject(r.Workload, r.Label); head != last {
			last, row.Heading = head, head
		}
		if r.Ratio != nil {
			row.Cells[3].Text = format.Ratio(r.Ratio.Interval)
		}
		if loss {
			row.Cells = append(row.Cells, block.Cell{})
			if r.Loss != nil {
				row.Cells[5] = block.Cell{Text: format.Ratio(r.Loss.Interval), Short: format.Ratio(format.Lone(r.Loss.Estimate))}
			}
		}
		if loss && c.By == compare.ByLoss {
			row.Cells[3], row.Cells[5] = row.Cells[5], row.Cells[3]
		}
		t.Rows = append(t.Rows, row)
	}
	if loss && c.By == compare.ByLoss {
		t.Head[3], t.Head[5] = t.Head[5], t.Head[3]
	}
	return t
}
