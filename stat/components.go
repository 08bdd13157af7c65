package stat

import (
	"errors"
	"fmt"
	"math"
)

// Components contains the variance of a setup's values (for example, logarithms of rates) within trials, and the
// additional variance between trials.
type Components struct {
	Within  float64 // variance of a second about its trial's mean, corrected for Lag1
	Between float64 // variance of the trials' true means; below 0 if the seconds explain all of the variance
	Lag1    float64 // lag-one autocorrelation of the seconds within a trial, corrected for bias and limited to 0 … maxLag
	Seconds float64 // harmonic mean of the trial lengths, in number of values
	Trials  int
}

// VarianceComponents splits the variance of trials[i][j], the j-th second of trial i. It uses the estimators of
// Kalibera & Jones (Rigorous Benchmarking in Reasonable Time, ISMM'13, 6): Within is the mean of the trials' variances,
// and Between is the variance of the trials' means minus the part that Within explains. The paper assumes independent
// seconds. Neighbouring seconds are correlated, so Within is also multiplied by (1+φ)/(1−φ), the variance inflation of
// an AR(1) mean, and corrected because correlated seconds vary less about their mean. VarianceComponents returns an
// error for fewer than two trials, for a trial with fewer than three values, and for a value that is not finite.
func VarianceComponents(trials [][]float64) (Components, error) {
	var c Components
	if len(trials) < 2 {
		return c, fmt.Errorf("variance components: %d trials, two are needed", len(trials))
	}
	means := make([]float64, len(trials))
	var within, lag, inverse float64
	for i, t := range trials {
		if len(t) < 3 {
			return c, fmt.Errorf("variance components: trial %d has %d values, three are needed", i, len(t))
		}
		m, sd := meanSD(t)
		if math.IsNaN(sd) || math.IsInf(sd, 0) {
			return c, fmt.Errorf("variance components: trial %d holds a value that is not finite", i)
		}
		means[i] = m
		within += sd * sd / float64(len(trials))
		inverse += 1 / float64(len(t)) / float64(len(trials))
		if r := Lag1(t); !math.IsNaN(r) {
			lag += (r + (1+4*math.Max(r, 0))/float64(len(t))) / float64(len(trials)) // bias correction of Marriott & Pope 1954
		}
	}
	c.Trials, c.Seconds = len(trials), 1/inverse
	c.Lag1 = math.Min(math.Max(lag, 0), maxLag)
	// The expected sum of squares about the mean is (n − inflation) times the variance. For independent seconds, it
	// would be (n − 1) times the variance.
	n, inflation := c.Seconds, (1+c.Lag1)/(1-c.Lag1)
	c.Within = within * inflation * (n - 1) / math.Max(n-inflation, n/4)
	_, sd := meanSD(means)
	c.Between = sd*sd - c.Within/c.Seconds
	return c, nil
}

// maxLag is the upper limit of the estimate of φ. Ten seconds contain almost no information about a larger φ.
const maxLag = 0.95

var errLength = errors.New("trial length: the bounds are not 0 < least ≤ most")

// TrialLength returns the trial length that gives the narrowest interval for a given total time: √(setup ·
// Within/Between), in seconds if there is one value per second. setup is the time, in the same unit, that a trial takes
// for start, ramp and settling in addition to its window (Kalibera & Jones, ISMM'13, 6.2; earlier as the optimal
// allocation of two-stage samples, Cochran, Sampling Techniques, 10.6). If trials differ by no more than their seconds
// explain, a longer trial is always better, and the result is `most` (or `least` if all values are equal). The result
// is between `least` and `most`. TrialLength returns NaN and an error if setup or the bounds are invalid.
func TrialLength(c Components, setup, least, most float64) (float64, error) {
	if !(least > 0 && least <= most) {
		return math.NaN(), errLength
	}
	if !(setup >= 0) {
		return math.NaN(), fmt.Errorf("trial length: a set-up of %v", setup)
	}
	if !(c.Between > 0) {
		if c.Within > 0 {
			return most, nil
		}
		return least, nil
	}
	return math.Min(math.Max(math.Sqrt(setup*c.Within/c.Between), least), most), nil
}
