// Package calibrate measures the noise floor of a setup: the ratio of a place to itself (A/A), the correlation of
// successive rounds, the speed of the load generator without a disk, and the best trial length. It creates the plans of
// such studies, turns their trials into an iotax.Calibration, and saves it for the setup.
package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	gonum "gonum.org/v1/gonum/stat"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// MaxAge is the maximum age of a calibration that a run uses.
const MaxAge = 7 * 24 * time.Hour

// minPhi is the minimum number of rounds for Calibration.Phi and Calibration.Trial. With 6 independent rounds, an
// autocorrelation of 0.4 is common by chance.
const minPhi = 12

// New computes the calibration from the trials of an A/A study. null contains the trials of a study with the null
// engine, or is nil. The first two targets are the arms. New uses only the first metric of the first workload. It
// returns an error if it cannot compute the ratio of the arms.
func New(r *iotax.Run, trials, null []*iotax.Trial, brief bool) (*iotax.Calibration, error) {
	fail := func(err error) (*iotax.Calibration, error) {
		return nil, &iotax.Error{Op: "calibrate", On: r.Name, Err: err, Hint: "look at the trials: iotax show " + r.ID}
	}
	if len(r.Targets) < 2 || len(r.Workloads) == 0 || len(r.Workloads[0].Metrics) == 0 {
		return fail(fmt.Errorf("an A/A study has two arms and a workload, this one %d and %d", len(r.Targets), len(r.Workloads)))
	}
	w := r.Workloads[0]
	metric := w.Metrics[0]
	a, b, better := stat.Pairs(trials, w.Name, metric, r.Targets[0].Name, r.Targets[1].Name)
	if len(a) == 0 {
		return fail(noRound(trials))
	}
	d, err := stat.Pair(a, b, better)
	if err != nil {
		return fail(err)
	}
	e, err := stat.Estimate(d, stat.Options{})
	if err != nil {
		return fail(err)
	}
	serial := stat.Serial(d)
	c := &iotax.Calibration{Ratio: e.Estimate, Lo: known(e.Lo), Hi: known(e.Hi), Rounds: len(d), CV: cv(append(slices.Clone(a), b...)),
		Lag1: known(serial.Lag1), At: r.Start, Workload: w.Name, Length: length(trials), Brief: brief}
	c.Phi = phi(serial, len(d))
	if !brief {
		c.Trial = trialLength(components(trials, w.Name, metric, d))
	}
	c.NullIOPS = nullIOPS(null, r.Targets[0].Name)
	return c, nil
}

// noRound returns an error with the reason why no round is valid.
func noRound(trials []*iotax.Trial) error {
	for _, t := range trials {
		if why := cmp.Or(t.Err, t.Discarded); why != "" {
			return fmt.Errorf("no round counts: %s", why)
		}
	}
	return fmt.Errorf("no round was measured")
}

// `known` returns x, or 0 if x is not a finite number.
func known(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func length(trials []*iotax.Trial) time.Duration {
	if len(trials) == 0 {
		return 0
	}
	return trials[0].Length
}

// cv returns the coefficient of variation: sample standard deviation over mean.
func cv(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mean, variance := gonum.MeanVariance(xs, nil)
	return known(math.Sqrt(variance) / mean)
}

// phi returns the autocorrelation for which intervals are widened. It is 0 if n is less than minPhi, or if the estimate
// r from n rounds is not significant at 5 %. Otherwise it is r without its bias, φ ≈ (n·r+1)/(n−4) (Marriott & Pope
// 1954: E r ≈ φ − (1+4φ)/n), but at most 0.9. Widening for every positive r would make half of the intervals of a quiet
// setup too wide.
func phi(r stat.SerialTest, n int) float64 {
	if n < minPhi || !(r.P <= 0.05) {
		return 0
	}
	const most = 0.9 // this widens intervals 4.4-fold, by √((1+φ)/(1−φ)); a setup with a larger φ is unfit for measurements
	return math.Min(most, (float64(n)*r.Lag1+1)/float64(n-4))
}

// nullIOPS returns the median read IOPS of the valid null-engine trials of target, or 0 if there are none.
func nullIOPS(trials []*iotax.Trial, target string) float64 {
	var xs []float64
	for _, t := range trials {
		if v, ok := t.Value(iotax.ValueReadIOPS); ok && t.Target == target && t.Err == "" && t.Discarded == "" {
			xs = append(xs, v.Value)
		}
	}
	return known(stat.Median(xs).Estimate)
}

// Finding returns a finding if the A/A interval of the calibration does not contain 1.
func Finding(c *iotax.Calibration) (iotax.Finding, bool) {
	if c == nil || c.Floor() == 0 || c.Lo <= 1 && 1 <= c.Hi {
		return iotax.Finding{}, false
	}
	return rules.AANotOne.Found(iotax.AboutRun(), "the baseline against itself came out at %.3g× [%.3g, %.3g] in %d rounds of %s", c.Ratio, c.Lo, c.Hi, c.Rounds, c.Length), true
}
