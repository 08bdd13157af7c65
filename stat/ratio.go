package stat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// An Effect is an estimated ratio with its intervals. It compares a target with the baseline, paired by round, or two
// samples that were not interleaved. The ratio is oriented: for every metric, 2 means twice as good.
type Effect struct {
	// Interval contains the estimate exp(mean). Its bounds are the hull of T and Rank. N is the number of rounds, of
	// starts if they are too few for an interval (see Options.Starts), or of values of the smaller of two samples.
	Interval

	HodgesLehmann float64  // exp(median of the Walsh averages, or of all differences), which is robust to outliers
	T             Interval // exp of the paired t interval, or of Welch's interval
	Rank          Interval // exp of the signed-rank interval, or of the rank-sum interval

	// Exact reports whether Rank has bounds at the requested level. If the bounds do not reach it (six rounds at
	// 97.2 %, or three values against three at 95 %), Rank is the whole range, and the hull has its level only for
	// normal noise.
	Exact bool

	// P is the largest alpha at which the hull contains 1 (see EffectP and ChangeP), or NaN without an interval.
	P float64

	SD float64 // sample standard deviation of the log ratios, not widened; NaN for one round or unpaired samples

	Starts *StartSpread // set if the rounds have several starts; nil otherwise
}

// A Change is the Effect that Unpaired or EstimateChange returns. Its interval covers the noise within each sample.
// A drift between the samples affects the estimate, but not the interval.
type Change = Effect

// MarshalJSON encodes the fields that are part of the JSON report.
func (e Effect) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Estimate      iotax.Number `json:"estimate"`
		Lo            iotax.Number `json:"lo"`
		Hi            iotax.Number `json:"hi"`
		N             int          `json:"n"`
		HodgesLehmann iotax.Number `json:"hodges_lehmann"`
		P             iotax.Number `json:"p"`
		Starts        *StartSpread `json:"starts,omitempty"`
	}{iotax.Number(e.Estimate), iotax.Number(e.Lo), iotax.Number(e.Hi), e.N, iotax.Number(e.HodgesLehmann), iotax.Number(e.P), e.Starts})
}

func noEffect(n int) Effect {
	return Effect{Interval: none(n), T: none(n), Rank: none(n), HodgesLehmann: math.NaN(), P: math.NaN(), SD: math.NaN()}
}

// Options configures Estimate and the other functions that compute intervals. Here, d is their sample of log ratios.
type Options struct {
	Alpha float64 // 1 − level; 0 means 0.05

	// Autocorrelation is φ, the lag-one autocorrelation of d from calibration. Above 0, it widens the t interval by
	// Widening(φ). It must be below 1.
	Autocorrelation float64

	// Least is the minimum number of rounds, or of values on each side, for an interval. 0 means LeastTrials.
	Least int

	// Hidden is the maximum error of the mean of d that comes from the bins of histograms (see PairTails). Both bounds
	// move outwards by Hidden.
	Hidden float64

	// Starts contains the start in which each element of d was measured (iotax.Trial.StartIndex). If there are several
	// starts, the interval also covers the variation between starts: the estimate is the mean of the starts' means, and
	// the hull covers the t and signed-rank intervals of these means and of the rounds. Some effects, such as the
	// placement of a file, are random but last for a whole start.
	//
	// If such an effect has two values, all starts of a run may have the same one by chance, and their interval then
	// does not cover the other. With six starts and equally likely values, this happens in 3 % of runs, and with fewer
	// starts more often. If there are fewer than Least starts and they agree (StartSpread.Agree), the result therefore
	// has no interval, and N is the number of starts.
	Starts []int
}

func (o Options) tooFew(n int) bool { return n < max(2, cmp.Or(o.Least, LeastTrials)) }

// Pair returns the log ratios ln(target/baseline), negated if less is better, so that a positive d is an improvement.
// It returns an error if the lengths differ, or if a value is not positive and finite.
func Pair(baseline, target []float64, better iotax.Better) ([]float64, error) {
	if len(baseline) != len(target) {
		return nil, fmt.Errorf("pair rounds: %d values of the baseline, %d of the target", len(baseline), len(target))
	}
	b, err := logarithms("pair rounds", "baseline", baseline)
	if err != nil {
		return nil, err
	}
	d, err := logarithms("pair rounds", "target", target)
	if err != nil {
		return nil, err
	}
	for i := range d {
		// ln(t/b) is not used, because the quotient may overflow.
		if d[i] -= b[i]; better == iotax.Down {
			d[i] = -d[i]
		}
	}
	return d, nil
}

// logarithms returns the logarithms of a sample. op and sample name the operation and the sample in errors.
func logarithms(op, sample string, xs []float64) ([]float64, error) {
	out := make([]float64, len(xs))
	for i, x := range xs {
		if !(x > 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s: %s[%d] is %v: a ratio needs positive numbers", op, sample, i, x)
		}
		out[i] = math.Log(x)
	}
	return out, nil
}

// Ratio returns the ratio of target to baseline, paired by round and oriented so that higher is better. The estimate is
// exp of the mean log ratio. The bounds are the hull of the paired t interval and the Wilcoxon signed-rank interval at
// level 1−alpha (see Effect.Exact). With fewer than LeastTrials rounds, the result has an estimate without bounds. It
// is an error if there are no rounds, if the lengths differ, or if a value is not positive and finite.
func Ratio(baseline, target []float64, better iotax.Better, alpha float64) (Interval, error) {
	d, err := Pair(baseline, target, better)
	if err != nil {
		return none(0), err
	}
	return Hull(d, Options{Alpha: alpha})
}

// Hull returns only the Interval of Estimate, for the stop rule. Without o.Starts, it does not allocate for up to 32
// rounds.
func Hull(d []float64, o Options) (Interval, error) {
	h, err := hull(d, o)
	return h.exp(), err
}

// Mean returns the mean of d with the interval of Hull, on the scale of d. Use it for additive quantities, such as
// differences between two targets in the same rounds, but not for ratios.
func Mean(d []float64, o Options) (Interval, error) {
	h, err := hull(d, o)
	return Interval{h.mean, math.Min(h.mean-h.half, h.lo), math.Max(h.mean+h.half, h.hi), h.n}, err
}

// Estimate returns the Effect of the log ratios d (see Pair).
func Estimate(d []float64, o Options) (Effect, error) {
	h, err := hull(d, o)
	if err != nil {
		return noEffect(len(d)), err
	}
	p := math.NaN()
	if !math.IsNaN(h.half) {
		p = EffectP(d, 1, o)
	}
	e := h.effect(hodgesLehmann(d), p)
	e.Starts = SpreadByStart(d, o.Starts)
	return e, nil
}

// EffectP returns the largest alpha at which the hull of Estimate contains `ratio`. This is a two-sided p value for the
// hypothesis that `ratio` is the true ratio: the larger of the p values of the paired t test, widened like the
// interval, and of the signed-rank test. Outside the range of d, no signed-rank interval contains `ratio`, and EffectP
// uses only the t test. Ranks of six rounds cannot give a p value below 0.031, so Holm's adjustment over many cells
// would otherwise find nothing. EffectP is NaN for fewer than two rounds, and for invalid arguments such as a ratio
// that is not positive. With o.Hidden, it is the largest p value of any ratio within that distance on the logarithmic
// scale. With o.Starts, it also covers both tests over the means of the starts.
func EffectP(d []float64, ratio float64, o Options) float64 {
	mu := math.Log(ratio)
	if len(d) < 2 || notFinite(mu) || slices.ContainsFunc(d, notFinite) {
		return math.NaN()
	}
	if !(o.Hidden > 0) {
		return effectP(d, mu, o)
	}
	near := func(x float64) float64 { return math.Max(mu-o.Hidden, math.Min(mu+o.Hidden, x)) }
	m, _ := meanSD(d) // the p value of the t test is largest at the mean, and that of the signed-rank test at the median
	if g, _ := groupByStart(d, o.Starts); g != nil {
		m = g.m
	}
	return math.Max(effectP(d, near(m), o), effectP(d, near(hodgesLehmann(d)), o))
}

func effectP(d []float64, mu float64, o Options) float64 {
	g, err := groupByStart(d, o.Starts)
	if err != nil || !(o.Autocorrelation < 1) {
		return math.NaN()
	}
	m, sd := meanSD(d)
	se, off, p := sd/math.Sqrt(float64(len(d)))*Widening(o.Autocorrelation), m-mu, 0.
	if g != nil {
		off = math.Max(0, math.Abs(g.m-mu)-math.Abs(g.m-m))
		p = tTest(g.m-mu, g.se(), g.df())
		if slices.Min(g.mean) <= mu && mu <= slices.Max(g.mean) {
			p = math.Max(p, walshP(g.mean, mu))
		}
	}
	p = math.Max(p, tTest(off, se, float64(len(d)-1)))
	if mu < slices.Min(d) || mu > slices.Max(d) {
		return p
	}
	return math.Max(p, walshP(d, mu))
}

// Widening returns the factor by which an autocorrelation φ of the log ratios widens a t interval: √((1+φ)/(1−φ)), the
// square root of the limit of the variance inflation of an AR(1) mean (Box, Jenkins & Reinsel, Time Series Analysis,
// 2.1). It is 1 if φ ≤ 0 or φ is NaN, and +Inf if φ ≥ 1.
func Widening(phi float64) float64 {
	switch {
	case !(phi > 0):
		return 1
	case phi >= 1:
		return math.Inf(1)
	}
	return math.Sqrt((1 + phi) / (1 - phi))
}

// logHull contains the parts of an Effect on the logarithmic scale. Without an interval, half, lo and hi are NaN.
type logHull struct {
	n        int
	mean, sd float64
	half     float64 // half-width of the paired t interval, or of Welch's interval
	lo, hi   float64 // bounds of the signed-rank or the rank-sum interval
	exact    bool
}

func newHull(n int) logHull {
	nan := math.NaN()
	return logHull{n: n, mean: nan, sd: nan, half: nan, lo: nan, hi: nan}
}

func (h logHull) exp() Interval {
	return Interval{math.Exp(h.mean), math.Exp(math.Min(h.mean-h.half, h.lo)), math.Exp(math.Max(h.mean+h.half, h.hi)), h.n}
}

func (h logHull) effect(median, p float64) Effect {
	return Effect{
		Interval: h.exp(), HodgesLehmann: math.Exp(median), Exact: h.exact, P: p, SD: h.sd,
		T:    Interval{math.Exp(h.mean), math.Exp(h.mean - h.half), math.Exp(h.mean + h.half), h.n},
		Rank: Interval{math.Exp(median), math.Exp(h.lo), math.Exp(h.hi), h.n},
	}
}

// check returns alpha, or an error for invalid options or logarithms.
func (o Options) check(op string, logs []float64) (alpha float64, err error) {
	alpha = cmp.Or(o.Alpha, 1-Confidence)
	if !(alpha > 0 && alpha < 1) {
		return alpha, fmt.Errorf("%s: alpha is not between 0 and 1: %v", op, alpha)
	}
	if !(o.Autocorrelation < 1) {
		return alpha, fmt.Errorf("%s: an autocorrelation of %v leaves no interval", op, o.Autocorrelation)
	}
	if i := slices.IndexFunc(logs, notFinite); i >= 0 {
		return alpha, fmt.Errorf("%s: logarithm %d is %v", op, i, logs[i])
	}
	return alpha, nil
}

func hull(d []float64, o Options) (logHull, error) {
	h := newHull(len(d))
	alpha, err := o.check("estimate ratio", d)
	if err != nil {
		return h, err
	}
	if len(d) == 0 {
		return h, errors.New("estimate ratio: no round has both the target and the baseline")
	}
	h.mean, h.sd = meanSD(d)
	rounds := h.mean
	g, err := groupByStart(d, o.Starts)
	if err != nil {
		return h, err
	}
	if g != nil {
		h.mean = g.m
	}
	if !o.tooFew(len(d)) && g != nil && o.tooFew(len(g.mean)) && g.agree() {
		h.n = len(g.mean)
	}
	if o.tooFew(h.n) {
		return h, nil
	}
	h.half = tQuantile(len(d)-1, 1-alpha/2) * (h.sd / math.Sqrt(float64(len(d))) * Widening(o.Autocorrelation))
	if g != nil {
		h.half = math.Max(h.half+math.Abs(h.mean-rounds), tQuantile(len(g.mean)-1, 1-alpha/2)*g.se())
	}
	h.lo, h.hi, h.exact = signedRankInterval(d, alpha)
	if g != nil {
		lo, hi, exact := signedRankInterval(g.mean, alpha)
		h.lo, h.hi, h.exact = math.Min(h.lo, lo), math.Max(h.hi, hi), h.exact && exact
	}
	h.half, h.lo, h.hi = h.half+o.Hidden, h.lo-o.Hidden, h.hi+o.Hidden
	return h, nil
}

// tTest returns the two-sided p value of the hypothesis that the mean is 0, for a sample mean m with standard error
// se and df degrees of freedom.
func tTest(m, se, df float64) float64 {
	switch {
	case se > 0:
		return 2 * distuv.StudentsT{Sigma: 1, Nu: df}.Survival(math.Abs(m)/se)
	case m == 0:
		return 1
	}
	return 0
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
