package stat

import (
	"math"
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
		{.90, 1 / 1.05, Inconclusive}, // U must be below the margin, not on it
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
		{.90, .99, Inconclusive}, // differs from 1, but from the margin?
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
		// On the very edge, the reciprocal's last bit decides.
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
	if Alpha(5, 5) != .05 || Alpha(6, 30) != .032 {
		t.Errorf("alpha %v, %v", Alpha(5, 5), Alpha(6, 30))
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
		{7, narrow, false, false}, // not a look: nothing may be concluded
		{8, none(8), true, false},
		{30, wide, true, true},
		{30, none(30), true, true},
		{31, wide, true, true},
	} {
		if look, done := Next(c.n, c.r, .05, 6, 30); look != c.look || done != c.done {
			t.Errorf("n=%d %v: look %v done %v", c.n, c.r, look, done)
		}
	}
	// Exactly ± 5 % on the log scale is precise enough; a hair more is not.
	if edge := (Interval{1, 1 / 1.05, 1.05, 6}); !Precise(edge, .05+1e-12) || Precise(Interval{1, 1 / 1.05, 1.0502, 6}, .05) {
		t.Error("the limit is not where it should be")
	}
	if h := (Interval{1, 1 / 1.05, 1.05, 6}).HalfWidth(); !near(h, .05, 1e-12) {
		t.Errorf("half width %v", h)
	}
}
