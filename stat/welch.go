package stat

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// Welch is the ratio of target to baseline where the two were not measured in blocks: exp of the
// difference of the mean logarithms, with Welch's t interval (Welch 1947; degrees of freedom by
// Satterthwaite 1946). It promises its level only if nothing drifts between the two, which pairing
// would have shown and this cannot. It is oriented like Ratio; N is the smaller sample. A side with
// one value leaves an estimate without bounds; errors are those of Ratio, unequal lengths aside.
func Welch(baseline, target []float64, better iotax.Better, alpha float64) (Interval, error) {
	n := min(len(baseline), len(target))
	if err := checkAlpha(alpha); err != nil {
		return none(n), err
	}
	if n == 0 {
		return none(0), fmt.Errorf("estimate ratio: %d values of the baseline, %d of the target", len(baseline), len(target))
	}
	b, err := logs("baseline", baseline)
	if err != nil {
		return none(n), err
	}
	t, err := logs("target", target)
	if err != nil {
		return none(n), err
	}
	if better == iotax.Down {
		b, t = t, b
	}
	i := welch(b, t, alpha)
	return Interval{math.Exp(i.Estimate), math.Exp(i.Lo), math.Exp(i.Hi), n}, nil
}

func logs(who string, xs []float64) ([]float64, error) {
	out := make([]float64, len(xs))
	for i, x := range xs {
		if err := positive(who, i, x); err != nil {
			return nil, err
		}
		out[i] = math.Log(x)
	}
	return out, nil
}

// welch is the interval of mean(t) − mean(b).
func welch(b, t []float64, alpha float64) Interval {
	mb, sb := meanSD(b)
	mt, st := meanSD(t)
	i := Interval{mt - mb, math.NaN(), math.NaN(), 0}
	nb, nt := float64(len(b)), float64(len(t))
	if nb < 2 || nt < 2 {
		return i
	}
	vb, vt := sb*sb/nb, st*st/nt
	half := 0.0
	if v := vb + vt; v > 0 {
		df := v * v / (vb*vb/(nb-1) + vt*vt/(nt-1))
		half = tQuantileReal(df, 1-alpha/2) * math.Sqrt(v)
	}
	i.Lo, i.Hi = i.Estimate-half, i.Estimate+half
	return i
}

// tQuantileReal is the p quantile of Student's t with df degrees of freedom, which need not be whole.
func tQuantileReal(df, p float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}
