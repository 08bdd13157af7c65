package statsim

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/rules"
	"iotax/internal/rules/check"
)

// The targets and the job of the simulated studies.
const (
	baseline = "baseline"
	target   = "target"
	workload = "4k random read"
	metric   = iotax.ValueReadIOPS
	rate     = 20000.0 // IOPS of the undisturbed baseline
	depth    = 32.0
)

// place is a target for which the checks can compare device counters.
var place = &iotax.Target{Name: target, Place: iotax.Place{Backing: "/simulated", Durability: iotax.Durable}}

// facts contains the facts of a sound job.
var facts = map[string]string{"ioengine": "io_uring", "direct": "1", "iodepth": "32", "numjobs": "1", "fio": "fio-3.33"}

// synthetic returns a trial as the workload and the probes would record it: 4 KiB random reads at a depth of 32 that
// all reached the device. v is the logarithm of the rate. If series is not nil, it contains the rate of each second.
// Both are relative to the undisturbed baseline.
func synthetic(r *rand.Rand, arm, round int, v float64, t Timing, series []float64) *iotax.Trial {
	iops := rate * math.Exp(v)
	ios := iops * t.Length
	ramp := 1 + t.Ramp/t.Length
	x := &iotax.Trial{
		Target: [2]string{baseline, target}[arm], Workload: workload, Round: round, Cold: true, Facts: facts,
		Ramp: seconds(t.Ramp), Length: seconds(t.Length),
		Values: []iotax.Value{
			{Name: metric, Value: iops, Unit: iotax.PerSecond, Better: iotax.Up},
			{Name: "read.ios", Value: ios}, {Name: "read.bytes", Value: ios * 4096},
			{Name: "duration", Value: t.Length},
			{Name: iotax.ValueReadLatencyMean, Value: depth / iops},
			{Name: iotax.ValueCPUClient, Value: .4 * t.Length}, {Name: iotax.ValueCPUHostSteal, Value: .001},
			{Name: iotax.ValueClockRatio, Value: 1 + 2e-4*r.NormFloat64()}, {Name: iotax.ValueClockError, Value: 5e-4},
			{Name: iotax.ValueDeviceReadBytes, Value: ios * 4096 * ramp}, {Name: iotax.ValueDeviceReadIOs, Value: ios * ramp},
			{Name: iotax.ValueDeviceWriteBytes, Value: 1 << 20 * r.ExpFloat64()}, {Name: iotax.ValueDeviceWriteIOs, Value: 60 * r.ExpFloat64()},
		},
	}
	if series != nil {
		s := iotax.Series{Name: metric, Unit: iotax.PerSecond}
		for i, y := range series {
			s.T, s.V = append(s.T, float64(i+1)), append(s.V, rate*y)
		}
		x.Series = []iotax.Series{s}
	}
	return x
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func scale(t *iotax.Trial, prefix string, by float64) {
	for i := range t.Values {
		if strings.HasPrefix(t.Values[i].Name, prefix) {
			t.Values[i].Value *= by
		}
	}
}

// A corruption damages a sound trial.
type corruption struct {
	name  string
	shift float64              // change of the log value; −Inf means no I/O
	rules []string             // one of these rules must detect it
	spoil func(t *iotax.Trial) // called after the shift
	mild  bool                 // the damage does not change the value
}

var corruptions = []corruption{
	{name: "no I/O at all", shift: math.Inf(-1), rules: []string{rules.NoIO.ID}, spoil: func(t *iotax.Trial) {
		scale(t, "read.", 0)
		scale(t, "device.", 0)
		t.Series = nil
	}},
	{name: "served by a cache, ten times as fast", shift: math.Log(10), rules: []string{rules.CacheServed.ID}, spoil: func(t *iotax.Trial) { scale(t, "device.read.", .1) }},
	{name: "half served by a cache, twice as fast", shift: math.Ln2, rules: []string{rules.CacheServed.ID}, spoil: func(t *iotax.Trial) { scale(t, "device.read.", .5) }},
	{name: "clock 2 % fast", shift: -math.Log(1.02), rules: []string{rules.ClockInsane.ID}, spoil: func(t *iotax.Trial) { scale(t, iotax.ValueClockRatio, 1.02) }},
	{name: "clock 2 % slow", shift: -math.Log(.98), rules: []string{rules.ClockInsane.ID}, spoil: func(t *iotax.Trial) { scale(t, iotax.ValueClockRatio, .98) }},
	{name: "clock 0.5 % fast", shift: -math.Log(1.005), rules: []string{rules.ClockDrift.ID, rules.ClockInsane.ID}, spoil: func(t *iotax.Trial) { scale(t, iotax.ValueClockRatio, 1.005) }},
	{name: "ended after 40 % of its window", rules: []string{rules.ShortWindow.ID}, spoil: func(t *iotax.Trial) {
		for _, name := range []string{"duration", "read.ios", "read.bytes", "device.read.", iotax.ValueCPUClient} {
			scale(t, name, .4)
		}
		cut(t, .4)
	}, mild: true},
	{name: "log ends half way, totals are whole", rules: []string{rules.Stall.ID}, spoil: func(t *iotax.Trial) { cut(t, .5) }, mild: true},
	{name: "log has two seconds of zeros", rules: []string{rules.Stall.ID}, spoil: func(t *iotax.Trial) {
		for _, s := range t.Series {
			clear(s.V[3:5])
		}
	}, mild: true},
}

// studyCorruptions contains the indexes of the corruptions in the studies of M9.
var studyCorruptions = []int{0, 1, 3, 4, 6}

func cut(t *iotax.Trial, share float64) {
	for i, s := range t.Series {
		n := int(share * float64(len(s.T)))
		t.Series[i].T, t.Series[i].V = s.T[:n], s.V[:n]
	}
}

// A Corruption reports how often the checks detect a kind of corrupt trial.
type Corruption struct {
	Name      string   `json:"name"`
	Rules     []string `json:"rules"` // rules that should detect it
	Trials    int      `json:"trials"`
	Seen      float64  `json:"seen"`            // share of trials that one of Rules detected
	Discarded float64  `json:"discarded"`       // share of trials that were discarded
	Other     []Alarm  `json:"other,omitempty"` // other rules that fired
}

// An Alarm reports how often a rule fires.
type Alarm struct {
	Rule  string  `json:"rule"`
	Share float64 `json:"share"`
}

// CheckTrials runs the checks on n sound trials, and on n trials with each corruption. It returns how often the checks
// detect each corruption, and how often each rule fires on a sound trial.
func CheckTrials(n int, seed uint64) ([]Corruption, []Alarm) {
	m := &Model{Name: "check", Sigma: .02}
	g := newWork()
	g.reset(m, seed, 0, 0)
	var series []float64
	sound := func() *iotax.Trial {
		var v float64
		v, series = g.seconds(1, ours, jitter, series)
		return synthetic(g.r, 1, 0, v, ours, series)
	}
	judge := func(t *iotax.Trial) (rules []string, discarded bool) {
		fs, v := check.Trial(t, place)
		if v != "" {
			id, _, _ := strings.Cut(v, ":")
			return []string{id}, true
		}
		for _, f := range fs {
			rules = append(rules, f.Rule)
		}
		return rules, false
	}
	var out []Corruption
	for _, c := range corruptions {
		r := Corruption{Name: c.name, Rules: c.rules, Trials: n}
		seen, discards := 0, 0
		other := counter{}
		for range n {
			t := sound()
			if !c.mild && !math.IsInf(c.shift, -1) {
				scale(t, "read.", math.Exp(c.shift))
				scale(t, "device.read.", math.Exp(c.shift))
				scale(t, iotax.ValueReadLatency, math.Exp(-2*c.shift))
			}
			c.spoil(t)
			rules, discarded := judge(t)
			hit := false
			for _, id := range rules {
				if slices.Contains(c.rules, id) {
					hit = true
				} else {
					other[id]++
				}
			}
			seen, discards = seen+count(hit), discards+count(discarded)
		}
		r.Seen, r.Discarded, r.Other = float64(seen)/float64(n), float64(discards)/float64(n), other.shares(n)
		out = append(out, r)
	}
	alarms := counter{}
	for range n {
		rules, _ := judge(sound())
		for _, id := range rules {
			alarms[id]++
		}
	}
	return out, alarms.shares(n)
}

// corrupt damages a trial of a study with probability p. If checked is set, it runs the checks: bad reports an invalid
// value, and valid is false for a discarded trial. Otherwise bad is false, and valid is false only for a trial without
// I/O.
func corrupt(r *rand.Rand, arm int, v float64, t Timing, p float64, checked bool) (value float64, bad, valid bool) {
	var k *corruption
	if r.Float64() < p {
		k = &corruptions[studyCorruptions[r.IntN(len(studyCorruptions))]]
		v += k.shift
	}
	if !checked {
		return v, false, !math.IsInf(v, -1)
	}
	x := synthetic(r, arm, 0, v, t, nil)
	if k != nil {
		k.spoil(x)
	}
	fs, discarded := check.Trial(x, place)
	if discarded != "" {
		return v, false, false
	}
	for _, f := range fs {
		bad = bad || f.Severity == iotax.Invalid
	}
	return v, bad, true
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

type counter map[string]int

func (c counter) shares(n int) []Alarm {
	var as []Alarm
	for _, id := range slices.Sorted(maps.Keys(c)) {
		as = append(as, Alarm{id, float64(c[id]) / float64(n)})
	}
	return as
}

func (a Alarm) String() string { return fmt.Sprintf("%s %.2g %%", a.Rule, 100*a.Share) }
