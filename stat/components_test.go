package stat

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestVarianceComponents(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, c := range []struct{ between, within, phi float64 }{
		{.02, .10, 0}, {.05, .05, 0}, {0, .10, 0}, {.02, .10, .6},
	} {
		const trials, length = 3000, 60
		data := make([][]float64, trials)
		for i := range data {
			e := c.between * r.NormFloat64()
			w := c.within * r.NormFloat64()
			for range length {
				data[i] = append(data[i], e+w)
				w = c.phi*w + c.within*math.Sqrt(1-c.phi*c.phi)*r.NormFloat64()
			}
		}
		got, err := VarianceComponents(data)
		if err != nil {
			t.Fatal(err)
		}
		within := c.within * c.within * (1 + c.phi) / (1 - c.phi)
		// r₁ and the variance are slightly too low if φ is high, because they use the estimated mean of each series.
		tol := .03 + .15*c.phi
		if math.Abs(got.Within/within-1) > tol || math.Abs(got.Between-c.between*c.between) > .1*c.between*c.between+.05*within/length+.2*c.phi*within/length {
			t.Errorf("%+v: %+v, want within %.3g, between %.3g", c, got, within, c.between*c.between)
		}
		if got.Trials != trials || !near(got.Seconds, length, 1e-9) || math.Abs(got.Lag1-c.phi) > .04 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	for name, bad := range map[string][][]float64{
		"one trial": {{1, 2, 3}}, "short": {{1, 2, 3}, {1, 2}}, "NaN": {{1, 2, 3}, {1, math.NaN(), 3}}, "none": nil,
	} {
		if _, err := VarianceComponents(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TrialLength returns the length at which the mean of all trials that fit into a given time has the smallest variance.
func TestTrialLength(t *testing.T) {
	for _, c := range []Components{{Within: .01, Between: .0004}, {Within: .04, Between: .0001}, {Within: .0001, Between: .01}} {
		const setup = 3.0
		got, err := TrialLength(c, setup, 1, 300)
		if err != nil {
			t.Fatal(err)
		}
		best, at := math.Inf(1), 0.0
		for l := 1.0; l <= 300; l += .01 {
			if v := (c.Between + c.Within/l) * (setup + l); v < best {
				best, at = v, l
			}
		}
		if math.Abs(got-at) > .02 {
			t.Errorf("%+v: %.2f s, best is %.2f s", c, got, at)
		}
	}
	if l, err := TrialLength(Components{Within: 1, Between: -.1}, 3, 5, 60); err != nil || l != 60 {
		t.Errorf("nothing between trials: %v, %v", l, err)
	}
	if l, err := TrialLength(Components{Within: 1e-9, Between: 1}, 3, 5, 60); err != nil || l != 5 {
		t.Errorf("nothing within trials: %v, %v", l, err)
	}
	if _, err := TrialLength(Components{}, 3, 60, 5); !errors.Is(err, errLength) {
		t.Errorf("bounds out of order: %v", err)
	}
	if _, err := TrialLength(Components{}, math.NaN(), 5, 60); err == nil {
		t.Error("a set-up that is not a number is accepted")
	}
}
