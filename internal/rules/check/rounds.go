package check

import (
	"math"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// groups examines the variation of the rounds in each cell.
func (s *study) groups() []iotax.Finding {
	var fs []iotax.Finding
	for _, w := range s.workloads {
		metric := s.metric(w)
		s.levels(&fs, s.run.Baseline, w, s.run.Baseline, s.logs(s.run.Baseline, w))
		for _, t := range s.others() {
			base, other, better := stat.Pairs(s.trials, w, metric, s.reference(t, w), t)
			d, err := stat.Pair(base, other, better)
			if err != nil {
				continue // the report shows why there is no ratio
			}
			if c := stat.Serial(d); c.Found() && !s.restarted(w) {
				fs = append(fs, rules.RoundsCorrelated.Without("calibrate", s.run.Calibration != nil).Found(iotax.AboutCell(t, w), "%s: the ratio of %s to that of the round before: correlation %.2f over %d rounds", w, t, c.Lag1, len(d)))
			}
			// Check the ratio only if neither side has two levels by itself.
			if !s.levels(&fs, t, w, t, s.logs(t, w)) && !stat.FindLevels(s.logs(s.reference(t, w), w)).Found {
				s.levels(&fs, t, w, "the ratio of "+t, d)
			}
		}
	}
	return fs
}

// restarted reports whether the trials of a workload have several starts, of which some have several rounds. The
// confidence interval then already includes the variation between starts. If each round has its own start, the interval
// does not account for correlated rounds, so restarted returns false.
func (s *study) restarted(workload string) bool {
	rounds, several := map[int]int{}, false // a round of each start
	for _, t := range s.trials {
		if t.Workload != workload {
			continue
		}
		if round, ok := rounds[t.StartIndex]; ok && round != t.Round {
			several = true
		}
		rounds[t.StartIndex] = t.Round
	}
	return several && len(rounds) > 1
}

func (s *study) levels(fs *[]iotax.Finding, target, workload, of string, logs []float64) bool {
	l := stat.FindLevels(logs)
	if l.Found {
		slow := int(math.Round(l.Share * float64(len(logs))))
		*fs = append(*fs, rules.TwoLevels.Found(iotax.AboutCell(target, workload), "%s: %s: %d of %d are %s lower than the others", workload, of, slow, len(logs), rules.Percent(-math.Expm1(l.Low-l.High))))
	}
	return l.Found
}

// logs returns the logarithms of the headline metric of a cell's valid trials.
func (s *study) logs(target, workload string) []float64 {
	var logs []float64
	for _, t := range s.good(target, workload) {
		if v, ok := t.Value(s.metric(workload)); ok && v.Value > 0 && !math.IsInf(v.Value, 1) {
			logs = append(logs, math.Log(v.Value))
		}
	}
	return logs
}
