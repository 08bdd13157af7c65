package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/stat"
)

// An Explanation divides the mean latency of one workload's I/Os into stages, from the application to the device. It is
// computed from explained trials, which the report's ratios do not include.
type Explanation struct {
	Workload string      `json:"workload"`
	Targets  []Explained `json:"targets"` // the baseline first
}

// Explained is one target in an Explanation. All times are in seconds per read, write or trim of the application, and
// include the time of its flushes. Times are means over the rounds, so Stages and Rest add up to Total.
//
// The time of a stage is the difference between two clocks. A clock sums the time of all requests at or below its
// layer. A request that carries several merged I/Os counts once for each of them (see iotax.StageHanded). The sum is
// too large if an I/O is split into concurrent requests, or if no I/O waits for a request (read-ahead, write-back). The
// stage above that clock may then have a negative time, which is part of Rest.
type Explained struct {
	Target     string        `json:"target"`
	Against    string        `json:"against,omitempty"` // the target that differences are relative to, or ""
	Unknown    string        `json:"unknown,omitempty"` // why there are no stages
	Rounds     int           `json:"rounds"`            // number of valid explained trials with the same stages
	Total      stat.Interval `json:"total"`
	Difference stat.Interval `json:"difference"` // Total minus Against's Total, paired by round
	Stages     []Stage       `json:"stages,omitempty"`
	Rest       stat.Interval `json:"rest"` // sum of the stages with a negative time; N is 0 if no stage has one
	RestMore   stat.Interval `json:"rest_difference"`
	Missing    []Missing     `json:"missing,omitempty"` // clocks that could not be read, from the application down
	Speed      stat.Interval `json:"speed"`             // ratio of the explained trials to the other trials in the first metric; higher is faster
}

// A Stage is a part of an I/O's path from the application to the device.
type Stage struct {
	Name       string        `json:"name"`
	Time       stat.Interval `json:"time"`
	Difference stat.Interval `json:"difference"` // Time minus that of the same part of Against's path, paired by round
	Requests   iotax.Number  `json:"requests"`   // requests per I/O that enter the stage; NaN if they are not counted
	Last       bool          `json:"last"`
}

// Missing is a clock that could not be read. The stages above and below it are joined.
type Missing struct {
	Stage string `json:"stage"` // the stage that ends at the clock
	Why   string `json:"why"`
}

// Known reports whether the total is divided into stages.
func (e Explained) Known() bool { return e.Unknown == "" }

// way contains the times of an I/O's stages in one trial, in seconds.
type way struct {
	total    float64
	names    []string
	times    []float64
	requests []float64 // requests that enter each stage, per I/O of the application
	missing  []Missing
}

// wayOf returns the stages of an explained trial. It joins a stage that does not end at a readable clock with the next
// one.
func wayOf(t *Trial) (way, error) {
	var w way
	var all []iotax.Stage
	if err := json.Unmarshal([]byte(t.Facts[iotax.FactStages]), &all); err != nil || len(all) == 0 {
		return w, fmt.Errorf("the trial has no stages")
	}
	get := func(name string) float64 {
		if v, ok := t.Value(name); ok {
			return v.Value
		}
		return math.NaN()
	}
	ios, sum := 0., 0.
	for _, d := range []string{"read", "write", "trim", "sync"} {
		n := get(d + ".ios")
		if math.IsNaN(n) {
			continue
		}
		mean := get(d + ".latency.mean")
		if math.IsNaN(mean) {
			return w, fmt.Errorf("the workload does not report the latency of its I/Os")
		}
		sum += n * mean
		if d != "sync" {
			ios += n
		}
	}
	if !(ios > 0) {
		return w, fmt.Errorf("the workload does not report the latency of its I/Os")
	}
	w.total = sum / ios
	above, carried, entering, name := w.total, 1., 1., ""
	for i, s := range all {
		if name != "" {
			name += " + "
		}
		name += s.Name
		below, requests := 0., math.NaN()
		if i < len(all)-1 {
			if below = get(iotax.ValueStage(s.End, iotax.StageBelow)); s.Missing != "" || math.IsNaN(below) {
				w.missing = append(w.missing, Missing{s.Name, s.Missing})
				continue
			}
			requests = get(iotax.ValueStage(s.End, iotax.StageRequests))
			handed := get(iotax.ValueStage(s.End, iotax.StageHanded))
			below *= carried / ios
			if handed > 0 && handed < requests {
				carried *= requests / handed
			}
		}
		w.names, w.times, w.requests = append(w.names, name), append(w.times, above-below), append(w.requests, entering)
		above, entering, name = below, requests/ios, ""
	}
	return w, nil
}

// explanations computes the explanation of each workload with explained trials.
func (b *builder) explanations() {
	for _, w := range b.workloads {
		if len(b.explained[w.Name]) == 0 {
			continue
		}
		x := Explanation{Workload: w.Name}
		for _, t := range b.targets {
			if e, ok := b.explain(w, t); ok {
				x.Targets = append(x.Targets, e)
			}
		}
		b.Explanations = append(b.Explanations, x)
	}
}

// explain divides the latency of one cell into stages. It returns false if the cell has no explained trial.
func (b *builder) explain(w iotax.WorkloadInfo, target iotax.TargetInfo) (Explained, bool) {
	against := target.Reference(b.Run.BaselineOf(w.Name), func(name string) bool {
		return slices.ContainsFunc(b.explained[w.Name], func(t *Trial) bool { return t.Target == name })
	})
	e := Explained{Target: target.Name, Against: against, Total: none(), Difference: none(), Rest: none(), RestMore: none(), Speed: none()}
	own, starts, why := b.ways(w.Name, target.Name)
	if starts == nil && why == "" {
		return e, false
	}
	e.Unknown = why
	if len(own) == 0 {
		return e, true
	}
	rounds := slices.Sorted(maps.Keys(own))
	first := own[rounds[0]]
	rounds = slices.DeleteFunc(rounds, func(r int) bool { return !slices.Equal(own[r].names, first.names) })
	e.Rounds, e.Missing = len(rounds), first.missing
	mean := func(rounds []int, of func(round int) float64) stat.Interval { return b.mean(rounds, starts, of) }
	e.Total = mean(rounds, func(r int) float64 { return own[r].total })
	base, _, _ := b.ways(w.Name, against)
	both := slices.DeleteFunc(slices.Clone(rounds), func(r int) bool { _, ok := base[r]; return !ok })
	e.Difference = mean(both, func(r int) float64 { return own[r].total - base[r].total })
	var negative []int
	for i, name := range first.names {
		s := Stage{Name: name, Last: i == len(first.names)-1, Requests: iotax.Number(first.requests[i])}
		s.Time = mean(rounds, func(r int) float64 { return own[r].times[i] })
		if s.Time.Estimate < 0 {
			negative = append(negative, i)
			continue
		}
		s.Difference = mean(both, func(r int) float64 { return own[r].times[i] - counterpart(base[r], first, i) })
		var requests []float64
		for _, r := range rounds {
			requests = append(requests, own[r].requests[i])
		}
		s.Requests = iotax.Number(stat.Median(requests).Estimate)
		e.Stages = append(e.Stages, s)
	}
	if negative != nil {
		sum := func(r int) (x float64) {
			for _, i := range negative {
				x += own[r].times[i]
			}
			return x
		}
		e.Rest = mean(rounds, sum)
		e.RestMore = mean(both, func(r int) (x float64) {
			for _, i := range negative {
				x -= counterpart(base[r], first, i)
			}
			return x + sum(r)
		})
	}
	e.Speed = b.speed(w, target.Name, b.explained[w.Name])
	return e, true
}

// mean returns the mean over rounds. starts contains the start index of each round.
func (b *builder) mean(rounds []int, starts map[int]int, of func(round int) float64) stat.Interval {
	o := b.Options()
	var xs []float64
	for _, r := range rounds {
		xs, o.Starts = append(xs, of(r)), append(o.Starts, starts[r])
	}
	i, err := stat.Mean(xs, o)
	if err != nil {
		return none()
	}
	return i
}

func none() stat.Interval { return stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()} }

// counterpart returns the time of the stages of base that correspond to stage i of w. A stage of base corresponds to
// the stage of w with the same name. If w has no such stage, base's last stage corresponds to w's last, and any other
// to w's first. The differences of all stages therefore add up to the difference of the totals.
func counterpart(base, w way, i int) (sum float64) {
	for k, name := range base.names {
		at := slices.Index(w.names, name)
		if at < 0 && k == len(base.names)-1 {
			at = len(w.names) - 1
		}
		if max(at, 0) == i {
			sum += base.times[k]
		}
	}
	return sum
}

// ways returns the stages and the start indexes of a target's valid explained trials, by round. If no trial is valid,
// `why` is the reason. If there are no explained trials, starts is nil.
func (b *builder) ways(workload, target string) (ways map[int]way, starts map[int]int, why string) {
	ways = map[int]way{}
	for _, t := range b.explained[workload] {
		if t.Target != target {
			continue
		}
		if starts == nil {
			starts = map[int]int{}
		}
		switch w, err := wayOf(t); {
		case t.Err != "":
			why = "its explained trials failed: " + strings.TrimSuffix(Brief(t.Err), ".")
		case t.Discarded != "":
			why = "its explained trials are discarded: " + t.Discarded
		case err != nil:
			why = err.Error()
		default:
			ways[t.Round], starts[t.Round] = w, t.StartIndex
		}
	}
	if len(ways) > 0 {
		why = ""
	}
	return ways, starts, why
}

// speed returns the ratio of a target's separate trials, for example explained ones, to its other trials in the
// workload's first metric.
func (b *builder) speed(w iotax.WorkloadInfo, target string, separate []*Trial) stat.Interval {
	if len(w.Metrics) == 0 {
		return none()
	}
	p := stat.Pairing{Metric: w.Metrics[0]}
	add := func(t *Trial, side string) {
		if v, ok := t.Value(p.Metric); ok && t.Target == target {
			p.Add(&iotax.Trial{Target: side, Round: t.Round, StartIndex: t.StartIndex, Err: t.Err, Discarded: t.Discarded, Values: []iotax.Value{v}})
		}
	}
	for _, t := range b.byWorkload[w.Name] {
		add(t, "plain")
	}
	for _, t := range separate {
		add(t, "separate")
	}
	i, _, err := p.Interval("plain", "separate", b.Options())
	if err != nil {
		return none()
	}
	return i
}
