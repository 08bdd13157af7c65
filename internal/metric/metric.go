// Package metric lists the metrics by which targets are compared, and derives metrics from other values of a trial.
package metric

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/stat"
)

// A Metric describes a value of a trial.
type Metric struct {
	Name   iotax.ValueName
	Unit   string // base unit
	Better iotax.Better
	Doc    string
}

// Quantiles are the latency quantiles that Derive adds if at least stat.MinBeyond observations are beyond them.
var Quantiles = []string{"p50", "p90", "p95", "p99", "p99.9", "p99.99"}

// Latency returns the metrics of the latency histogram `name`: the mean, the maximum and Quantiles, in seconds. `of`
// is the name of the latency in the Doc of each metric.
func Latency(name, of string) []Metric {
	all := []Metric{{name + ".mean", iotax.Seconds, iotax.Down, "mean " + of}, {name + ".max", iotax.Seconds, iotax.Down, "longest " + of}}
	for _, q := range Quantiles {
		all = append(all, Metric{name + "." + q, iotax.Seconds, iotax.Down, q[1:] + " % quantile of the " + of})
	}
	return all
}

// Stalls returns the stall metrics of an I/O direction; see stat.StalledIn.
func Stalls(direction string) []Metric {
	all := []Metric{{direction + ".stall.longest", iotax.Seconds, iotax.Down, "longest stall: of one I/O, or of seconds in which nearly all are slow"},
		{direction + ".stall.period", iotax.Seconds, iotax.Up, "time from one stall to the next, if they recur evenly"}}
	for _, bound := range stat.AboveBounds {
		name := time.Duration(bound * float64(time.Second)).String()
		all = append(all, Metric{direction + ".stall.above-" + name, iotax.RatioUnit, iotax.Down, "share of the time that I/Os took in those of more than " + name})
	}
	return all
}

// Of returns metrics that share a unit and the direction in which they improve. pairs alternates names and
// descriptions.
func Of(unit string, better iotax.Better, pairs ...string) (all []Metric) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, Metric{pairs[i], unit, better, pairs[i+1]})
	}
	return all
}

// Observed lists metrics that trials of any workload can have.
var Observed = []Metric{
	{iotax.ValueCPUPerIO, iotax.Seconds, iotax.Down, "CPU time of this host, all its processes together, for one I/O"},
	{iotax.ValueIOPerCore, iotax.PerSecond, iotax.Up, "I/Os per second for each busy CPU of this host"},
	{iotax.ValueCPUClientPerIO, iotax.Seconds, iotax.Down, "CPU time of the load generator for one I/O"},
	{iotax.ValueCPUServingPerIO, iotax.Seconds, iotax.Down, "CPU time of the processes that serve the target for one I/O"},
	{iotax.ValueCPUClient, iotax.Seconds, iotax.Down, "CPU time of the load generator"},
	{iotax.ValueCPUServing, iotax.Seconds, iotax.Down, "CPU time of the processes that serve the target (QEMU, a file server)"},
	{iotax.ValueCPUHost, iotax.RatioUnit, iotax.Down, "CPUs that the same processes keep busy"},
	{iotax.ValueCPUHostUsed, iotax.RatioUnit, iotax.Down, "CPUs of this host that are busy, whatever with"},
	{iotax.ValueMemoryServing, iotax.Bytes, iotax.Down, "memory of the processes that serve the target, at most"},
	{iotax.ValueMemoryHostPeak, iotax.Bytes, iotax.Down, "the same, sampled during the trial"},
	{iotax.ValueMemoryHostUSS, iotax.Bytes, iotax.Down, "memory that these processes share with no other"},
	{iotax.ValueMemoryHostPSS, iotax.Bytes, iotax.Down, "the same, with their part of the shared memory"},
	{iotax.ValueDeviceReadBytes, iotax.Bytes, iotax.Neither, "bytes read from the block device below the target"},
	{iotax.ValueDeviceReadIOs, iotax.Count, iotax.Neither, "reads of that device"},
	{iotax.ValueDeviceWriteBytes, iotax.Bytes, iotax.Neither, "bytes written to the block device below the target"},
	{iotax.ValueDeviceWriteIOs, iotax.Count, iotax.Neither, "writes to that device"},
	{"boot.ready", iotax.Seconds, iotax.Down, "time from the start of a fresh guest until it runs commands"},
	{"boot.plugged", iotax.Seconds, iotax.Down, "time until QEMU has its hot-plugged disk"},
	{"boot.place", iotax.Seconds, iotax.Down, "time until the target can be used in it"},
	{"boot.result", iotax.Seconds, iotax.Down, "time until the trial in it has ended"},
}

// directions lists the I/O directions that the name of a metric may omit. mixed combines all directions of a job.
var directions = []string{"read", "write", "trim", "http", "mixed"}

// Find returns the metric called name from `all`. A name without a direction ("iops", "latency.p99") refers to the only
// direction that has the metric, or to mixed if several directions have it. A quantile may omit "latency" ("read.p99").
func Find(all []Metric, name string) (Metric, bool) {
	if m, ok := find(all, name); ok {
		return m, true
	}
	of, _, ok := iotax.Quantile("." + name) // "p99" becomes ".p99", a quantile without the name of a histogram
	if !ok {
		return Metric{}, false
	}
	return find(all, strings.TrimPrefix(of+".latency", ".")+("." + name)[len(of):])
}

func find(all []Metric, name string) (Metric, bool) {
	at := func(name string) int { return slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }) }
	i := at(name)
	if i < 0 {
		var found []int
		for _, d := range directions {
			if k := at(d + "." + name); k >= 0 {
				found = append(found, k)
			}
		}
		if n := len(found); n == 1 || n > 1 && strings.HasPrefix(all[found[n-1]].Name, "mixed.") {
			i = found[n-1]
		}
	}
	if i < 0 {
		return Metric{}, false
	}
	return all[i], true
}

// Unknown returns the usage error for a name that Find does not find in `all`. `on` is the object in the message, for
// example a run.
func Unknown(on, name string, all []Metric) error {
	return iotax.Usage(&iotax.Error{Op: "find metric " + name + " of", On: on, Err: errors.New("no trial has it"), Hint: "there are " + List(all)})
}

// List formats metrics compactly: "read.{iops, bandwidth}, duration".
func List(all []Metric) string {
	var heads []string
	of := map[string][]string{}
	for _, m := range all {
		head, tail := "", m.Name
		if h, _, ok := iotax.Quantile(m.Name); ok {
			head, tail = h, m.Name[len(h)+1:]
		} else if i := strings.LastIndexByte(m.Name, '.'); i > 0 {
			head, tail = m.Name[:i], m.Name[i+1:]
		}
		if of[head] == nil {
			heads = append(heads, head)
		}
		if !slices.Contains(of[head], tail) {
			of[head] = append(of[head], tail)
		}
	}
	var parts []string
	for _, head := range heads {
		switch tails := strings.Join(of[head], ", "); {
		case head == "":
			parts = append(parts, tails)
		case len(of[head]) == 1:
			parts = append(parts, head+"."+tails)
		default:
			parts = append(parts, fmt.Sprintf("%s.{%s}", head, tails))
		}
	}
	return strings.Join(parts, ", ")
}

// Derive computes stalls, the CPU cost of an I/O, and the maxima and quantiles of histograms. It does not
// replace values of the trial, and omits quantiles with too few observations.
func Derive(t *iotax.Trial) {
	add := func(name, unit string, better iotax.Better, v float64) {
		if _, there := t.Value(name); !there && v > 0 && !math.IsInf(v, 0) {
			t.Values = append(t.Values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
		}
	}
	for _, h := range t.Histograms {
		for _, name := range Quantiles {
			if _, q, ok := iotax.Quantile(h.Name + "." + name); ok {
				if v, enough := stat.Quantile(h, q); enough {
					add(h.Name+"."+name, h.Unit, iotax.Down, v)
				}
			}
		}
		if n := len(h.Bins); n > 0 {
			add(h.Name+".max", h.Unit, iotax.Down, h.Bins[n-1].Value)
		}
	}
	for _, h := range t.Histograms {
		deriveStalls(t, h.Name)
	}
	rate := rate(t)
	used, _ := t.Value(iotax.ValueCPUHostUsed)
	add(iotax.ValueCPUPerIO, iotax.Seconds, iotax.Down, used.Value/rate)
	add(iotax.ValueIOPerCore, iotax.PerSecond, iotax.Up, rate/used.Value)
	window := t.Length.Seconds() // a job whose size is limited may end before its time
	if v, ok := t.Value(iotax.ValueDuration); ok && v.Value > 0 {
		window = v.Value
	}
	perIO := func(name, of string, seconds float64) {
		cores, _ := t.Value(of)
		if cores.Unit == iotax.Seconds {
			cores.Value /= seconds
		}
		add(name, iotax.Seconds, iotax.Down, cores.Value/rate)
	}
	watched := (t.Ramp + t.Length).Seconds() // the ramp and the window
	if watched == 0 {                        // work without a fixed length
		watched = window
	}
	perIO(iotax.ValueCPUServingPerIO, iotax.ValueCPUServing, watched)
	perIO(iotax.ValueCPUClientPerIO, iotax.ValueCPUClient, window) // the generator reports the CPU time of the window
}

// deriveStalls adds the stalls in the intervals of a histogram. It omits a period of 0, but adds the other values even
// if they are 0.
func deriveStalls(t *iotax.Trial, name string) {
	direction, of := strings.CutSuffix(name, ".latency")
	var intervals []iotax.Interval
	for _, i := range t.Intervals {
		if of && i.Name == name {
			intervals = append(intervals, i)
		}
	}
	if len(intervals) == 0 {
		return
	}
	s := stat.StalledIn(intervals)
	for k, v := range append([]float64{s.Longest, s.Period}, s.Above...) {
		m := Stalls(direction)[k]
		if _, there := t.Value(m.Name); !there && (k != 1 || v > 0) {
			t.Values = append(t.Values, iotax.Value{Name: m.Name, Value: v, Unit: m.Unit, Better: m.Better})
		}
	}
}

// rate returns the I/Os or other operations of a trial per second. If the rate is unknown, the result is not a positive
// finite number.
func rate(t *iotax.Trial) float64 {
	for _, name := range []string{iotax.ValueMixedIOPS, "iops", iotax.ValueReadIOPS, iotax.ValueWriteIOPS, iotax.ValueHTTPRequests} {
		if v, ok := t.Value(name); ok && v.Value > 0 {
			return v.Value
		}
	}
	n, _ := t.Value(iotax.ValueOperations)
	d, _ := t.Value(iotax.ValueDuration)
	return n.Value / d.Value
}
