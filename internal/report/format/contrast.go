package format

import (
	"math"
	"strconv"
	"strings"

	"iotax"
	"iotax/stat"
)

// A Contrast contains the words for the two directions of a comparison: "slower" and "faster".
type Contrast struct {
	Worse, Better string
	down          bool // lower is better
}

// ContrastOf returns the words for a metric with the given unit: "slower" and "faster" for times and rates, "more" and
// "less" for CPU time and other costs, otherwise "lower" and "higher".
func ContrastOf(metric string, better iotax.Better, unit string) Contrast {
	down := better == iotax.Down
	switch {
	case strings.HasPrefix(metric, "cpu.") && down:
		return Contrast{"more", "less", down}
	case metric == iotax.ValueIOPerCore:
	case unit == iotax.Seconds, unit == iotax.PerSecond && !down, unit == iotax.BytesPerSecond && !down:
		return Contrast{"slower", "faster", down}
	case down:
		return Contrast{"more", "less", down}
	}
	return Contrast{"lower", "higher", down}
}

const (
	asTimes   = 1.2  // factor from which a difference is printed as a multiple instead of a percentage
	noPercent = 2    // factor from which Interval prints bounds as multiples
	atAll     = 5e-4 // smaller differences are printed as "the same"
)

// Estimate formats a ratio without its interval: "33× slower", "14 % slower", "1.4× faster". A ratio above 1 is better.
// If the interval is too wide, the text is "too noisy" or a bound: "at least 50× slower".
func (c Contrast) Estimate(i stat.Interval) string {
	if s, ok := c.vague(i); ok {
		return s
	}
	return c.side(i.Estimate, factor(i.Estimate) >= asTimes)
}

// Sides formats a bound below 1 and a bound above 1, both as multiples or both as percentages: "1.4× slower", "1.2×
// faster".
func (c Contrast) Sides(lo, hi float64) (worse, better string) {
	times := max(factor(lo), factor(hi)) >= asTimes
	return c.side(lo, times), c.side(hi, times)
}

// Interval formats a ratio with its interval: "33× slower [27–43]", "between 1.3× slower and 1.7× faster".
func (c Contrast) Interval(i stat.Interval) string {
	if s, ok := c.vague(i); ok {
		return s
	}
	if !Finite(i) {
		return c.Estimate(i)
	}
	if i.Lo < 1 && i.Hi > 1 {
		worse, better := c.Sides(i.Lo, i.Hi)
		return "between " + worse + " and " + better
	}
	near, far := i.Hi, i.Lo
	if i.Lo >= 1 {
		near, far = i.Lo, i.Hi
	}
	times := factor(i.Estimate) >= asTimes || factor(far) >= noPercent
	from, to := c.amount(near, times), c.amount(far, times)
	if from == to { // the interval is narrower than the printed precision
		return c.side(i.Estimate, times)
	}
	return c.side(i.Estimate, times) + " [" + from + "–" + to + "]"
}

// Multiple formats a ratio and its bounds as multiples in the direction of the estimate: "2.1× slower [2.0, 2.2]".
func (c Contrast) Multiple(i stat.Interval) (value, brackets string) {
	word := c.Better
	if i.Estimate < 1 {
		i, word = Inverse(i), c.Worse
	}
	value, brackets = Split(Ratio(i))
	if x, err := strconv.ParseFloat(strings.Trim(value, "≥≤ ×"), 64); err == nil && x != 1 {
		value += " " + word
	}
	return value, brackets
}

// OfBaseline formats a ratio as a percentage of the baseline: "47 % [45–50]". Ratios of at least 10 become multiples.
// If the interval is too wide or the estimate is infinite, it returns the text of Ratio and no brackets.
func OfBaseline(i stat.Interval) (value, brackets string) {
	if wide(i) || math.IsInf(i.Estimate, 0) {
		return Ratio(i), ""
	}
	return Split(Share(i))
}

// vague returns the text for a ratio without an estimate or with an interval that is too wide to print. It returns
// false for other ratios.
func (c Contrast) vague(i stat.Interval) (string, bool) {
	switch {
	case !(i.Estimate > 0) || math.IsInf(i.Estimate, 0):
		return Dash, true
	case Noisy(i):
		return stat.TooNoisy, true
	case wide(i) && i.Lo > 1:
		return "at least " + c.side(i.Lo, factor(i.Lo) >= asTimes), true
	case wide(i):
		return "at least " + c.side(i.Hi, factor(i.Hi) >= asTimes), true
	}
	return "", false
}

// factor returns the larger of a ratio and its reciprocal.
func factor(ratio float64) float64 { return math.Max(ratio, 1/ratio) }

func (c Contrast) side(ratio float64, times bool) string {
	word, unit := c.Worse, " % "
	if ratio > 1 {
		word = c.Better
	}
	if times {
		unit = "× "
	} else if math.Abs(ratio-1) < atAll {
		return "the same"
	}
	return c.amount(ratio, times) + unit + word
}

// amount formats the size of a difference without a unit: as a multiple, or as the change of the value in percent.
func (c Contrast) amount(ratio float64, times bool) string {
	if times {
		return digits(factor(ratio), 2)
	}
	if c.down {
		ratio = 1 / ratio
	}
	if math.Abs(ratio-1) < atAll {
		return "0"
	}
	return shortest(digits(100*math.Abs(ratio-1), 2))
}
