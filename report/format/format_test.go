package format

import (
	"math"
	"testing"

	"iotax"
	"iotax/stat"
)

// No bracket without an interval, no more digits than it supports.
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
	if got := Ratio(stat.Interval{Estimate: .8, Lo: 1e-14, Hi: 1e13, N: 2}); got != "0.8× [<0.1, >1000]" {
		t.Errorf("an absurd interval is %q", got)
	}
	if got := Ratio(stat.Interval{Estimate: .472, Lo: .449, Hi: .502, N: 6}); got != "0.47× [0.45, 0.50]" {
		t.Errorf("ratio: %q", got)
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
