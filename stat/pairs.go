package stat

import (
	"slices"

	"iotax"
)

// Pairs returns the values of metric for the baseline and for the target under one workload, one pair
// a block, in the order of the blocks, and which direction of the metric is better. A block counts
// when both trials succeeded and have the metric, and when no trial of it, on whichever target, is
// void.
func Pairs(trials []*iotax.Trial, workload, metric, baseline, target string) (base, other []float64, better iotax.Better) {
	type pair struct {
		b, t       float64
		hasB, hasT bool
		void       bool
	}
	blocks := map[int]*pair{}
	var order []int
	for _, t := range trials {
		if t.Workload != workload {
			continue
		}
		p := blocks[t.Block]
		if p == nil {
			p = &pair{}
			blocks[t.Block] = p
			order = append(order, t.Block)
		}
		p.void = p.void || t.Void != ""
		v, ok := t.Value(metric)
		if !ok || t.Err != "" {
			continue
		}
		if t.Target == baseline {
			p.b, p.hasB = v.Value, true
		}
		if t.Target == target {
			p.t, p.hasT, better = v.Value, true, v.Better
		}
	}
	slices.Sort(order)
	for _, i := range order {
		if p := blocks[i]; p.hasB && p.hasT && !p.void {
			base, other = append(base, p.b), append(other, p.t)
		}
	}
	return base, other, better
}
