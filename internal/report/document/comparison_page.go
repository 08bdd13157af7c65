package document

import (
	"cmp"
	"fmt"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

// A ComparisonLinks are the addresses that a server puts into the page of a comparison. Each may be nil or "".
type ComparisonLinks struct {
	Run   func(run *iotax.Run) (report, base string) // its report, and the same page with it as A
	Trend func(compare.CellMetric) string
	Other string // the same page judged the other way
}

// ComparisonPage shows one or more runs compared with the same one.
func ComparisonPage(all []*compare.Comparison, links ComparisonLinks) block.Document {
	one := all[0]
	alone, loss := len(all) == 1, one.By == compare.ByLoss
	d := block.Document{Title: "B against A", Source: "iotax " + one.B.Run.Version,
		Blocks: []block.Block{block.Answer{Text: one.Answer}}}
	what, method := "B over A", one.Method()
	if loss {
		what = "B’s ratio to " + one.B.Baseline + " over A’s"
	}
	if !alone {
		d.Title, d.Blocks[0] = format.Plural(len(all), "run")+" against A", block.Answer{Text: compare.AnswerOfAll(all)}
		if what = "Each run over A"; loss {
			what = "Each run’s ratio to " + one.A.Baseline + " over A’s"
		}
		method = "Each letter’s ratios are to A; above 1 the letter is better. " + method +
			" Verdicts of each run are adjusted for their number, and not those of several runs together."
	}
	if s := compare.BannerOfAll(all); s != "" {
		d.Blocks = append(d.Blocks, block.Banner{Texts: []string{s}})
	}
	add := func(b ...block.Block) { d.Blocks = append(d.Blocks, b...) }
	add(sides(all, links))
	for _, c := range all {
		if g := c.Gate(); g != "" {
			add(gate(c))
		}
	}
	if links.Other != "" {
		p := block.Paragraph{Tone: block.Quiet, Text: "Verdicts are about the values.",
			Links: []block.Link{{Text: "Judge by the ratio to the baseline, out of which a change of the host cancels",
				Href: links.Other}}}
		if loss {
			p.Text = "Verdicts are about the ratio to the baseline, out of which a change of the host cancels."
			p.Links[0].Text = "Judge by value"
		}
		add(p)
	}
	at := make([]map[compare.CellMetric]*compare.Change, len(all))
	for i, c := range all {
		at[i] = map[compare.CellMetric]*compare.Change{}
		for j := range c.Rows {
			at[i][c.Rows[j].CellMetric] = &c.Rows[j]
		}
	}
	if wide := changeForest(what, all, at, wideForest); wide != nil {
		favour := "B"
		if !alone {
			favour = "the letter"
		}
		add(block.Charts{Charts: []block.Chart{{Name: "changes", Drawing: *wide, Narrow: *changeForest(what, all, at, narrowForest),
			Key: verdictKeys,
			Caption: what + ", with 95 % intervals on a logarithmic axis. Right of 1 is in the favour of " + favour +
				". The shaded band is the margin of ± " + format.Percent(one.Margin) + "."}}})
	}
	notes, refs := notesOf(all)
	if t := cells(all, at, refs, links.Trend); t.Rows != nil {
		add(block.Heading{Text: "Cells", ID: "cells"}, t)
	} else {
		add(block.Paragraph{Text: "These runs have no workload and target in common.", Tone: block.Quiet})
	}
	for i, c := range all {
		of := func(one, several string) string {
			if alone {
				return one
			}
			return fmt.Sprintf(several, c.Letter)
		}
		if f := findings(c); f != nil {
			add(block.Heading{Text: of("About the two runs", "About %s and A")}, block.Notes{Items: f})
		}
		if notes[i] != nil {
			add(block.Heading{Text: of("Notes", "Notes on %s")}, block.Notes{Items: notes[i]})
		}
		for k, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
			if len(only) > 0 {
				heading := "Only in " + c.SideName(k)
				if k == 0 && !alone {
					heading += ", and not in " + c.Letter
				}
				add(block.Heading{Text: heading}, cellList(only, len(only)))
			}
		}
		if len(c.Differences) > 0 {
			add(block.Heading{Text: of("Differences", "Differences of %s and A")}, differenceTable(c))
		}
	}
	add(block.Heading{Text: "How it was compared"}, block.Paragraph{Text: method})
	return d
}

// sides are the runs, with links to them.
func sides(all []*compare.Comparison, links ComparisonLinks) block.List {
	side := func(letter string, r *report.Report, answer string) block.Item {
		it := block.Item{Text: letter + ": " + compare.RunLine(r), Tone: block.Quiet}
		if answer != "" && len(all) > 1 {
			it.Text += ". " + answer
		}
		if links.Run != nil {
			href, base := links.Run(r.Run)
			it.Links = append(it.Links, block.Link{Text: "report of " + letter, Href: href})
			if base != "" && letter != "A" {
				other := "other"
				if len(all) > 1 {
					other = "others"
				}
				it.Links = append(it.Links, block.Link{Text: "hold the " + other + " against this one", Href: base})
			}
		}
		return it
	}
	l := block.List{Items: []block.Item{side("A", all[0].A, "")}}
	for _, c := range all {
		l.Items = append(l.Items, side(c.Letter, c.B, c.Answer))
	}
	return l
}

// notesOf are the notes of each comparison, counted through, and which of them a cell has.
func notesOf(all []*compare.Comparison) (out [][]block.Note, refs []map[compare.CellMetric][]int) {
	told := 0
	for _, c := range all {
		notes, of := c.Notes()
		var list []block.Note
		for _, n := range notes {
			n.Number += told
			list = append(list, pageNote(n))
		}
		for _, ns := range of {
			for k := range ns {
				ns[k] += told
			}
		}
		told += len(notes)
		out, refs = append(out, list), append(refs, of)
	}
	return out, refs
}

// cells is a table of A's numbers with what the others have there.
func cells(all []*compare.Comparison, at []map[compare.CellMetric]*compare.Change, refs []map[compare.CellMetric][]int,
	trend func(compare.CellMetric) string) block.Table {
	against := ""
	for _, c := range all {
		if slices.ContainsFunc(c.Rows, func(r compare.Change) bool { return r.Loss != nil }) {
			against = c.A.Baseline
		}
	}
	t := block.Table{Head: []string{"workload", "target", "A"}, Wraps: []int{0, 1}}
	for _, c := range all {
		t.Head = append(t.Head, c.Letter, c.Letter+"/A")
		if against != "" {
			t.Head = append(t.Head, "against "+against)
		}
		t.Head = append(t.Head, "verdict")
	}
	for _, k := range compare.CellMetrics(all[0].A) {
		row := block.Words("", k.Target, "")
		if trend != nil {
			row.Cells[1].Link = block.Link{Text: "trend", Href: trend(k)}
		}
		known := false
		for i := range all {
			ch := at[i][k]
			if ch == nil {
				blank := []block.Cell{{Text: format.Dash}, {Text: format.Dash}, {Text: format.Dash}}
				if against != "" {
					blank = append(blank, block.Cell{Text: format.Dash})
				}
				row.Cells = append(row.Cells, blank...)
				continue
			}
			known = true
			row.Cells[0].Text, row.Cells[2].Text = format.Subject(k.Workload, ch.Label), format.Spread(ch.A, ch.Unit)
			ratio := func(e *stat.Change) block.Cell {
				if e == nil {
					return block.Cell{Text: format.Dash}
				}
				return block.Cell{Text: format.Ratio(e.Interval)}
			}
			row.Cells = append(row.Cells, block.Cell{Text: format.Spread(ch.B, ch.Unit)}, ratio(ch.Ratio))
			if against != "" {
				row.Cells = append(row.Cells, ratio(ch.Loss))
			}
			row.Cells = append(row.Cells, block.Cell{Text: cmp.Or(format.Verdict(ch.Verdict, false), "baseline"), Tone: tone(ch.Verdict),
				Notes: slices.Compact(slices.Sorted(slices.Values(refs[i][k])))})
		}
		if known {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
