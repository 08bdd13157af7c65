package fiojob

import (
	"math"
	"slices"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
)

// added returns the sum of the intervals' histograms with this name, as counts by bin value.
func added(t *iotax.Trial, name string) map[float64]uint64 {
	sum := map[float64]uint64{}
	for _, i := range t.Intervals {
		if i.Name == name {
			for _, b := range i.Bins {
				sum[b.Value] += b.Count
			}
		}
	}
	return sum
}

// The histograms of the intervals add up to the histogram of the trial, bin by bin. The intervals follow each other
// without a gap, and the number of I/Os in each roughly matches the rate.
func TestIntervals(t *testing.T) {
	for name, options := range map[string][]string{
		"one process":    {"rw", "randrw", "fdatasync", "64", "rate_iops", "2000,1000"},
		"four processes": {"rw", "randread", "numjobs", "4", "rate_iops", "500"},
	} {
		t.Run(name, func(t *testing.T) { testIntervals(t, append(options, "size", "2MiB", "direct", "0")) })
	}
}

func testIntervals(t *testing.T, options []string) {
	w, tg := open(t, options...), worktest.Target(host.Local(), small(t))
	prepared(t, w, tg)
	out := trial(3300 * time.Millisecond)
	out.Ramp = 600 * time.Millisecond
	if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
		t.Fatal(err)
	}
	for _, h := range out.Histograms {
		sum := added(out, h.Name)
		if h.Name == iotax.ValueMixedLatency {
			if len(sum) > 0 {
				t.Error("the sum of the directions has intervals")
			}
			continue
		}
		for _, b := range h.Bins {
			if sum[b.Value] != b.Count {
				t.Errorf("%s: %d I/Os of %v s in the intervals, %d in the trial", h.Name, sum[b.Value], b.Value, b.Count)
			}
		}
		if len(sum) != len(h.Bins) {
			t.Errorf("%s: %d bins in the intervals, %d in the trial", h.Name, len(sum), len(h.Bins))
		}
		at, n := 0.0, 0
		for _, i := range out.Intervals {
			if i.Name != h.Name {
				continue
			}
			if n++; i.From != at || i.To <= i.From {
				t.Errorf("%s: an interval from %v to %v s after one until %v", h.Name, i.From, i.To, at)
			}
			at = i.To
			count := 0.0
			for _, b := range i.Bins {
				count += float64(b.Count)
			}
			rate := map[string]float64{"read.latency": 2000, "write.latency": 1000}[h.Name] * (i.To - i.From)
			if rate > 0 && math.Abs(count-rate) > rate/2 {
				t.Errorf("%s: %v I/Os from %v to %v s, at a rate that makes %v", h.Name, count, i.From, i.To, rate)
			}
		}
		if n < 3 || n > 5 || math.Abs(at-3.3) > 0.2 {
			t.Errorf("%s: %d intervals until %v s of a trial of 3.3 s", h.Name, n, at)
		}
	}
	if len(out.Intervals) == 0 || slices.Contains(options, "fdatasync") && !slices.ContainsFunc(out.Intervals, func(i iotax.Interval) bool { return i.Name == "sync.latency" }) {
		t.Error("no intervals, or none of the flushes")
	}
}

// fio reports every second, unless it is too old, its output would be too large, or a report could abort the trial.
func TestReportStep(t *testing.T) {
	for _, c := range []struct {
		version string
		length  time.Duration
		options []string
		blocked bool
		want    int
	}{
		{version: "fio-3.33", length: 20 * time.Minute, want: 1},
		{version: "fio-3.33", length: 2 * time.Hour, want: 4},
		{version: "fio-2.21", length: time.Minute, want: 0},
		{version: "fio-3.33", length: time.Minute, options: []string{"numjobs", "4"}, want: 1},
		{version: "fio-3.33", length: time.Minute, options: []string{"numjobs", "4"}, blocked: true, want: 0},
		{version: "fio-3.42", length: time.Minute, options: []string{"numjobs", "4"}, blocked: true, want: 1},
		{version: "fio-3.33", length: time.Minute, options: []string{"rw", "write"}, want: 1},
		{version: "fio-3.33", length: time.Minute, options: []string{"rw", "write", "numjobs", "4"}, want: 0}, // the flush at the end may take a long time
		{version: "fio-3.42", length: time.Minute, options: []string{"rw", "write", "numjobs", "4"}, want: 1},
	} {
		w, tg := open(t, append([]string{"size", "1MiB", "direct", "0"}, c.options...)...), worktest.Target(host.Local(), t.TempDir())
		st, err := w.state(worktest.CtxFor(t), tg)
		if err != nil {
			t.Fatal(err)
		}
		st.tool.Version, st.blocked = c.version, c.blocked
		if got := w.line(tg, st, trial(c.length)).reportStep(st); got != c.want {
			t.Errorf("%+v: a report each %d s", c, got)
		}
	}
}
