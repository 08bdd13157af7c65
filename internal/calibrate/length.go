package calibrate

import (
	"math"
	"time"

	gonum "gonum.org/v1/gonum/stat"

	"iotax"
	"iotax/stat"
)

// Limits of the proposed trial length. In a longer trial, a single disturbance costs too much time.
const (
	leastTrial = 5 * time.Second
	mostTrial  = 60 * time.Second
)

// minSeconds is the minimum number of one-second values for the variance within a trial.
const minSeconds = 4

// components splits the variance of an A/A study into the variance within and between trials. d contains the study's
// log ratios. Noise that both trials of a round share cancels in d, so half the variance of d is the variance of one
// trial. setUp is the mean time in seconds that a trial takes outside its window. ok is false if there are too few
// rounds or the trials are too short.
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
	variance := gonum.Variance(d, nil)
	c.Between = variance/2 - c.Within/c.Seconds
	return c, math.Max(0, setUp/float64(count)), true
}

// logs returns the logarithms of the positive values in the trial's one-second series of metric.
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

// trialLength returns the trial length, in whole seconds, with the smallest error for the time spent. It returns 0 if
// the length is unknown.
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
