package stat

import "iotax"

// Pairs returns the values of metric for the baseline and for the target under one workload, one pair
// a block, in the order of the blocks, and which direction of the metric is better. A block counts
// when both trials succeeded and have the metric, and when no trial of it, on whichever target, is
// discarded.
func Pairs(trials []*iotax.Trial, workload, metric, baseline, target string) (base, other []float64, better iotax.Better) {
	p := Pairing{Metric: metric}
	for _, t := range trials {
		if t.Workload == workload && (t.Target == baseline || t.Target == target || t.Discarded != "") {
			p.Add(t)
		}
	}
	return p.Pairs(baseline, target)
}
