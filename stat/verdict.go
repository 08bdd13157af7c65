package stat

// A Verdict is the result of a comparison. Its text is part of the JSON contract.
type Verdict string

const (
	Worse        Verdict = "worse"                 // by more than the margin
	Better       Verdict = "better"                // by more than the margin
	Equivalent   Verdict = "equivalent"            // inside the margin
	BelowMargin  Verdict = "differs, below margin" // inside the margin, but the interval excludes 1
	Inconclusive Verdict = "inconclusive"          // the interval crosses the margin, or there is no interval

	// The following verdicts do not come from an interval.

	TooFew           Verdict = "too few trials" // too few valid trials (or I/Os beyond the quantile) for an interval
	NotRanked        Verdict = "not ranked"     // the sides differ in durability, emulation or work, or have no common baseline, or the metric has no better direction
	NotComparable    Verdict = "not comparable" // a check found that the result is invalid
	TooManyDiscarded Verdict = "invalid"        // more than MaxDiscarded of the trials were discarded
	NoResult         Verdict = "no result"      // the target could not be opened, or no valid trial has the value
	NoVerdict        Verdict = ""               // nothing to judge: the baseline itself, or a row without a reference
)

// MaxDiscarded is the maximum share of discarded trials. With a larger share, the cell is invalid.
const MaxDiscarded = 0.20

// Judge returns the verdict for the interval of an oriented ratio and the margin δ. δ is a ratio (0.05 is 5 %) that
// must be fixed before the run. The verdicts compare the interval with 1/(1+δ) and 1+δ. "Equivalent" is the result of
// two one-sided tests (Schuirmann 1987). Without bounds and with fewer than LeastTrials observations, the verdict is
// TooFew. A negative margin counts as 0.
func Judge(r Interval, margin float64) Verdict {
	margin = max(margin, 0)
	low, high := 1/(1+margin), 1+margin
	switch {
	case !r.Bounded() && r.N < LeastTrials:
		return TooFew
	case !r.Bounded():
		return Inconclusive
	case r.Hi < low:
		return Worse
	case r.Lo > high:
		return Better
	case r.Lo >= low && r.Hi <= high && !r.Contains(1):
		return BelowMargin
	case r.Lo >= low && r.Hi <= high:
		return Equivalent
	}
	return Inconclusive
}
