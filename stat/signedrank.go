package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactLimit is the largest sample size for which rankDepth and rankTail compute the exact signed-rank distribution.
// Above it, the error of the normal approximation is smaller than the steps of the distribution.
const exactLimit = 200

// signSums returns the probability distribution of the sum of the ranks 1…n, each included with probability one half.
func signSums(n int) []float64 {
	pmf := make([]float64, n*(n+1)/2+1)
	pmf[0] = 1
	for r := 1; r <= n; r++ {
		for s := r * (r + 1) / 2; s >= 0; s-- {
			pmf[s] /= 2
			if s >= r {
				pmf[s] += pmf[s-r] / 2
			}
		}
	}
	return pmf
}

var rankDepths memo[rankKey, int]

type rankKey struct {
	n     int
	alpha float64
}

// rankDepth returns the largest k with P(T⁺ ≤ k−1) ≤ alpha/2. The 1−alpha interval goes from the k-th smallest to the
// k-th largest Walsh average. The whole range has a coverage of 1−2^(1−n). k is 0 if this coverage is below 1−alpha,
// because no bounded interval then has the level.
func rankDepth(n int, alpha float64) int {
	if n > exactLimit {
		m := float64(n)
		z := distuv.UnitNormal.Quantile(1 - alpha/2)
		return max(0, int(m*(m+1)/4-z*math.Sqrt(m*(m+1)*(2*m+1)/24)))
	}
	return rankDepths.get(rankKey{n, alpha}, func() int {
		k, cum := 0, 0.0
		for _, m := range signSums(n) {
			// Rounding must not affect the result for an alpha such as 1/32.
			if cum += m; cum > alpha/2*(1+1e-12) {
				break
			}
			k++
		}
		return k
	})
}

var rankTails memo[int, []float64]

// rankTail returns P(T⁺ ≤ c) for n values without ties, consistently with rankDepth.
func rankTail(n, c int) float64 {
	if n > exactLimit {
		m := float64(n)
		return distuv.UnitNormal.CDF((float64(c+1) - m*(m+1)/4) / math.Sqrt(m*(m+1)*(2*m+1)/24))
	}
	cdf := rankTails.get(n, func() []float64 {
		cdf := signSums(n)
		for i := 1; i < len(cdf); i++ {
			cdf[i] += cdf[i-1]
		}
		return cdf
	})
	return cdf[c]
}

// walshP returns the largest alpha at which signedRankInterval contains mu. mu must be within the range of d. The
// interval excludes mu if the depth of the interval is larger than the number of Walsh averages on one side of mu,
// including averages equal to mu.
func walshP(d []float64, mu float64) float64 {
	w := walshOf(d)
	return math.Min(1, 2*rankTail(len(d), min(w.atMost(mu), w.len()-w.atMost(math.Nextafter(mu, math.Inf(-1))))))
}

// signedRankInterval inverts the signed-rank test at level alpha: the interval goes from the k-th smallest to the k-th
// largest Walsh average (dᵢ+dⱼ)/2, i ≤ j. With ties, the closed interval has at least its level (Lehmann,
// Nonparametrics, 4.2). If no bounded interval has the level, it returns the whole range and exact is false.
func signedRankInterval(d []float64, alpha float64) (lo, hi float64, exact bool) {
	var small [32]float64 // on the stack, because simulations call this a million times
	s := append(small[:0], d...)
	slices.Sort(s)
	k := rankDepth(len(s), alpha)
	if k <= 1 { // the extreme averages equal the extreme values
		return s[0], s[len(s)-1], k == 1
	}
	w := walsh(s)
	return w.kth(k), w.kth(w.len() + 1 - k), true
}

// hodgesLehmann returns the median of the Walsh averages.
func hodgesLehmann(d []float64) float64 {
	w := walshOf(d)
	return (w.kth((w.len()+1)/2) + w.kth(w.len()/2+1)) / 2
}

// walsh represents the Walsh averages of its sorted values without storing them. A thousand rounds have half a
// million averages.
type walsh []float64

func walshOf(d []float64) walsh { return slices.Sorted(slices.Values(d)) }

func (w walsh) len() int { return len(w) * (len(w) + 1) / 2 }

// atMost returns the number of averages that are at most v. Rounding does not change the order of averages, so the
// count agrees with the computed averages.
func (w walsh) atMost(v float64) int {
	n, j := 0, len(w)-1
	for i := 0; i <= j; i++ {
		for j >= i && w[i]/2+w[j]/2 > v {
			j--
		}
		n += j - i + 1
	}
	return n
}

// kth returns the k-th smallest average. k starts at 1.
func (w walsh) kth(k int) float64 {
	return leastWith(k, w[0], w[len(w)-1], w.atMost)
}
