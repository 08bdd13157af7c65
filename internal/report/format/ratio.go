package format

import (
	"fmt"
	"math"
	"strconv"

	"iotax/stat"
)

// Noisy reports whether the interval of a ratio is wide and contains 1. A wide one without 1 can have a verdict.
func Noisy(i stat.Interval) bool { return wide(i) && !(i.Lo > 1) && !(i.Hi < 1) }

// wide reports whether the interval of a ratio is wider than ± 100 %, or has a bound beyond 10× or below 0.1× of the estimate.
func wide(i stat.Interval) bool {
	return i.Bounded() && (!(i.Lo > 0) || !(i.Hi/i.Lo <= 4) || i.Hi > 10*i.Estimate || i.Lo < i.Estimate/10)
}

// Vague reports whether an interval says next to nothing, or is none.
func Vague(i stat.Interval) bool { return !Finite(i) || Noisy(i) }

// Share prints a ratio as a share: "31 % [29–33]"; from ten times on as a multiple. Of a wide one it prints the bounds.
func Share(i stat.Interval) string {
	switch {
	case i.Estimate >= 10:
		return Times(i)
	case wide(i):
		return bounds(i, 100, " %")
	}
	pc := stat.Interval{Estimate: 100 * i.Estimate, Lo: 100 * i.Lo, Hi: 100 * i.Hi, N: i.N}
	p := places(pc)
	if !Finite(pc) {
		return Fixed(pc.Estimate, p) + " %"
	}
	return fmt.Sprintf("%s %% [%s–%s]", Fixed(pc.Estimate, p), bound(pc.Lo, p), bound(pc.Hi, p))
}

// Times prints a ratio as a multiple: "3.2× [2.9–3.5]". Of a wide one it prints the bounds.
func Times(i stat.Interval) string {
	if wide(i) {
		return bounds(i, 1, "×")
	}
	p := places(i)
	if !Finite(i) {
		return Fixed(i.Estimate, p) + "×"
	}
	return fmt.Sprintf("%s× [%s–%s]", Fixed(i.Estimate, p), bound(i.Lo, p), bound(i.Hi, p))
}

// bounds prints those that are not absurd: "between 0.30× and 2.1×", "more than 3.0×".
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

// digits prints two significant digits.
func digits(x float64) string { return Fixed(x, Places(x, math.NaN())) }

// places is the decimal place at which a ratio and its bounds are cut: two digits of the smallest of them stay.
func places(i stat.Interval) int {
	p := Places(i.Estimate, Half(i))
	if i.Lo > 0 && i.Lo < i.Estimate {
		return min(p, Places(i.Lo, math.NaN()))
	}
	return min(p, Places(i.Estimate, math.NaN()))
}

// Inverse is the ratio the other way round.
func Inverse(i stat.Interval) stat.Interval {
	return stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
}

// Extent prints the bounds of a ratio: "between 0.86× and 1.15×".
func Extent(i stat.Interval) string {
	switch {
	case !Finite(i):
		return "of unknown size"
	case wide(i):
		return bounds(i, 1, "×")
	}
	p := places(i)
	return fmt.Sprintf("between %s× and %s×", bound(i.Lo, p), bound(i.Hi, p))
}

// Ratio prints "0.47× [0.45, 0.50]", or that it is too noisy.
func Ratio(i stat.Interval) string {
	switch {
	case math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0):
		return Dash
	case Noisy(i):
		return stat.TooNoisy
	}
	p := places(i)
	s := Fixed(i.Estimate, p) + "×"
	if Finite(i) {
		s += fmt.Sprintf(" [%s, %s]", bound(i.Lo, p), bound(i.Hi, p))
	}
	return s
}

// bound prints an end of a ratio's interval. A ratio of thousands needs no exact end.
func bound(x float64, exp int) string {
	const most = 1000
	least := math.Pow(10, float64(exp))
	switch {
	case x > most && x > most*least:
		return fmt.Sprintf(">%d", most)
	case x < least/2:
		return "<" + Fixed(least, exp)
	}
	return Fixed(x, exp)
}

// Percent prints a ratio as "3 %", "0.4 %", "12 %".
func Percent(x float64) string {
	x *= 100
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "∞ %"
	case x >= 9.5:
		return fmt.Sprintf("%.0f %%", x)
	case x >= .095:
		return strconv.FormatFloat(x, 'g', 1, 64) + " %"
	}
	return "0.1 %"
}

// Verdict is a verdict for people; a short one has a word less where there are several.
func Verdict(v stat.Verdict, short bool) string {
	if short && v == stat.BelowMargin {
		return "below margin"
	}
	switch v {
	case stat.TooManyDiscarded:
		return "INVALID"
	case stat.TooFew:
		return "too few"
	}
	return string(v)
}
