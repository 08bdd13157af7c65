package compare

import (
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// answer summarizes the comparison in a sentence: the largest confirmed loss, otherwise the largest gain, otherwise why
// there is neither.
func (c *Comparison) answer() string {
	var best *Change
	worst := c.worst()
	judged, unsure, unjudged := 0, 0, 0
	for i := range c.Rows {
		r := &c.Rows[i]
		switch {
		case r.Verdict == stat.NoVerdict:
			continue
		case report.Conclusive(r.Verdict):
			judged++
		case report.Unsure(r.Verdict):
			judged++
			unsure++
		default:
			unjudged++
		}
		if r.Verdict == stat.Better && (best == nil || r.Judged(c.By).Estimate > best.Judged(c.By).Estimate) {
			best = r
		}
	}
	var s string
	switch {
	case len(c.Rows) == 0:
		s = "The runs have no target and workload in common"
	case worst != nil:
		s = c.changeSentence(worst)
		if judged > 1 {
			s += fmt.Sprintf(", the largest loss of %d comparisons", judged)
		}
	case best != nil:
		s = c.changeSentence(best)
		if judged > 1 {
			s += fmt.Sprintf(", the largest gain of %d comparisons, and no loss is confirmed", judged)
		}
	case judged == 0:
		s = "Nothing can be judged: see the notes"
		unjudged = 0
	case unsure == 0 && judged == 1:
		s = fmt.Sprintf("Nothing changed: the one comparison is within ± %s", format.Percent(c.Margin))
	case unsure == 0:
		s = fmt.Sprintf("Nothing changed: all %d comparisons are within ± %s", judged, format.Percent(c.Margin))
	default:
		s = fmt.Sprintf("No change found yet. %d of %d comparisons need more rounds", unsure, judged)
		switch {
		case judged == 1:
			s = "No change found yet: the one comparison needs more rounds"
		case unsure == judged:
			s = fmt.Sprintf("No change found yet. All %d comparisons need more rounds", judged)
		}
	}
	var rest []string
	if unjudged > 0 {
		rest = append(rest, fmt.Sprintf("%d more cannot be judged", unjudged))
	}
	if n := len(c.OnlyA); n > 0 {
		rest = append(rest, fmt.Sprintf("%d only in A", n))
	}
	if n := len(c.OnlyB); n > 0 {
		rest = append(rest, fmt.Sprintf("%d only in %s", n, c.Letter))
	}
	if len(rest) > 0 {
		s += " (" + strings.Join(rest, ", ") + ")"
	}
	return s + "."
}

// worst returns the row with the largest confirmed loss, or nil.
func (c *Comparison) worst() *Change {
	var worst *Change
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Verdict == stat.Worse && (worst == nil || r.Judged(c.By).Estimate < worst.Judged(c.By).Estimate) {
			worst = r
		}
	}
	return worst
}

// AnswerOfAll returns the joint answer of several comparisons with the same A.
func AnswerOfAll(all []*Comparison) string {
	var of *Comparison
	var worst *Change
	for _, c := range all {
		if r := c.worst(); r != nil && (worst == nil || r.Judged(c.By).Estimate < worst.Judged(c.By).Estimate) {
			of, worst = c, r
		}
	}
	if worst == nil {
		return fmt.Sprintf("%s against A: no loss is confirmed.", format.Plural(len(all), "run"))
	}
	return fmt.Sprintf("%s, %s, the largest loss of %s against A.", of.Letter, of.changeSentence(worst), format.Plural(len(all), "run"))
}

// changeSentence describes the change of one row: "guest: 4k random read is 18 % slower [16–20] than in A".
func (c *Comparison) changeSentence(r *Change) string {
	against := ""
	if c.By == ByLoss {
		against = "against " + c.A.Baseline + ", "
	}
	return fmt.Sprintf("%s: %s%s is %s than in A", r.Target, against, format.Work(r.Workload, r.Label),
		r.words().Interval(r.Judged(c.By).Interval))
}

func (r *Change) words() format.Contrast { return format.ContrastOf(r.Metric, r.Better, r.Unit) }

// RunLine identifies a run by its id, name, start time and rounds, and adds the status of a run that is not done.
func RunLine(r *report.Report) string {
	parts := slices.DeleteFunc([]string{format.Clean(r.Run.ID), format.Clean(r.Run.Name)}, func(s string) bool { return s == "" })
	if !r.Run.Start.IsZero() {
		parts = append(parts, r.Run.Start.UTC().Format("2006-01-02 15:04")+" UTC")
	}
	switch {
	case r.Protocol.LeastRounds == r.Protocol.MostRounds:
		parts = append(parts, format.Plural(r.Protocol.MostRounds, "round"))
	default:
		parts = append(parts, fmt.Sprintf("%d–%d rounds", r.Protocol.LeastRounds, r.Protocol.MostRounds))
	}
	if r.Run.Status != iotax.Done && r.Run.Status != "" {
		parts = append(parts, string(r.Run.Status))
	}
	return strings.Join(parts, " · ")
}

// Method explains the intervals in brackets and their limits.
func (c *Comparison) Method() string {
	s := fmt.Sprintf("Brackets are 95 %% intervals; a ratio above 1 means that %s is better; margin ± %s.", c.Letter, format.Percent(c.Margin))
	if c.Family > 1 {
		s += fmt.Sprintf(" All worse and better verdicts of the %d comparisons together are wrong in at most %s of such studies (Holm).", c.Family, format.Percent(1-stat.Confidence))
	}
	return s + " The comparison is unpaired: the runs were not interleaved, and the intervals cover the noise inside each run, not the drift between the runs. " +
		"`iotax run PLAN --against RUN` measures both in the same rounds."
}

// Gate describes the result of the gate. It returns "" if no gate is set.
func (c *Comparison) Gate() string {
	switch {
	case c.FailOn == FailOnNothing:
		return ""
	case !c.Failed:
		return fmt.Sprintf("Gate (fail on %s): passed.", c.FailOn)
	}
	s := fmt.Sprintf("Gate (fail on %s): failed: ", c.FailOn)
	const most = 3
	if n := len(c.Reasons); n > most+1 {
		return s + strings.Join(c.Reasons[:most], "; ") + fmt.Sprintf("; and %d more.", n-most)
	}
	return s + strings.Join(c.Reasons, "; ") + "."
}

// Notes returns the findings of all rows in the order of the rows, and the note numbers of each row. Equal findings of
// several rows become one note.
func (c *Comparison) Notes() ([]report.Note, map[CellMetric][]int) {
	var notes []report.Note
	refs := map[CellMetric][]int{}
	cells := map[string][]report.Cell{}
	for _, r := range c.Rows {
		cell := report.Cell{Target: r.Target, Workload: r.Workload}
		if !slices.Contains(cells[r.Target], cell) {
			cells[r.Target] = append(cells[r.Target], cell)
		}
		for _, f := range r.Findings {
			i := slices.IndexFunc(notes, func(n report.Note) bool {
				return n.Rule == f.Rule && n.Hint == f.Hint && n.Items[0].Evidence == f.Evidence
			})
			if i < 0 {
				i = len(notes)
				notes = append(notes, report.Note{Finding: f, Number: i + 1, Items: []report.Item{{Evidence: f.Evidence}}})
			}
			if it := &notes[i].Items[0]; !slices.Contains(it.Cells, cell) {
				it.Cells = append(it.Cells, cell)
			}
			refs[r.CellMetric] = append(refs[r.CellMetric], i+1)
		}
	}
	for i := range notes {
		it := &notes[i].Items[0]
		for target, all := range cells {
			if len(all) > 1 && !slices.ContainsFunc(all, func(c report.Cell) bool { return !slices.Contains(it.Cells, c) }) {
				at := slices.Index(it.Cells, all[0])
				it.Cells[at].Workload = "" // means all workloads of the target
				it.Cells = slices.DeleteFunc(it.Cells, func(c report.Cell) bool { return c.Target == target && c.Workload != "" })
			}
		}
	}
	return notes, refs
}

// BannerOfAll returns the joint banner of several comparisons with the same A, or "" if no run has one.
func BannerOfAll(all []*Comparison) string {
	var letters []string
	text := ""
	add := func(letter string, r *report.Report) {
		if b := r.Banner(); b != "" {
			letters, text = append(letters, letter), b
		}
	}
	for i, c := range all {
		if i == 0 {
			add("A", c.A)
		}
		add(c.Letter, c.B)
	}
	if text == "" {
		return ""
	}
	return "In " + strings.Join(letters, " and ") + ": " + text
}
