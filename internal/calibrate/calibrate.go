// Package calibrate says what a rig does when nothing differs: the noise floor of its A/A ratio, how
// much successive rounds resemble each other, how fast the load generator is without a disk, and how
// long a trial should be. It makes the plans of such studies, turns their trials into an
// iotax.Calibration, and keeps that per rig. It measures nothing itself: the plans are run by the same
// code as any other, which is the point of them.
package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// MaxAge is how long a calibration is believed.
const MaxAge = 7 * 24 * time.Hour

// minPhi is the least number of rounds from which an autocorrelation is told: with 6 of them, one of
// 0.4 is what chance gives.
const minPhi = 12

// New makes the calibration of an A/A study, and of a study of the null engine (nil where there was
// none). The study's first target is one arm and its second the other; its first workload is judged.
// Without a single round that counts it fails.
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
	c := &iotax.Calibration{Ratio: e.Estimate, Lo: known(e.Lo), Hi: known(e.Hi), Rounds: len(d), CV: cv(append(slices.Clone(a), b...)),
		Lag1: known(stat.Lag1(d)), At: r.Start, Workload: w.Name, Length: length(trials), Brief: brief}
	c.Phi = phi(c.Lag1, len(d))
	if !brief {
		c.Trial = trialLength(components(trials, w.Name, metric, d))
	}
	c.NullIOPS = nullIOPS(null, r.Targets[0].Name)
	return c, nil
}

// noRound says why no round counts.
func noRound(trials []*iotax.Trial) error {
	for _, t := range trials {
		if why := cmp.Or(t.Err, t.Discarded); why != "" {
			return fmt.Errorf("no round counts: %s", why)
		}
	}
	return fmt.Errorf("no round was measured")
}

// known is 0 for what could not be computed.
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

// cv is the coefficient of variation: sample standard deviation over mean.
func cv(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mean, variance := spread(xs)
	return known(math.Sqrt(variance) / mean)
}

// spread returns the mean and the sample variance.
func spread(xs []float64) (mean, variance float64) {
	n := float64(len(xs))
	for _, x := range xs {
		mean += x / n
	}
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / (n - 1)
	}
	return mean, variance
}

// phi is the autocorrelation that intervals are widened for: the estimate r of n rounds with its bias
// taken out, φ ≈ (n·r+1)/(n−3) (Marriott & Pope 1954: E r ≈ φ − (1+3φ)/n), where r lies above what
// independent rounds give in one of twenty studies, −1/n + 1.645/√n; else 0. Widening for every
// positive r would make half of all intervals of a quiet rig too wide.
func phi(r float64, n int) float64 {
	if n < minPhi || r <= 1.645/math.Sqrt(float64(n))-1/float64(n) {
		return 0
	}
	const most = 0.9 // √((1+φ)/(1−φ)) is 4.4 there; beyond, a rig is not fit to measure anything
	return math.Min(most, (float64(n)*r+1)/float64(n-3))
}

// nullIOPS is the median rate of the trials without a disk.
func nullIOPS(trials []*iotax.Trial, target string) float64 {
	var xs []float64
	for _, t := range trials {
		if v, ok := t.Value(iotax.ValueReadIOPS); ok && t.Target == target && t.Err == "" && t.Discarded == "" {
			xs = append(xs, v.Value)
		}
	}
	return known(stat.Median(xs).Estimate)
}

// Finding is what a calibration says against its own rig: an interval of the baseline against itself
// that leaves 1 out.
func Finding(c *iotax.Calibration) (iotax.Finding, bool) {
	if c == nil || c.Floor() == 0 || c.Lo <= 1 && 1 <= c.Hi {
		return iotax.Finding{}, false
	}
	return rules.AANotOne.Found(iotax.AboutRun(), "the baseline against itself came out at %.3g× [%.3g, %.3g] in %d rounds of %s", c.Ratio, c.Lo, c.Hi, c.Rounds, c.Length), true
}
