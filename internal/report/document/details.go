package document

import (
	"cmp"
	"math"
	"slices"

	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

// detailed returns the details: sentences, tables, notes, and how the run was measured. p is nil unless the document is
// a page.
func detailed(r *report.Report, a assess.Assessment, p *page) (out []block.Block) {
	if len(a.Sentences) > 1 {
		l := block.List{}
		if p != nil {
			l.Shown = shownFindings
		}
		for _, s := range a.Sentences[1:] {
			l.Items = append(l.Items, block.Item{Text: s.Text, Tone: sentenceTone(s.Kind), Notes: s.Notes})
		}
		out = append(out, l)
	}
	if s := assess.Targets(r); s != "" {
		out = append(out, block.Paragraph{Text: s, Tone: block.Quiet})
	}
	tables := table.Layout(r)
	if tables != nil {
		if r.Layout == "generated" {
			out = append(out, block.Paragraph{Text: assess.Generated(r), Tone: block.Quiet})
		}
		for _, t := range tables {
			out = append(out, titled(t)...)
		}
	} else if len(r.Sections) > 0 && p == nil {
		out = append(out, sections(r, r.Sections))
	}
	var hues map[string]int
	if p != nil {
		out, hues = append(out, p.workloads(r)...), p.hues
	}
	if stalls := assess.Stalls(r); stalls != nil {
		out = append(out, block.Heading{Text: "Stalls"})
		for _, s := range stalls {
			out = append(out, block.Paragraph{Text: s, Joined: true})
		}
	}
	for _, x := range r.Explanations {
		out = append(out, p.with(stagesChart(x), titled(table.Stages(x)))...)
		out = append(out, remarks(table.StagesFoot(x, r.Counted())...)...)
	}
	out = append(out, profiles(r, p)...)
	for _, w := range r.Waterfalls {
		out = append(out, p.with(waterfallChart(w, r.Counted()), titled(table.Waterfall(w)))...)
		out = append(out, remarks(table.WaterfallFoot(w, r.Counted()))...)
	}
	for _, c := range r.Curves {
		if t := table.Curve(c); len(t.Rows) > 0 {
			out = append(out, p.with(curveChart(c, t.Title, hues), titled(t))...)
		}
	}
	for _, c := range r.Scalings {
		t := table.Scaling(c)
		out = append(out, p.with(scalingChart(c, t.Title, hues), titled(t))...)
	}
	if b := r.Reference; b != nil {
		out = append(out, block.Heading{Text: table.ReferenceTitle(b)})
		for _, t := range table.Reference(b) {
			out = append(out, titled(t)...)
		}
		out = append(out, remarks(table.ReferenceLeft(b)...)...)
	}
	notes := block.Notes{Items: inOrder(r)}
	switch {
	case notes.Items == nil:
	case p != nil:
		out = append(out, block.Heading{Text: "Warnings and notes", ID: "notes"}, block.Fold{Summary: severities(count(r)), Blocks: []block.Block{notes}})
	default:
		out = append(out, notes)
	}
	out = append(out, block.Heading{Text: "How it was measured", ID: "how"})
	if p == nil { // a page shows the environment and the job at its start
		if r.Layout != "generated" { // this layout shows the environment in its first line
			out = append(out, remarks(assess.Environment(r))...)
		}
		out = append(out, remarks(assess.Job(r))...)
	}
	out = append(out, remarks(assess.Protocol(r)+". "+assess.Method(r), assess.Noise(r), assess.Starts(r), assess.Objects(r))...)
	if p != nil {
		out = append(out, p.facts(r)...)
	}
	return out
}

// shownFindings is the number of sentences that a page shows without a fold.
const shownFindings = 5

func sentenceTone(k assess.SentenceKind) block.Tone {
	switch k {
	case assess.SaysInvalid, assess.SaysFailed:
		return block.Unsure
	case assess.SaysSame, assess.SaysSum:
		return block.Quiet
	}
	return block.Plain
}

// remarks returns quiet lines below the preceding block. It omits empty texts.
func remarks(texts ...string) (out []block.Block) {
	for _, s := range texts {
		if s != "" {
			out = append(out, block.Paragraph{Text: s, Tone: block.Quiet, Joined: true})
		}
	}
	return out
}

// titled returns the table, below a heading if the table has a title.
func titled(t block.Table) []block.Block {
	if t.Title == "" {
		return []block.Block{t}
	}
	return []block.Block{block.Heading{Text: t.Title}, t}
}

// sections returns a table with a part for each metric of each workload. Rows go from the smallest loss to the largest.
func sections(r *report.Report, part []report.Section) block.Table {
	lo, hi := r.RatioRange()
	at := func(ratio float64) float64 { return (math.Log(ratio) - math.Log(lo)) / (math.Log(hi) - math.Log(lo)) }
	t := block.Table{Head: []string{"", "", "", "", ""}, Wraps: []int{0}, Plot: 3, Zero: at(1), Ticks: []block.Tick{{At: at(1), Label: "1"}}}
	for _, x := range format.Ticks(lo, hi) {
		t.Ticks = append(t.Ticks, block.Tick{At: at(x), Label: format.Plain(x)})
	}
	last := ""
	for i := range part {
		s := &part[i]
		for j, row := range byLosses(s) {
			out := block.Row{Cells: []block.Cell{{Text: format.Clean(row.Target)}, value(s, row), ratio(row), {Tone: Tone(row.Verdict), Span: span(row, at)},
				verdict(r, row)}}
			if j == 0 {
				out.Head = []string{"target", format.Clean(cmp.Or(s.Short, s.Label)), "ratio", "", "verdict"}
				if s.Workload != last || i == 0 {
					out.Heading = assess.Heading(r, s)
					last = s.Workload
				}
			}
			t.Rows = append(t.Rows, out)
		}
	}
	return t
}

func verdict(r *report.Report, row *report.Row) block.Cell {
	out := block.Cell{Text: r.Word(row, false), Short: r.Word(row, true), Tone: Tone(row.Verdict), Notes: row.Notes}
	if r.Invalid(row) {
		out.Tone = block.Bad
	}
	return out
}

// byLosses orders the baseline first, then rows from the smallest loss to the largest, then rows without a ratio.
func byLosses(s *report.Section) (rows []*report.Row) {
	for i := range s.Rows {
		rows = append(rows, &s.Rows[i])
	}
	rank := func(r *report.Row) float64 {
		switch {
		case r.Baseline:
			return math.Inf(-1)
		case r.Ratio == nil || !(r.Ratio.Estimate > 0):
			return math.Inf(1)
		}
		return 1 / r.Ratio.Estimate
	}
	slices.SortStableFunc(rows, func(x, y *report.Row) int { return cmp.Compare(rank(x), rank(y)) })
	return rows
}

func value(s *report.Section, r *report.Row) block.Cell {
	if r.Err != "" || r.Value.N == 0 {
		return block.Cell{Text: format.Dash}
	}
	return block.Cell{Text: format.Value(r.Value, s.Unit), Short: format.Spread(r.Value, s.Unit)}
}

func ratio(r *report.Row) block.Cell {
	switch {
	case r.Baseline:
		return block.Cell{Text: "1 (baseline)"}
	case r.Ratio != nil:
		return block.Cell{Text: format.Ratio(r.Ratio.Interval)}
	}
	return block.Cell{}
}

// Tone returns the tone of a verdict.
func Tone(v stat.Verdict) block.Tone {
	switch v {
	case stat.Worse, stat.TooManyDiscarded, stat.NotComparable, stat.NoResult:
		return block.Bad
	case stat.Better:
		return block.Good
	case stat.Inconclusive, stat.TooFew, stat.NotRanked:
		return block.Unsure
	}
	return block.Quiet
}

func span(r *report.Row, at func(float64) float64) *block.Span {
	e := r.Ratio
	switch {
	case r.Baseline:
		return &block.Span{Reference: true}
	case e == nil || !(e.Estimate > 0) || math.IsInf(e.Estimate, 0) || format.Noisy(e.Interval):
		return nil
	case !format.Finite(e.Interval):
		return &block.Span{Lo: at(e.Estimate), Mid: at(e.Estimate), Hi: at(e.Estimate)}
	}
	return &block.Span{Lo: at(e.Lo), Mid: at(e.Estimate), Hi: at(e.Hi)}
}
