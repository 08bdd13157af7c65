package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

// Critical values of the signed-rank statistic from published tables (Wilcoxon & Wilcox 1964; McCornack 1965): the
// largest T with two-sided P(min(T⁺, T⁻) ≤ T) ≤ alpha.
func TestSignedRankTable(t *testing.T) {
	tables := map[float64]map[int]int{
		.05: {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34, 18: 40,
			19: 46, 20: 52, 21: 58, 22: 65, 23: 73, 24: 81, 25: 89, 26: 98, 27: 107, 28: 116, 29: 126, 30: 137},
		.02: {7: 0, 8: 1, 9: 3, 10: 5, 11: 7, 12: 9, 13: 12, 14: 15, 15: 19, 20: 43, 25: 76, 30: 120},
		.01: {8: 0, 9: 1, 10: 3, 11: 5, 12: 7, 13: 9, 14: 12, 15: 15, 20: 37, 25: 68, 30: 109},
	}
	for alpha, table := range tables {
		for n, crit := range table {
			if k := rankDepth(n, alpha); k != crit+1 {
				t.Errorf("n=%d alpha=%v: critical value %d, tables have %d", n, alpha, k-1, crit)
			}
		}
	}
	for n, want := range map[int]int{4: 0, 5: 0, 6: 1} {
		if k := rankDepth(n, 1.0/32); k != want {
			t.Errorf("n=%d at 1/32: depth %d, want %d", n, k, want)
		}
	}
}

// The results of signedRankInterval, hodgesLehmann and walshP match those from a list of all Walsh averages.
func TestWalshBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 45), rapid.SampledFrom([]int{128, 150, exactLimit + 1})).Draw(t, "n")
		d := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(-50, 50).Draw(t, "v")) / 7 // with ties
		}), n, n).Draw(t, "d")
		alpha := rapid.SampledFrom([]float64{.01, .032, .05, .3, .9}).Draw(t, "alpha")
		before := slices.Clone(d)
		var w []float64
		for i := range d {
			for j := i; j < n; j++ {
				w = append(w, d[i]/2+d[j]/2)
			}
		}
		slices.Sort(w)
		k := max(1, rankDepth(n, alpha))
		lo, hi, exact := signedRankInterval(d, alpha)
		if lo != w[k-1] || hi != w[len(w)-k] || exact != (rankDepth(n, alpha) > 0) {
			t.Fatalf("[%v, %v], want [%v, %v]", lo, hi, w[k-1], w[len(w)-k])
		}
		if hl := hodgesLehmann(d); hl != (w[(len(w)-1)/2]+w[len(w)/2])/2 {
			t.Fatalf("the median of the averages is %v", hl)
		}
		mu := rapid.OneOf(rapid.Just(0.), rapid.SampledFrom(w)).Draw(t, "mu")
		below, above := 0, 0
		for _, v := range w {
			if v <= mu {
				below++
			}
			if v >= mu {
				above++
			}
		}
		if p, want := walshP(d, mu), math.Min(1, 2*rankTail(n, min(below, above))); p != want {
			t.Fatalf("p of %v is %v, want %v", mu, p, want)
		}
		if !slices.Equal(d, before) {
			t.Fatal("the argument was changed")
		}
	})
}

// At exactLimit, the normal approximation in rankDepth continues the exact distribution without a large jump.
func TestRankDepthJoins(t *testing.T) {
	for _, alpha := range []float64{.05, .032, .01} {
		at, after := rankDepth(exactLimit, alpha), rankDepth(exactLimit+1, alpha)
		before := rankDepth(exactLimit-1, alpha)
		if d, e := after-at, at-before; d < e-12 || d > e+12 {
			t.Errorf("alpha=%v: depths %d, %d, %d", alpha, before, at, after)
		}
	}
}

// Depression scores of nine patients, Hollander & Wolfe, example 3.1: one-sided P = 0.0195, Hodges–Lehmann −0.46, and
// (−0.786, −0.010) as the 96.1 % interval, which is the exact interval at alpha 0.05.
func TestSignedRankPublished(t *testing.T) {
	x := []float64{1.83, .50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	y := []float64{.878, .647, .598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	d := make([]float64, len(x))
	for i := range d {
		d[i] = y[i] - x[i]
	}
	if p := walshP(d, 0); !near(p, 0.0390625, 1e-12) {
		t.Errorf("p %v; want 0.0390625", p)
	}
	hl := hodgesLehmann(d)
	lo, hi, exact := signedRankInterval(d, .05)
	if !near(hl, -.46, 1e-9) || !near(lo, -.786, 1e-9) || !near(hi, -.010, 1e-9) || !exact {
		t.Errorf("got %v [%v, %v] exact %v", hl, lo, hi, exact)
	}
}

// The t interval matches a textbook example: extra sleep under two drugs ("Student" 1908), differences with
// mean 1.58 and 95 % interval [0.70, 2.46].
func TestPairedT(t *testing.T) {
	e, err := Estimate([]float64{1.2, 2.4, 1.3, 1.3, 0, 1.0, 1.8, 0.8, 4.6, 1.4}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !near(math.Log(e.T.Lo), .7001142, 1e-6) || !near(math.Log(e.T.Hi), 2.4598858, 1e-6) || !near(math.Log(e.Estimate), 1.58, 1e-9) {
		t.Errorf("got %v [%v, %v]", math.Log(e.Estimate), math.Log(e.T.Lo), math.Log(e.T.Hi))
	}
	if e.Lo > e.T.Lo || e.Lo > e.Rank.Lo || e.Hi < e.T.Hi || e.Hi < e.Rank.Hi {
		t.Errorf("the hull %v is not one", e.Interval)
	}
}

func TestSmallSamples(t *testing.T) {
	e, err := Estimate([]float64{.1}, Options{})
	if err != nil || e.Bounded() || !near(e.Estimate, math.Exp(.1), 1e-12) || e.N != 1 {
		t.Errorf("one round: %+v, %v", e, err)
	}
	five := []float64{.1, .12, .09, .11, .1}
	for n := 1; n < LeastTrials; n++ {
		if e, err = Estimate(five[:n], Options{}); err != nil || e.Bounded() || e.T.Bounded() || !math.IsNaN(e.P) || Judge(e.Interval, .01) != TooFew {
			t.Errorf("%d rounds have no interval and no verdict: %+v, %v", n, e, err)
		}
	}
	e, err = Estimate(five, Options{Least: 5})
	if err != nil || e.Exact || !near(e.Rank.Lo, math.Exp(.09), 1e-12) || !e.Bounded() {
		t.Errorf("five rounds: %+v, %v", e, err)
	}
	e, err = Estimate(append(five, .1), Options{Alpha: 1.0 / 32})
	if err != nil || !e.Exact {
		t.Errorf("six rounds at 31/32: %+v, %v", e, err)
	}
	// At α′, the coverage of the range of six rounds is slightly below 1 − α′.
	w, err := Estimate(append(five, .1), Options{Alpha: AlphaPerLook})
	if err != nil || w.Exact || w.Rank != e.Rank {
		t.Errorf("six rounds at a look: %+v, %v", w, err)
	}
	if e, err = Estimate([]float64{.2, .2, .2}, Options{Least: 2}); err != nil || !near(e.Lo, e.Hi, 1e-12) || e.P > .25 {
		t.Errorf("equal rounds: %+v, %v", e, err)
	}
}

func TestRatioErrors(t *testing.T) {
	good := []float64{1, 2, 3}
	for _, c := range []struct {
		b, t  []float64
		alpha float64
		want  string
	}{
		{[]float64{1, 0, 3}, good, .05, "baseline[1] is 0"},
		{good, []float64{1, 2, -3}, .05, "target[2] is -3"},
		{good, []float64{math.NaN(), 2, 3}, .05, "target[0] is NaN"},
		{[]float64{1, 2, math.Inf(1)}, good, .05, "baseline[2] is +Inf"},
		{good, []float64{1}, .05, "3 values of the baseline, 1 of the target"},
		{nil, nil, .05, "no round"},
		{good, good, 1, "alpha"},
		{good, good, -1, "alpha"},
	} {
		r, err := Ratio(c.b, c.t, iotax.Up, c.alpha)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v / %v: error %v, want %q", c.t, c.b, err, c.want)
		}
		if r.Bounded() {
			t.Errorf("%v / %v: an error and an interval", c.t, c.b)
		}
	}
	for phi, want := range map[float64]float64{0: 1, -.5: 1, .6: 2, .8: 3, 1: math.Inf(1), 3: math.Inf(1)} {
		if w := Widening(phi); !near(w, want, 1e-12) {
			t.Errorf("φ %v widens by %v, want %v", phi, w, want)
		}
	}
	for _, phi := range []float64{1, 2, math.NaN()} {
		if _, err := Estimate(good, Options{Autocorrelation: phi}); err == nil {
			t.Errorf("autocorrelation %v is accepted", phi)
		}
	}
}

func values(t *rapid.T) (b, x []float64) {
	n := rapid.IntRange(LeastTrials, 40).Draw(t, "n")
	v := rapid.Float64Range(1e-3, 1e6)
	return rapid.SliceOfN(v, n, n).Draw(t, "baseline"), rapid.SliceOfN(v, n, n).Draw(t, "target")
}

func same(t *rapid.T, what string, a, b Interval) {
	t.Helper()
	if !near(a.Estimate, b.Estimate, 1e-9) || !near(a.Lo, b.Lo, 1e-9) || !near(a.Hi, b.Hi, 1e-9) || a.N != b.N {
		t.Fatalf("%s: %+v, %+v", what, a, b)
	}
}

func TestRatioProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, x := values(t)
		better := rapid.SampledFrom([]iotax.Better{iotax.Up, iotax.Down}).Draw(t, "better")
		alpha := rapid.SampledFrom([]float64{.01, .032, .05, .2}).Draw(t, "alpha")
		ratio := func(b, x []float64, better iotax.Better) Interval {
			r, err := Ratio(b, x, better, alpha)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		inverse := func(r Interval) Interval { return Interval{1 / r.Estimate, 1 / r.Hi, 1 / r.Lo, r.N} }
		r := ratio(b, x, better)
		d, err := Pair(b, x, better)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := Estimate(d, Options{Alpha: alpha}); err != nil || e.Interval != r {
			t.Fatalf("the stop rule sees %+v, the report %+v (%v)", r, e.Interval, err)
		}
		if !(r.Lo <= r.Estimate && r.Estimate <= r.Hi) {
			t.Fatalf("%+v does not contain its estimate", r)
		}
		same(t, "target and baseline swapped", inverse(ratio(x, b, better)), r)
		other := map[iotax.Better]iotax.Better{iotax.Up: iotax.Down, iotax.Down: iotax.Up}[better]
		same(t, "the other orientation", inverse(ratio(b, x, other)), r)

		unit := rapid.SampledFrom([]float64{1e-3, 1.0 / 1024, 8, 4096}).Draw(t, "unit")
		scaled := func(xs []float64) []float64 {
			out := make([]float64, len(xs))
			for i, v := range xs {
				out[i] = v * unit
			}
			return out
		}
		same(t, "another unit", ratio(scaled(b), scaled(x), better), r)
		k := unit
		if better == iotax.Down {
			k = 1 / unit
		}
		same(t, "a target so much larger", ratio(b, scaled(x), better), Interval{r.Estimate * k, r.Lo * k, r.Hi * k, r.N})

		idx := make([]int, len(b))
		for i := range idx {
			idx[i] = i
		}
		var pb, px []float64
		for _, i := range rapid.Permutation(idx).Draw(t, "order") {
			pb, px = append(pb, b[i]), append(px, x[i])
		}
		same(t, "rounds in another order", ratio(pb, px, better), r)
	})
}

func TestEffectProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d []float64
		for _, v := range rapid.SliceOfNDistinct(rapid.IntRange(-2000, 2000).Filter(func(v int) bool { return v != 0 }), 6, 30,
			func(v int) int { return max(v, -v) }).Draw(t, "d") {
			d = append(d, float64(v)/1000)
		}
		at := func(alpha, phi float64) Effect {
			e, err := Estimate(d, Options{Alpha: alpha, Autocorrelation: phi})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := at(.05, 0)
		if w := at(.05, .5); w.Lo > e.Lo || w.Hi < e.Hi {
			t.Fatalf("autocorrelation narrows %v to %v", e.Interval, w.Interval)
		}
		if w := at(.05, -.5); w.Interval != e.Interval {
			t.Fatal("a negative autocorrelation changes the interval")
		}
		if w := at(.01, 0); w.Exact && (w.Lo > e.Lo || w.Hi < e.Hi) {
			t.Fatalf("99 %% %v is inside 95 %% %v", w.Interval, e.Interval)
		}
	})
}

// EffectP agrees with the interval of Estimate for different numbers of rounds, with ties, and where the signed-rank
// interval cannot reach its level. Swapping baseline and target inverts the ratio and keeps the p value.
func TestEffectPAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d []float64
		for _, v := range rapid.SliceOfN(rapid.IntRange(-40, 60), LeastTrials, 30).Draw(t, "d") { // many ties
			d = append(d, float64(v)/500)
		}
		o := Options{Alpha: rapid.SampledFrom([]float64{.05, AlphaPerLook, .001, .5}).Draw(t, "alpha"),
			Autocorrelation: rapid.SampledFrom([]float64{0, .4}).Draw(t, "phi")}
		e, err := Estimate(d, o)
		if err != nil {
			t.Fatal(err)
		}
		if p := EffectP(d, 1, o); p != e.P {
			t.Fatalf("P of 1 is %v and %v", p, e.P)
		}
		if e.Lo == e.Hi {
			return // without noise the interval is a point
		}
		mirrored := make([]float64, len(d))
		for i := range d {
			mirrored[i] = -d[i]
		}
		for _, ratio := range []float64{.9, 1 / 1.05, 1, 1.05, 1.2, e.Lo * (1 - 1e-6), e.Lo * (1 + 1e-6), e.Hi * (1 - 1e-6), e.Hi * (1 + 1e-6)} {
			p := EffectP(d, ratio, o)
			if p < 0 || p > 1 || math.IsNaN(p) {
				t.Fatalf("p of %v is %v", ratio, p)
			}
			if in := e.Contains(ratio); in && p < o.Alpha*(1-1e-4) || !in && p > o.Alpha*(1+1e-4) {
				t.Fatalf("α %v: p of %v is %v, interval [%v, %v] of %v", o.Alpha, ratio, p, e.Lo, e.Hi, d)
			}
			if q := EffectP(mirrored, 1/ratio, o); !near(p, q, 1e-6) && !near(ratio, e.Estimate, 1e-9) {
				t.Fatalf("p of %v is %v, mirrored %v", ratio, p, q)
			}
		}
	})
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if p := EffectP([]float64{.1, .2}, bad, Options{}); !math.IsNaN(p) {
			t.Errorf("p of a ratio of %v is %v", bad, p)
		}
	}
	if p := EffectP([]float64{.1}, 1, Options{}); !math.IsNaN(p) {
		t.Errorf("p of one round is %v", p)
	}
}

// study simulates a study: rounds with lognormal noise (model M0) until the stop rule is satisfied.
func study(r *rand.Rand, rho, sigma float64, rule func(d []float64) (Interval, bool)) (Interval, int) {
	var d []float64
	for {
		d = append(d, math.Log(rho)+sigma*math.Sqrt2*r.NormFloat64())
		if i, done := rule(d); done {
			return i, len(d)
		}
	}
}

func adaptive(d []float64) (Interval, bool) {
	n := len(d)
	if look, _ := Next(n, none(n), .05, 6, 30); !look {
		return Interval{}, false
	}
	i, _ := Hull(d, Options{Alpha: Alpha(6, 30)})
	_, done := Next(n, i, .05, 6, 30)
	return i, done
}

// peeking is an invalid stop rule: from the third round on, it stops as soon as the interval excludes 1, or after 30
// rounds.
func peeking(d []float64) (Interval, bool) {
	if len(d) < 3 {
		return Interval{}, false
	}
	e, _ := Estimate(d, Options{Alpha: .05, Least: 3})
	return e.T, len(d) == 30 || !e.T.Contains(1)
}

// A smoke test of the claimed coverage. Package statsim evaluates it in full.
func TestCoverage(t *testing.T) {
	const studies = 2000
	coverage := func(rho, sigma float64, rule func([]float64) (Interval, bool)) Interval {
		r := rand.New(rand.NewPCG(20, uint64(sigma*1e6)))
		hit := 0
		for range studies {
			if i, _ := study(r, rho, sigma, rule); i.Contains(rho) {
				hit++
			}
		}
		return Wilson(hit, studies, .05)
	}
	for _, sigma := range []float64{.005, .02, .05, .1, .2} {
		for _, rho := range []float64{.5, 1} {
			if c := coverage(rho, sigma, adaptive); c.Hi < .95 || c.Estimate < .945 {
				t.Errorf("σ %v, ρ %v: coverage %.4f [%.4f, %.4f]", sigma, rho, c.Estimate, c.Lo, c.Hi)
			}
		}
	}
	// The simulation detects a wrong stop rule.
	if c := coverage(1, .05, peeking); c.Hi > .90 {
		t.Errorf("peeking covers %.4f [%.4f, %.4f]: the simulation sees nothing", c.Estimate, c.Lo, c.Hi)
	}
}

func TestFalseVerdicts(t *testing.T) {
	const studies, margin = 2000, .05
	for _, sigma := range []float64{.02, .05} {
		r := rand.New(rand.NewPCG(4, uint64(sigma*1e6)))
		flagged, equal := 0, 0
		for range studies {
			if i, _ := study(r, 1, sigma, adaptive); Judge(i, margin) == Worse || Judge(i, margin) == Better {
				flagged++
			}
			i, _ := study(r, 1/(1+margin), sigma, adaptive)
			if v := Judge(i, margin); v == Equivalent || v == BelowMargin {
				equal++
			}
		}
		if w := Wilson(flagged, studies, .05); w.Lo > .05 {
			t.Errorf("σ %v: worse or better at ρ = 1 in %.1f %%", sigma, 100*w.Estimate)
		}
		if w := Wilson(equal, studies, .05); w.Lo > .05 {
			t.Errorf("σ %v: equivalent at the margin in %.1f %%", sigma, 100*w.Estimate)
		}
	}
}

// BenchmarkStudy100x30 evaluates a study with 100 cells, 30 rounds and three metrics: a rate, p99 of trials with enough
// I/Os, and p99.9, which pools rounds.
func BenchmarkStudy100x30(b *testing.B) {
	const cells, n = 100, 30
	r := rand.New(rand.NewPCG(1, 1))
	base, target := make([][]float64, cells), make([][]float64, cells)
	spread := drawn(r, 40_000, 100e-6, .6)
	hs := make([][2][]iotax.Histogram, cells)
	for c := range base {
		for range n {
			x := math.Exp(.1 * r.NormFloat64())
			base[c] = append(base[c], 10000*x)
			target[c] = append(target[c], 5000*x*math.Exp(.1*r.NormFloat64()))
			for side := range hs[c] {
				h := iotax.Histogram{Name: spread.Name, Unit: spread.Unit, Bins: slices.Clone(spread.Bins)}
				for i := range h.Bins {
					h.Bins[i].Count += uint64(r.IntN(3))
				}
				hs[c][side] = append(hs[c][side], h)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var p []float64
		judge := func(e Effect, err error) {
			if err != nil {
				b.Fatal(err)
			}
			p = append(p, e.P)
			_ = Judge(e.Interval, .05)
		}
		o := Options{Alpha: AlphaPerLook}
		for c := range base {
			d, err := Pair(base[c], target[c], iotax.Up)
			if err != nil {
				b.Fatal(err)
			}
			judge(Estimate(d, o))
			_ = Median(target[c])
			for _, q := range []float64{.99, .999} {
				judge(quantileRatio(hs[c][0], hs[c][1], q, o))
			}
		}
		Holm(p)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/study")
	b.ReportMetric(float64(len(spread.Bins)), "bins")
}

func BenchmarkSimulateM0(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		study(r, .9, .02, adaptive)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "studies/s")
}
