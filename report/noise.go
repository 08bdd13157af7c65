package report

import (
	"fmt"
	"math"
	"strings"

	"iotax/report/format"
	"iotax/stat"
)

// noiseLine says what the rig shows when nothing differs, or, where it was not calibrated, how much
// single trials of the baseline vary.
func (r *Report) noiseLine() string {
	if c := r.Run.Calibration; c.Floor() > 0 {
		s := fmt.Sprintf("Noise floor: A/A ± %s (%s of %s, %s, %s)", format.Percent(c.Floor()), format.Plural(c.Blocks, "block"), c.Length, format.Clean(c.Workload), c.At.Format("2006-01-02"))
		if phi := c.Autocorrelation(); phi > 0 {
			s += fmt.Sprintf("; intervals are widened by %.2f, because successive blocks resemble each other (φ = %.2f)", stat.Widening(phi), phi)
		}
		return s + "."
	}
	lo, hi := r.baselineVariation()
	s := "Noise floor: not calibrated (`iotax calibrate`)"
	if r.Run.Imported() {
		s = "Noise floor: not known of imported trials"
	}
	switch base := format.Clean(r.Baseline); {
	case math.IsNaN(lo):
		return s + "."
	case format.Percent(lo) == format.Percent(hi):
		return s + fmt.Sprintf("; single trials of %s vary by %s.", base, format.Percent(lo))
	default:
		return s + fmt.Sprintf("; single trials of %s vary by %s–%s.", base, strings.TrimSuffix(format.Percent(lo), " %"), format.Percent(hi))
	}
}

// baselineVariation is the least and the largest coefficient of variation of the baseline's trials
// under one workload; NaN where no workload has two.
func (r *Report) baselineVariation() (lo, hi float64) {
	lo, hi = math.NaN(), math.NaN()
	for i := range r.Sections {
		s := &r.Sections[i]
		base := s.baseline()
		if !s.First || base == nil {
			continue
		}
		xs := base.values()
		if len(xs) < 2 {
			continue
		}
		var sum, ss float64
		for _, x := range xs {
			sum += x
		}
		m := sum / float64(len(xs))
		for _, x := range xs {
			ss += (x - m) * (x - m)
		}
		cv := math.Sqrt(ss/float64(len(xs)-1)) / m
		if math.IsNaN(cv) || math.IsInf(cv, 0) {
			continue
		}
		if math.IsNaN(lo) {
			lo, hi = cv, cv
		}
		lo, hi = math.Min(lo, cv), math.Max(hi, cv)
	}
	return lo, hi
}
