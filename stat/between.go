package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// DiagnosticAlpha is the level of tests for conditions that make intervals invalid. Each gives a false alarm in
// about one of a hundred sound studies.
const DiagnosticAlpha = 0.01

// A SerialTest tests whether neighbouring values are more alike than chance explains.
type SerialTest struct {
	Lag1 float64 // the lag-one autocorrelation r₁; NaN where there is none
	P    float64 // one-sided p value against independence; NaN below five values
}

// Found reports whether the correlation is significant at DiagnosticAlpha.
func (s SerialTest) Found() bool { return s.P <= DiagnosticAlpha }

// Serial tests the values of successive rounds for a positive lag-one autocorrelation. Under independence r₁ of n
// normal values has mean −1/n and variance (n−2)²/(n²(n−1)) (Moran 1948; Dufour & Roy 1985 for any lag). The
// standardised value is treated as normal. Correlated rounds have less information than independent ones, so that
// the interval is too narrow. Few rounds show little: at n = 6 even φ = 0.6 is rarely found.
func Serial(d []float64) SerialTest {
	t := SerialTest{Lag1: Lag1(d), P: math.NaN()}
	if len(d) < 5 || math.IsNaN(t.Lag1) {
		return t
	}
	n := float64(len(d))
	t.P = distuv.UnitNormal.Survival((t.Lag1 + 1/n) * n * math.Sqrt(n-1) / (n - 2))
	return t
}

// levelSize is the least distance between two levels, as a ratio less 1. Smaller ones do not endanger a verdict.
const levelSize = 0.05

// Levels are the two most distinct groups of a sample.
type Levels struct {
	Found     bool
	Low, High float64 // mean of each group
	Share     float64 // of the values, in the lower group
	Within    float64 // sum of squares within the groups over that of all: 0 is two points, 1 is one group
}

// FindLevels searches for two levels in the logarithms of trials' values, as of a disk with two states, or a guest
// on the right or the wrong memory node. The best division of the sorted sample (least squares, as two-means)
// counts if the groups are 5 % apart and it explains more than in 99 of 100 normal samples of that size. A single
// outlier can be a level. Fewer than six values are not enough.
//
// A study that ends before the rarer level occurs gives a wrong result with a narrow interval, which no test
// inside the study can detect.
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
