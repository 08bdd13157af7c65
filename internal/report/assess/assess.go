// Package assess says in sentences what a report found, worst first and with its causes as far as checks support them, and how it
// was measured.
package assess

import (
	"fmt"
	"slices"

	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// An Assessment is the report in sentences, worst first. The first one is the answer.
type Assessment struct {
	Sentences []Sentence
}

// Answer is what is lost, where, in one sentence.
func (a Assessment) Answer() string { return a.Sentences[0].Text }

// A Sentence says one thing, and what it rests on.
type Sentence struct {
	Kind    SentenceKind `json:"kind"`
	Text    string       `json:"text"`
	Figures []Figure     `json:"figures,omitempty"` // in the order in which the text tells them; none for a sentence about the run
	Causes  []Cause      `json:"causes,omitempty"`  // those that a check supports; each is told in Text
	Notes   []int        `json:"-"`                 // numbers of the notes behind it, ascending
}

// A SentenceKind sorts sentences; the kinds are told in this order, after the answer.
type SentenceKind string

const (
	SaysNothing SentenceKind = "nothing"      // there is nothing to compare
	SaysSum     SentenceKind = "sum"          // how many comparisons ended how, and whether checks object
	SaysMemory  SentenceKind = "memory"       // what others are held against is no device
	SaysLoss    SentenceKind = "loss"         // a target is surely worse
	SaysInvalid SentenceKind = "invalid"      // numbers that must not be quoted
	SaysFailed  SentenceKind = "failed"       // a target without a number
	SaysUnsure  SentenceKind = "inconclusive" // more rounds are needed
	SaysUnlike  SentenceKind = "not ranked"   // unlike things
	SaysShare   SentenceKind = "share"        // of a line, or of another target than that of the ratio
	SaysUneven  SentenceKind = "uneven"       // clients that do not share alike
	SaysPath    SentenceKind = "fast path"    // whether the second of two like things was fast
	SaysBest    SentenceKind = "best way"     // which of several ways to do the same is the fastest
	SaysLazy    SentenceKind = "lazy"         // what using a volume at once gains beside copying it
	SaysGain    SentenceKind = "gain"         // a target is surely better
	SaysSame    SentenceKind = "same"         // inside the margin
	SaysNoise   SentenceKind = "noise"        // figures that vary
)

var sentenceOrder = []SentenceKind{SaysNothing, SaysSum, SaysMemory, SaysLoss, SaysInvalid, SaysFailed, SaysUnsure, SaysUnlike, SaysShare, SaysUneven, SaysPath, SaysBest, SaysLazy, SaysGain, SaysSame, SaysNoise}

// An Figure is a number that a sentence tells.
type Figure struct {
	Target   string         `json:"target"`
	Workload string         `json:"workload"`
	Metric   string         `json:"metric"`
	Against  string         `json:"against,omitempty"` // what Ratio is to; "" where the figure is no ratio
	Ratio    *stat.Interval `json:"ratio,omitempty"`   // nil where the figure has none
}

// A Cause is why a number is what it is, as far as a check says so.
type Cause struct {
	Rule string `json:"rule"` // of the check: "blocking-submit", "line-rate"
	Text string `json:"text"` // as the sentence has it
}

// assessing is the state of making an Assessment.
type assessing struct {
	*report.Report
	out []Sentence

	reasons map[*report.Row][]reason // of the rows that were asked about
}

// An assessed is a row with its section.
type assessed struct {
	s *report.Section
	r *report.Row
}

func (c assessed) figure() Figure {
	f := Figure{Target: c.r.Target, Workload: c.s.Workload, Metric: c.s.Metric, Against: c.r.Against}
	if c.r.Ratio != nil {
		f.Ratio = &c.r.Ratio.Interval
	}
	return f
}

func (c assessed) name() string {
	if c.s.First {
		return c.r.Target + " / " + c.s.Workload
	}
	return c.r.Target + " / " + format.Work(c.s.Workload, format.Label(c.s.Metric))
}

// Of tells a report in sentences.
func Of(r *report.Report) Assessment {
	a := &assessing{Report: r, reasons: map[*report.Row][]reason{}}
	cells := a.cells()
	first := a.answer(cells)
	if r.Expected != nil && len(r.Trials) > 0 {
		first.Text = a.expected() + " " + first.Text
	}
	a.sum(cells)
	a.memory(cells)
	a.compared(cells)
	a.invalid(cells)
	a.failed(cells)
	a.unsure(cells)
	a.unlike(cells)
	a.lines(cells)
	a.uneven()
	a.paths()
	a.fastestParts()
	a.materialised()
	a.same(cells)
	a.noise()
	slices.SortStableFunc(a.out, func(x, y Sentence) int {
		return slices.Index(sentenceOrder, x.Kind) - slices.Index(sentenceOrder, y.Kind)
	})
	for i := range a.out {
		slices.Sort(a.out[i].Notes)
		a.out[i].Notes = slices.Compact(a.out[i].Notes)
	}
	return Assessment{append([]Sentence{first}, a.out...)}
}

// expected counts the expectations.
func (a *assessing) expected() string {
	all, n := len(a.Expected), a.Outcomes()
	is := func(n int) string {
		if n == 1 {
			return "is"
		}
		return "are"
	}
	switch missed, undecided := n[expect.Missed], n[expect.Undecided]; {
	case all == 1:
		return fmt.Sprintf("The expectation is %s.", a.Expected[0].Outcome)
	case missed+undecided == 0:
		return fmt.Sprintf("All %d expectations are met.", all)
	case undecided == 0:
		return fmt.Sprintf("Of %d expectations, %d %s missed.", all, missed, is(missed))
	case missed == 0:
		return fmt.Sprintf("Of %d expectations, %d %s undecided.", all, undecided, is(undecided))
	default:
		return fmt.Sprintf("Of %d expectations, %d %s missed and %d %s undecided.", all, missed, is(missed), undecided, is(undecided))
	}
}

// cells are the rows that a comparison was meant for: those of the metrics that decide, without the
// baseline's and those of targets that have no part in a workload.
func (a *assessing) cells() []assessed {
	var out []assessed
	for i := range a.Sections {
		s := &a.Sections[i]
		if !s.Decides {
			continue
		}
		for j := range s.Rows {
			if r := &s.Rows[j]; !r.Baseline && (r.Ran > 0 || r.Err != "" || len(a.unmeasured(r)) > 0) {
				out = append(out, assessed{s, r})
			}
		}
	}
	return out
}

// unmeasured are the notes that tell why the workload of a row could not run at all.
func (a *assessing) unmeasured(r *report.Row) (out []*report.Note) {
	for _, n := range a.Found() {
		if n.Rule == rules.CellNotMeasured.ID && a.Concerns(n, r) {
			out = append(out, n)
		}
	}
	return out
}

func (a *assessing) say(s Sentence) { a.out = append(a.out, s) }

// notes are the numbers of the row's notes of those rules.
func (a *assessing) notes(r *report.Row, ids ...string) []int {
	var out []int
	for _, n := range a.Found() {
		if slices.Contains(ids, n.Rule) && a.Concerns(n, r) {
			if n.Number > 0 {
				out = append(out, n.Number)
			}
		}
	}
	return out
}
