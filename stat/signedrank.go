package stat

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactLimit is the largest sample whose signed-rank distribution is computed exactly; beyond it the
// normal approximation errs by less than the distribution's own steps.
const exactLimit = 200

// SignedRank is the Wilcoxon signed-rank test of the hypothesis that d is symmetric about mu. It
// returns T⁺, the sum of the ranks of |d−mu| where d > mu, and the two-sided p value.
//
// Zeros are dropped and tied magnitudes share their mean rank, as Wilcoxon did; p comes from the
// exact distribution given those ranks (all 2ⁿ signs equally likely; Hollander, Wolfe & Chicken,
// Nonparametric Statistical Methods, 3.1), beyond 200 values from its normal approximation with
// continuity correction. Without a nonzero difference p is 1.
func SignedRank(d []float64, mu float64) (tPlus, p float64) {
	type item struct {
		abs float64
		pos bool
	}
	var items []item
	for _, x := range d {
		switch x -= mu; {
		case math.IsNaN(x):
			return math.NaN(), math.NaN()
		case x != 0:
			items = append(items, item{math.Abs(x), x > 0})
		}
	}
	n := len(items)
	if n == 0 {
		return 0, 1
	}
	slices.SortFunc(items, func(a, b item) int {
		switch {
		case a.abs < b.abs:
			return -1
		case a.abs > b.abs:
			return 1
		}
		return 0
	})
	twice := make([]int, n) // twice the rank, so that mean ranks stay whole
	sum := 0                // twice T⁺
	for i := 0; i < n; {
		j := i
		for j < n && items[j].abs == items[i].abs {
			j++
		}
		for k := i; k < j; k++ {
			twice[k] = i + 1 + j
			if items[k].pos {
				sum += twice[k]
			}
		}
		i = j
	}
	tPlus = float64(sum) / 2
	total := n * (n + 1)        // twice the largest T⁺
	tail := min(sum, total-sum) // the distribution is symmetric about its middle
	if n > exactLimit {
		var ss float64
		for _, r := range twice {
			ss += float64(r) * float64(r) / 4
		}
		z := (float64(total)/4 - float64(tail)/2 - 0.5) / math.Sqrt(ss/4)
		return tPlus, math.Min(1, 2*distuv.UnitNormal.Survival(z))
	}
	pmf := signSums(twice)
	for _, m := range pmf[:tail+1] {
		p += m
	}
	return tPlus, math.Min(1, 2*p)
}

// signSums returns the probabilities of the sum of ranks, each taken with probability one half.
func signSums(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	pmf := make([]float64, total+1)
	pmf[0] = 1
	top := 0
	for _, r := range ranks {
		top += r
		for s := top; s >= 0; s-- {
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

// rankDepth returns how many Walsh averages may be cut from each end for a 1−alpha interval: the
// largest k with P(T⁺ ≤ k−1) ≤ alpha/2, so that the interval runs from the k-th smallest to the k-th
// largest average. 0 means that no bounded interval has that level: n is too small, since the whole
// range covers with probability 1−2^(1−n).
func rankDepth(n int, alpha float64) int {
	if n > exactLimit {
		m := float64(n)
		z := distuv.UnitNormal.Quantile(1 - alpha/2)
		return max(0, int(m*(m+1)/4-z*math.Sqrt(m*(m+1)*(2*m+1)/24)))
	}
	return rankDepths.get(rankKey{n, alpha}, func() int {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		k, cum := 0, 0.0
		for _, m := range signSums(ranks) {
			// The last bit of a sum of halves must not decide at an alpha such as 1/32.
			if cum += m; cum > alpha/2*(1+1e-12) {
				break
			}
			k++
		}
		return k
	})
}

var rankTails memo[int, []float64]

// rankTail is P(T⁺ ≤ c) of n values without ties, as rankDepth has it.
func rankTail(n, c int) float64 {
	if n > exactLimit {
		m := float64(n)
		return distuv.UnitNormal.CDF((float64(c+1) - m*(m+1)/4) / math.Sqrt(m*(m+1)*(2*m+1)/24))
	}
	cdf := rankTails.get(n, func() []float64 {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		cdf := signSums(ranks)
		for i := 1; i < len(cdf); i++ {
			cdf[i] += cdf[i-1]
		}
		return cdf
	})
	return cdf[c]
}

// walshP is the largest alpha at which signedRankInterval contains mu, which lies inside the range of d:
// the interval leaves mu out as soon as its depth is more than the Walsh averages on one side of mu, those at
// mu included.
func walshP(d []float64, mu float64) float64 {
	if len(d) > fewBlocks {
		w := walshOf(d)
		return math.Min(1, 2*rankTail(len(d), min(w.atMost(mu), w.len()-w.atMost(math.Nextafter(mu, math.Inf(-1))))))
	}
	below, above := 0, 0
	for i, x := range d {
		for _, y := range d[i:] {
			switch w := x/2 + y/2; {
			case w < mu:
				below++
			case w > mu:
				above++
			default:
				below, above = below+1, above+1
			}
		}
	}
	return math.Min(1, 2*rankTail(len(d), min(below, above)))
}

// signedRankInterval returns the interval that inverts the signed-rank test at level alpha: the k-th
// smallest and largest of the Walsh averages (dᵢ+dⱼ)/2, i ≤ j. Under ties the closed interval keeps at
// least its level (Lehmann, Nonparametrics, 4.2). Where no bounded interval has the level, the whole
// range is returned and exact is false.
func signedRankInterval(d []float64, alpha float64) (lo, hi float64, exact bool) {
	var small [32]float64 // on the stack: the stop rule asks this a million times in an evaluation
	s := append(small[:0], d...)
	slices.Sort(s)
	k := rankDepth(len(s), alpha)
	if k <= 1 { // the extreme averages are the extremes themselves
		return s[0], s[len(s)-1], k == 1
	}
	if len(s) > fewBlocks {
		w := walsh(s)
		return w.kth(k), w.kth(w.len() + 1 - k), true
	}
	var space [512]float64
	w := space[:0]
	if len(s) > len(small) {
		room := rooms.Get().(*[]float64)
		defer rooms.Put(room)
		lo, *room = walshAt(s, k, *room)
		w = *room
	} else {
		lo, w = walshAt(s, k, w)
	}
	for i, j := 0, len(s)-1; i <= j; i, j = i+1, j-1 {
		s[i], s[j] = -s[j], -s[i]
	}
	hi, _ = walshAt(s, k, w)
	return lo, -hi, true
}

// rooms are for the Walsh averages of many blocks, which would else be most of what a large report allocates.
var rooms = sync.Pool{New: func() any { return new([]float64) }}

// walshAt is the k-th smallest Walsh average of the sorted s. The average of s[i] and s[j] has at
// least (i+1)(j+1) − i(i+1)/2 averages that are no larger, itself among them, so only those for which
// that is at most k can be the one; about k·ln k of all are. They are put into space, which is returned.
func walshAt(s []float64, k int, space []float64) (float64, []float64) {
	w := space[:0]
	for i := range s {
		for j := i; j < len(s) && (i+1)*(j+1)-i*(i+1)/2 <= k; j++ {
			w = append(w, s[i]/2+s[j]/2)
		}
	}
	return nth(w, k-1), w
}

// hodgesLehmann is the median of the Walsh averages.
func hodgesLehmann(d []float64) float64 {
	if len(d) > fewBlocks {
		w := walshOf(d)
		return (w.kth((w.len()+1)/2) + w.kth(w.len()/2+1)) / 2
	}
	room := rooms.Get().(*[]float64)
	defer rooms.Put(room)
	w := slices.Grow((*room)[:0], len(d)*(len(d)+1)/2)
	*room = w
	for i, x := range d {
		for _, y := range d[i:] {
			w = append(w, x/2+y/2)
		}
	}
	n := len(w)
	upper := nth(w, n/2)
	if n%2 == 1 {
		return upper
	}
	return (slices.Max(w[:n/2]) + upper) / 2
}

// fewBlocks are those up to which making all Walsh averages is cheaper than counting them, which needs some sixty
// passes over the blocks.
const fewBlocks = 128

// walsh is the Walsh averages of the sorted values that it consists of, without making them: a thousand blocks
// have half a million.
type walsh []float64

func walshOf(d []float64) walsh { return slices.Sorted(slices.Values(d)) }

func (w walsh) len() int { return len(w) * (len(w) + 1) / 2 }

// atMost is how many averages are v or less. The larger the one value, the fewer others fit. Rounding does not
// change the order of averages, so that the count is that of the averages as they are computed.
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

// kth is the k-th smallest average, from 1.
func (w walsh) kth(k int) float64 {
	return leastWith(k, w[0], w[len(w)-1], w.atMost)
}

// nth puts the element of rank k (from 0) of xs at its place, nothing larger before it and nothing
// smaller behind, and returns it (Hoare's selection, with the median of three as pivot).
func nth(xs []float64, k int) float64 {
	lo, hi := 0, len(xs)-1
	for hi-lo > 8 {
		mid := lo + (hi-lo)/2
		if xs[mid] < xs[lo] {
			xs[mid], xs[lo] = xs[lo], xs[mid]
		}
		if xs[hi] < xs[lo] {
			xs[hi], xs[lo] = xs[lo], xs[hi]
		}
		if xs[hi] < xs[mid] {
			xs[hi], xs[mid] = xs[mid], xs[hi]
		}
		pivot := xs[mid]
		i, j := lo, hi
		for i <= j {
			for xs[i] < pivot {
				i++
			}
			for xs[j] > pivot {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return xs[k]
		}
	}
	slices.Sort(xs[lo : hi+1])
	return xs[k]
}
