package format

import (
	"fmt"
	"math"
	"strconv"

	"iotax/stat"
)

// Noisy reports whether a ratio's interval is wide and contains 1. A wide interval that does not contain 1 can still
// have a verdict.
func Noisy(i stat.Interval) bool { return wide(i) && !(i.Lo > 1) && !(i.Hi < 1) }

// wide reports whether a ratio's bounds differ by more than a factor of 4, or whether a bound differs from the
// estimate by more than a factor of 10.
func wide(i stat.Interval) bool {
	return i.Bounded() && (!(i.Lo > 0) || !(i.Hi/i.Lo <= 4) || i.Hi > 10*i.Estimate || i.Lo < i.Estimate/10)
}

// Vague reports whether an interval is missing or too wide to print.
func Vague(i stat.Interval) bool { return !Finite(i) || Noisy(i) }

// Share formats a ratio as a share: "31 % [29–33]". A ratio of at least 10, and a noisy one, become multiples. For a
// wide interval, only the bounds are printed.
func Share(i stat.Interval) string {
	switch {
	case i.Estimate >= 10 || Noisy(i):
		return Times(i)
	case wide(i):
		return bounds(i, 100, " %")
	}
	return around(stat.Interval{Estimate: 100 * i.Estimate, Lo: 100 * i.Lo, Hi: 100 * i.Hi}, " %", "–")
}

// Times formats a ratio as a multiple: "3.2× [2.9–3.5]". For a wide interval, only the bounds are printed.
func Times(i stat.Interval) string {
	if wide(i) {
		return bounds(i, 1, "×")
	}
	return around(i, "×", "–")
}

// around formats the estimate with its unit, followed by the bounds.
func around(i stat.Interval, unit, between string) string {
	p := place(i)
	s := cut(i.Estimate, p) + unit
	if Finite(i) {
		s += " [" + cut(i.Lo, p) + between + cut(i.Hi, p) + "]"
	}
	return s
}

// bounds formats those bounds that are within a factor of 10 of the estimate: "between 0.30× and 2.1×", "more than
// 3.0×".
func bounds(i stat.Interval, by float64, unit string) string {
	lo, hi := digits(by*i.Lo)+unit, digits(by*i.Hi)+unit
	low, high := i.Lo >= i.Estimate/10, i.Hi <= 10*i.Estimate
	switch {
	case low && high:
		return "between " + lo + " and " + hi
	case low:
		return "more than " + lo
	case high:
		return "less than " + hi
	}
	return "an unknown multiple"
}

// digits formats x with two significant digits.
func digits(x float64) string {
	p := Places(x, math.NaN())
	s := Fixed(x, p)
	if y, err := strconv.ParseFloat(s, 64); err == nil && Places(y, math.NaN()) > p { // for example, 0.996 became 1.00
		return Fixed(x, p+1)
	}
	return s
}

// place returns the decimal place for rounding a ratio and its bounds: two digits of the lower bound, or three if the
// interval is narrow.
func place(i stat.Interval) int {
	if !Finite(i) {
		return Places(i.Estimate, math.NaN())
	}
	p := Places(i.Lo, math.NaN())
	if i.Hi-i.Lo <= i.Estimate/10 {
		p--
	}
	return p
}

// cut formats x rounded at a decimal place, with at most three digits.
func cut(x float64, p int) string { return Fixed(x, max(p, Places(x, math.NaN())-1)) }

// Inverse returns the interval of the inverse ratio.
func Inverse(i stat.Interval) stat.Interval {
	return stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
}

// Ratio formats a ratio: "0.47× [0.45, 0.50]", or "too noisy". For a wide interval on one side of 1, it formats the
// bound closest to 1.
func Ratio(i stat.Interval) string {
	switch {
	case math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0):
		return Dash
	case Noisy(i):
		return stat.TooNoisy
	case wide(i) && i.Lo > 1:
		return "≥ " + digits(i.Lo) + "×"
	case wide(i):
		return "≤ " + digits(i.Hi) + "×"
	}
	return around(i, "×", ", ")
}

// Percent formats a ratio as a percentage: "3 %", "0.4 %", "12 %".
func Percent(x float64) string {
	x *= 100
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "∞ %"
	case x >= 9.5:
		return fmt.Sprintf("%.0f %%", x)
	case x >= .095:
		return strconv.FormatFloat(x, 'g', 1, 64) + " %"
	case x == 0:
		return "0 %"
	}
	return "< 0.1 %"
}

// Cached is printed instead of a number that a cache produced.
const Cached = "cached"

// Verdict returns the text of a verdict. If short is set, it abbreviates some verdicts.
func Verdict(v stat.Verdict, short bool) string {
	if short && v == stat.BelowMargin {
		return "below margin"
	}
	switch v {
	case stat.Inconclusive:
		return stat.TooNoisy
	case stat.NotComparable, stat.TooManyDiscarded:
		return "invalid"
	case stat.TooFew:
		return "too few"
	}
	return string(v)
}
