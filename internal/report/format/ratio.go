package format

import (
	"fmt"
	"math"
	"strconv"

	"iotax/stat"
)

// Noisy reports whether a ratio's interval is wide and contains 1.
func Noisy(i stat.Interval) bool { return wide(i) && !(i.Lo > 1) && !(i.Hi < 1) }

// wide reports whether a ratio's bounds differ by more than a factor of 4, or whether a bound differs from the
// estimate by more than a factor of 10.
func wide(i stat.Interval) bool {
	return i.Bounded() && (!(i.Lo > 0) || !(i.Hi/i.Lo <= 4) || i.Hi > 10*i.Estimate || i.Lo < i.Estimate/10)
}

// Vague reports whether an interval is missing or noisy.
func Vague(i stat.Interval) bool { return !Finite(i) || Noisy(i) }

// Share formats a ratio as a share: "31 % [29–33]". It formats ratios of at least 10 and noisy ratios like Times. For a
// wide interval, it prints only the bounds.
func Share(i stat.Interval) string {
	switch {
	case i.Estimate >= 10 || Noisy(i):
		return Times(i)
	case wide(i):
		return bounds(i, 100, " %")
	}
	return around(i, 100, " %", "–")
}

// Times formats a ratio as a multiple: "3.2× [2.9–3.5]". For a wide interval, it prints only the bounds.
func Times(i stat.Interval) string {
	if wide(i) {
		return bounds(i, 1, "×")
	}
	return around(i, 1, "×", "–")
}

// around formats the estimate with its unit, followed by the bounds. Each number has two digits, or three if the
// interval is narrow. Ratios from 1 to 1.2 are rounded to hundredths, so that readers can compare them with 1 and with
// the margin.
func around(i stat.Interval, by float64, unit, between string) string {
	if !Finite(i) {
		return digits(by*i.Estimate, 2) + unit
	}
	narrow := i.Hi-i.Lo <= i.Estimate/10
	show := func(x float64) string {
		if narrow {
			return digits(by*x, 3)
		} else if x >= .995 && x < asTimes {
			return Fixed(by*x, Places(by, math.NaN())-1)
		}
		return digits(by*x, 2)
	}
	return show(i.Estimate) + unit + " [" + show(i.Lo) + between + show(i.Hi) + "]"
}

// bounds formats the bounds that are within a factor of 10 of the estimate: "between 0.30× and 2.1×", "more than 3.0×".
func bounds(i stat.Interval, by float64, unit string) string {
	lo, hi := digits(by*i.Lo, 2)+unit, digits(by*i.Hi, 2)+unit
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

// digits formats x with n significant digits.
func digits(x float64, n int) string {
	p := Places(x, math.NaN()) + 2 - n
	s := Fixed(x, p)
	if y, err := strconv.ParseFloat(s, 64); err == nil && Places(y, math.NaN())+2-n > p { // for example, 0.996 became 1.00
		return Fixed(x, p+1)
	}
	return s
}

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
		return "≥ " + digits(i.Lo, 2) + "×"
	case wide(i):
		return "≤ " + digits(i.Hi, 2) + "×"
	}
	return around(i, 1, "×", ", ")
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

// Cached is the text for a number that a cache produced.
const Cached = "cached"

// Verdict returns the text of a verdict. If short is set, it abbreviates BelowMargin.
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
