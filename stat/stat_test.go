package stat

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b, tol float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return a == b || math.Abs(a-b) <= tol*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func TestMedianNeedsSix(t *testing.T) {
	five := Median([]float64{5, 1, 4, 2, 3})
	if five.Estimate != 3 || five.N != 5 || five.Bounded() {
		t.Errorf("of five values: %+v, want 3 without bounds", five)
	}
	six := Median([]float64{5, 1, 4, 2, 3, 6})
	if six != (Interval{3.5, 1, 6, 6}) {
		t.Errorf("of six values: %+v, want 3.5 [1, 6]", six)
	}
	if medianDepth(LeastTrials, 1-Confidence) != 1 || medianDepth(LeastTrials-1, 1-Confidence) != 0 {
		t.Error("LeastTrials is not the least number of values whose median has an interval")
	}
	if m := Median(nil); !math.IsNaN(m.Estimate) || m.N != 0 {
		t.Errorf("of nothing: %+v", m)
	}
	if m := Median([]float64{1, 2, 3, 4, 5, 6, math.NaN()}); !math.IsNaN(m.Estimate) || m.Bounded() {
		t.Errorf("with a NaN: %+v", m)
	}
}

// The bounds are the tightest symmetric pair of order statistics with a coverage of at least 95 %. The test
// computes the coverage in integers.
func TestMedianCoverage(t *testing.T) {
	for n := 6; n <= 60; n++ {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = float64(i + 1)
		}
		m := Median(xs)
		lo, hi := int(m.Lo), int(m.Hi)
		if lo+hi != n+1 {
			t.Fatalf("n=%d: [%d, %d] is not symmetric", n, lo, hi)
		}
		cover := func(lo int) float64 { // P(lo ≤ Binomial < n+1-lo)
			sum := new(big.Int)
			for k := lo; k < n+1-lo; k++ {
				sum.Add(sum, new(big.Int).Binomial(int64(n), int64(k)))
			}
			p, _ := new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
			return p
		}
		if cover(lo) < .95 || cover(lo+1) >= .95 {
			t.Errorf("n=%d: [%d, %d] covers %.4f, the next inner pair %.4f", n, lo, hi, cover(lo), cover(lo+1))
		}
	}
}

func TestMedianProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 40).Draw(t, "xs")
		before := slices.Clone(xs)
		m := Median(xs)
		if !slices.Equal(xs, before) {
			t.Fatal("the sample was reordered")
		}
		if p := Median(rapid.Permutation(xs).Draw(t, "permuted")); p != m && m.Bounded() {
			t.Fatalf("order matters: %+v, %+v", m, p)
		}
		neg := make([]float64, len(xs))
		for i, x := range xs {
			neg[i] = -x
		}
		if r := Median(neg); m.Bounded() && (r.Lo != -m.Hi || r.Hi != -m.Lo || r.Estimate != -m.Estimate) {
			t.Fatalf("mirrored sample: %+v, %+v", m, r)
		}
		if m.Bounded() && !m.Contains(m.Estimate) {
			t.Fatalf("%+v does not contain its estimate", m)
		}
	})
}

// Wilson's interval for 81 of 263 from Newcombe (1998), table I, method 3.
func TestWilson(t *testing.T) {
	w := Wilson(81, 263, .05)
	if !near(w.Lo, .2553, 5e-5) || !near(w.Hi, .3662, 5e-5) {
		t.Errorf("81/263: %+v", w)
	}
	if w := Wilson(0, 20, .05); w.Lo != 0 || !near(w.Hi, .1611, 5e-5) {
		t.Errorf("0/20: %+v", w)
	}
	if Wilson(3, 2, .05).Bounded() {
		t.Error("3 of 2 has an interval")
	}
}

func TestTukey(t *testing.T) {
	// The quartiles are 3.5 and 5 (type 7), so the fences are at 1.25 and 7.25, and at −1 and 9.5.
	xs := []float64{4, 3, 5, 4, 3, 5, 4, 9, 20, 4, 3}
	got := Tukey(xs)
	want := slices.Repeat([]Tag{Inside}, len(xs))
	want[7], want[8] = Mild, Severe
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Tukey([]float64{1, 1, 1000}); slices.ContainsFunc(got, func(t Tag) bool { return t != Inside }) {
		t.Errorf("three values: %q", got)
	}
}

func TestLag1(t *testing.T) {
	if r := Lag1([]float64{1, -1, 1, -1, 1, -1}); !near(r, -5./6, 1e-12) {
		t.Errorf("alternating: %v", r)
	}
	if r := Lag1([]float64{1, 2, 3, 4, 5}); !near(r, .4, 1e-12) {
		t.Errorf("rising: %v", r)
	}
	if !math.IsNaN(Lag1([]float64{2, 2, 2})) {
		t.Error("constant values have an autocorrelation")
	}
}

func TestHolm(t *testing.T) {
	// As in R: p.adjust(c(.01,.02,.03,.04), "holm").
	got := Holm([]float64{.03, .01, math.NaN(), .04, .02})
	for i, want := range []float64{.06, .04, math.NaN(), .06, .06} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("%d: %v, want %v", i, got[i], want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		a := Holm(p)
		for i := range p {
			if a[i] < p[i] || a[i] > 1 || a[i] > p[i]*float64(len(p))+1e-12 {
				t.Fatalf("p %v became %v", p[i], a[i])
			}
			for j := range p {
				if p[i] < p[j] && a[i] > a[j] {
					t.Fatal("the order of p values was not kept")
				}
			}
		}
	})
}

// Two ratios are apart if the interval of their difference excludes 0. This is true in either order and on both
// sides of 1.
func TestApart(t *testing.T) {
	nan := math.NaN()
	of := func(lo, estimate, hi float64) Interval { return Interval{estimate, lo, hi, 6} }
	for _, c := range []struct {
		x, y Interval
		want bool
	}{
		{of(1/48., 1/40., 1/36.), of(1/46., 1/38., 1/30.), false},
		{of(1/53., 1/39., 1/24.), of(1/26., 1/17., 1/8.3), true}, // the intervals overlap, but the ratios differ by more than their noise
		{of(1/53., 1/39., 1/24.), of(1/30., 1/24., 1/16.), false},
		{of(1/48., 1/40., 1/36.), of(1/28., 1/20., 1/16.), true},
		{of(.9, .95, 1), of(1, 1.05, 1.1), true},
		{of(.5, .5, .5), of(.5, .5, .5), false},
		{of(nan, .1, nan), of(.9, .95, 1), false},
	} {
		if got := Apart(c.x, c.y); got != c.want || Apart(c.y, c.x) != got {
			t.Errorf("%v, %v: apart %v, want %v", c.x, c.y, got, c.want)
		}
	}
}
