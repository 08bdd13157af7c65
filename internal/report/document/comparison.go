package document

import (
	"cmp"
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
	howCompared      = "How it was compared"
)

// ComparisonOptions selects the form of a comparison. Run, Trend and Other are for servers, and may be nil or "".
type ComparisonOptions struct {
	Folded bool                                       // put details into folds, for a comment on a pull request
	Short  string                                     // leave out details, and name this command, which prints them
	Run    func(run *iotax.Run) (report, base string) // returns the addresses of the run's report, and of this page with the run as A
	Trend  func(compare.CellMetric) string            // returns the address of the number's trend
	Other  string                                     // address of this page with verdicts about the other quantity: values or ratios to the baseline
}

// Comparison returns the document that compares one or more runs with the same run A.
func Comparison(all []*compare.Comparison, o ComparisonOptions) block.Document {
	c := &comparison{all: all, ComparisonOptions: o}
	for _, one := range all {
		changes := map[compare.CellMetric]*compare.Change{}
		for j := range one.Rows {
			changes[one.Rows[j].CellMetric] = &one.Rows[j]
		}
		c.at = append(c.at, changes)
	}
	var refs []map[compare.CellMetric][]int
	c.findings, c.notes, refs = notesOf(all)
	c.table = cells(all, c.at, refs, o.Trend)
	d := block.Document{Title: "B against A", Source: "iotax " + all[0].B.Run.Version}
	answer := all[0].Answer
	if len(all) > 1 {
		d.Title, answer = format.Plural(len(all), "run")+" against A", compare.AnswerOfAll(all)
	}
	d.Blocks = []block.Block{block.Answer{Text: answer}}
	if s := compare.BannerOfAll(all); s != "" {
		d.Blocks = append(d.Blocks, block.Banner{Texts: []string{s}})
	}
	for _, one := range all {
		if g := one.Gate(); g != "" {
			d.Blocks = append(d.Blocks, block.Paragraph{Text: g, Tone: map[bool]block.Tone{false: block.Good, true: block.Bad}[one.Failed], Joined: true})
		}
	}
	switch {
	case o.Short != "":
		d.Blocks = append(d.Blocks, c.short()...)
	case o.Folded:
		d.Title = "iotax: " + d.Title
		d.Blocks = append(d.Blocks, c.folded()...)
	default:
		d.Blocks = append(d.Blocks, c.page()...)
	}
	return d
}

// A comparison contains the parts that the forms of a comparison's document share.
type comparison struct {
	ComparisonOptions
	all             []*compare.Comparison
	at              []map[compare.CellMetric]*compare.Change // one for each comparison
	table           block.Table
	findings, notes []block.Note
}

// page returns the form for a page, with the details under headings.
func (c *comparison) page() []block.Block {
	out := []block.Block{c.sides()}
	if c.Other != "" {
		p := block.Paragraph{Tone: block.Quiet, Text: "Verdicts are about the values.",
			Links: []block.Link{{Text: "Judge by the ratio to the baseline, in which a change of the host cancels out", Href: c.Other}}}
		if c.all[0].By == compare.ByLoss {
			p.Text = "Verdicts are about the ratio to the baseline, in which a change of the host cancels out."
			p.Links[0].Text = "Judge by value"
		}
		out = append(out, p)
	}
	out = append(append(out, c.chart()...), filled(c.table))
	for _, d := range c.details(c.table, append(c.findings, c.notes...)) {
		out = append(out, block.Heading{Text: d.heading}, d.Block)
	}
	return append(out, block.Heading{Text: howCompared}, c.method())
}

// folded returns the form for a comment on a pull request: the important rows, and the details in folds.
func (c *comparison) folded() []block.Block {
	shown := important(c.table, importantRows)
	out := []block.Block{filled(shown)}
	if c.findings != nil {
		out = append(out, block.Notes{Items: c.findings})
	}
	for _, d := range c.details(shown, c.notes) {
		out = append(out, block.Fold{Summary: format.Capital(d.summary), Blocks: []block.Block{d.Block}})
	}
	return append(out, block.Fold{Summary: howCompared, Blocks: []block.Block{c.sides(), c.method()}})
}

// short returns the form for a terminal: the runs, the important rows, notes, some differences, and the command that
// prints the rest.
func (c *comparison) short() []block.Block {
	shown := important(c.table, shortRows)
	out := []block.Block{c.sides(), filled(shown)}
	notes := slices.DeleteFunc(slices.Clone(c.findings), func(n block.Note) bool { return n.Tone == block.Quiet || n.Label == rules.EnvironmentDiffers.ID }) // the differences themselves are listed below
	for _, n := range c.notes {
		if n.Hint = ""; shown.Refers(n.Number) {
			notes = append(notes, n)
		}
	}
	if notes != nil {
		out = append(out, block.Notes{Items: notes})
	}
	var left []string
	for _, d := range c.details(shown, c.notes) {
		if d.differences != nil {
			out = append(out, block.Paragraph{Text: d.heading + ": " + strings.Join(format.Cut(d.differences, shortDifferences, "difference"), "; ") + ".", Joined: notes != nil})
		}
		if d.differences == nil || len(d.differences) > shortDifferences {
			left = append(left, d.summary)
		}
	}
	return append(out, block.Paragraph{Text: "Unpaired: a drift between the runs is in these ratios.", Tone: block.Quiet, Joined: true},
		block.Steps{Steps: []block.Step{{Name: "Details", Command: c.Short, About: strings.Join(left, ", ")}}})
}

// A detail is a part of a comparison's document, with a heading for pages and a summary for folds.
type detail struct {
	heading, summary string
	block.Block
	differences []string // between the environments of the runs
}

// details returns the parts below the shown rows: all rows if some are not shown, the notes, the cells that only one
// run has, and the differences between the environments.
func (c *comparison) details(shown block.Table, notes []block.Note) (out []detail) {
	if n := len(c.table.Rows); len(shown.Rows) < n {
		out = append(out, detail{"", "all " + format.Plural(n, "cell"), c.table, nil})
	}
	if notes != nil {
		out = append(out, detail{"Notes", format.Plural(len(notes), "note"), block.Notes{Items: notes}, nil})
	}
	for _, one := range c.all {
		for k, only := range [][]compare.CellMetric{one.OnlyA, one.OnlyB} {
			if len(only) == 0 {
				continue
			}
			where := "only in " + one.SideName(k)
			if k == 0 && len(c.all) > 1 {
				where += ", and not in " + one.Letter
			}
			var names []string
			for _, x := range only {
				names = append(names, x.String())
			}
			out = append(out, detail{format.Capital(where), format.Plural(len(only), "cell") + " " + where, quiet(names, shownOnly), nil})
		}
		if all := differences(one); all != nil {
			heading := "Differences"
			if len(c.all) > 1 {
				heading += " of " + one.Letter + " and A"
			}
			out = append(out, detail{heading, format.Plural(len(all), "difference") + " in the environment", quiet(all, shownDifferences), all})
		}
	}
	return out
}

func (c *comparison) chart() []block.Block {
	one := c.all[0]
	what, favour := "B over A", "B"
	if one.By == compare.ByLoss {
		what = "B’s ratio to " + one.B.Baseline + " over A’s"
	}
	if len(c.all) > 1 {
		what, favour = strings.Replace(what, "B", "Each run", 1), "the letter"
	}
	wide := changeForest(what, c.all, c.at, wideForest)
	if wide == nil {
		return nil
	}
	return []block.Block{block.Charts{Charts: []block.Chart{{Name: "changes", Drawing: *wide, Narrow: *changeForest(what, c.all, c.at, narrowForest),
		Key: verdictKeys, Views: []string{"× slower", "% of A"},
		Caption: what + ", with 95 % intervals on a logarithmic axis. Right of 1 is in the favour of " + favour +
			". The shaded band is the margin of ± " + format.Percent(one.Margin) + "."}}}}
}

func (c *comparison) method() block.Paragraph {
	text := c.all[0].Method()
	if len(c.all) > 1 {
		text = "Each letter’s ratios are to A; above 1 the letter is better. " + text +
			" Verdicts of each run are adjusted for their number, and not those of several runs together."
	}
	return block.Paragraph{Text: text, Tone: block.Quiet}
}

// quiet lists texts in the tone Quiet. A page folds all but the first `shown` of them.
func quiet(texts []string, shown int) block.List {
	l := block.List{Shown: shown}
	for _, s := range texts {
		l.Items = append(l.Items, block.Item{Text: s, Tone: block.Quiet})
	}
	return l
}

// filled returns the table, or a sentence if it is empty.
func filled(t block.Table) block.Block {
	if len(t.Rows) == 0 {
		return block.Paragraph{Text: "These runs have no workload and target in common.", Tone: block.Quiet}
	}
	return t
}

// sides lists the runs, with links to them.
func (c *comparison) sides() block.List {
	side := func(letter string, r *report.Report, answer string) block.Item {
		it := block.Item{Text: letter + ": " + compare.RunLine(r), Tone: block.Quiet}
		if answer != "" && len(c.all) > 1 {
			it.Text += ". " + answer
		}
		if c.Run != nil {
			href, base := c.Run(r.Run)
			it.Links = append(it.Links, block.Link{Text: "report of " + letter, Href: href})
			if base != "" && letter != "A" {
				other := strings.TrimSuffix("others", map[bool]string{true: "s"}[len(c.all) == 1])
				it.Links = append(it.Links, block.Link{Text: "compare the " + other + " with this one", Href: base})
			}
		}
		return it
	}
	l := block.List{Items: []block.Item{side("A", c.all[0].A, "")}}
	for _, one := range c.all {
		l.Items = append(l.Items, side(one.Letter, one.B, one.Answer))
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

// differences lists the facts that differ between the runs. It removes the common words at both ends of long facts.
func differences(c *compare.Comparison) (out []string) {
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
		out = append(out, s)
	}
	return out
}

// weightOf returns the weight of a row. Important rows have larger weights.
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

// important returns the table with only the `most` rows that have the largest weights, in their original order.
func important(t block.Table, most int) block.Table {
	if len(t.Rows) <= most {
		return t
	}
	order := make([]int, len(t.Rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(t.Rows[y].Weight, t.Rows[x].Weight) })
	rows, heading := t.Rows, ""
	t.Rows = nil
	for i, r := range rows {
		heading = cmp.Or(r.Heading, heading)
		if slices.Contains(order[:most], i) {
			r.Heading, heading = heading, ""
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

func cells(all []*compare.Comparison, at []map[compare.CellMetric]*compare.Change, refs []map[compare.CellMetric][]int,
	trend func(compare.CellMetric) string) block.Table {
	loss := slices.ContainsFunc(all, func(c *compare.Comparison) bool {
		return slices.ContainsFunc(c.Rows, func(r compare.Change) bool { return r.Loss != nil })
	})
	t := block.Table{Head: []string{"target", "A"}, Wraps: []int{0}}
	byLoss := loss && all[0].By == compare.ByLoss
	for _, c := range all {
		head := []string{c.Letter, c.Letter + "/A", "verdict"}
		if loss { // with ByLoss, verdicts depend on this column; otherwise a table that is too wide omits this column first
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
