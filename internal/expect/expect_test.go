package expect

import (
	"errors"
	"math"
	"slices"
	"testing"

	"iotax"
	"iotax/internal/plan/syntax"
	"iotax/stat"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Expectation{
		"read.latency.p99 < 10ms":                        {Metric: "read.latency.p99", Op: "<", Limit: "10ms"},
		" read.iops>=5k ":                                {Metric: "read.iops", Op: ">=", Limit: "5k"},
		"sync.latency.p99 <= 10 ms at guest virtio-blk":  {Metric: "sync.latency.p99", Op: "<=", Limit: "10 ms", Target: "guest virtio-blk"},
		"read.iops >= 80 % of baseline at at of":         {Metric: "read.iops", Op: ">=", Limit: "80 %", OfBaseline: true, Target: "at of"},
		"4k: random read: read.iops > 80% of baseline":   {Workload: "4k: random read", Metric: "read.iops", Op: ">", Limit: "80%", OfBaseline: true},
		"a < 1: read.bandwidth > 1.5GB/s at /mnt/a, b":   {Workload: "a < 1", Metric: "read.bandwidth", Op: ">", Limit: "1.5GB/s", Target: "/mnt/a, b"},
		"read.latency.p99.9 < 1m30s at dir:/var/tmp":     {Metric: "read.latency.p99.9", Op: "<", Limit: "1m30s", Target: "dir:/var/tmp"},
		"transactions > 1000 tx/s":                       {Metric: "transactions", Op: ">", Limit: "1000 tx/s"},
		"command:make: duration < 2m":                    {Workload: "command:make", Metric: "duration", Op: "<", Limit: "2m"},
		"read.iops >= 120% of baseline at b of baseline": {Metric: "read.iops", Op: ">=", Limit: "120%", OfBaseline: true, Target: "b of baseline"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q reads back as %+v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "read.iops", "read.iops = 5", "read.iops == 5", "read.iops < ", "< 5ms", "5ms > read.latency.p99 > 1ms", "a << 5",
		"read.iops >= 80 of baseline", "read.iops >= 5ms of baseline", "read.iops >= 0% of baseline", "read.iops > 5 6"} {
		var v *syntax.ValueError
		if e, err := Parse(text); !errors.As(err, &v) || v.Hint == "" {
			t.Errorf("%q is %+v, %v", text, e, err)
		}
	}
}

func TestBound(t *testing.T) {
	for _, c := range []struct {
		limit, unit string
		want        float64 // NaN if Bound must return an error
	}{
		{"10ms", iotax.Seconds, .01}, {"1m30s", iotax.Seconds, 90}, {"10", iotax.Seconds, math.NaN()}, {"10MiB", iotax.Seconds, math.NaN()},
		{"80%", iotax.Seconds, math.NaN()},
		{"5000", iotax.PerSecond, 5000}, {"5k/s", iotax.PerSecond, 5000}, {"1.5M", iotax.PerSecond, 1.5e6}, {"5ms", iotax.PerSecond, math.NaN()},
		{"1e9", iotax.PerSecond, math.NaN()}, {"NaN", iotax.PerSecond, math.NaN()}, {"-5", iotax.PerSecond, math.NaN()}, {"5kM", iotax.PerSecond, math.NaN()},
		{"100MiB/s", iotax.BytesPerSecond, 100 << 20}, {"1 GB/s", iotax.BytesPerSecond, 1e9}, {"100MiB", iotax.BytesPerSecond, math.NaN()},
		{"64MiB", iotax.Bytes, 64 << 20}, {"64MiB/s", iotax.Bytes, math.NaN()},
		{"5%", iotax.RatioUnit, .05}, {"0.05", iotax.RatioUnit, math.NaN()},
		{"12", iotax.Count, 12}, {"12k", "", 12000}, {"900 tx/s", "tx/s", 900}, {"900", "tx/s", 900}, {"900ms", "tx/s", math.NaN()},
	} {
		e := Expectation{Metric: "m", Op: "<", Limit: c.limit}
		got, err := e.Bound(c.unit)
		var v *syntax.ValueError
		if math.IsNaN(c.want) && !errors.As(err, &v) || !math.IsNaN(c.want) && (err != nil || math.Abs(got-c.want) > 1e-12*c.want) {
			t.Errorf("%s of a metric in %q is %v, %v; want %v", c.limit, c.unit, got, err, c.want)
		}
		if v != nil && v.Hint == "" {
			t.Errorf("%s of a metric in %q: no hint: %v", c.limit, c.unit, err)
		}
	}
}

func TestOutcome(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		op     string
		lo, hi float64
		want   Outcome
	}{
		{"<", .008, .0099, Met}, {"<", .008, .010, Undecided}, {"<", .0099, .012, Undecided}, {"<", .010, .012, Missed}, {"<", .011, .012, Missed},
		{"<=", .008, .010, Met}, {"<=", .010, .012, Undecided}, {"<=", .0101, .012, Missed}, {"<=", .010, .010, Met},
		{">", .0101, .012, Met}, {">", .010, .012, Undecided}, {">", .008, .010, Missed}, {">=", .010, .012, Met}, {">=", .008, .010, Undecided},
		{">=", .008, .0099, Missed}, {">", nan, nan, Undecided}, {"<", nan, .001, Undecided},
	} {
		e := Expectation{Metric: "m", Op: c.op, Limit: "10ms"}
		if got := e.Outcome(stat.Interval{Estimate: nan, Lo: c.lo, Hi: c.hi, N: 9}, iotax.Seconds); got != c.want {
			t.Errorf("[%v, %v] %s 10ms is %s, want %s", c.lo, c.hi, c.op, got, c.want)
		}
	}
	if got := (Expectation{Op: "<", Limit: "10MiB"}).Outcome(stat.Interval{Lo: 1, Hi: 2}, iotax.Seconds); got != Undecided {
		t.Errorf("a wrong unit is %s", got)
	}
}

func TestInterval(t *testing.T) {
	var none [2][]stat.Tail
	base, target := []float64{10, 11, 10, 12, 11, 10, 11, 10}, []float64{20, 22, 21, 24, 22, 20, 21, 20}
	i, err := (Expectation{}).Interval([2][]float64{1: target}, none, stat.Options{Alpha: .05})
	if err != nil || i.Estimate != 21 || i.Lo != 20 || i.Hi != 24 {
		t.Errorf("the interval of the value is %+v, %v", i, err)
	}
	// The ratio is not inverted for metrics where lower is better: a doubled latency is 200 %.
	i, err = Expectation{OfBaseline: true}.Interval([2][]float64{base, target}, none, stat.Options{Alpha: .05})
	if err != nil || !i.Contains(2) || i.Lo < 1.9 || i.Hi > 2.1 {
		t.Errorf("the interval of the ratio is %+v, %v", i, err)
	}
	for _, n := range []int{0, 5} {
		for _, of := range []bool{false, true} {
			if i, err := (Expectation{OfBaseline: of}).Interval([2][]float64{base[:n], target[:n]}, none, stat.Options{}); err != nil || i.Bounded() {
				t.Errorf("%d rounds have the interval %+v, %v", n, i, err)
			}
		}
	}
	// The bin width of fio's histograms widens the interval of a quantile. If a trial lacks the quantile and there are
	// no tails, the interval has no bounds.
	plain, _ := (Expectation{Metric: "read.latency.mean"}).Interval([2][]float64{1: target}, none, stat.Options{})
	i, err = Expectation{Metric: "read.latency.p99"}.Interval([2][]float64{1: target}, none, stat.Options{})
	if err != nil || !(i.Lo < plain.Lo && i.Hi > plain.Hi) || i.Estimate != plain.Estimate {
		t.Errorf("the interval of a quantile is %+v, that of a mean %+v, %v", i, plain, err)
	}
	plain, _ = (Expectation{Metric: "read.latency.mean", OfBaseline: true}).Interval([2][]float64{base, target}, none, stat.Options{})
	i, err = Expectation{Metric: "read.latency.p99", OfBaseline: true}.Interval([2][]float64{base, target}, none, stat.Options{})
	if err != nil || !(i.Lo < plain.Lo && i.Hi > plain.Hi) {
		t.Errorf("the interval of a ratio of quantiles is %+v, that of means %+v, %v", i, plain, err)
	}
	if i, _ := (Expectation{Metric: "read.latency.p99"}).Interval([2][]float64{1: append([]float64{math.NaN()}, target...)}, none, stat.Options{Alpha: .05}); i.Bounded() {
		t.Errorf("with a trial without the quantile the interval is %+v", i)
	}
	if _, err := (Expectation{OfBaseline: true}).Interval([2][]float64{{0}, {1}}, none, stat.Options{}); err == nil {
		t.Error("a ratio to 0 is no error")
	}
}

// Trials that are too short for a quantile are pooled, for values and ratios. If all of them together are too short,
// the interval has no bounds.
func TestPooled(t *testing.T) {
	// In a trial of the target, one I/O in fifty takes about 20 ms and the others 1 ms. In a trial of the baseline, they
	// take half as long.
	trial := func(ios uint64, slow float64) stat.Tail {
		return stat.TailOf([]iotax.Bin{{Value: slow / 20, Count: ios - ios/50}, {Value: slow, Count: ios / 50}}, .99)
	}
	study := func(rounds int, ios uint64) (values [2][]float64, tails [2][]stat.Tail) {
		for i := range rounds {
			for side, slow := range []float64{.010, .020} {
				values[side] = append(values[side], math.NaN())
				tails[side] = append(tails[side], trial(ios, slow*(1+.01*float64(i%3))))
			}
		}
		return values, tails
	}
	p99 := Expectation{Metric: "sync.latency.p99", Op: "<", Limit: "25ms"}
	values, tails := study(12, 1000)
	o := stat.Options{Alpha: .05}
	i, err := p99.Interval(values, tails, o)
	if err != nil || !(i.Lo > .019 && i.Hi < .0215) || p99.Outcome(i, iotax.Seconds) != Met {
		t.Errorf("%+v, %v", i, err)
	}
	for starts, bounded := range map[int]bool{3: false, 6: true} { // the rounds of a start are pooled together
		o := stat.Options{}
		for round := range 12 {
			o.Starts = append(o.Starts, stat.StartOf(round, 12, starts))
		}
		if i, err := p99.Interval(values, tails, o); err != nil || i.N != starts || i.Bounded() != bounded {
			t.Errorf("%d starts: %+v, %v", starts, i, err)
		}
	}
	p99.OfBaseline = true
	if i, err = p99.Interval(values, tails, o); err != nil || !i.Contains(2) || i.Lo < 1.9 || i.Hi > 2.1 {
		t.Errorf("the ratio: %+v, %v", i, err)
	}
	for _, of := range []bool{false, true} {
		p99.OfBaseline = of
		values, tails := study(12, 500)
		if i, err := p99.Interval(values, tails, o); !errors.As(err, new(*stat.TooFewBeyond)) || i.Bounded() {
			t.Errorf("60 I/Os beyond: %+v, %v", i, err)
		}
		if values, tails = study(5, 5000); len(values[0]) == 5 {
			if i, err := p99.Interval(values, tails, o); err != nil || i.Bounded() {
				t.Errorf("5 rounds: %+v, %v", i, err)
			}
		}
	}
}

// Rounds of a start resemble each other, so the interval of a value covers the variation between starts.
func TestIntervalOfStarts(t *testing.T) {
	var values []float64
	for round := range 30 {
		values = append(values, []float64{98, 99, 100, 101, 102, 104}[round/5]+.1*float64(round%3))
	}
	e := Expectation{Metric: "read.iops", Op: "<", Limit: "102.5"}
	for starts, want := range map[int]Outcome{1: Met, 3: Undecided, 6: Undecided, 30: Met} {
		o := stat.Options{}
		for round := range values {
			o.Starts = append(o.Starts, stat.StartOf(round, 30, starts))
		}
		if i, err := e.Interval([2][]float64{1: values}, [2][]stat.Tail{}, o); err != nil || e.Outcome(i, iotax.PerSecond) != want {
			t.Errorf("%d starts: %v, %v, want %s", starts, i, err, want)
		}
	}
}

func TestContradicts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"m < 10ms", "m > 10ms", true}, {"m <= 10ms", "m >= 10ms", false}, {"m < 10ms", "m >= 10ms", true}, {"m < 10ms", "m > 9ms", false},
		{"m < 10ms", "m > 11ms", true}, {"m < 10ms", "m < 5ms", false}, {"m < 10ms", "n > 11ms", false}, {"m < 10ms", "m > 110% of baseline", false},
		{"m < 90% of baseline", "m > 110% of baseline", true}, {"m < 10ms at a", "m > 11ms at b", false}, {"m < 10ms", "m > 11ms at b", true},
		{"v: m < 10ms", "w: m > 11ms", false}, {"v: m < 10ms", "m > 11ms", true},
		{"m.p50 > 10ms", "m.p99 < 5ms", true}, {"m.p50 < 5ms", "m.p99 > 10ms", false}, {"m.p50 > 10ms", "n.p99 < 5ms", false},
		{"m.p99 >= 10ms", "m.max < 10ms", true}, {"m.max > 10ms", "m.p99 < 5ms", false}, {"m.p50 > 90% of baseline", "m.p99 < 80% of baseline", false},
	} {
		a, err := Parse(c.a)
		b, err2 := Parse(c.b)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if got, back := a.Contradicts(b, iotax.Seconds), b.Contradicts(a, iotax.Seconds); got != c.want || back != c.want {
			t.Errorf("%q contradicts %q: %v and %v, want %v", c.a, c.b, got, back, c.want)
		}
	}
}

func TestAbout(t *testing.T) {
	var of []string
	for _, text := range []string{"m < 1", "m < 1 at a", "m < 1 at b", "m < 1% of baseline", "m < 1% of baseline at b"} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		at := ""
		for _, target := range []string{"a", "b"} {
			if e.About(target, "a") {
				at += target
			}
		}
		of = append(of, at)
	}
	if want := []string{"ab", "a", "b", "b", "b"}; !slices.Equal(of, want) {
		t.Errorf("the targets are %v, want %v", of, want)
	}
}
