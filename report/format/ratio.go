package format

import (
	"fmt"
	"math"
	"strconv"

	"iotax/stat"
)

// Share prints a ratio as a share: "31 % [29–33]"; from ten times on as a multiple.
func Share(i stat.Interval) string {
	if i.Estimate >= 10 {
		return Times(i)
	}
	pc := stat.Interval{Estimate: 100 * i.Estimate, Lo: 100 * i.Lo, Hi: 100 * i.Hi, N: i.N}
	p := Places(pc.Estimate, Half(pc))
	if !Finite(pc) {
		return Fixed(pc.Estimate, p) + " %"
	}
	return fmt.Sprintf("%s %% [%s–%s]", Fixed(pc.Estimate, p), bound(pc.Lo, p), bound(pc.Hi, p))
}

// Times prints a ratio as a multiple: "3.2× [2.9–3.5]".
func Times(i stat.Interval) string {
	p := Places(i.Estimate, Half(i))
	if !Finite(i) {
		return Fixed(i.Estimate, p) + "×"
	}
	return fmt.Sprintf("%s× [%s–%s]", Fixed(i.Estimate, p), bound(i.Lo, p), bound(i.Hi, p))
}

// Vague reports whether an interval says next to nothing: the truth may be a hundred times as much at one end
// as at the other, or there is no end.
func Vague(i stat.Interval) bool { return !Finite(i) || !(i.Lo > 0) || i.Hi/i.Lo > 100 }

// Inverse is the ratio the other way round.
func Inverse(i stat.Interval) stat.Interval {
	return stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
}

// Extent prints the bounds of a ratio: "between 0.86× and 1.15×".
func Extent(i stat.Interval) string {
	p := Places(i.Estimate, Half(i))
	if !Finite(i) {
		return "of unknown size"
	}
	return fmt.Sprintf("between %s× and %s×", bound(i.Lo, p), bound(i.Hi, p))
}

// Ratio prints "0.47× [0.45, 0.50]".
func Ratio(i stat.Interval) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return Dash
	}
	p := Places(i.Estimate, Half(i))
	s := Fixed(i.Estimate, p) + "×"
	if Finite(i) {
		s += fmt.Sprintf(" [%s, %s]", bound(i.Lo, p), bound(i.Hi, p))
	}
	return s
}

// bound prints an end of a ratio's interval. From two or three noisy blocks it can be absurd, and its
// digits then say nothing.
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
	if v == stat.TooManyVoid {
		return "INVALID"
	}
	return string(v)
}
