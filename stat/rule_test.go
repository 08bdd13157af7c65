package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		lo, hi float64
		want   Verdict
	}{
		{.45, .50, Worse},
		{.90, 1 / 1.05, Inconclusive}, // the upper bound must be below 1/(1+margin), not equal to it
		{.90, .9523, Worse},
		{1.06, 1.2, Better},
		{1.05, 1.2, Inconclusive},
		{.96, 1.04, Equivalent},
		{1 / 1.05, 1.05, Equivalent},
		{.96, .99, BelowMargin},
		{1.01, 1.04, BelowMargin},
		{.96, 1, Equivalent},
		{.90, 1.02, Inconclusive},
		{.90, 1.2, Inconclusive},
		{.90, .99, Inconclusive}, // differs from 1, but it is unclear whether by more than the margin
		{nan, nan, Inconclusive},
	} {
		if got := Judge(Interval{1, c.lo, c.hi, 6}, .05); got != c.want {
			t.Errorf("[%v, %v]: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(.01, 10).Draw(t, "lo")
		hi := lo * rapid.Float64Range(1, 3).Draw(t, "width")
		m := rapid.Float64Range(0, .5).Draw(t, "margin")
		swap := map[Verdict]Verdict{Worse: Better, Better: Worse}
		a, b := Judge(Interval{1, lo, hi, 6}, m), Judge(Interval{1, 1 / hi, 1 / lo, 6}, m)
		if s, ok := swap[b]; ok {
			b = s
		}
		// At an edge, the rounding of the reciprocal determines the verdict.
		for _, edge := range []float64{1, 1 + m, 1 / (1 + m)} {
			if near(lo, edge, 1e-9) || near(hi, edge, 1e-9) {
				return
			}
		}
		if a != b {
			t.Fatalf("[%v, %v] margin %v: %q, mirrored %q", lo, hi, m, a, b)
		}
	})
}

func TestLooks(t *testing.T) {
	for _, c := range []struct {
		least, most int
		want        []int
	}{
		{6, 30, []int{6, 8, 12, 18, 30}},
		{6, 12, []int{6, 8, 12}},
		{6, 20, []int{6, 8, 12, 18, 20}},
		{10, 30, []int{10, 12, 18, 30}},
		{3, 30, []int{3, 8, 12, 18, 30}},
		{6, 60, []int{6, 12, 18, 30, 60}},
		{2, 60, []int{2, 12, 18, 30, 60}},
		{5, 5, []int{5}},
		{8, 2, []int{8}},
		{0, 0, []int{1}},
		{40, 50, []int{40, 50}},
	} {
		if got := Looks(c.least, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d..%d: %v, want %v", c.least, c.most, got, c.want)
		}
	}
}

// For minimum numbers of rounds below 130 and maximum numbers below 300, α′ is above 0.01 and at most AlphaFixed.
func TestAlpha(t *testing.T) {
	if Alpha(5, 5) != AlphaFixed || Alpha(6, 30) != AlphaPerLook {
		t.Errorf("alpha %v, %v", Alpha(5, 5), Alpha(6, 30))
	}
	for least := range 130 {
		for most := range 300 {
			if a := Alpha(least, most); !(a > .01 && a <= AlphaFixed) {
				t.Fatalf("%d..%d: alpha %v", least, most, a)
			}
		}
	}
}

// TestAlphaTable recomputes a value of the table. With α′, the intervals cover 95 % at the worst of four noise levels,
// with a correlation that mirrored rounds can have. With α = 0.05, their coverage is lower.
func TestAlphaTable(t *testing.T) {
	const studies, mirrored = 20000, .15
	worst := func(alpha float64) Interval {
		least := Interval{Estimate: 2}
		for _, sigma := range []float64{.05, .07, .09, .11} {
			r := rand.New(rand.NewPCG(5, 17))
			hit := 0
			for range studies {
				var d []float64
				var i Interval
				for n := 1; ; n++ {
					z := r.NormFloat64()
					if n%2 == 0 {
						z = mirrored*d[n-2]/sigma + math.Sqrt(1-mirrored*mirrored)*z
					}
					d = append(d, sigma*z)
					if look, _ := Next(n, none(n), .05, 6, 30); !look {
						continue
					}
					i, _ = Hull(d, Options{Alpha: alpha})
					if _, done := Next(n, i, .05, 6, 30); done {
						break
					}
				}
				if i.Contains(1) {
					hit++
				}
			}
			if c := Wilson(hit, studies, .05); c.Estimate < least.Estimate {
				least = c
			}
		}
		return least
	}
	if c := worst(Alpha(6, 30)); c.Hi < Confidence || c.Lo > Confidence+.006 {
		t.Errorf("at α′ coverage is %.4f [%.4f, %.4f]", c.Estimate, c.Lo, c.Hi)
	}
	if c := worst(AlphaFixed); c.Hi > .94 {
		t.Errorf("at 0.05 coverage is %.4f [%.4f, %.4f]: the simulation sees nothing", c.Estimate, c.Lo, c.Hi)
	}
}

func TestNext(t *testing.T) {
	wide, narrow := Interval{.5, .4, .6, 8}, Interval{.5, .49, .51, 8}
	for _, c := range []struct {
		n          int
		r          Interval
		look, done bool
	}{
		{5, narrow, false, false},
		{6, narrow, true, true},
		{6, wide, true, false},
		{7, narrow, false, false}, // not an interim analysis: the interval must not be used
		{8, none(8), true, false},
		{30, wide, true, true},
		{30, none(30), true, true},
		{31, wide, true, true},
	} {
		if look, done := Next(c.n, c.r, .05, 6, 30); look != c.look || done != c.done {
			t.Errorf("n=%d %v: look %v done %v", c.n, c.r, look, done)
		}
	}
	// Exactly ± 5 % on the log scale is precise enough. Slightly more is not.
	if edge := (Interval{1, 1 / 1.05, 1.05, 6}); !Precise(edge, .05+1e-12) || Precise(Interval{1, 1 / 1.05, 1.0502, 6}, .05) {
		t.Error("the limit is not where it should be")
	}
	if h := (Interval{1, 1 / 1.05, 1.05, 6}).HalfWidth(); !near(h, .05, 1e-12) {
		t.Errorf("half width %v", h)
	}
}

// A study that stops when the interval of a median excludes a limit is wrong with a probability of at most 5 % if the
// limit is the true median. This depends only on the number of values above the limit, so the test computes the exact
// probability.
func TestMedianDecided(t *testing.T) {
	for _, bounds := range [][2]int{{6, 30}, {6, 8}, {6, 12}, {8, 18}, {6, 60}, {10, 1000}, {1, 9}, {12, 12}} {
		looks, alpha := Looks(bounds[0], bounds[1]), AlphaDecided(bounds[0], bounds[1])
		above, wrong := map[int]float64{0: 1}, 0. // probability of each number of values above the limit, if the study has not stopped
		for n := 1; n <= looks[len(looks)-1]; n++ {
			next := map[int]float64{}
			for k, p := range above {
				next[k] += p / 2
				next[k+1] += p / 2
			}
			above = next
			if !slices.Contains(looks, n) {
				continue
			}
			depth := medianDepth(n, alpha)
			for k, p := range above {
				if k < depth || n-k < depth {
					wrong += p
					delete(above, k)
				}
			}
		}
		if wrong > AlphaFixed || wrong == 0 {
			t.Errorf("%d to %d rounds, α′ %v: %.4f are decided wrongly", bounds[0], bounds[1], alpha, wrong)
		}
	}
}

// A study that stops when the interval of a ratio excludes a limit is wrong with a probability of at most 5 % if the
// limit is the true ratio. The rounds of these simulated studies have a correlation that mirrored rounds can have.
func TestRatioDecided(t *testing.T) {
	const studies, mirrored = 20_000, .15
	noise := rand.New(rand.NewPCG(3, 19))
	looks, alpha := Looks(6, 30), AlphaDecided(6, 30)
	wrong := 0
	for range studies {
		d := make([]float64, 0, 30)
		for len(d) < cap(d) {
			z := noise.NormFloat64()
			if n := len(d); n%2 == 1 {
				z = mirrored*d[n-1] + math.Sqrt(1-mirrored*mirrored)*z
			}
			if d = append(d, z); !slices.Contains(looks, len(d)) {
				continue
			}
			if i, err := Hull(d, Options{Alpha: alpha}); err != nil {
				t.Fatal(err)
			} else if !i.Contains(1) {
				wrong++
				break
			}
		}
	}
	if w := Wilson(wrong, studies, .01); w.Hi > AlphaFixed || w.Hi < AlphaFixed/2 {
		t.Errorf("%.4f to %.4f of the studies are decided wrongly", w.Lo, w.Hi)
	}
}

func TestLeastFor(t *testing.T) {
	for _, alpha := range []float64{.05, .025, .0125, .01, .001} {
		n := LeastFor(alpha)
		at := func(n int) bool {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = float64(i + 1)
			}
			r, err := Hull(xs, Options{Alpha: alpha})
			return err == nil && r.Bounded() && MedianAt(xs, alpha).Bounded()
		}
		if !at(n) || at(n-1) {
			t.Errorf("%d rounds are not the least for α %v", n, alpha)
		}
	}
}
