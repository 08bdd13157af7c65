package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Data that only charts need is computed on demand, because that takes longer than the rest of the report.

// A Distribution contains the distribution of one kind of latency on each target, from the merged histograms of all
// valid trials.
type Distribution struct {
	Workload string
	Name     string // name of the histogram, for example "read.latency"
	Label    string
	Unit     string
	Cells    []DistributionCell
}

// A DistributionCell is one target's distribution. At least 100 observations lie beyond its last quantile.
type DistributionCell struct {
	Target    string
	Quantiles []Quantile // ascending
}

// At returns the value of the first known quantile at or above q, or NaN if q is beyond the last one.
func (c DistributionCell) At(q float64) float64 {
	for _, x := range c.Quantiles {
		if x.Q >= q {
			return x.Value
		}
	}
	return math.NaN()
}

// A Quantile is a point of a distribution: the share Q of all observations is at most Value.
type Quantile struct{ Q, Value float64 }

// A Timeline shows one series over time, for the trials of each target under one workload.
type Timeline struct {
	Workload string
	Label    string // of the series; "" if only Serving is set
	Unit     string
	Cells    []TimelineCell
	Cost     bool        // the series is CPU or memory use, which need not reach a steady state
	Serving  []*Timeline // memory and CPU of the processes that serve the targets, during the same trials
}

// A TimelineCell is one target's timeline.
type TimelineCell struct {
	Target         string
	Trials         []TimelineTrial // valid trials with the series, by round; evenly sampled if there are too many
	Count          int             // number of all valid trials
	Mean           float64         // over all intervals of Trials
	Steady, Judged int             // Judged: number of Trials long enough for a steady state (stat.SteadyState); Steady: number of Trials that reached it
}

// A TimelineTrial is the series of one trial.
type TimelineTrial struct {
	Round  int
	Length float64 // of the measured window, in seconds
	Series iotax.Series
	Steady stat.Steady
}

// A Cost shows the speed of a workload on each target, and the resources of this host that the workload used.
type Cost struct {
	Workload string
	Label    string // of Speed
	Unit     string
	Cells    []CostCell
}

// A CostCell is one target's cost. A missing number is NaN.
type CostCell struct {
	Target string
	Speed  stat.Interval // see Row.Value
	CPU    stat.Interval // CPU time of all processes of this host per I/O, in seconds
	Memory stat.Interval // peak resident memory of the processes that serve the target, in bytes
}

// Counting returns the valid trials of each cell, ordered by round.
func (r *Report) Counting() map[Cell][]*Trial {
	out := make(map[Cell][]*Trial, len(r.byCell))
	for c := range r.byCell {
		if ts := r.Valid(c); len(ts) > 0 {
			slices.SortStableFunc(ts, func(a, b *Trial) int { return cmp.Compare(a.Round, b.Round) })
			out[c] = ts
		}
	}
	return out
}

// Distributions returns the distributions of a workload, one for each histogram with enough observations.
func (s *Section) Distributions(r *Report) []Distribution {
	var out []Distribution
	for _, row := range s.Rows {
		for _, h := range r.histograms[Cell{row.Target, s.Workload}] {
			qs := quantileCurve(h.Histogram)
			if len(qs) < 2 {
				continue
			}
			i := slices.IndexFunc(out, func(d Distribution) bool { return d.Name == h.Name })
			if i < 0 {
				label := format.Label(h.Name)
				for _, f := range row.Secondary {
					if f.Name == h.Name+".p50" {
						label = strings.TrimSpace(strings.Replace(f.Label, " p50", "", 1))
					}
				}
				out = append(out, Distribution{Workload: s.Workload, Name: h.Name, Label: label, Unit: h.Unit})
				i = len(out) - 1
			}
			out[i].Cells = append(out[i].Cells, DistributionCell{row.Target, qs})
		}
	}
	return out
}

// quantileCurve returns all quantiles of a histogram up to the last one with at least 100 observations beyond it.
func quantileCurve(h iotax.Histogram) []Quantile {
	total := 0.0
	for _, b := range h.Bins {
		total += float64(b.Count)
	}
	most := 1 - 100/total
	if !(most > 0) {
		return nil
	}
	var out []Quantile
	sum := 0.0
	for _, b := range h.Bins {
		if !(b.Value > 0) || math.IsInf(b.Value, 0) {
			sum += float64(b.Count)
			continue
		}
		if len(out) == 0 {
			out = append(out, Quantile{sum / total, b.Value})
		}
		sum += float64(b.Count)
		q := min(sum/total, most)
		out = append(out, Quantile{q, b.Value})
		if q >= most {
			break
		}
	}
	return out
}

// Limits on the number of drawn trials. More lines cannot be distinguished, and would make the page too large.
const (
	mostDrawn    = 60   // per cell
	mostDrawnAll = 6000 // per run
	leastDrawn   = 4    // per cell, however many cells there are
)

// toDraw returns the trials of each cell that charts draw. If there are too many, it selects some evenly over the run.
func toDraw(trials map[Cell][]*Trial) map[Cell][]*Trial {
	most := min(mostDrawn, max(leastDrawn, mostDrawnAll/max(1, len(trials))))
	out := make(map[Cell][]*Trial, len(trials))
	for c, ts := range trials {
		if len(ts) <= most {
			out[c] = ts
			continue
		}
		for i := range most {
			out[c] = append(out[c], ts[i*(len(ts)-1)/(most-1)])
		}
	}
	return out
}

// series reads the series of the trials. The result is indexed by Seq.
func (r *Report) series(trials map[Cell][]*Trial) (map[int][]iotax.Series, error) {
	var seqs []int
	for _, ts := range trials {
		for _, t := range ts {
			seqs = append(seqs, t.Seq)
		}
	}
	out := make(map[int][]iotax.Series, len(seqs))
	for t, err := range r.source.Series(seqs) {
		if err != nil {
			return nil, err
		}
		out[t.Seq] = t.Series
	}
	return out, nil
}

// Timelines returns the timelines by workload. A workload without a usable series has a nil timeline.
func (r *Report) Timelines(trials map[Cell][]*Trial) (map[string]*Timeline, error) {
	chosen := toDraw(trials)
	series, err := r.series(chosen)
	if err != nil {
		return nil, err
	}
	out := map[string]*Timeline{}
	for _, s := range r.Sections {
		if out[s.Workload] != nil {
			continue
		}
		var tl *Timeline
		direction, _, _ := strings.Cut(s.Metric, ".")
		for _, name := range []string{s.Metric, direction + ".iops", direction + ".bandwidth", iotax.ValueMixedIOPS} {
			if tl == nil {
				tl = s.during(name, chosen, series, trials)
			}
		}
		// The processes that serve the targets are a guest's QEMU, and the servers of its shares.
		for _, name := range []string{iotax.ValueMemoryHostRSS, iotax.ValueCPUHost} {
			if cost := s.during(name, chosen, series, trials); cost != nil {
				if tl == nil {
					tl = &Timeline{Workload: s.Workload}
				}
				cost.Cost, tl.Serving = true, append(tl.Serving, cost)
			}
		}
		out[s.Workload] = tl
	}
	return out, nil
}

// during returns the timeline of one series, or nil if no trial has the series with at least two intervals.
func (s *Section) during(name string, trials map[Cell][]*Trial, series map[int][]iotax.Series, all map[Cell][]*Trial) (tl *Timeline) {
	for _, row := range s.Rows {
		c := TimelineCell{Target: row.Target, Mean: math.NaN(), Count: len(all[Cell{row.Target, s.Workload}])}
		unit, sum, n := "", 0.0, 0
		for _, t := range trials[Cell{row.Target, s.Workload}] {
			i := slices.IndexFunc(series[t.Seq], func(x iotax.Series) bool { return x.Name == name && len(x.T) > 1 && len(x.T) == len(x.V) })
			if i < 0 {
				continue
			}
			x := series[t.Seq][i]
			tt := TimelineTrial{Round: t.Round, Length: t.Length.Seconds(), Series: x, Steady: stat.SteadyState(x)}
			for _, v := range x.V {
				sum, n = sum+v, n+1
			}
			if tt.Steady.Enough {
				c.Judged++
			}
			if tt.Steady.Reached {
				c.Steady++
			}
			unit, c.Trials = x.Unit, append(c.Trials, tt)
		}
		if len(c.Trials) == 0 {
			continue
		}
		c.Mean = sum / float64(n)
		if tl == nil {
			tl = &Timeline{Workload: s.Workload, Label: format.Label(name), Unit: unit}
		}
		tl.Cells = append(tl.Cells, c)
	}
	return tl
}

// Cost returns the workload's cost, or nil if neither CPU time nor memory is known for any target.
func (s *Section) Cost(trials map[Cell][]*Trial) *Cost {
	c := &Cost{Workload: s.Workload, Label: s.Label, Unit: s.Unit}
	known := false
	for _, row := range s.Rows {
		if len(row.Dots) == 0 {
			continue
		}
		var cpu, memory []float64
		for _, t := range trials[Cell{row.Target, s.Workload}] {
			if per, ok := t.Value(iotax.ValueCPUPerIO); ok {
				cpu = append(cpu, per.Value)
			}
			if m, ok := t.Value(iotax.ValueMemoryServing); ok && m.Value > 0 {
				memory = append(memory, m.Value)
			}
		}
		known = known || len(cpu)+len(memory) > 0
		c.Cells = append(c.Cells, CostCell{row.Target, row.Value, stat.Median(cpu), stat.Median(memory)})
	}
	if !known {
		return nil
	}
	return c
}
