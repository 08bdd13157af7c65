package stat

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

// The same data as TestPairedT, taken as two groups of ten, as every textbook does too: the difference
// is 1.58 with 95 % interval [−0.2055, 3.3655] on 17.776 degrees of freedom.
func TestWelch(t *testing.T) {
	a := []float64{.7, -1.6, -.2, -1.2, -.1, 3.4, 3.7, .8, 0, 2.0}
	b := []float64{1.9, .8, 1.1, .1, -.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	exp := func(xs []float64) []float64 {
		out := make([]float64, len(xs))
		for i, x := range xs {
			out[i] = math.Exp(x)
		}
		return out
	}
	r, err := Welch(exp(a), exp(b), iotax.Up, .05)
	if err != nil || !near(math.Log(r.Estimate), 1.58, 1e-9) || !near(math.Log(r.Lo), -.2054832, 1e-5) || !near(math.Log(r.Hi), 3.3654832, 1e-5) || r.N != 10 {
		t.Errorf("%v [%v, %v], %v", math.Log(r.Estimate), math.Log(r.Lo), math.Log(r.Hi), err)
	}
	if r, err := Welch([]float64{2}, []float64{3, 4}, iotax.Up, .05); err != nil || r.Bounded() || !near(r.Estimate, math.Sqrt(12)/2, 1e-12) {
		t.Errorf("one value: %+v, %v", r, err)
	}
	if r, err := Welch([]float64{2, 2}, []float64{4, 4}, iotax.Down, .05); err != nil || !near(r.Lo, .5, 1e-12) || !near(r.Hi, .5, 1e-12) {
		t.Errorf("no noise: %+v, %v", r, err)
	}
	for want, c := range map[string][2][]float64{
		"baseline[1] is 0": {{1, 0}, {1, 2}}, "target[0] is NaN": {{1, 2}, {math.NaN()}}, "0 values of the baseline": {nil, {1}},
	} {
		if _, err := Welch(c[0], c[1], iotax.Up, .05); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", c, err, want)
		}
	}
}

func TestWelchSwaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(.5, 2), 2, 12)
		b, x := v.Draw(t, "baseline"), v.Draw(t, "target")
		r, err := Welch(b, x, iotax.Up, .05)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := Welch(x, b, iotax.Up, .05)
		d, _ := Welch(b, x, iotax.Down, .05)
		same(t, "target and baseline swapped", Interval{1 / s.Estimate, 1 / s.Hi, 1 / s.Lo, s.N}, r)
		same(t, "the other orientation", Interval{1 / d.Estimate, 1 / d.Hi, 1 / d.Lo, d.N}, r)
	})
}
