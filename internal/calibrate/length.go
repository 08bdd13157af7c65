package calibrate

import (
	"math"
	"time"

	"iotax"
	"iotax/stat"
)

// The lengths between which one is proposed: below the least a trial is only a quick look, and beyond
// the most a single hiccup costs too much.
const (
	leastTrial = 5 * time.Second
	mostTrial  = 60 * time.Second
)

// minSeconds is the least number of seconds in a trial from which its inner variance is told.
const minSeconds = 4

// components splits the variance of an A/A study with the differences d. What the two trials of a round
// share has cancelled in d and must not count as noise, so the variance between trials is taken from
// there: half of d's is that of one trial. setUp is what a trial costs beside its window, in seconds.
// It fails where the study is too short.
func components(trials []*iotax.Trial, workload, metric string, d []float64) (c stat.Components, setUp float64, ok bool) {
	var seconds [][]float64
	count := 0
	for _, t := range trials {
		if t.Workload != workload || t.Err != "" || t.Discarded != "" {
			continue
		}
		setUp += (t.Took - t.Length).Seconds()
		count++
		if ys := logs(t, metric); len(ys) >= minSeconds {
			seconds = append(seconds, ys)
		}
	}
	if len(d) < minPhi {
		return c, 0, false
	}
	c, err := stat.VarianceComponents(seconds)
	if err != nil { // the trials are too short
		return c, 0, false
	}
	_, variance := spread(d)
	c.Between = variance/2 - c.Within/c.Seconds
	return c, math.Max(0, setUp/float64(count)), true
}

// logs are the logarithms of the trial's one-second series that metric is the mean of.
func logs(t *iotax.Trial, metric string) []float64 {
	for _, s := range t.Series {
		if s.Name != metric {
			continue
		}
		var ys []float64
		for _, v := range s.V {
			if v > 0 {
				ys = append(ys, math.Log(v))
			}
		}
		return ys
	}
	return nil
}

// trialLength is the length that gives the most certainty for the time it takes, in whole seconds; 0
// where the study is too short to tell.
func trialLength(c stat.Components, setUp float64, ok bool) time.Duration {
	if !ok {
		return 0
	}
	best, err := stat.TrialLength(c, setUp, leastTrial.Seconds(), mostTrial.Seconds())
	if err != nil {
		return 0
	}
	return time.Duration(math.Ceil(best)) * time.Second
}
