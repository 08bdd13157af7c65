package stat

import (
	"math"
	"testing"
	"time"
)

func TestPlusMinus(t *testing.T) {
	for _, c := range []struct {
		half   float64
		digits int
		want   string
	}{
		{.034, 1, "± 3 %"}, {.096, 1, "± 10 %"}, {.123, 1, "± 12 %"}, {.0042, 1, "± 0.4 %"}, {.0001, 1, "± 0.1 %"}, {1, 1, "± 100 %"},
		{.0523, 2, "± 5.2 %"}, {.123, 2, "± 12 %"}, {.999, 2, "± 100 %"}, {0, 2, "± 0.1 %"},
		{1.01, 1, "wider than ± 100 %"}, {math.NaN(), 2, "wider than ± 100 %"}, {math.Inf(1), 2, "wider than ± 100 %"},
	} {
		if got := PlusMinus(c.half, c.digits); got != c.want {
			t.Errorf("PlusMinus(%v, %d) = %q, want %q", c.half, c.digits, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	if got := Spread([]float64{1, 3, 1, 3}); math.Abs(got-math.Sqrt(4./3)) > 1e-15 {
		t.Errorf("%v", got)
	}
	if got := Spread([]float64{1, 2, 3}); !math.IsNaN(got) {
		t.Errorf("of three: %v", got)
	}
}

func TestTiming(t *testing.T) {
	var x Timing
	if got := x.Add(time.Second).Add(3 * time.Second); got.N != 2 || got.Mean() != 2*time.Second {
		t.Errorf("%+v", got)
	}
}
