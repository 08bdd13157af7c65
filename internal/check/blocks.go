package check

import (
	"math"

	"iotax"
	"iotax/stat"
)

var (
	blocksCorrelated = Rule{ID: "blocks-correlated", Severity: iotax.Warning, Scope: OfRun, Title: "successive blocks resemble each other",
		Why: "The ratio of a block is like that of the block before (lag-one autocorrelation, beyond what chance does once in a hundred runs): something changes slowly on one side alone, or the target had not warmed up. " +
			"Such blocks tell less than their number says, so the interval is too narrow. Few blocks show it rarely, however strong it is.",
		Hint: "look at the order of the blocks in the report; let the target warm up (`--ramp`), use longer trials (`--trial 30s`) or more blocks (`--blocks 12..60`); calibrate (`iotax calibrate`)"}
	twoLevels = Rule{ID: "two-levels", Severity: iotax.Warning, Scope: OfRun, Title: "trials fall into two groups",
		Why: "The trials of one place, or their ratios, fall into two groups 5 % or more apart, more clearly than noise would let them in one run of a hundred: a disk in one of two moods, a guest on the right or the wrong memory node, one trial that was unlike the rest. " +
			"How often each group occurs decides the mean, and few blocks say little about that: the interval may be too narrow.",
		Hint: "look at the dots in the report and find what the groups have in common (order, time, place in memory); use more blocks (`--blocks 12..60`)"}
)

// groups looks at what differs from block to block, in each cell.
func (s *study) groups() []iotax.Finding {
	var fs []iotax.Finding
	for _, w := range s.workloads {
		metric := s.metric(w)
		s.levels(&fs, w, s.run.Baseline, s.logs(s.run.Baseline, w))
		for _, t := range s.others() {
			base, other, better := stat.Pairs(s.trials, w, metric, s.reference(t, w), t)
			d, err := stat.Pair(base, other, better)
			if err != nil {
				continue // the report says why there is no ratio
			}
			if c := stat.Serial(d); c.Found() {
				fs = append(fs, blocksCorrelated.without("calibrate", s.run.Calibration != nil).finding("%s: the ratio of %s to that of the block before: correlation %.2f over %d blocks", w, t, c.Lag1, len(d)))
			}
			// The ratio shows what both sides share a noise with; where a side shows it, that says more.
			if !s.levels(&fs, w, t, s.logs(t, w)) && !stat.FindLevels(s.logs(s.reference(t, w), w)).Found {
				s.levels(&fs, w, "the ratio of "+t, d)
			}
		}
	}
	return fs
}

func (s *study) levels(fs *[]iotax.Finding, workload, of string, logs []float64) bool {
	l := stat.FindLevels(logs)
	if l.Found {
		slow := int(math.Round(l.Share * float64(len(logs))))
		*fs = append(*fs, twoLevels.finding("%s: %s: %d of %d are %s lower than the others", workload, of, slow, len(logs), percent(-math.Expm1(l.Low-l.High))))
	}
	return l.Found
}

// logs are the logarithms of the headline metric of a cell's good trials.
func (s *study) logs(target, workload string) []float64 {
	var logs []float64
	for _, t := range s.good(target, workload) {
		if v, ok := t.Value(s.metric(workload)); ok && v.Value > 0 && !math.IsInf(v.Value, 1) {
			logs = append(logs, math.Log(v.Value))
		}
	}
	return logs
}
