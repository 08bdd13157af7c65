// Package assess summarizes a report in sentences, worst first: the losses, their causes if a check found any, and
// how the run was measured.
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

// An Assessment summarizes a report in sentences. The first sentence is the answer. SentenceKind orders the others.
type Assessment struct {
	Sentences []Sentence
}

// Answer returns the text of the first sentence, which reports the largest loss if there is one.
func (a Assessment) Answer() string { return a.Sentences[0].Text }

// A Sentence is one statement, with the numbers that support it.
type Sentence struct {
	Kind    SentenceKind `json:"kind"`
	Text    string       `json:"text"`
	Figures []Figure     `json:"figures,omitempty"` // nil for a sentence about the whole run
	Causes  []Cause      `json:"causes,omitempty"`  // causes that a check or explained trials support; each appears in Text
	Notes   []int        `json:"-"`                 // numbers of the notes that support the sentence, ascending
}

// A SentenceKind determines the position of a sentence. After the answer, sentences follow in the order of this list.
type SentenceKind string

const (
	SaysNothing SentenceKind = "nothing"      // there is nothing to compare
	SaysSum     SentenceKind = "sum"          // counts of verdicts, and problems that checks found
	SaysMemory  SentenceKind = "memory"       // a reference is served from memory, not from a device
	SaysLoss    SentenceKind = "loss"         // a target is worse
	SaysStages  SentenceKind = "stages"       // the stages in which an I/O takes longer
	SaysInvalid SentenceKind = "invalid"      // invalid results
	SaysFailed  SentenceKind = "failed"       // a target without a result
	SaysUnsure  SentenceKind = "inconclusive" // more rounds are needed for a verdict
	SaysUnlike  SentenceKind = "not ranked"   // targets that are not ranked because their durability differs
	SaysShare   SentenceKind = "share"        // share of a network's rate, or ratio to a target other than the reference
	SaysUneven  SentenceKind = "uneven"       // clients with unequal shares
	SaysPath    SentenceKind = "fast path"    // whether a repeated operation took the fast path
	SaysBest    SentenceKind = "best way"     // the fastest part size and concurrency
	SaysLazy    SentenceKind = "lazy"         // costs and gains of using a volume before it is fully copied
	SaysGain    SentenceKind = "gain"         // a target is better
	SaysSame    SentenceKind = "same"         // the difference is within the margin
	SaysNoise   SentenceKind = "noise"        // values that vary too much between trials
)

var sentenceOrder = []SentenceKind{SaysNothing, SaysSum, SaysMemory, SaysLoss, SaysStages, SaysInvalid, SaysFailed, SaysUnsure, SaysUnlike, SaysShare, SaysUneven, SaysPath, SaysBest, SaysLazy, SaysGain, SaysSame, SaysNoise}

// A Figure is a number that supports a sentence.
type Figure struct {
	Target   string         `json:"target"`
	Workload string         `json:"workload"`
	Metric   string         `json:"metric"`
	Against  string         `json:"against,omitempty"` // target that Ratio is relative to, if any
	Ratio    *stat.Interval `json:"ratio,omitempty"`   // nil if there is no ratio
}

// A Cause is the explanation of a number, based on a check or on explained trials.
type Cause struct {
	Rule string `json:"rule"` // the check's rule, for example "blocking-submit" or "line-rate"
	Text string `json:"text"` // as in the sentence
}

// assessing holds the state of Of while it builds an Assessment.
type assessing struct {
	*report.Report
	out []Sentence

	reasons map[*report.Row][]reason // cached results of findReasons
}

// An assessed is a row and its section.
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

func (c assessed) cell() report.Cell { return report.Cell{Target: c.r.Target, Workload: c.s.Workload} }

func (c assessed) name() string {
	if c.s.First {
		return c.r.Target + " / " + c.s.Workload
	}
	return c.r.Target + " / " + format.Work(c.s.Workload, format.Label(c.s.Metric))
}

// Of returns the assessment of a report. It has at least one sentence.
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
	a.stages()
	a.invalid()
	a.failed(cells)
	a.unsure(cells)
	a.unlike(cells)
	a.lines(cells)
	a.uneven()
	a.paths()
	a.fastestParts()
	a.lazy()
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

// expected returns a sentence that counts the missed and undecided expectations.
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

// cells returns the rows of the deciding metrics. It omits the baseline's rows, and the rows of targets that do not run
// the workload.
func (a *assessing) cells() []assessed {
	var out []assessed
	for s, r := range a.Rows() {
		if s.Decides && !r.Baseline && (r.Ran > 0 || r.Err != "" || len(a.unmeasured(r)) > 0) {
			out = append(out, assessed{s, r})
		}
	}
	return out
}

// unmeasured returns the notes that explain why a workload could not run on the row's target.
func (a *assessing) unmeasured(r *report.Row) (out []*report.Note) {
	for _, n := range a.Found() {
		if n.Rule == rules.CellNotMeasured.ID && a.Concerns(n, r) {
			out = append(out, n)
		}
	}
	return out
}

func (a *assessing) say(s Sentence) { a.out = append(a.out, s) }

// notes returns the numbers of the row's notes that have one of the given rules. It omits notes without a number.
func (a *assessing) notes(r *report.Row, ids ...string) []int {
	var out []int
	for _, n := range a.Found() {
		if n.Number > 0 && slices.Contains(ids, n.Rule) && a.Concerns(n, r) {
			out = append(out, n.Number)
		}
	}
	return out
}
