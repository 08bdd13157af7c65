package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// DiagnosticAlpha is the significance level of the tests of the assumptions behind intervals. Each test raises a false
// alarm in about 1 % of sound studies.
const DiagnosticAlpha = 0.01

// A SerialTest is the result of a test for positive correlation between neighbouring values.
type SerialTest struct {
	Lag1 float64 // the lag-one autocorrelation r₁; NaN if undefined
	P    float64 // one-sided p value against independence; NaN for fewer than five values, or if Lag1 is NaN
}

// Found reports whether the correlation is significant at DiagnosticAlpha.
func (s SerialTest) Found() bool { return s.P <= DiagnosticAlpha }

// Serial tests the values of successive rounds for a positive lag-one autocorrelation. Under independence, r₁ of n
// normal values has mean −1/n and variance (n−2)²/(n²(n−1)) (Moran 1948; Dufour & Roy 1985 for any lag). Serial treats
// the standardized value as normal. With few rounds the test has little power: at n = 6 it rarely detects even φ = 0.6.
func Serial(d []float64) SerialTest {
	t := SerialTest{Lag1: Lag1(d), P: math.NaN()}
	if len(d) < 5 || math.IsNaN(t.Lag1) {
		return t
	}
	n := float64(len(d))
	t.P = distuv.UnitNormal.Survival((t.Lag1 + 1/n) * n * math.Sqrt(n-1) / (n - 2))
	return t
}

// levelSize is the minimum distance between two levels, as a ratio minus 1.
const levelSize = 0.05

// Levels describes the two most distinct groups of a sample.
type Levels struct {
	Found     bool
	Low, High float64 // mean of each group
	Share     float64 // share of the values in the lower group
	Within    float64 // share of the total sum of squares that is within the groups
}

// FindLevels searches for two levels in the logarithms of trial values. It divides the sorted sample by least squares,
// as in two-means. The division counts if the groups are at least 5 % apart and if it explains more variance than the
// best division of 99 % of normal samples of the same size. A single outlier can be a level. With fewer than six
// values, with a value that is not finite, or if all values are equal, Found is false and the other fields are NaN.
//
// If a study ends before the rarer level occurs, no test of its data can detect that the result is wrong.
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

// levelsLimit returns the largest Within at which a sample of n values counts as two levels. It interpolates the
// simulated limits linearly in 1/n.
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
