package format

import (
	"math"
	"testing"

	"iotax"
	"iotax/stat"
)

// The interval determines the number of digits. A value without an interval has no brackets.
func TestPrecision(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		i    stat.Interval
		unit string
		want string
	}{
		{stat.Interval{Estimate: 11583.2, Lo: 11204, Hi: 11911, N: 6}, iotax.PerSecond, "11.6k [11.2k, 11.9k]"},
		{stat.Interval{Estimate: 11583.2, Lo: 11580.1, Hi: 11586.9, N: 6}, iotax.PerSecond, "11.58k [11.58k, 11.59k]"},
		{stat.Interval{Estimate: 11583.2, Lo: nan, Hi: nan, N: 3}, iotax.PerSecond, "12k"},
		{stat.Interval{Estimate: 482, Lo: 440, Hi: 520, N: 6}, iotax.PerSecond, "480 [440, 520]"},
		{stat.Interval{Estimate: 54730, Lo: 3145, Hi: 80056, N: 6}, iotax.PerSecond, "55k [3k, 80k]"},
		{stat.Interval{Estimate: 1.31 * (1 << 30), Lo: 1.27 * (1 << 30), Hi: 1.36 * (1 << 30), N: 6}, iotax.BytesPerSecond, "1.31 [1.27, 1.36] GiB/s"},
		{stat.Interval{Estimate: 325e6, Lo: 310e6, Hi: 350e6, N: 6}, iotax.BytesPerSecond, "310 [296, 334] MiB/s"},
		{stat.Interval{Estimate: 85e-6, Lo: 84.2e-6, Hi: 86.1e-6, N: 6}, iotax.Seconds, "85.0 [84.2, 86.1] µs"},
		{stat.Interval{Estimate: .0042, Lo: .0040, Hi: .0045, N: 6}, iotax.Seconds, "4.2 [4.0, 4.5] ms"},
		{stat.Interval{Estimate: 73, Lo: 70, Hi: 75, N: 6}, iotax.Seconds, "73 [70, 75] s"},
		{stat.Interval{Estimate: .31, Lo: .30, Hi: .33, N: 6}, iotax.RatioUnit, "31.0 [30.0, 33.0] %"},
		{stat.Interval{Estimate: nan, Lo: nan, Hi: nan}, iotax.PerSecond, "–"},
		{stat.Interval{Estimate: 0, Lo: 0, Hi: 0, N: 6}, iotax.PerSecond, "0"},
	} {
		if got := Value(c.i, c.unit); got != c.want {
			t.Errorf("%+v %s: %q, want %q", c.i, c.unit, got, c.want)
		}
	}
	if got := Ratio(stat.Interval{Estimate: .472, Lo: .449, Hi: .502, N: 6}); got != "0.47× [0.45, 0.50]" {
		t.Errorf("ratio: %q", got)
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		lo, estimate, hi    float64
		ratio, times, share string
	}{
		{1e-14, .8, 1e13, "too noisy", "an unknown multiple", "an unknown multiple"},
		{.5, 10, 250, "too noisy", "an unknown multiple", "an unknown multiple"},
		{2, 10, 250, "≥ 2.0×", "more than 2.0×", "more than 2.0×"},
		{.004, .01, .02, "≤ 0.020×", "between 0.0040× and 0.020×", "between 0.40 % and 2.0 %"},
		{8, 20, 45, "≥ 8.0×", "between 8.0× and 45×", "between 8.0× and 45×"},
		{.04, 1, 3.3, "too noisy", "less than 3.3×", "less than 3.3×"},
		{.3, 1, 3, "too noisy", "between 0.30× and 3.0×", "between 0.30× and 3.0×"},
		{0, 1, inf, "too noisy", "an unknown multiple", "an unknown multiple"},
		{5, 10, 19, "10× [5.0, 19]", "10× [5.0–19]", "10× [5.0–19]"},
		{.51, 1, 2, "1.00× [0.51, 2.0]", "1.00× [0.51–2.0]", "100 % [51–200]"},
		{.98, 1.04, 1.1, "1.04× [0.98, 1.10]", "1.04× [0.98–1.10]", "104 % [98–110]"},
		{2.01, 2.04, 2.08, "2.04× [2.01, 2.08]", "2.04× [2.01–2.08]", "204 % [201–208]"},
		{27, 33, 43, "33× [27, 43]", "33× [27–43]", "33× [27–43]"},
		{.11, .19, .36, "0.19× [0.11, 0.36]", "0.19× [0.11–0.36]", "19 % [11–36]"},
	} {
		i := stat.Interval{Estimate: c.estimate, Lo: c.lo, Hi: c.hi, N: 6}
		if got := [3]string{Ratio(i), Times(i), Share(i)}; got != [3]string{c.ratio, c.times, c.share} {
			t.Errorf("%v: %q", i, got)
		}
	}
	for _, step := range []float64{500 << 20, 1 << 29} {
		if got := Tick(3*step, step, iotax.BytesPerSecond); got != "1500 MiB/s" && got != "1536 MiB/s" {
			t.Errorf("tick: %q", got)
		}
	}
	if got := Tick(1.5e6, 5e5, iotax.PerSecond); got != "1500k" {
		t.Errorf("tick: %q", got)
	}
	if got := Spread(stat.Interval{Estimate: 11600, Lo: 1100, Hi: 31900, N: 6}, iotax.PerSecond); got != "12k (too noisy)" {
		t.Errorf("wide spread: %q", got)
	}
	if got := Spread(stat.Interval{Estimate: 11600, Lo: 11200, Hi: 11900, N: 6}, iotax.PerSecond); got != "11.6k ±3 %" {
		t.Errorf("spread: %q", got)
	}
	for metric, want := range map[string]string{"read.iops": "read IOPS", "write.latency.p99.9": "write latency p99.9", "mixed.bandwidth": "total bandwidth", "duration": "duration", "device.read.ios": "device read I/Os"} {
		if got := Label(metric); got != want {
			t.Errorf("%s: %q, want %q", metric, got, want)
		}
	}
}

func TestAround(t *testing.T) {
	for _, c := range []struct {
		i    stat.Interval
		want string
	}{
		{stat.Interval{Estimate: 260e-6, Lo: 235e-6, Hi: 290e-6, N: 6}, "260 ± 30 µs"},
		{stat.Interval{Estimate: -5e-7, Lo: -2.3e-6, Hi: 1.2e-6, N: 6}, "-0.5 ± 1.8 µs"},
		{stat.Interval{Estimate: 1e-3, Lo: .2e-3, Hi: 2.3e-3, N: 6}, "1.0 [0.2, 2.3] ms"}, // not 1.0 ± 1.3, which would include 0
		{stat.Interval{Estimate: 1e-3, Lo: math.NaN(), Hi: math.NaN(), N: 2}, "1.0 ms"},
	} {
		if got := Around(c.i, iotax.Seconds); got != c.want {
			t.Errorf("%+v: %q, want %q", c.i, got, c.want)
		}
	}
}
