package stat

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// NoisySpread is the Spread above which trials count as noisy.
const NoisySpread = 0.10

// Spread returns the sample standard deviation of logarithms. It is NaN for fewer than four values: with three
// values, noise of 5 % would show as 10 % or more in one of fifty cases.
func Spread(logs []float64) float64 {
	if len(logs) < 4 {
		return math.NaN()
	}
	_, sd := meanSD(logs)
	return sd
}

// DepthReached is the minimum share of the requested queue depth at which the depth counts as reached.
const DepthReached = 0.80

// TooNoisy is the text for an inconclusive interval that is too wide to be useful.
const TooNoisy = "too noisy"

// PlusMinus formats the half width of the interval of a ratio: "± 3 %". half is a ratio (0.05 is 5 %). PlusMinus prints
// `digits` significant digits, or all digits of the integer part if there are more. It prints at least 0.1 %, and
// "wider than ± 100 %" if half is above 1 or NaN.
func PlusMinus(half float64, digits int) string {
	if !(half <= 1) {
		return "wider than ± 100 %"
	}
	x := max(100*half, .1)
	if x >= math.Pow10(digits)-.5 { // %g would print an exponent
		return fmt.Sprintf("± %.0f %%", x)
	}
	return "± " + strconv.FormatFloat(x, 'g', digits, 64) + " %"
}

// A Timing is the total duration of a number of operations.
type Timing struct {
	N   int
	Sum time.Duration
}

// Add returns t with one more operation.
func (t Timing) Add(d time.Duration) Timing { return Timing{t.N + 1, t.Sum + d} }

// Mean returns the mean duration of an operation. N must not be 0.
func (t Timing) Mean() time.Duration { return t.Sum / time.Duration(t.N) }
