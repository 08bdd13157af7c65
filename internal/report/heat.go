package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report/format"
)

// A Heat shows the distribution of the latencies of one direction over time, in the trial of a target with the longest
// stall.
type Heat struct {
	Workload, Target string
	Name             string // name of the histogram, for example "read.latency"
	Label            string
	Round            int
	Length           float64 // of the measured window, in seconds
	Longest          float64 // longest stall, in seconds
	Cells            []HeatCell
}

// A HeatCell describes the I/Os with latencies between Lo and Hi in the time interval from From to To, all in seconds.
// Share is the sum of the latencies of these I/Os, divided by the sum for all I/Os in the time interval.
type HeatCell struct{ From, To, Lo, Hi, Share float64 }

const (
	mostHeats   = 60 // per run
	mostColumns = 60 // time intervals per chart, approximately
	perDecade   = 8  // latency ranges per decade
)

// Heats returns the heat maps by workload. If there are more than mostHeats, it omits those with the shortest stalls.
func (r *Report) Heats(trials map[Cell][]*Trial) (map[string][]Heat, error) {
	var chosen []*Heat
	seqs := map[*Heat]int{}
	done := map[Cell]bool{} // a workload has a section for each metric
	for s, row := range r.Rows() {
		cell := Cell{row.Target, s.Workload}
		if done[cell] {
			continue
		}
		done[cell] = true
		worst := map[string]*Heat{}
		for _, t := range trials[cell] {
			for v := range t.All() {
				direction, ok := strings.CutSuffix(v.Name, ".stall.longest")
				if h := worst[direction]; ok && (h == nil || v.Value > h.Longest) {
					name := direction + ".latency"
					h = &Heat{s.Workload, row.Target, name, format.Label(name), t.Round, t.Length.Seconds(), v.Value, nil}
					worst[direction], seqs[h] = h, t.Seq
				}
			}
		}
		for _, direction := range slices.Sorted(maps.Keys(worst)) {
			chosen = append(chosen, worst[direction])
		}
	}
	longest := slices.SortedStableFunc(slices.Values(chosen), func(a, b *Heat) int { return cmp.Compare(b.Longest, a.Longest) })
	bySeq := map[int][]*Heat{}
	for _, h := range longest[:min(len(longest), mostHeats)] {
		bySeq[seqs[h]] = append(bySeq[seqs[h]], h)
	}
	out := map[string][]Heat{}
	if len(bySeq) == 0 {
		return out, nil
	}
	for t, err := range r.source.Intervals(slices.Sorted(maps.Keys(bySeq))) {
		if err != nil {
			return nil, err
		}
		for _, h := range bySeq[t.Seq] {
			h.Cells = heatCells(t.Intervals, h.Name, h.Length)
		}
	}
	for _, h := range chosen {
		if h.Cells != nil {
			out[h.Workload] = append(out[h.Workload], *h)
		}
	}
	return out, nil
}

// heatCells merges histogram bins into ranges of latency. It also merges time intervals if there are too many.
func heatCells(intervals []iotax.Interval, name string, length float64) (cells []HeatCell) {
	least := length / mostColumns
	var waited map[float64]float64 // total latency by range of latencies
	column := HeatCell{}
	flush := func() {
		total := 0.0
		for _, w := range waited {
			total += w
		}
		for _, k := range slices.Sorted(maps.Keys(waited)) {
			cells = append(cells, HeatCell{column.From, column.To, math.Pow(10, k/perDecade), math.Pow(10, (k+1)/perDecade), waited[k] / total})
		}
		waited = nil
	}
	for _, i := range intervals {
		if i.Name != name {
			continue
		}
		if waited != nil && i.To-column.From > least {
			flush()
		}
		if waited == nil {
			waited, column.From = map[float64]float64{}, i.From
		}
		column.To = i.To
		for _, b := range i.Bins {
			if b.Value > 0 {
				waited[math.Floor(perDecade*math.Log10(b.Value))] += b.Value * float64(b.Count)
			}
		}
	}
	flush()
	return cells
}
