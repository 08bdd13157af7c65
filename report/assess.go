package report

import (
	"iotax/stat"
)

// An Assessment is the report in sentences, worst first. Sentences[0] is the report's Answer.
type Assessment struct {
	Sentences []Sentence
}

// A Sentence says one thing, and what it rests on.
type Sentence struct {
	Kind    SentenceKind
	Text    string
	Figures []AssessedFigure // in the order in which the text tells them; none for a sentence about the run
	Causes  []Cause          // those that a check supports; each is told in Text
	Notes   []int            // numbers of the notes behind it
}

// A SentenceKind sorts sentences; the kinds are told in this order.
type SentenceKind string

const (
	SaysNothing SentenceKind = "nothing"      // there is nothing to compare
	SaysLoss    SentenceKind = "loss"         // a target is surely worse
	SaysInvalid SentenceKind = "invalid"      // numbers that must not be quoted
	SaysFailed  SentenceKind = "failed"       // a target without a number
	SaysUnsure  SentenceKind = "inconclusive" // more blocks are needed
	SaysUnlike  SentenceKind = "not ranked"   // unlike things
	SaysNoise   SentenceKind = "noise"        // figures that vary
	SaysShare   SentenceKind = "share"        // of a line or of another target that is no baseline
	SaysPath    SentenceKind = "fast path"    // whether the second of two like things was fast
	SaysGain    SentenceKind = "gain"         // a target is surely better
	SaysSame    SentenceKind = "same"         // inside the margin
)

// An AssessedFigure is a number that a sentence tells.
type AssessedFigure struct {
	Target, Workload, Metric string
	Against                  string // what Ratio is to
	Ratio                    *stat.Interval
}

// A Cause is why a number is what it is, as far as a check says so.
type Cause struct {
	Rule string // of the check: "blocking-submit", "line-rate"
	Text string // as the sentence has it
}
