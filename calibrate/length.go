package calibrate

import (
	"math"
	"time"

	"iotax"
)

// Variances are the parts of what one trial varies by, on the logarithmic scale, and what it costs.
type Variances struct {
	Between float64       // variance between trials that a longer trial does not take away
	Within  float64       // variance of the mean of one second, its correlation with the next seconds counted in
	SetUp   time.Duration // of a trial: everything but its measured window
}

// The lengths between which one is proposed: below the least a trial is only a quick look, and beyond
// the most a single hiccup costs too much.
const (
	leastTrial = 5 * time.Second
	mostTrial  = 60 * time.Second
)

// minSeconds is the least number of seconds in a trial from which its inner variance is told.
const minSeconds = 4

// components splits the variance of the differences d of an A/A study. The variance of a mean over L
// seconds is Between + Within/L; what the two trials of a block share has cancelled in d, so that half
// the variance of d is that of one trial.
func components(trials []*iotax.Trial, workload, metric string, d []float64) (v Variances, ok bool) {
	var ss, num, den float64
	var n, count int
	var setUp, seconds float64
	for _, t := range trials {
		if t.Workload != workload || t.Err != "" || t.Void != "" {
			continue
		}
		setUp += (t.Took - t.Length).Seconds()
		seconds += t.Length.Seconds()
		count++
		ys := logs(t, metric)
		if len(ys) < minSeconds {
			continue
		}
		m := mean(ys)
		for i, y := range ys {
			ss += (y - m) * (y - m)
			den += (y - m) * (y - m)
			if i > 0 {
				num += (y - m) * (ys[i-1] - m)
			}
		}
		n += len(ys) - 1
	}
	if n == 0 || count == 0 || len(d) < minPhi {
		return Variances{}, false
	}
	// Seconds that resemble their neighbours tell less: the variance of their mean is larger by
	// (1+r)/(1−r) (Box, Jenkins & Reinsel, Time Series Analysis, 2.1).
	r := 0.0
	if den > 0 {
		r = math.Min(math.Max(num/den, 0), 0.9)
	}
	v.Within = ss / float64(n) * (1 + r) / (1 - r)
	m, var2 := mean(d), 0.0
	for _, x := range d {
		var2 += (x - m) * (x - m)
	}
	var2 /= float64(len(d) - 1)
	length := seconds / float64(count)
	v.Between = math.Max(0, var2/2-v.Within/length)
	v.SetUp = time.Duration(setUp / float64(count) * float64(time.Second))
	return v, true
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

// trialLength is the length L of a trial that gives the most certainty for the time it takes. With
// set-up c, the time of a trial is c+L and its variance Between + Within/L; their product is least at
// L = √(c·Within/Between) (Kalibera & Jones, ISMM'13, section 8, with seconds as the inner level). It is
// in whole seconds, between 5 s and 60 s, and 0 where the parts are not known.
func trialLength(v Variances, ok bool) time.Duration {
	if !ok {
		return 0
	}
	best := math.Sqrt(v.SetUp.Seconds() * v.Within / v.Between) // +Inf without any variance between
	if math.IsNaN(best) {
		best = 0 // neither varies: any length will do
	}
	return min(max(time.Duration(math.Ceil(math.Min(best, mostTrial.Seconds())))*time.Second, leastTrial), mostTrial)
}
