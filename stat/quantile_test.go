package stat

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"iotax"
)

// fioBin returns the value, in seconds, of the bin in which fio counts a latency of ns nanoseconds (stat.c,
// plat_idx_to_val).
func fioBin(ns float64) float64 {
	if ns < 128 {
		return math.Floor(ns) * 1e-9
	}
	_, exp := math.Frexp(ns)
	width := math.Ldexp(1, exp-7)
	return (math.Floor(ns/width) + .5) * width * 1e-9
}

// drawn returns a histogram of n latencies around scale (in seconds). Their logarithms have the standard deviation
// sigma.
func drawn(r *rand.Rand, n int, scale, sigma float64) iotax.Histogram {
	counts := map[float64]uint64{}
	for range n {
		counts[fioBin(1e9*scale*math.Exp(sigma*r.NormFloat64()))]++
	}
	return histogramOf(counts)
}

func histogramOf(counts map[float64]uint64) iotax.Histogram {
	h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds}
	for v, c := range counts {
		h.Bins = append(h.Bins, iotax.Bin{Value: v, Count: c})
	}
	slices.SortFunc(h.Bins, byValue)
	return h
}

// rounds returns the histograms of two sides whose scales differ by ratio. Each trial has its own noise.
func rounds(r *rand.Rand, rounds, n int, sigma, noise, ratio float64) (b, t []iotax.Histogram) {
	for range rounds {
		b = append(b, drawn(r, n, 100e-6*math.Exp(noise*r.NormFloat64()), sigma))
		t = append(t, drawn(r, n, 100e-6*math.Exp(noise*r.NormFloat64())/ratio, sigma))
	}
	return b, t
}

// quantileRatio returns the effect of a quantile of the histograms.
func quantileRatio(baseline, target []iotax.Histogram, q float64, o Options) (Effect, error) {
	d, err := PairTails([2][]Tail{Tails(baseline, q), Tails(target, q)}, q, &o)
	if err != nil {
		return noEffect(len(d)), err
	}
	return Estimate(d, o)
}

func TestQuantileRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		q, ratio          float64
		rounds, n, groups int
	}{
		{.5, .62, 6, 2000, 6},
		{.99, .5, 6, 10_000, 6},
		{.99, 1.05, 12, 5_000, 6}, // two rounds per group
		{.99, .9, 13, 5_000, 6},   // two rounds per group, and one group with three rounds
		{.9, 2, 30, 1000, 30},     // exactly 100 I/Os beyond
		{.999, .8, 30, 20_000, 6}, // five rounds per group
		{.1, .8, 8, 1000, 8},      // the nearer tail is the lower one
	} {
		base, target := rounds(r, c.rounds, c.n, .5, .02, c.ratio)
		e, err := quantileRatio(base, target, c.q, Options{Alpha: 1e-4}) // with such a small alpha, a sound interval almost always contains the ratio
		if err != nil || e.N != c.groups || !e.Contains(c.ratio) || math.Abs(math.Log(e.Estimate/c.ratio)) > .1 {
			t.Errorf("%s of %d rounds of %d: %+v, %v", QuantileName(c.q), c.rounds, c.n, e, err)
		}
		if p := e.P; (p < 1e-4) != !e.Contains(1) {
			t.Errorf("%s: p %v, interval [%v, %v]", QuantileName(c.q), p, e.Lo, e.Hi)
		}
		swapped, err := quantileRatio(target, base, c.q, Options{Alpha: 1e-4})
		if err != nil || math.Abs(math.Log(swapped.Lo*e.Hi)) > 1e-9 || math.Abs(math.Log(swapped.Estimate*e.Estimate)) > 1e-9 {
			t.Errorf("%s: [%v, %v] turned round is [%v, %v], %v", QuantileName(c.q), e.Lo, e.Hi, swapped.Lo, swapped.Hi, err)
		}
	}
}

// If each trial has MinBeyond I/Os beyond the quantile, the result is the Estimate from the quantiles of the trials,
// apart from the interpolation within bins.
func TestQuantileRatioIsEstimate(t *testing.T) {
	base, target := rounds(rand.New(rand.NewPCG(3, 4)), 8, 20_000, .5, .1, .7)
	e, err := quantileRatio(base, target, .99, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b, x []float64
	for i := range base {
		v, _ := Quantile(base[i], .99)
		w, _ := Quantile(target[i], .99)
		b, x = append(b, v), append(x, w)
	}
	d, err := Pair(b, x, iotax.Down)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Estimate(d, Options{})
	if err != nil || math.Abs(math.Log(e.Estimate/plain.Estimate)) > HistogramError || math.Abs(math.Log(e.SD/plain.SD)) > .1 {
		t.Errorf("%+v, without interpolation %+v, %v", e, plain, err)
	}
}

func TestTooFewBeyond(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		q         float64
		rounds, n int
		want      TooFewBeyond
	}{
		{.999, 30, 2_000, TooFewBeyond{.999, 60, 100, 100. / 60}},
		{.99, 6, 400, TooFewBeyond{.99, 24, 100, 100. / 24}},
		{.99, 11, 1_000, TooFewBeyond{.99, 60, 100, 100. / 60}}, // eleven rounds in six groups: one group has only one round
		{.99, 3, 1_000, TooFewBeyond{.99, 30, 100, 100. / 30}},
		{.5, 8, 0, TooFewBeyond{.5, 0, 100, math.Inf(1)}},
	} {
		base, target := rounds(r, c.rounds, c.n, .5, 0, 1)
		_, err := quantileRatio(base, target, c.q, Options{})
		got, ok := errors.AsType[*TooFewBeyond](err)
		if !ok || got.Have != c.want.Have || got.Need != c.want.Need ||
			!(got.Longer == c.want.Longer || math.Abs(got.Longer-c.want.Longer) < 1e-9) {
			t.Errorf("%s of %d rounds of %d: %v", QuantileName(c.q), c.rounds, c.n, err)
			continue
		}
		if math.IsInf(c.want.Longer, 1) {
			continue
		}
		base, target = rounds(r, c.rounds, int(math.Ceil(float64(c.n)*got.Longer)), .5, 0, 1)
		if e, err := quantileRatio(base, target, c.q, Options{}); err != nil || e.N < min(c.rounds, LeastTrials) {
			t.Errorf("%s of %d rounds: trials as long as the error asks for have %+v, %v", QuantileName(c.q), c.rounds, e, err)
		}
	}
	err := &TooFewBeyond{.999, 41, 100, 100. / 41}
	if want := "too few I/Os beyond p99.9: the trials of one side have 41, and 100 are needed. Trials 2.5 times as long have enough"; err.Error() != want {
		t.Error(err)
	}
}

// If all latencies are in one bin, the interval contains every ratio that could produce such histograms, and p shows no
// difference.
func TestQuantileRatioWithinOneBin(t *testing.T) {
	one := slices.Repeat([]iotax.Histogram{histogramOf(map[float64]uint64{fioBin(100_100): 50_000})}, 8)
	for _, q := range []float64{.5, .99} {
		e, err := quantileRatio(one, one, q, Options{})
		if err != nil || e.Lo > 100./101 || e.Hi < 101./100 || e.Hi > 1.02 || e.P < .99 {
			t.Errorf("%s: %+v, %v", QuantileName(q), e, err)
		}
	}
	next := slices.Repeat([]iotax.Histogram{histogramOf(map[float64]uint64{fioBin(101_100): 50_000})}, 8)
	if e, err := quantileRatio(one, next, .5, Options{}); err != nil || !e.Contains(1) || e.P < .99 {
		t.Errorf("neighbouring bins: %+v, %v", e, err)
	}
}

func TestQuantileRatioErrors(t *testing.T) {
	h := []iotax.Histogram{histogramOf(map[float64]uint64{0: 1000})}
	for name, err := range map[string]error{
		"unpaired": second(quantileRatio(h, nil, .5, Options{})), "none": second(quantileRatio(nil, nil, .5, Options{})),
		"maximum": second(quantileRatio(h, h, 1, Options{})), "NaN": second(quantileRatio(h, h, math.NaN(), Options{})),
		"zero": second(quantileRatio(h, h, .5, Options{})), "alpha": second(quantileRatio(h, h, .5, Options{Alpha: 2})),
	} {
		if err == nil || errors.As(err, new(*TooFewBeyond)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func BenchmarkQuantileRatio(b *testing.B) {
	for name, n := range map[string]int{"trials": 20_000, "pooled": 2_000} {
		base, target := rounds(rand.New(rand.NewPCG(9, 10)), 30, n, .5, .02, 1)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := quantileRatio(base, target, .99, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
