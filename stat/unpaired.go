package stat

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// Unpaired returns the ratio of `after` to `before`, or its inverse if smaller values are better. The estimate is exp
// of the difference of the mean logarithms. The bounds are the hull of Welch's t interval and the rank-sum interval at
// level 1−alpha. With fewer than o.Least values on a side, the result has an estimate without bounds. It is an error if
// a side is empty or if a value is not positive and finite.
func Unpaired(before, after []float64, better iotax.Better, o Options) (Change, error) {
	x, err := logarithms("compare samples", "before", before)
	if err != nil {
		return noEffect(0), err
	}
	y, err := logarithms("compare samples", "after", after)
	if err != nil {
		return noEffect(0), err
	}
	if better == iotax.Down {
		x, y = y, x
	}
	return EstimateChange(x, y, o)
}

// EstimateChange returns the Change from the logarithms x to the logarithms y. x and y may also be differences: if they
// are the log ratios of two runs to the same baseline (see Pair), the Change is the ratio of the two ratios, and a
// change of the host that affects both targets cancels.
//
// The t interval is Welch's (1947), with Satterthwaite's degrees of freedom. The rank-sum interval goes from the k-th
// smallest to the k-th largest difference y−x, with the largest k for which P(U ≤ k−1) ≤ alpha/2 (Hollander, Wolfe &
// Chicken, Nonparametric Statistical Methods, 4.3). It assumes that the distributions differ only in location.
// Here, o.Hidden is the maximum error of the difference of the means. EstimateChange ignores o.Starts (see StartSamples).
func EstimateChange(x, y []float64, o Options) (Change, error) {
	m, n := len(x), len(y)
	alpha, err := o.check("compare samples", slices.Concat(x, y))
	if err != nil {
		return noEffect(min(m, n)), err
	}
	if m == 0 || n == 0 {
		return noEffect(0), errors.New("compare samples: one of them has no values")
	}
	t, d, h, p := unpairedT(x, y, o.Autocorrelation), differences(x, y), newHull(min(m, n)), math.NaN()
	h.mean = t.mean
	if !o.tooFew(min(m, n)) {
		if h.half = 0; t.se > 0 {
			h.half = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: t.df}.Quantile(1-alpha/2) * t.se
		}
		k := rankSumDepth(m, n, alpha)
		h.exact, k = k > 0, max(k, 1)
		h.lo, h.hi = d.kth(k)-o.Hidden, d.kth(d.len()+1-k)+o.Hidden
		h.half += o.Hidden
		p = ChangeP(x, y, 1, o)
	}
	return h.effect(d.median(), p), nil
}

// ChangeP returns the largest alpha at which the hull of EstimateChange contains `ratio`. This is a two-sided p value
// for the hypothesis that `ratio` is the true ratio (except for ties, where the interval is more conservative). Inside
// the range of all differences, it is the larger of the p values of Welch's t test and the rank-sum test. Outside that
// range, no rank-sum interval contains `ratio`, and ChangeP uses only the t test. A rank-sum test of six trials against
// six cannot give a p value below 0.002, so Holm's adjustment over many cells would otherwise find nothing. With
// o.Hidden, it is the largest p value of any ratio within that distance on the logarithmic scale. ChangeP is NaN if a
// side has fewer than two values, and for invalid arguments such as a ratio that is not positive.
func ChangeP(x, y []float64, ratio float64, o Options) float64 {
	mu := math.Log(ratio)
	if len(x) < 2 || len(y) < 2 || notFinite(mu) || !(o.Autocorrelation < 1) {
		return math.NaN()
	}
	if !(o.Hidden > 0) {
		return changeP(x, y, mu, o)
	}
	near := func(x float64) float64 { return math.Max(mu-o.Hidden, math.Min(mu+o.Hidden, x)) }
	return math.Max(changeP(x, y, near(mean(y)-mean(x)), o), changeP(x, y, near(differences(x, y).median()), o))
}

func changeP(x, y []float64, mu float64, o Options) float64 {
	t := unpairedT(x, y, o.Autocorrelation)
	p := tTest(t.mean-mu, t.se, t.df)
	lo, hi := slices.Min(y)-slices.Max(x), slices.Max(y)-slices.Min(x)
	if mu < lo || mu > hi {
		return p
	}
	_, rank := RankSum(x, y, mu)
	return math.Max(p, rank)
}

type welchT struct{ mean, se, df float64 }

// unpairedT returns the difference of the means, its standard error (widened for the autocorrelation), and
// Satterthwaite's degrees of freedom.
func unpairedT(x, y []float64, autocorrelation float64) welchT {
	mx, sx := meanSD(x)
	my, sy := meanSD(y)
	m, n := float64(len(x)), float64(len(y))
	vx, vy := sx*sx/m, sy*sy/n
	t := welchT{mean: my - mx, se: math.Sqrt(vx + vy), df: math.NaN()}
	if v := vx + vy; v > 0 {
		t.df = v * v / (vx*vx/(m-1) + vy*vy/(n-1))
	}
	t.se *= Widening(autocorrelation)
	return t
}

// pairs represents all differences y−x of two samples, in order, without storing them.
type pairs struct{ x, y []float64 } // each sorted

func differences(x, y []float64) pairs {
	return pairs{slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))}
}

func (p pairs) len() int { return len(p.x) * len(p.y) }

// atMost returns the number of differences that are at most v.
func (p pairs) atMost(v float64) int {
	n, j := 0, 0
	for _, x := range p.x {
		for j < len(p.y) && p.y[j]-x <= v {
			j++
		}
		n += j
	}
	return n
}

// kth returns the k-th smallest difference. k starts at 1.
func (p pairs) kth(k int) float64 {
	return leastWith(k, p.y[0]-p.x[len(p.x)-1], p.y[len(p.y)-1]-p.x[0], p.atMost)
}

// leastWith returns the smallest number between lo and hi for which atMost returns at least k. It bisects over the
// floating-point numbers, so the result is exact.
func leastWith(k int, lo, hi float64, atMost func(v float64) int) float64 {
	from, to := ordered(lo), ordered(hi)
	for from < to {
		mid := from + int64(uint64(to-from)/2)
		if atMost(float(mid)) >= k {
			to = mid
		} else {
			from = mid + 1
		}
	}
	return float(from)
}

// median returns the middle difference, or the mean of the two middle ones.
func (p pairs) median() float64 {
	n := p.len()
	return (p.kth((n+1)/2) + p.kth(n/2+1)) / 2
}

// ordered maps floating-point numbers to integers in the same order. float is its inverse.
func ordered(v float64) int64 {
	b := int64(math.Float64bits(v + 0)) // −0 becomes 0
	if b < 0 {
		return math.MinInt64 - b
	}
	return b
}

func float(o int64) float64 {
	if o < 0 {
		return math.Float64frombits(uint64(math.MinInt64 - o))
	}
	return math.Float64frombits(uint64(o))
}

// RankSum performs the rank-sum test (Wilcoxon 1945; Mann & Whitney 1947) of the hypothesis that y is mu above x. It
// returns U, the number of pairs with y−mu above x (a tie counts as one half), and the two-sided p value. For small
// samples the p value is exact given the ranks, with mean ranks for ties (Hollander, Wolfe & Chicken, 4.1). For larger
// samples it is the normal approximation with tie and continuity correction. Both results are NaN if a sample is empty
// or a number is NaN.
func RankSum(x, y []float64, mu float64) (u, p float64) {
	type item struct {
		v  float64
		of int // 1 for y
	}
	m, n := len(x), len(y)
	items := make([]item, 0, m+n)
	for _, v := range x {
		items = append(items, item{v: v})
	}
	for _, v := range y {
		items = append(items, item{v: v - mu, of: 1})
	}
	if m == 0 || n == 0 || math.IsNaN(mu) || slices.ContainsFunc(items, func(i item) bool { return math.IsNaN(i.v) }) {
		return math.NaN(), math.NaN()
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.v, b.v) })
	all := m + n
	twice := make([]int, all)
	sum, ties := 0, 0.0 // twice the rank sum of y; Σ(t³−t)
	for i := 0; i < all; {
		j := i
		for j < all && items[j].v == items[i].v {
			j++
		}
		for k := i; k < j; k++ {
			twice[k] = i + 1 + j
			sum += twice[k] * items[k].of
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	u = float64(sum)/2 - float64(n)*float64(n+1)/2
	tail := math.Min(u, float64(m)*float64(n)-u)
	switch {
	case ties == 0:
		_, p = rankSumTail(m, n, int(tail))
	case rankSumWork(m, n) <= mostWork/2:
		// With ties, the distribution over the ranks is not symmetric. Add up both tails.
		pmf := pickSums(twice, n)
		far := math.Abs(float64(sum) - float64(n)*float64(all+1))
		for s, w := range pmf {
			if math.Abs(float64(s)-float64(n)*float64(all+1)) >= far-1e-9 {
				p += w
			}
		}
	default:
		N := float64(all)
		v := float64(m) * float64(n) / 12 * (N + 1 - ties/(N*(N-1)))
		p = normalTail(float64(m)*float64(n)/2-tail, v)
	}
	return u, math.Min(1, p)
}

// normalTail returns the two-sided p value of an integer that is `away` from its mean, with variance v.
func normalTail(away, v float64) float64 {
	if !(v > 0) {
		return 1
	}
	return math.Min(1, 2*distuv.UnitNormal.Survival((away-0.5)/math.Sqrt(v)))
}

// mostWork is the maximum number of additions for an exact rank-sum distribution, which take about 10 ms.
const mostWork = 2e7

func rankSumWork(m, n int) float64 {
	return float64(m+n) * float64(min(m, n)) * float64(m) * float64(n)
}

var rankSums memo[[2]int, []float64] // P(U ≤ u), up to the middle of the distribution

// rankSumTail returns P(U ≤ u), or P(U ≥ u) if u is above the middle, and the two-sided p value of u. It assumes
// samples of m and n values without ties.
func rankSumTail(m, n, u int) (cum, p float64) {
	if m > n {
		m, n = n, m
	}
	u = min(u, m*n-u)
	if u < 0 {
		return 0, 0
	}
	if rankSumWork(m, n) > mostWork {
		mean, v := float64(m)*float64(n)/2, float64(m)*float64(n)*float64(m+n+1)/12
		p = normalTail(mean-float64(u), v)
		return p / 2, p
	}
	cdf := rankSums.get([2]int{m, n}, func() []float64 {
		ranks := make([]int, m+n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		least, sum := m*(m+1)/2, 0.0
		cdf := pickSums(ranks, m)[least : least+m*n/2+1]
		for i, p := range cdf {
			sum += p
			cdf[i] = sum
		}
		return slices.Clone(cdf)
	})
	cum = cdf[u]
	return cum, math.Min(1, 2*cum)
}

// pickSums returns the probability distribution of the sum of k of the ranks, if every choice is equally likely.
func pickSums(ranks []int, k int) []float64 {
	sorted := slices.Sorted(slices.Values(ranks))
	most := 0
	for _, r := range sorted[len(sorted)-k:] {
		most += r
	}
	ways := make([][]float64, k+1) // ways[j][s]: number of choices of j ranks with sum s
	for j := range ways {
		ways[j] = make([]float64, most+1)
	}
	ways[0][0] = 1
	for i, r := range sorted {
		for j := min(i+1, k); j >= 1; j-- {
			from, to := ways[j-1], ways[j]
			for s := r; s <= most; s++ {
				to[s] += from[s-r]
			}
		}
	}
	total := 0.0
	for _, w := range ways[k] {
		total += w
	}
	for s := range ways[k] {
		ways[k][s] /= total
	}
	return ways[k]
}

// rankSumDepth returns the largest k with P(U ≤ k−1) ≤ alpha/2, or 0 if no bounded interval has that level.
func rankSumDepth(m, n int, alpha float64) int {
	return sort.Search(m*n/2, func(k int) bool {
		cum, _ := rankSumTail(m, n, k)
		return cum > alpha/2*(1+1e-12)
	})
}
