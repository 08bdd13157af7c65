// Package stat computes estimates with intervals, verdicts, and the decision to continue measuring. It is pure: no I/O,
// no clock, and no randomness apart from seeded generators.
//
// The unit of evidence is the trial: the seconds of a trial are correlated and do not count as replicates. Two targets
// are compared in each round (one trial of every target), by the logarithm of their ratio. Effects on a whole round
// therefore cancel.
//
// docs/dev/method.md explains the choices. Functions name the sources of their formulas.
package stat

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// Confidence is the level of the intervals that iotax prints, 0.95.
const Confidence = 0.95

// LeastTrials is the minimum number of trials for an interval or a verdict. With fewer trials, no order-statistic
// interval of the median reaches 95 %, and an interval of a ratio is valid only for normal noise.
const LeastTrials = 6

// An Interval is an estimate and its confidence bounds, in the unit of the sample. Lo and Hi are NaN if the sample is
// too small for an interval. For an empty sample, Estimate is NaN too.
type Interval struct {
	Estimate, Lo, Hi float64
	N                int // number of observations: trials for a value, rounds for a ratio
}

// MarshalJSON encodes {"estimate", "lo", "hi", "n"}. A missing number is null.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Estimate iotax.Number `json:"estimate"`
		Lo       iotax.Number `json:"lo"`
		Hi       iotax.Number `json:"hi"`
		N        int          `json:"n"`
	}{iotax.Number(i.Estimate), iotax.Number(i.Lo), iotax.Number(i.Hi), i.N})
}

// Bounded reports whether the interval has bounds.
func (i Interval) Bounded() bool { return !math.IsNaN(i.Lo) && !math.IsNaN(i.Hi) }

// Contains reports whether x is within the interval, bounds included.
func (i Interval) Contains(x float64) bool { return i.Lo <= x && x <= i.Hi }

// HalfWidth returns the half width of a ratio's interval on the logarithmic scale, as a ratio: 0.05 means ± 5 %. It
// is NaN without bounds.
func (i Interval) HalfWidth() float64 { return math.Expm1((math.Log(i.Hi) - math.Log(i.Lo)) / 2) }

// Apart reports whether two ratios differ by more than their noise. It computes the interval of the difference of their
// logarithms, for which the squares of the half widths are added (MOVER; Zou and Donner, Statistics in Medicine 27,
// 2008). It assumes that the ratios are independent. For ratios to the same baseline in the same rounds it is
// conservative: the noise of the baseline is in both, and cancels in their difference. It returns false if a ratio has no
// bounds.
func Apart(x, y Interval) bool {
	if x.Estimate > y.Estimate {
		x, y = y, x
	}
	between := func(from, to float64) float64 { return math.Log(to / from) }
	return between(x.Estimate, y.Estimate) > math.Hypot(between(x.Estimate, x.Hi), between(y.Lo, y.Estimate))
}

// none returns an interval without estimate and bounds for a sample of n values.
func none(n int) Interval { return Interval{math.NaN(), math.NaN(), math.NaN(), n} }

// Median returns the sample median with its order-statistic interval of at least 95 %. The interval goes from the k-th
// smallest to the k-th largest value, with the largest k for which P(Binomial(n, ½) < k) ≤ 0.025 (Conover, Practical
// Nonparametric Statistics, 3.2). It makes no assumption about the distribution. For fewer than LeastTrials values, Lo
// and Hi are NaN. Median does not modify xs. If xs contains NaN, the result is NaN.
//
// The tails are equal, so the intervals of a rate and of its reciprocal agree.
func Median(xs []float64) Interval { return MedianAt(xs, 1-Confidence) }

// MedianAt is like Median with an interval of level 1−alpha. The result has bounds only if 2·2⁻ⁿ ≤ alpha for n values.
func MedianAt(xs []float64, alpha float64) Interval {
	n := len(xs)
	if n == 0 || slices.ContainsFunc(xs, math.IsNaN) {
		return none(n)
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	i := Interval{s[(n-1)/2]/2 + s[n/2]/2, math.NaN(), math.NaN(), n}
	if k := medianDepth(n, alpha); k > 0 {
		i.Lo, i.Hi = s[k-1], s[n-k]
	}
	return i
}

var medianDepths memo[depthKey, int]

type depthKey struct {
	n     int
	alpha float64
}

// medianDepth returns the largest k with P(Binomial(n, ½) ≤ k−1) ≤ alpha/2, or 0 if no k satisfies this.
func medianDepth(n int, alpha float64) int {
	return medianDepths.get(depthKey{n, alpha}, func() int {
		b := distuv.Binomial{N: float64(n), P: 0.5}
		k := 0
		for cum := b.Prob(0); cum <= alpha/2; cum += b.Prob(float64(k)) {
			k++
		}
		return k
	})
}

// Wilson returns the 1−alpha score interval of the proportion k/n (Wilson 1927), for simulated coverages. It is NaN
// if k is outside 0…n or n < 1.
func Wilson(k, n int, alpha float64) Interval {
	if n < 1 || k < 0 || k > n {
		return none(n)
	}
	z := distuv.UnitNormal.Quantile(1 - alpha/2)
	p, m := float64(k)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{p, math.Max(0, mid-half), math.Min(1, mid+half), n}
}

// A Tag classifies a value by its distance from most of its sample.
type Tag string

const (
	Inside Tag = ""
	Mild   Tag = "mild"   // beyond 1.5 interquartile ranges from the nearer quartile
	Severe Tag = "severe" // beyond 3 interquartile ranges
)

// Tukey tags each element of xs using Tukey's fences (Exploratory Data Analysis, 1977, 2D). Quartiles are interpolated
// linearly (Hyndman & Fan 1996, type 7). Samples with fewer than four values or with NaN have no tags.
func Tukey(xs []float64) []Tag {
	tags := make([]Tag, len(xs))
	if len(xs) < 4 || slices.ContainsFunc(xs, math.IsNaN) {
		return tags
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	q1, q3 := type7(s, .25), type7(s, .75)
	iqr := q3 - q1
	for i, x := range xs {
		switch out := math.Max(q1-x, x-q3); {
		case out > 3*iqr:
			tags[i] = Severe
		case out > 1.5*iqr:
			tags[i] = Mild
		}
	}
	return tags
}

func type7(sorted []float64, p float64) float64 {
	h := p * float64(len(sorted)-1)
	i := int(h)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// Lag1 returns the lag-one autocorrelation of xs, the moment estimator r₁ of Box & Jenkins. Its bias is about −1/n.
// It is NaN for fewer than three values, or if all values are equal.
func Lag1(xs []float64) float64 {
	if len(xs) < 3 {
		return math.NaN()
	}
	m := mean(xs)
	var num, den float64
	for i, x := range xs {
		den += (x - m) * (x - m)
		if i > 0 {
			num += (x - m) * (xs[i-1] - m)
		}
	}
	if den == 0 {
		return math.NaN()
	}
	return num / den
}

// Holm adjusts the p values of several comparisons (Holm 1979, step down). If all comparisons with an adjusted
// value of at most alpha are rejected, the probability of even one false rejection is at most alpha. The result is
// in the order of p. NaN stays NaN and does not count as a comparison.
func Holm(p []float64) []float64 {
	adjusted := slices.Repeat([]float64{math.NaN()}, len(p))
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	worst := 0.0
	for k, i := range order {
		worst = math.Max(worst, math.Min(1, p[i]*float64(len(order)-k)))
		adjusted[i] = worst
	}
	return adjusted
}

func sum(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
}

func mean(xs []float64) float64 { return sum(xs) / float64(len(xs)) }

// meanSD returns the mean and the sample standard deviation (n−1). It makes two passes, because log ratios with
// little noise differ only in their last digits.
func meanSD(xs []float64) (m, sd float64) {
	m = mean(xs)
	if len(xs) < 2 {
		return m, math.NaN()
	}
	var ss float64
	for _, x := range xs {
		ss += (x - m) * (x - m)
	}
	return m, math.Sqrt(ss / float64(len(xs)-1))
}

var tQuantiles memo[tKey, float64] // computing a quantile takes longer than the rest of an estimate

type tKey struct {
	df int
	p  float64
}

// tQuantile returns the p quantile of Student's t with df degrees of freedom.
func tQuantile(df int, p float64) float64 {
	quantile := func() float64 { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile(p) }
	if df > exactLimit { // such values are rarely reused, and a long run would store one per round
		return quantile()
	}
	return tQuantiles.get(tKey{df, p}, quantile)
}
