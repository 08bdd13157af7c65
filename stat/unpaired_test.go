package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

// Hollander, Wolfe & Chicken, example 4.1 (permeability of the human chorioamnion; at term and at 12–26
// weeks): U = 35 of 50, exact two-sided p 0.2544, estimate of the shift 0.305.
func TestRankSumOfTextbook(t *testing.T) {
	early := []float64{1.15, .88, .90, .74, 1.21}
	term := []float64{.80, .83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, .73, 1.46}
	u, p := RankSum(early, term, 0)
	if u != 35 || !near(p, .2544, 1e-4) {
		t.Errorf("U = %v, p = %v", u, p)
	}
	c, err := EstimateChange(early, term, Options{Least: 5})
	if err != nil || !near(math.Log(c.HodgesLehmann), .305, 1e-9) || !near(math.Log(c.Rank.Lo), -.15, 1e-9) || !near(math.Log(c.Rank.Hi), .76, 1e-9) {
		t.Errorf("shift %v [%v, %v], %v", math.Log(c.HodgesLehmann), math.Log(c.Rank.Lo), math.Log(c.Rank.Hi), err)
	}
}

// Critical values of U, two-sided 5 %, from published tables: the largest significant U.
func TestRankSumDepth(t *testing.T) {
	for _, c := range []struct{ m, n, critical int }{
		{3, 3, -1}, {3, 5, 0}, {4, 4, 0}, {5, 5, 2}, {6, 6, 5}, {5, 10, 8}, {8, 8, 13}, {10, 10, 23}, {12, 8, 22}, {20, 20, 127},
	} {
		if k := rankSumDepth(c.m, c.n, .05); k != c.critical+1 {
			t.Errorf("%d, %d: k = %d, want %d", c.m, c.n, k, c.critical+1)
		}
		if a, b := rankSumDepth(c.m, c.n, .05), rankSumDepth(c.n, c.m, .05); a != b {
			t.Errorf("%d, %d: %d, swapped %d", c.m, c.n, a, b)
		}
	}
	// At the largest sample sizes with an exact distribution, the normal approximation is close to it.
	m := 50
	for rankSumWork(m, m) <= mostWork {
		m++
	}
	cum, _ := rankSumTail(m-1, m-1, (m-1)*(m-1)*2/5)
	z := (float64((m-1)*(m-1))/2 - float64((m-1)*(m-1)*2/5) - .5) / math.Sqrt(float64((m-1)*(m-1))*float64(2*m-1)/12)
	if approx := math.Erfc(z/math.Sqrt2) / 2; !near(cum, approx, .001) {
		t.Errorf("exact %v, normal %v", cum, approx)
	}
}

func TestRankSumTies(t *testing.T) {
	// Two of each value: of C(4,2) = 6 choices, one has {2,2} as y, one has {1,1}, and four are in the middle.
	if u, p := RankSum([]float64{1, 1}, []float64{2, 2}, 0); u != 4 || !near(p, 1./3, 1e-12) {
		t.Errorf("U = %v, p = %v", u, p)
	}
	if u, p := RankSum([]float64{1, 1, 1}, []float64{1, 1}, 0); u != 3 || p != 1 {
		t.Errorf("all equal: U = %v, p = %v", u, p)
	}
	big := make([]float64, 400)
	if _, p := RankSum(big, big, 0); p != 1 {
		t.Errorf("many equal: p = %v", p)
	}
	if u, p := RankSum(nil, big, 0); !math.IsNaN(u) || !math.IsNaN(p) {
		t.Errorf("empty: %v, %v", u, p)
	}
}

// The data of Student's sleep study as two groups of ten: the difference is 1.58 [−0.2055, 3.3655] with 17.776
// degrees of freedom.
func TestUnpairedT(t *testing.T) {
	a := []float64{.7, -1.6, -.2, -1.2, -.1, 3.4, 3.7, .8, 0, 2.0}
	b := []float64{1.9, .8, 1.1, .1, -.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	c, err := EstimateChange(a, b, Options{Alpha: .05})
	if err != nil || !near(math.Log(c.T.Estimate), 1.58, 1e-9) || !near(math.Log(c.T.Lo), -.2054832, 1e-5) || !near(math.Log(c.T.Hi), 3.3654832, 1e-5) {
		t.Errorf("%+v, %v", c.T, err)
	}
	if p := ChangeP(a, b, 1, Options{}); p < .0793 { // Welch's p is 0.07939, and ChangeP returns the larger of two p values
		t.Errorf("p = %v", p)
	}
	wide, err := EstimateChange(a, b, Options{Autocorrelation: .6})
	if err != nil || !near(math.Log(wide.T.Hi)-1.58, 2*(3.3654832-1.58), 1e-5) {
		t.Errorf("φ = 0.6: %+v, %v", wide.T, err)
	}
}

func TestUnpaired(t *testing.T) {
	before, after := []float64{100, 102, 98, 101, 99, 100}, []float64{80, 81, 79, 80, 82, 78}
	up, err := Unpaired(before, after, iotax.Up, Options{})
	if err != nil || !near(up.Estimate, .8, .01) || !(up.Hi < .85) || !up.Exact || up.N != 6 {
		t.Fatalf("%+v, %v", up, err)
	}
	if !(up.P < 1e-6) { // the minimum for six against six ranks is 0.002
		t.Errorf("p = %v", up.P)
	}
	down, err := Unpaired(before, after, iotax.Down, Options{})
	if err != nil || !near(down.Lo, 1/up.Hi, 1e-12) || !near(down.Hi, 1/up.Lo, 1e-12) {
		t.Errorf("less is better: %+v, %v", down, err)
	}
	if c, err := Unpaired(before[:5], after, iotax.Up, Options{}); err != nil || c.Bounded() || c.T.Bounded() || !math.IsNaN(c.P) || Judge(c.Interval, .01) != TooFew {
		t.Errorf("five values on one side have no interval and no verdict: %+v, %v", c, err)
	}
	if c, err := Unpaired([]float64{2}, []float64{3, 4}, iotax.Up, Options{}); err != nil || c.Bounded() || !near(c.Estimate, math.Sqrt(12)/2, 1e-12) || !math.IsNaN(c.P) {
		t.Errorf("one value: %+v, %v", c, err)
	}
	if c, err := Unpaired([]float64{2, 2}, []float64{4, 4}, iotax.Up, Options{Least: 2}); err != nil || !near(c.Lo, 2, 1e-12) || !near(c.Hi, 2, 1e-12) || c.P != 0 || c.Exact {
		t.Errorf("no noise: %+v, %v", c, err)
	}
	nan := math.NaN()
	for _, bad := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{0}, {1}}, {{1}, {-1}}, {{nan}, {1}}, {{1}, {math.Inf(1)}}} {
		if c, err := Unpaired(bad[0], bad[1], iotax.Up, Options{}); err == nil || c.Bounded() {
			t.Errorf("%v: %+v, no error", bad, c)
		}
	}
	for _, o := range []Options{{Alpha: 2}, {Autocorrelation: 1}} {
		if _, err := Unpaired(before, after, iotax.Up, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// ChangeP agrees with the interval of EstimateChange. Swapping the samples inverts the interval and keeps the p value.
func TestChangeAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		sample := func(n int, shift, sd float64) []float64 {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = shift + sd*r.NormFloat64()
			}
			return xs
		}
		x := sample(rapid.IntRange(LeastTrials, 12).Draw(t, "m"), 0, .02)
		y := sample(rapid.IntRange(LeastTrials, 12).Draw(t, "n"), rapid.Float64Range(-.1, .1).Draw(t, "shift"), .04)
		alpha := rapid.SampledFrom([]float64{.05, .032, .001}).Draw(t, "alpha")
		c, err := EstimateChange(x, y, Options{Alpha: alpha})
		if err != nil {
			t.Fatal(err)
		}
		for _, ratio := range []float64{.9, 1 / 1.05, 1, 1.05, c.Lo * (1 - 1e-6), c.Lo * (1 + 1e-6), c.Hi * (1 - 1e-6)} {
			p := ChangeP(x, y, ratio, Options{})
			if in := c.Contains(ratio); in && p < alpha*(1-1e-6) || !in && p > alpha*(1+1e-6) {
				t.Fatalf("α %v, %d against %d: p of %v is %v, interval [%v, %v]", alpha, len(x), len(y), ratio, p, c.Lo, c.Hi)
			}
		}
		s, err := EstimateChange(y, x, Options{Alpha: alpha})
		if err != nil || !near(s.Lo*c.Hi, 1, 1e-9) || !near(s.Hi*c.Lo, 1, 1e-9) || !near(s.P, c.P, 1e-9) {
			t.Fatalf("swapped: %+v, was %+v, %v", s, c, err)
		}
	})
}

// kth returns the same difference as a sorted list of all differences.
func TestKthDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Map(rapid.IntRange(-2, 2), func(i int) float64 { return float64(i) }), rapid.Just(math.Copysign(0, -1)))
		x, y := rapid.SliceOfN(value, 1, 12).Draw(t, "x"), rapid.SliceOfN(value, 1, 12).Draw(t, "y")
		var all []float64
		for _, a := range x {
			for _, b := range y {
				all = append(all, b-a)
			}
		}
		slices.Sort(all)
		d := differences(x, y)
		for i, want := range all {
			if got := d.kth(i + 1); got != want {
				t.Fatalf("difference %d of %v and %v is %v, want %v", i+1, x, y, got, want)
			}
		}
		if got, want := d.median(), (all[(len(all)-1)/2]+all[len(all)/2])/2; got != want {
			t.Fatalf("median %v, want %v", got, want)
		}
	})
}

// A smoke test of the coverage of EstimateChange, for normal and skewed samples of equal and unequal sizes.
func TestChangeCovers(t *testing.T) {
	const studies = 2000
	r := rand.New(rand.NewPCG(3, 9))
	for name, noise := range map[string]func(sd float64) float64{
		"normal": func(sd float64) float64 { return sd * r.NormFloat64() },
		"skewed": func(sd float64) float64 { return sd * (r.ExpFloat64() - 1) },
	} {
		for _, sizes := range [][2]int{{6, 6}, {6, 12}} {
			hit := 0
			for range studies {
				x, y := make([]float64, sizes[0]), make([]float64, sizes[1])
				for i := range x {
					x[i] = noise(.03)
				}
				for i := range y {
					y[i] = math.Log(.9) + noise(.03)
				}
				if c, _ := EstimateChange(x, y, Options{}); c.Contains(.9) {
					hit++
				}
			}
			if w := Wilson(hit, studies, .05); w.Hi < .95 {
				t.Errorf("%s, %v: coverage %.4f [%.4f, %.4f]", name, sizes, w.Estimate, w.Lo, w.Hi)
			}
		}
	}
}

func BenchmarkUnpaired30(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := make([]float64, 30), make([]float64, 30)
	for i := range x {
		x[i], y[i] = math.Exp(.1*r.NormFloat64()), math.Exp(.1*r.NormFloat64())
	}
	for b.Loop() {
		if _, err := Unpaired(x, y, iotax.Up, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// Percentiles of runs with little noise are the values of few bins. With Hidden, the interval of their ratio still
// contains the true ratio, and p agrees with it.
func TestChangeOfBins(t *testing.T) {
	const studies = 1000
	r := rand.New(rand.NewPCG(31, 1))
	hit, without := 0, 0
	for range studies {
		at, ratio := 100_000*math.Exp(r.Float64()), math.Exp(.02*r.NormFloat64())
		sample := func(at float64) []float64 {
			xs := make([]float64, 8)
			for i := range xs {
				xs[i] = math.Log(fioBin(at * math.Exp(.001*r.NormFloat64())))
			}
			return xs
		}
		x, y := sample(at), sample(at*ratio)
		o := Options{Hidden: 2 * HistogramError}
		c, err := EstimateChange(x, y, o)
		plain, err2 := EstimateChange(x, y, Options{})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if c.Contains(ratio) {
			hit++
		}
		if plain.Contains(ratio) {
			without++
		}
		if p := ChangeP(x, y, ratio, o); c.Contains(ratio) != (p >= .05) {
			t.Errorf("p %v, interval [%v, %v], ratio %v", p, c.Lo, c.Hi, ratio)
		}
	}
	if hit < .95*studies || without > .5*studies {
		t.Errorf("of %d intervals, %d contain the ratio, and %d without Hidden", studies, hit, without)
	}
}
