package document

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

const (
	importantRows    = 12 // with the answer and the gate, this fills about one screen of a pull request
	shortRows        = 6  // the same for a terminal
	shownOnly        = 8
	shownDifferences = 12
	shortDifferences = 3
	longestFact      = 160
)

// ComparisonOptions selects the form of a comparison. Only a server sets Run, Trend and Other. Each of them may be nil
// or "".
type ComparisonOptions struct {
	Folded bool                                       // put details into folds, for a comment on a pull request
	Short  string                                     // leave out details, and name this command, which prints them
	Run    func(run *iotax.Run) (report, base string) // returns the addresses of the run's report, and of this page with the run as A
	Trend  func(compare.CellMetric) string            // returns the address of the number's trend
	Other  string                                     // address of this page with the other By
}

// Comparison returns the document that compares one or more runs with the same run A: the answer, the gate, the rows,
// the notes, and the differences between the runs.
func Comparison(all []*compare.Comparison, o ComparisonOptions) block.Document {
	one := all[0]
	alone, loss := len(all) == 1, one.By == compare.ByLoss
	d := block.Document{Title: "B against A", Source: "iotax " + one.B.Run.Version,
		Blocks: []block.Block{block.Answer{Text: one.Answer}}}
	what, favour, method := "B over A", "B", one.Method()
	if loss {
		what = "B’s ratio to " + one.B.Baseline + " over A’s"
	}
	if !alone {
		d.Title, d.Blocks[0] = format.Plural(len(all), "run")+" against A", block.Answer{Text: compare.AnswerOfAll(all)}
		what, favour = strings.Replace(what, "B", "Each run", 1), "the letter"
		method = "Each letter’s ratios are to A; above 1 the letter is better. " + method +
			" Verdicts of each run are adjusted for their number, and not those of several runs together."
	}
	if o.Folded {
		d.Title = "iotax: " + d.Title
	}
	add := func(b ...block.Block) { d.Blocks = append(d.Blocks, b...) }
	short := o.Short != ""
	var left []string // what a short document leaves out
	part := func(heading, summary string, blocks ...block.Block) {
		switch {
		case short:
			left = append(left, summary)
		case o.Folded:
			add(block.Fold{Summary: format.Capital(summary), Blocks: blocks})
		default:
			add(append([]block.Block{block.Heading{Text: heading}}, blocks...)...)
		}
	}
	if s := compare.BannerOfAll(all); s != "" {
		add(block.Banner{Texts: []string{s}})
	}
	for _, c := range all {
		if g := c.Gate(); g != "" {
			p := block.Paragraph{Text: g, Tone: block.Good, Joined: true}
			if c.Failed {
				p.Tone = block.Bad
			}
			add(p)
		}
	}
	if !o.Folded {
		add(sides(all, o))
	}
	if o.Other != "" {
		p := block.Paragraph{Tone: block.Quiet, Text: "Verdicts are about the values.",
			Links: []block.Link{{Text: "Judge by the ratio to the baseline, in which a change of the host cancels out", Href: o.Other}}}
		if loss {
			p.Text = "Verdicts are about the ratio to the baseline, in which a change of the host cancels out."
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
	if wide := changeForest(what, all, at, wideForest); wide != nil && !o.Folded {
		add(block.Charts{Charts: []block.Chart{{Name: "changes", Drawing: *wide, Narrow: *changeForest(what, all, at, narrowForest),
			Key: verdictKeys, Views: []string{"× slower", "% of A"},
			Caption: what + ", with 95 % intervals on a logarithmic axis. Right of 1 is in the favour of " + favour +
				". The shaded band is the margin of ± " + format.Percent(one.Margin) + "."}}})
	}
	findings, notes, refs := notesOf(all)
	table := cells(all, at, refs, o.Trend)
	shown := table
	switch n := len(table.Rows); {
	case o.Folded && n > importantRows:
		shown = important(table, importantRows)
	case short && n > shortRows:
		shown = important(table, shortRows)
	}
	if len(shown.Rows) == 0 {
		add(block.Paragraph{Text: "These runs have no workload and target in common.", Tone: block.Quiet})
	} else {
		add(shown)
	}
	switch {
	case short:
		findings = slices.DeleteFunc(findings, func(n block.Note) bool { return n.Tone == block.Quiet || n.Label == rules.EnvironmentDiffers.ID }) // the differences follow
		for _, n := range notes {
			if n.Hint = ""; shown.Refers(n.Number) {
				findings = append(findings, n)
			}
		}
	case !o.Folded:
		notes, findings = append(findings, notes...), nil
	}
	if findings != nil {
		add(block.Notes{Items: findings})
	}
	if n := len(table.Rows); len(shown.Rows) < n {
		part("", "all "+format.Plural(n, "cell"), table)
	}
	if notes != nil {
		part("Notes", format.Plural(len(notes), "note"), block.Notes{Items: notes})
	}
	for _, c := range all {
		for k, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
			if len(only) == 0 {
				continue
			}
			where := "only in " + c.SideName(k)
			if k == 0 && !alone {
				where += ", and not in " + c.Letter
			}
			l := block.List{Shown: shownOnly}
			for _, x := range only {
				l.Items = append(l.Items, block.Item{Text: x.String(), Tone: block.Quiet})
			}
			part(format.Capital(where), format.Plural(len(only), "cell")+" "+where, l)
		}
		n := len(c.Differences)
		if n == 0 {
			continue
		}
		heading, list := "Differences", differences(c)
		if !alone {
			heading = "Differences of " + c.Letter + " and A"
		}
		if short {
			var texts []string
			for _, i := range list.Items {
				texts = append(texts, i.Text)
			}
			add(block.Paragraph{Text: heading + ": " + strings.Join(format.Cut(texts, shortDifferences, "difference"), "; ") + ".", Joined: findings != nil})
		}
		if !short || n > shortDifferences {
			part(heading, format.Plural(n, "difference")+" in the environment", list)
		}
	}
	how := "How it was compared"
	switch {
	case short:
		add(block.Paragraph{Text: "Unpaired: a drift between the runs is in these ratios.", Tone: block.Quiet, Joined: true})
		add(block.Steps{Steps: []block.Step{{Name: "Details", Command: o.Short, About: strings.Join(left, ", ")}}})
	case o.Folded:
		part(how, how, sides(all, o), block.Paragraph{Text: method, Tone: block.Quiet})
	default:
		part(how, how, block.Paragraph{Text: method, Tone: block.Quiet})
	}
	return d
}

// sides lists the runs, with links to them.
func sides(all []*compare.Comparison, o ComparisonOptions) block.List {
	side := func(letter string, r *report.Report, answer string) block.Item {
		it := block.Item{Text: letter + ": " + compare.RunLine(r), Tone: block.Quiet}
		if answer != "" && len(all) > 1 {
			it.Text += ". " + answer
		}
		if o.Run != nil {
			href, base := o.Run(r.Run)
			it.Links = append(it.Links, block.Link{Text: "report of " + letter, Href: href})
			if base != "" && letter != "A" {
				other := strings.TrimSuffix("others", map[bool]string{true: "s"}[len(all) == 1])
				it.Links = append(it.Links, block.Link{Text: "compare the " + other + " with this one", Href: base})
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

// notesOf returns the findings about whole runs, the consecutively numbered notes of all comparisons, and the numbers
// of each cell's notes. refs has one map for each comparison.
func notesOf(all []*compare.Comparison) (findings, numbered []block.Note, refs []map[compare.CellMetric][]int) {
	for _, c := range all {
		for _, f := range c.Findings {
			n := Note(report.Note{Finding: f, Items: []report.Item{{Evidence: f.Evidence}}})
			if len(all) > 1 {
				n.Text = c.Letter + " and A: " + n.Text
			}
			findings = append(findings, n)
		}
		told := len(numbered)
		notes, of := c.Notes()
		for _, n := range notes {
			n.Number += told
			numbered = append(numbered, Note(n))
		}
		for k, ns := range of {
			for i := range ns {
				ns[i] += told
			}
			slices.Sort(ns)
			of[k] = slices.Compact(ns)
		}
		refs = append(refs, of)
	}
	return findings, numbered, refs
}

// differences lists the facts that differ between the runs. From a long fact, it removes the words at the start and at
// the end that are the same in both runs.
func differences(c *compare.Comparison) block.List {
	l := block.List{Shown: shownDifferences}
	for _, d := range c.Differences {
		if ansi.StringWidth(d.A)+ansi.StringWidth(d.B) > longestFact {
			x, y := strings.Fields(d.A), strings.Fields(d.B)
			from, to := 0, 0
			for from < min(len(x), len(y)) && x[from] == y[from] {
				from++
			}
			for to < min(len(x), len(y))-from && x[len(x)-1-to] == y[len(y)-1-to] {
				to++
			}
			d.A, d.B = strings.Join(x[from:len(x)-to], " "), strings.Join(y[from:len(y)-to], " ")
		}
		s := d.Key + ": " + d.Step()
		if where := d.Place(3); where != "" {
			s += " (" + where + ")"
		}
		l.Items = append(l.Items, block.Item{Text: s, Tone: block.Quiet})
	}
	return l
}

// weightOf returns the weight of a row for the table outside the folds. Worse rows weigh most, then lost ones, better
// ones, and those withdrawn by Holm's adjustment.
func weightOf(r *compare.Change) float64 {
	switch {
	case r.Verdict == stat.Worse:
		return 4
	case r.Lost:
		return 3
	case r.Verdict == stat.Better:
		return 2
	case r.Holm:
		return 1
	}
	return 0
}

// important returns the table with only the `most` rows of the largest weight, in their original order.
func important(t block.Table, most int) block.Table {
	order := slices.Clone(t.Rows)
	slices.SortStableFunc(order, func(x, y block.Row) int { return int(y.Weight - x.Weight) })
	least, ties := order[most-1].Weight, 0
	for _, r := range order[:most] {
		if r.Weight == least {
			ties++
		}
	}
	rows, heading := t.Rows, ""
	t.Rows = nil
	for _, r := range rows {
		if r.Heading != "" {
			heading = r.Heading
		}
		if r.Weight == least {
			ties--
		}
		if r.Weight > least || r.Weight == least && ties >= 0 {
			r.Heading, heading = heading, ""
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// cells returns a table with A's numbers next to those of the other runs.
func cells(all []*compare.Comparison, at []map[compare.CellMetric]*compare.Change, refs []map[compare.CellMetric][]int,
	trend func(compare.CellMetric) string) block.Table {
	loss := slices.ContainsFunc(all, func(c *compare.Comparison) bool {
		return slices.ContainsFunc(c.Rows, func(r compare.Change) bool { return r.Loss != nil })
	})
	t := block.Table{Head: []string{"target", "A"}, Wraps: []int{0}}
	byLoss := loss && all[0].By == compare.ByLoss
	for _, c := range all {
		head := []string{c.Letter, c.Letter + "/A", "verdict"}
		if loss { // with ByLoss, verdicts depend on this column; otherwise it is the first to be dropped
			head = append(head, "against "+c.A.Baseline)
		}
		if byLoss {
			head[1], head[3] = head[3], head[1]
		}
		t.Head = append(t.Head, head...)
	}
	if loss {
		t.Least = len(t.Head) - 1
	}
	ratio := func(e *stat.Change, short bool) (out block.Cell) {
		if e != nil {
			out.Text = format.Ratio(e.Interval)
			if short {
				out.Short = format.Ratio(format.Lone(e.Estimate))
			}
		}
		return out
	}
	last := ""
	for _, k := range compare.CellMetrics(all[0].A) {
		row := block.Words(k.Target, format.Dash)
		if trend != nil {
			row.Cells[0].Link = block.Link{Text: "trend", Href: trend(k)}
		}
		heading := ""
		for i := range all {
			ch := at[i][k]
			if ch == nil {
				row.Cells = append(row.Cells, make([]block.Cell, (len(t.Head)-2)/len(all))...)
				continue
			}
			value := func(i stat.Interval) block.Cell {
				if i.N == 0 {
					return block.Cell{Text: format.Dash}
				}
				return block.Cell{Text: format.Spread(i, ch.Unit), Short: format.Number(i, ch.Unit)}
			}
			heading, row.Cells[1], row.Weight = format.Subject(k.Workload, ch.Label), value(ch.A), max(row.Weight, weightOf(ch))
			verdict := block.Cell{Text: format.Verdict(ch.Verdict, false), Short: format.Verdict(ch.Verdict, true), Tone: Tone(ch.Verdict),
				Notes: refs[i][k]}
			if ch.Verdict == stat.NoVerdict {
				verdict.Text = "baseline"
			}
			part := []block.Cell{value(ch.B), ratio(ch.Ratio, false), verdict}
			if loss {
				part = append(part, ratio(ch.Loss, true))
			}
			if byLoss {
				part[1], part[3] = part[3], part[1]
			}
			row.Cells = append(row.Cells, part...)
		}
		if heading == "" {
			continue
		}
		if heading != last {
			last, row.Heading = heading, heading
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
