package stat

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// An Effect is the ratio of a target to the baseline, with what it was made from. It is oriented: 2
// is twice as good, whichever direction of the metric is the good one.
type Effect struct {
	Interval               // estimate exp(mean d); bounds are the hull of T and SignedRank
	HodgesLehmann float64  // exp(median of the Walsh averages): the estimate no outlier moves
	T             Interval // exp of the paired t interval on d
	SignedRank    Interval // exp of the signed-rank interval on d

	// Exact says that SignedRank reaches the asked level. When it does not (five blocks at 95 %,
	// say), its bounds are the whole range of the blocks, which covers with 1−2^(1−n) only; the hull
	// still has its level if the noise is normal, and no promise if it is not.
	Exact bool

	// P is the largest alpha at which the hull still contains 1: the larger p value of the two tests
	// of no difference (up to ties, which the interval treats more carefully). NaN where there is no
	// interval.
	P float64

	SD float64 // sample standard deviation of d, not widened; NaN for one block
}

// Options choose how Estimate works.
type Options struct {
	Alpha float64 // 1 − level; 0 means 0.05

	// Autocorrelation is φ, the lag-one autocorrelation of d as calibration found it. Above 0 it
	// widens the t interval by √((1+φ)/(1−φ)), the limit of the variance inflation of an AR(1) mean
	// (Box, Jenkins & Reinsel, Time Series Analysis, 2.1). It must be below 1.
	Autocorrelation float64
}

// Pair returns the log ratios d_b = ln(target_b/baseline_b), with the sign turned where less is
// better, so that a positive d is a gain. The slices are paired by block. An error names the value
// that has no logarithm: one that is zero, negative, NaN or infinite.
func Pair(baseline, target []float64, better iotax.Better) ([]float64, error) {
	if len(baseline) != len(target) {
		return nil, fmt.Errorf("pair blocks: %d values of the baseline, %d of the target", len(baseline), len(target))
	}
	d := make([]float64, len(target))
	for i := range d {
		if err := positive("baseline", i, baseline[i]); err != nil {
			return nil, err
		}
		if err := positive("target", i, target[i]); err != nil {
			return nil, err
		}
		// Not ln(t/b): the quotient may overflow where both values are fine.
		d[i] = math.Log(target[i]) - math.Log(baseline[i])
		if better == iotax.Down {
			d[i] = -d[i]
		}
	}
	return d, nil
}

func positive(who string, i int, x float64) error {
	switch {
	case math.IsNaN(x):
		return fmt.Errorf("pair blocks: %s[%d] is NaN", who, i)
	case math.IsInf(x, 0):
		return fmt.Errorf("pair blocks: %s[%d] is infinite", who, i)
	case x <= 0:
		return fmt.Errorf("pair blocks: %s[%d] is %v: a ratio needs positive values", who, i, x)
	}
	return nil
}

// Ratio is the ratio of target to baseline, paired by block and oriented so that higher is better for
// the target: exp of the mean log ratio, within the hull of the paired t interval and the exact
// Wilcoxon signed-rank interval at level 1−alpha. The hull keeps its level when either assumption
// holds: normal noise, or noise that is only symmetric. One block has an estimate and no bounds;
// none, unequal lengths and values without a logarithm are errors. See Effect for the parts.
func Ratio(baseline, target []float64, better iotax.Better, alpha float64) (Interval, error) {
	d, err := Pair(baseline, target, better)
	if err != nil {
		return none(0), err
	}
	e, err := Estimate(d, Options{Alpha: alpha})
	return e.Interval, err
}

// Estimate makes the Effect of the log ratios d, as Pair returns them. It does not depend on their
// order.
func Estimate(d []float64, o Options) (Effect, error) {
	alpha := o.Alpha
	if alpha == 0 {
		alpha = 1 - Confidence
	}
	n := len(d)
	e := Effect{Interval: none(n), T: none(n), SignedRank: none(n), HodgesLehmann: math.NaN(), P: math.NaN(), SD: math.NaN()}
	if err := checkAlpha(alpha); err != nil {
		return e, err
	}
	if n == 0 {
		return e, errors.New("estimate ratio: no block has both the target and the baseline")
	}
	if !(o.Autocorrelation < 1) {
		return e, fmt.Errorf("estimate ratio: an autocorrelation of %v leaves no interval", o.Autocorrelation)
	}
	for i, x := range d {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return e, fmt.Errorf("estimate ratio: log ratio %d is %v", i, x)
		}
	}

	m, sd := meanSD(d)
	e.SD = sd
	e.Estimate = math.Exp(m)
	hl, lo, hi, exact := signedRankInterval(d, alpha)
	e.HodgesLehmann, e.Exact = math.Exp(hl), exact
	e.T.Estimate, e.SignedRank.Estimate = e.Estimate, e.HodgesLehmann
	if n < 2 {
		return e, nil
	}
	se := sd / math.Sqrt(float64(n))
	if phi := o.Autocorrelation; phi > 0 {
		se *= math.Sqrt((1 + phi) / (1 - phi))
	}
	half := tQuantile(n-1, 1-alpha/2) * se
	e.T.Lo, e.T.Hi = math.Exp(m-half), math.Exp(m+half)
	e.SignedRank.Lo, e.SignedRank.Hi = math.Exp(lo), math.Exp(hi)
	e.Lo, e.Hi = math.Exp(min(m-half, lo)), math.Exp(max(m+half, hi))
	_, e.P = SignedRank(d, 0)
	e.P = math.Max(e.P, tTest(m, se, n))
	return e, nil
}

// tTest is the two-sided p value of a mean m with standard error se of n values against 0.
func tTest(m, se float64, n int) float64 {
	if se == 0 {
		if m == 0 {
			return 1
		}
		return 0
	}
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Survival(math.Abs(m/se))
}
