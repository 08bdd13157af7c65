package stat

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// NoisySpread is the Spread above which trials are called noisy.
const NoisySpread = 0.10

// Spread is the sample standard deviation of logarithms. It is NaN for fewer than four, which say too
// little: at three, noise of 5 % would show as 10 % or more once in fifty.
func Spread(logs []float64) float64 {
	if len(logs) < 4 {
		return math.NaN()
	}
	_, sd := meanSD(logs)
	return sd
}

// DepthReached is the share of the queue depth asked for from which on the depth counts as reached.
const DepthReached = 0.80

// TooNoisy is printed instead of an interval that decides nothing and whose numbers are no information.
const TooNoisy = "too noisy"

// PlusMinus prints the half width of the interval of a ratio: "± 3 %", or that it is too noisy. digits is
// how many of its digits are printed; the least that it prints is 0.1 %.
func PlusMinus(half float64, digits int) string {
	if !(half <= 1) {
		return TooNoisy + " (wider than ± 100 %)"
	}
	x := max(100*half, .1)
	if x >= math.Pow10(digits)-.5 { // %g would print an exponent
		return fmt.Sprintf("± %.0f %%", x)
	}
	return "± " + strconv.FormatFloat(x, 'g', digits, 64) + " %"
}

// A Timing is how long some pieces of work took.
type Timing struct {
	N   int
	Sum time.Duration
}

// Add returns t and one more piece of work.
func (t Timing) Add(d time.Duration) Timing { return Timing{t.N + 1, t.Sum + d} }

// Mean is the mean time of a piece of work. There must be one.
func (t Timing) Mean() time.Duration { return t.Sum / time.Duration(t.N) }
