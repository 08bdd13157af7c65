package metric

import (
	"math"
	"strings"
	"testing"
	"time"

	"iotax"
)

var mixed = append(append(Of(iotax.PerSecond, iotax.Up, "read.iops", "", "write.iops", "", "mixed.iops", ""), Latency("read.latency", "latency")...), Latency("sync.latency", "flush")...)

func TestFind(t *testing.T) {
	for wish, want := range map[string]string{"read.iops": "read.iops", "iops": "mixed.iops", "latency.p99.9": "read.latency.p99.9", "sync.latency.p99": "sync.latency.p99",
		"latency": "", "write.latency.p99": "", "": "", "p99": "read.latency.p99", "read.p99": "read.latency.p99", "sync.p99.9": "sync.latency.p99.9", "p98": "", "write.p99": "", ".p99": "", "mean": ""} {
		m, ok := Find(mixed, wish)
		if m.Name != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", wish, m.Name, want)
		}
	}
	if m, ok := Find(mixed[:2], "iops"); ok {
		t.Errorf("iops of two directions without their sum is %s", m.Name)
	}
}

func TestList(t *testing.T) {
	if got := List(append(mixed[:1:1], mixed[3:6]...)); got != "read.iops, read.latency.{mean, max, p50}" {
		t.Error(got)
	}
	if got := Unknown("run x", "p98", mixed).Error(); !strings.Contains(got, "p98") || !strings.Contains(got, "sync.latency.{mean") {
		t.Error(got)
	}
}

func TestDerive(t *testing.T) {
	x := &iotax.Trial{Ramp: 2 * time.Second, Length: 10 * time.Second,
		Values: []iotax.Value{{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond}, {Name: iotax.ValueCPUHostUsed, Value: 2, Unit: iotax.RatioUnit},
			{Name: iotax.ValueCPUServing, Value: 6, Unit: iotax.Seconds}, {Name: iotax.ValueCPUClient, Value: 5, Unit: iotax.Seconds},
			{Name: "read.latency.p50", Value: 7, Unit: iotax.Seconds}},
		Histograms: []iotax.Histogram{{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: .001, Count: 9800}, {Value: .002, Count: 190}, {Value: .1, Count: 10}}}}}
	Derive(x)
	for name, want := range map[string]float64{iotax.ValueCPUPerIO: .002, iotax.ValueIOPerCore: 500, iotax.ValueCPUServingPerIO: .0005, iotax.ValueCPUClientPerIO: .0005,
		"read.latency.p50": 7, "read.latency.p90": .001, "read.latency.p99": .002, "read.latency.max": .1} {
		if v, ok := x.Value(name); !ok || math.Abs(v.Value-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, v.Value, want)
		}
	}
	short := &iotax.Trial{Length: time.Minute, Values: append(x.Values[:4:4], iotax.Value{Name: iotax.ValueDuration, Value: 10, Unit: iotax.Seconds})}
	if Derive(short); short.Values[len(short.Values)-1].Value != .0005 {
		t.Errorf("of a job that ended after 10 s of a minute: %v", short.Values)
	}
	if _, ok := x.Value("read.latency.p99.9"); ok { // only ten I/Os are beyond it
		t.Error("a quantile with too few I/Os beyond is a value")
	}
	if _, ok := x.Value("read.stall.longest"); ok {
		t.Error("a trial without intervals has a stall")
	}
	for k := range 60 {
		i := iotax.Interval{From: float64(k), To: float64(k + 1), Histogram: iotax.Histogram{Name: "read.latency", Bins: []iotax.Bin{{Value: .001, Count: 100}}}}
		if k%10 == 3 {
			i.Bins = append(i.Bins, iotax.Bin{Value: .3, Count: 1})
		}
		x.Intervals = append(x.Intervals, i)
	}
	Derive(x)
	for i, want := range []float64{.3, 10, 1.8 / 7.8, 1.8 / 7.8, 0} {
		m := Stalls("read")[i]
		if v, ok := x.Value(m.Name); !ok || math.Abs(v.Value-want) > 1e-12 || v.Unit != m.Unit {
			t.Errorf("%s is %v, want %v", m.Name, v, want)
		}
	}
	n := len(x.Values)
	if Derive(x); len(x.Values) != n {
		t.Errorf("%d values the second time, not %d", len(x.Values), n)
	}
	empty := &iotax.Trial{}
	if Derive(empty); len(empty.Values) != 0 {
		t.Errorf("of nothing: %v", empty.Values)
	}
}
