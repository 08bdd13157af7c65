package stat

import (
	"errors"
	"math"
)

// A Sample is what a comparison of levels needs of log ratios: their number, their sum and the sum of their squares.
type Sample struct {
	N            int
	Sum, Squares float64
}

// SampleOf adds up log ratios.
func SampleOf(d []float64) (s Sample) {
	for _, x := range d {
		s = s.Plus(Sample{1, x, x * x})
	}
	return s
}

// Plus is the sample of both.
func (s Sample) Plus(o Sample) Sample { return Sample{s.N + o.N, s.Sum + o.Sum, s.Squares + o.Squares} }

// about is the sum of squares about a level.
func (s Sample) about(level float64) float64 {
	return s.Squares - 2*level*s.Sum + float64(s.N)*level*level
}

// A Slowdown is what the rounds of a bisection show of a candidate: whether it has the slowdown that some versions have, or is as
// fast as the reference. Both are logarithms of likelihood ratios, and more than 0 speaks for the slowdown.
type Slowdown struct {
	Odds float64 // over all sizes of the slowdown, those alike that differ by the same factor
	Most float64 // for the size that the rounds fit best
}

// MaxSlowdown is the largest slowdown, as a ratio, that Slowed takes into account.
const MaxSlowdown = 16

// slowdownSizes is how many sizes of slowdowns stand for all.
const slowdownSizes = 64

// Slowed weighs the log ratios of a candidate to the reference. slow has those of versions with the slowdown, fast those of
// versions without it, both possibly empty. The slowdown is at least least, a ratio more than 0 (0.05 is 5 %), and the same in
// all versions that have it. Noise is normal, of one unknown size (its prior is Jeffreys', 1/σ) in all rounds.
//
// If the candidate has no slowdown, the chance that Odds ever reach ln(1/α), however often they are computed, is at most about α
// (Ville's inequality). If it has one of the given size, the chance that Most ever is ln α or less is at most about α as well.
// TestSlowed and internal/bisect simulate both.
func Slowed(candidate, fast, slow Sample, least float64) (Slowdown, error) {
	if !(least > 0 && least < MaxSlowdown-1) {
		return Slowdown{}, errors.New("weigh a slowdown: the least of interest must be more than 0 and less than 16-fold")
	}
	if candidate.N == 0 {
		return Slowdown{}, nil
	}
	n := float64(candidate.N + fast.N + slow.N)
	logLikelihood := func(squares float64) float64 { return -n / 2 * math.Log(math.Max(squares, 1e-12*n)) }
	interesting := math.Log1p(least)
	smallest := 0.75 * interesting
	step := math.Log(math.Log(MaxSlowdown)/smallest) / (slowdownSizes - 1)
	var with, without []float64
	most := math.Inf(-1)
	for i := range slowdownSizes {
		level := -smallest * math.Exp(float64(i)*step)
		others := fast.about(0) + slow.about(level)
		yes, no := logLikelihood(others+candidate.about(level)), logLikelihood(others+candidate.about(0))
		with, without = append(with, yes), append(without, no)
		if -level >= interesting {
			most = math.Max(most, yes-no)
		}
	}
	return Slowdown{Odds: logSumExp(with) - logSumExp(without), Most: most}, nil
}

// logSumExp is the logarithm of the sum of exponentials.
func logSumExp(xs []float64) float64 {
	most := math.Inf(-1)
	for _, x := range xs {
		most = math.Max(most, x)
	}
	var s float64
	for _, x := range xs {
		s += math.Exp(x - most)
	}
	return most + math.Log(s)
}
