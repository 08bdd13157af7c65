package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// LeastSegment is the minimum number of values before, between and after change points. A single deviating run is an
// outlier, not a change.
const LeastSegment = 3

// MostPoints is the maximum number of values that ChangePoints uses. ChangePoints uses the most recent ones, because
// its run time grows with the square of the number of values.
const MostPoints = 500

// permutations is the number of permutations for a p value, whose resolution is therefore 0.002.
const permutations = 499

// A ChangePoint is a position in a sequence where the distribution of the values changes.
type ChangePoint struct {
	Index int     // index of the first value of the new level
	P     float64 // permutation p value, at most DiagnosticAlpha

	// Change compares the segments before and after the change point (see EstimateChange). It is a ratio of values, not
	// of logarithms, and it is not oriented: above 1 means larger values. Its interval is slightly too narrow, because
	// the index was chosen to maximize the change.
	Change Change
}

// ChangePoints finds changes in a sequence with the E-divisive method (Matteson & James, "A Nonparametric Approach for
// Multiple Change Point Analysis of Multivariate Data", JASA 109, 2014). logs contains the logarithms of a value over
// time, one for each run.
//
// ChangePoints divides a segment at the position with the largest energy distance between the n values before it and
// the m values after it (exponent 1, weighted by nm/(n+m)). The m values may end before the segment does, so that a
// later change does not reduce the distance. The division counts if its permutation p value is at most 1 %.
// ChangePoints then divides both sides in the same way. Without a change, the probability of a false change point is at
// most 1 %, if all orders of the values are equally likely. It is higher if runs are similar to their neighbours (an
// aging disk, a warming room).
//
// If the value is a percentile, hidden is the maximum error of the log ratio of two values, from the bins of histograms.
// ChangePoints removes changes of at most this size, the smallest first. It merges the levels on both sides, so it still
// finds a drift by one bin at a time.
//
// With fewer than ten values, a change is rarely significant at this level. ChangePoints returns nil if a value is not
// finite. The permutations have a fixed seed, so equal sequences have equal results.
func ChangePoints(logs []float64, hidden float64) []ChangePoint {
	if slices.ContainsFunc(logs, notFinite) {
		return nil
	}
	skip := max(0, len(logs)-MostPoints)
	logs = logs[skip:]
	var found []ChangePoint
	var divide func(from, to int)
	divide = func(from, to int) {
		at, p := split(logs[from:to])
		if at == 0 {
			return
		}
		divide(from, from+at)
		found = append(found, ChangePoint{Index: from + at, P: p})
		divide(from+at, to)
	}
	divide(0, len(logs))
	for {
		weakest, least := -1, hidden
		for i := range found {
			from, to := 0, len(logs)
			if i > 0 {
				from = found[i-1].Index
			}
			if i+1 < len(found) {
				to = found[i+1].Index
			}
			c, err := EstimateChange(logs[from:found[i].Index], logs[found[i].Index:to], Options{Alpha: 1 - Confidence, Least: LeastSegment, Hidden: hidden})
			if err != nil {
				c = noEffect(0)
			}
			found[i].Change = c
			if size := math.Abs(math.Log(c.Estimate)); hidden > 0 && size <= least {
				weakest, least = i, size
			}
		}
		if weakest < 0 {
			break
		}
		found = slices.Delete(found, weakest, weakest+1)
	}
	for i := range found {
		found[i].Index += skip
	}
	return found
}

// split returns the index of the first value after the best division of xs, and the p value of the division. at is 0
// if the division is not significant.
func split(xs []float64) (at int, p float64) {
	n := len(xs)
	if n < 2*LeastSegment {
		return 0, 1
	}
	e := newEnergy(xs)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	at, seen := e.best(order)
	if !(seen > 0) {
		return 0, 1
	}
	r := rand.New(rand.NewPCG(uint64(n), 20140101))
	beaten, allowed := 0, int(DiagnosticAlpha*(permutations+1))-1
	for range permutations {
		r.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		// The factor allows for rounding: an order with the same statistic must count.
		if _, q := e.best(order); q >= seen*(1-1e-12) {
			if beaten++; beaten > allowed {
				return 0, 1
			}
		}
	}
	return at, float64(1+beaten) / (permutations + 1)
}

// An energy contains the distances between all pairs of values of a segment, and scratch memory for sums over
// rectangles.
type energy struct {
	n    int
	dist []float64 // n × n
	sums []float64 // (n+1) × (n+1): sum over all rows before i and columns before j
}

func newEnergy(xs []float64) *energy {
	n := len(xs)
	e := &energy{n: n, dist: make([]float64, n*n), sums: make([]float64, (n+1)*(n+1))}
	for i, x := range xs {
		for j, y := range xs {
			e.dist[i*n+j] = math.Abs(x - y)
		}
	}
	return e
}

// best returns the best division of the values of the segment in the given order, and its statistic. at is 0 if no
// division has a positive statistic.
func (e *energy) best(order []int) (at int, q float64) {
	n, w := e.n, e.n+1
	for i := range n {
		row, dist := 0.0, e.dist[order[i]*n:(order[i]+1)*n]
		above, here := e.sums[i*w:(i+1)*w], e.sums[(i+1)*w:(i+2)*w]
		for j, o := range order {
			row += dist[o]
			here[j+1] = above[j+1] + row
		}
	}
	for t := LeastSegment; t+LeastSegment <= n; t++ {
		a := float64(t)
		left := e.sums[t*w+t] / (a * (a - 1)) // the sum counts each pair twice
		for k := t + LeastSegment; k <= n; k++ {
			b := float64(k - t)
			between := e.sums[t*w+k] - e.sums[t*w+t]
			right := (e.sums[k*w+k] - e.sums[t*w+k] - e.sums[k*w+t] + e.sums[t*w+t]) / (b * (b - 1))
			if v := a * b / (a + b) * (2*between/(a*b) - left - right); v > q {
				at, q = t, v
			}
		}
	}
	return at, q
}
