package assess

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// noise adds a sentence about the cells whose values vary too much between trials.
func (a *assessing) noise() {
	type noisy struct {
		c  assessed
		sd float64
	}
	var all []noisy
	for s, r := range a.Rows() {
		if sd := stat.Spread(report.Logs(r.Values())); s.First && sd > stat.NoisySpread {
			all = append(all, noisy{assessed{s, r}, sd})
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y noisy) int { return cmp.Compare(y.sd, x.sd) })
	s := Sentence{Kind: SaysNoise}
	var parts []string
	for _, n := range all {
		s.Figures = append(s.Figures, Figure{Target: n.c.r.Target, Workload: n.c.s.Workload, Metric: n.c.s.Metric})
		name := n.c.name()
		// The metrics of a fio job are one measurement in different units. The metrics of any other workload are separate
		// measurements.
		if w := a.Workload(n.c.s.Workload); len(w.Metrics) > 1 && w.Kind != "" && w.Kind != "fio" {
			name = n.c.r.Target + " / " + format.Subject(n.c.s.Workload, n.c.s.Label)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", name, format.Percent(n.sd)))
	}
	s.Text = fmt.Sprintf("Noisy, trials vary by %s or more: %s.", format.Percent(stat.NoisySpread), format.Enumerate(parts, format.Listed, "cell"))
	a.say(s)
}

// An Outcome names a group of verdicts that are counted together.
type Outcome struct {
	Word string
	Of   []stat.Verdict
}

// Count returns the number of verdicts for each outcome: "5 worse", "1 too noisy". It omits outcomes without
// verdicts.
func Count(verdicts []stat.Verdict, outcomes []Outcome) (out []string) {
	for _, o := range outcomes {
		n := 0
		for _, v := range verdicts {
			if slices.Contains(o.Of, v) {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, o.Word))
		}
	}
	return out
}

// sum adds a sentence with the counts of the verdicts and the checks that found a problem.
func (a *assessing) sum(cells []assessed) {
	if len(a.Trials) == 0 {
		return
	}
	var verdicts []stat.Verdict
	for _, c := range cells {
		if c.r.Verdict != stat.NoVerdict {
			verdicts = append(verdicts, c.r.Verdict)
		}
	}
	n := len(verdicts)
	parts := Count(verdicts, []Outcome{{"worse", []stat.Verdict{stat.Worse}}, {"better", []stat.Verdict{stat.Better}},
		{"the same within ± " + format.Percent(a.Margin), []stat.Verdict{stat.Equivalent, stat.BelowMargin}},
		{stat.TooNoisy, []stat.Verdict{stat.Inconclusive}}, {"too few " + a.TooFew(), []stat.Verdict{stat.TooFew}},
		{"without a verdict", []stat.Verdict{stat.NotComparable, stat.TooManyDiscarded, stat.NotRanked, stat.NoResult}}})
	text := ""
	if n > 1 {
		text = fmt.Sprintf("Of %d comparisons: %s. ", n, strings.Join(parts, ", "))
	}
	var errors, warnings []string
	notes := slices.Clone(a.General)
	for _, n := range a.Found() {
		notes = append(notes, *n)
	}
	for _, note := range notes {
		switch note.Severity {
		case iotax.Invalid:
			errors = append(errors, rules.Title(note.Rule))
		case iotax.Warning:
			warnings = append(warnings, rules.Title(note.Rule))
		}
	}
	errors, warnings = uniq(errors), uniq(warnings)
	warnings = slices.DeleteFunc(warnings, func(title string) bool { return slices.Contains(errors, title) })
	var problems []string
	for _, x := range []struct {
		label  string
		titles []string
	}{{"Invalid results: ", errors}, {"Warnings: ", warnings}} {
		if len(x.titles) > 0 {
			problems = append(problems, x.label+format.Enumerate(x.titles, format.Listed, "")+".")
		}
	}
	switch {
	case a.Run.Imported():
		text += "The trials were imported and not measured in turns: nothing shows whether the comparison is fair."
	case problems == nil:
		text += "No check found a problem."
	default:
		text += strings.Join(problems, " ")
	}
	a.say(Sentence{Kind: SaysSum, Text: text})
}

// memory adds a sentence about each reference target whose data comes from the memory of the underlying machine.
func (a *assessing) memory(cells []assessed) {
	var told []string
	for _, c := range cells {
		base := c.s.Row(c.r.Against)
		if base == nil || slices.Contains(told, base.Target) || !a.found(base, c.s, rules.HostMemory.ID) {
			continue
		}
		told = append(told, base.Target)
		var took []float64
		for _, t := range a.Valid(report.Cell{Target: base.Target, Workload: c.s.Workload}) {
			if v, ok := t.Value(iotax.ValueReadLatencyMean); ok {
				took = append(took, v.Value)
			}
		}
		by := ""
		if len(took) > 0 {
			by = fmt.Sprintf(" (%s: one at a time takes %s)", c.s.Workload, format.Number(format.Lone(stat.Median(took).Estimate), iotax.Seconds))
		}
		text := fmt.Sprintf("%s is the memory of the machine below, not a device%s: against a device, the other targets would keep a larger share of the speed.", base.Target, by)
		a.say(Sentence{Kind: SaysMemory, Figures: []Figure{{Target: base.Target, Workload: c.s.Workload, Metric: c.s.Metric}},
			Causes: []Cause{{rules.HostMemory.ID, text}}, Notes: a.notes(base, rules.HostMemory.ID), Text: text})
	}
}

func uniq(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
