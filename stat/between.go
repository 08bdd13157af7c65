package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// DiagnosticAlpha is the level of the tests that look for what the intervals do not survive: each
// speaks falsely about once in a hundred sound studies.
const DiagnosticAlpha = 0.01

// A SerialTest says whether neighbouring values are more alike than chance would have them.
type SerialTest struct {
	Lag1 float64 // the lag-one autocorrelation r₁; NaN where there is none
	P    float64 // one-sided p value against independence; NaN below five values
}

// Found reports whether the correlation is beyond doubt at DiagnosticAlpha.
func (s SerialTest) Found() bool { return s.P <= DiagnosticAlpha }

// Serial tests the values of successive rounds for a positive lag-one autocorrelation. Under
// independence r₁ of n normal values has mean −1/n and variance (n−2)²/(n²(n−1)) (Moran 1948; Dufour &
// Roy 1985 have it for any lag); the standardised value is taken as normal. Correlated rounds tell less than
// their number says, so that the interval is too narrow. Few rounds show little: at n = 6 even φ = 0.6 is
// rarely found.
func Serial(d []float64) SerialTest {
	t := SerialTest{Lag1: Lag1(d), P: math.NaN()}
	if len(d) < 5 || math.IsNaN(t.Lag1) {
		return t
	}
	n := float64(len(d))
	t.P = distuv.UnitNormal.Survival((t.Lag1 + 1/n) * n * math.Sqrt(n-1) / (n - 2))
	return t
}

// levelSize is how far apart two levels are at least, as a ratio less 1: nearer ones are no danger to
// a verdict.
const levelSize = 0.05

// Levels are the two groups that a sample falls into most clearly.
type Levels struct {
	Found     bool
	Low, High float64 // mean of each group
	Share     float64 // of the values, in the lower group
	Within    float64 // sum of squares within the groups over that of all: 0 is two points, 1 is one group
}

// FindLevels looks for two levels in the logarithms of values of trials: a disk that is in one of two
// moods, a guest that lands on the right or the wrong memory node. The best split of the sorted sample
// (least squares, as two-means has it) counts when the groups are 5 % apart and the split explains
// more than it would in 99 of 100 normal samples of that size. A single outlier is a level too. Fewer
// than six values say nothing.
//
// It matters because a study that is over before the rarer level has shown itself is sure of the
// wrong thing; no test can tell that from the inside.
func FindLevels(logs []float64) Levels {
	l := Levels{Low: math.NaN(), High: math.NaN(), Share: math.NaN(), Within: math.NaN()}
	n := len(logs)
	if n < 6 || slices.ContainsFunc(logs, notFinite) {
		return l
	}
	s := slices.Clone(logs)
	slices.Sort(s)
	m := mean(s)
	var total, left, best float64
	at := 0
	for _, x := range s {
		total += (x - m) * (x - m)
	}
	for i := 1; i < n; i++ {
		left += s[i-1] - m
		if b := left * left * float64(n) / float64(i*(n-i)); b > best {
			best, at = b, i
		}
	}
	if at == 0 {
		return l
	}
	l.Low, l.High, l.Share, l.Within = mean(s[:at]), mean(s[at:]), float64(at)/float64(n), math.Max(0, 1-best/total)
	l.Found = l.High-l.Low >= math.Log1p(levelSize) && l.Within <= levelsLimit(n)
	return l
}

// levelsLimit interpolates the simulated limits in 1/n.
func levelsLimit(n int) float64 {
	t, x := tables().Levels, float64(n)
	for i, b := range t {
		switch {
		case x > b[0]:
		case i == 0:
			return b[1]
		default:
			a := t[i-1]
			return a[1] + (1/a[0]-1/x)/(1/a[0]-1/b[0])*(b[1]-a[1])
		}
	}
	return t[len(t)-1][1]
}
