package stat

import (
	"errors"
	"math"
)

// A Sample is the sufficient statistic of log ratios: their count, their sum and the sum of their squares.
type Sample struct {
	N            int
	Sum, Squares float64
}

// SampleOf returns the Sample of d.
func SampleOf(d []float64) (s Sample) {
	for _, x := range d {
		s = s.Plus(Sample{1, x, x * x})
	}
	return s
}

// Plus returns the union of two samples.
func (s Sample) Plus(o Sample) Sample { return Sample{s.N + o.N, s.Sum + o.Sum, s.Squares + o.Squares} }

// about returns the sum of squared deviations from a level.
func (s Sample) about(level float64) float64 {
	return s.Squares - 2*level*s.Sum + float64(s.N)*level*level
}

// A Slowdown compares two hypotheses about a candidate: that it has the slowdown of the slow versions, and that it
// is as fast as the reference. Both fields are log likelihood ratios. Positive values support the slowdown.
type Slowdown struct {
	Odds float64 // averaged over slowdown sizes, which begin below the minimum size
	Most float64 // the largest ratio over the sizes that are not below the minimum size
}

// MaxSlowdown is the largest slowdown that Slowed considers, as a ratio.
const MaxSlowdown = 16

// slowdownSizes is the number of sizes in the average.
const slowdownSizes = 64

// Slowed tests a candidate by its log ratios to the reference. `slow` contains the log ratios of versions with the
// slowdown, and `fast` those of versions without it. Both may be empty. The slowdown is at least `least`, a ratio above
// 0 (0.05 is 5 %), and has the same size in all slow versions. The noise is assumed to be normal with the same unknown
// σ in all rounds, with Jeffreys' prior 1/σ.
//
// Without a slowdown, the probability that Odds ever reaches ln(1/α) is at most about α, however often it is computed
// (Ville's inequality). With a slowdown, the probability that Most ever falls to ln α is at most about α.
func Slowed(candidate, fast, slow Sample, least float64) (Slowdown, error) {
	if !(least > 0 && least < MaxSlowdown-1) {
		return Slowdown{}, errors.New("weigh a slowdown: the least slowdown must be above 0 and below 16-fold")
	}
	if candidate.N == 0 {
		return Slowdown{}, nil
	}
	n := float64(candidate.N + fast.N + slow.N)
	logLikelihood := func(squares float64) float64 { return -n / 2 * math.Log(math.Max(squares, 1e-12*n)) }
	interesting := math.Log1p(least)
	smallest := 0.75 * interesting
	step := math.Log(math.Log(MaxSlowdown)/smallest) / (slowdownSizes - 1)
	compare := func(level float64) (yes, no float64) {
		others := fast.about(0) + slow.about(level)
		return logLikelihood(others + candidate.about(level)), logLikelihood(others + candidate.about(0))
	}
	var with, without []float64
	yes, no := compare(-interesting) // not one of the sizes below
	most := yes - no
	for i := range slowdownSizes {
		level := -smallest * math.Exp(float64(i)*step)
		yes, no := compare(level)
		with, without = append(with, yes), append(without, no)
		if -level >= interesting {
			most = math.Max(most, yes-no)
		}
	}
	return Slowdown{Odds: logSumExp(with) - logSumExp(without), Most: most}, nil
}

// logSumExp returns the logarithm of the sum of the exponentials of xs.
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
