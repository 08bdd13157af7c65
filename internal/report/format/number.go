// Package format formats numbers, units, names and short phrases, so that they look the same in every table, sentence
// and chart.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/perf/benchunit"

	"iotax"
	"iotax/stat"
)

// Dash is the text for a missing number.
const Dash = "–"

// A Scale contains the factor and the unit prefix for values of similar size.
type Scale struct {
	Factor float64
	Prefix string // printed after each number, for example "k"
	Unit   string // printed once, for example "MiB/s"
}

// ScaleOf returns the scale for v. Ratios become percentages. Bytes are scaled in powers of 1024 (MiB), all other units
// in powers of 1000. Only times get a prefix for values below 1, and times of at least one second get no prefix.
func ScaleOf(unit string, v float64) Scale {
	v = math.Abs(v)
	switch unit {
	case iotax.BytesPerSecond, iotax.Bytes:
		s := benchunit.CommonScale([]float64{v}, benchunit.Binary)
		return Scale{s.Factor, "", s.Prefix + unit}
	case iotax.Seconds:
		s := benchunit.CommonScale([]float64{v}, benchunit.Decimal)
		if v >= 1 || v == 0 {
			return Scale{1, "", "s"}
		}
		return Scale{s.Factor, "", s.Prefix + "s"}
	case iotax.RatioUnit:
		return Scale{.01, "", "%"}
	}
	sc := Scale{1, "", ""}
	if v >= 1000 {
		s := benchunit.CommonScale([]float64{v}, benchunit.Decimal)
		sc.Factor, sc.Prefix = s.Factor, s.Prefix
	}
	switch unit {
	case iotax.PerSecond, iotax.Count, "":
	default:
		sc.Unit = Clean(unit)
	}
	return sc
}

// Places returns the decimal place for rounding x, as an exponent of ten. half is the uncertainty of x. x is rounded at
// the first digit of half, or one digit further to the right if this digit is 1. If half is NaN, x is rounded at its
// second digit. If half is 0, x is rounded at its fourth digit. Rounding keeps one to four digits of x.
func Places(x, half float64) int {
	first := func(v float64) int {
		if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0
		}
		return int(math.Floor(math.Log10(math.Abs(v))))
	}
	top := first(x)
	p := top - 1
	if half > 0 && !math.IsInf(half, 0) {
		p = first(half)
		if half/math.Pow10(p) < 2 {
			p--
		}
	} else if half == 0 {
		p = top - 3
	}
	return min(max(p, top-3), top)
}

// Fixed formats x rounded at decimal place p, an exponent of ten.
func Fixed(x float64, p int) string {
	if p > 0 {
		x = math.Round(x/math.Pow10(p)) * math.Pow10(p)
	}
	return strconv.FormatFloat(x, 'f', max(0, -p), 64)
}

// Three formats x with three significant digits.
func Three(x float64) string { return digits(x, 3) }

// shortest removes trailing zeros after a decimal point.
func shortest(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Finite reports whether the interval has finite bounds.
func Finite(i stat.Interval) bool {
	return i.Bounded() && !math.IsInf(i.Lo, 0) && !math.IsInf(i.Hi, 0)
}

// Half returns half the width of an interval, or NaN if it has no finite bounds.
func Half(i stat.Interval) float64 {
	if !Finite(i) {
		return math.NaN()
	}
	return (i.Hi - i.Lo) / 2
}

// Number formats the estimate: "11.6k", "310 MiB/s".
func Number(i stat.Interval, unit string) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return Dash
	}
	sc := ScaleOf(unit, i.Estimate)
	if i.Estimate == 0 {
		return WithUnit("0", sc.Unit)
	}
	x, h := i.Estimate/sc.Factor, Half(i)/sc.Factor
	return WithUnit(Fixed(x, Places(x, h))+sc.Prefix, sc.Unit)
}

// WithUnit appends a unit, if it is not "".
func WithUnit(s, unit string) string {
	if unit == "" {
		return s
	}
	return s + " " + unit
}

// Spread formats the estimate with the larger half-width in percent: "11.6k ±3 %". A half-width above 100 % becomes
// "too noisy".
func Spread(i stat.Interval, unit string) string {
	s := Number(i, unit)
	if !Finite(i) || i.Estimate == 0 {
		return s
	}
	half := math.Max(i.Hi-i.Estimate, i.Estimate-i.Lo) / math.Abs(i.Estimate)
	if half > 1 {
		return s + " (" + stat.TooNoisy + ")"
	}
	return s + " ±" + Percent(half)
}

// Value formats the estimate and the bounds: "11.6k [11.2k, 11.9k]", "310 [300, 318] MiB/s".
func Value(i stat.Interval, unit string) string {
	if !Finite(i) {
		return Number(i, unit)
	}
	sc := ScaleOf(unit, i.Estimate)
	x := i.Estimate / sc.Factor
	if i.Lo == i.Hi { // a constant, such as the length of the window
		return WithUnit(shortest(Fixed(x, Places(x, 0)))+sc.Prefix, sc.Unit)
	}
	p := Places(x, Half(i)/sc.Factor)
	for p >= 0 && i.Lo > 0 && i.Lo/sc.Factor < math.Pow10(p)/2 { // a positive bound must not read as zero
		p--
	}
	return WithUnit(fmt.Sprintf("%s [%s, %s]", Fixed(x, p)+sc.Prefix, Fixed(i.Lo/sc.Factor, p)+sc.Prefix, Fixed(i.Hi/sc.Factor, p)+sc.Prefix), sc.Unit)
}

// P formats a p value.
func P(p float64) string {
	if p > 0 && p < 1e-4 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.2g", math.Min(p, 1))
}

// Split splits "310 [300, 318] MiB/s" into "310 MiB/s" and "[300, 318]".
func Split(s string) (value, brackets string) {
	i, j := strings.Index(s, " ["), strings.Index(s, "]")
	if i < 0 || j < i {
		return s, ""
	}
	return s[:i] + s[j+1:], s[i+1 : j+1]
}

// Binary reports whether values in the unit are scaled in powers of 1024.
func Binary(unit string) bool { return unit == iotax.Bytes || unit == iotax.BytesPerSecond }

// Base returns the factor of the binary unit for v, so that axis ticks are round numbers in that unit. It is 1 if the
// unit is not binary.
func Base(unit string, v float64) float64 {
	if Binary(unit) {
		return ScaleOf(unit, v).Factor
	}
	return 1
}

// Step rounds x up to 1, 2 or 5 times a power of ten. Bytes are first scaled to a binary unit such as MiB.
func Step(x float64, unit string) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	base := Base(unit, x)
	if x /= base; x > 1000 && Binary(unit) {
		return 1024 * base
	}
	p := math.Pow10(int(math.Floor(math.Log10(x))))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= x*(1-1e-9) {
			return m * p * base
		}
	}
	return 10 * p * base
}

// Plain formats a round number without an exponent and without rounding errors: 0.3, not 0.30000000000000004.
func Plain(x float64) string {
	if y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 10, 64), 64); err == nil {
		x = y
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Tick formats v, a multiple of `step`, for an axis. The unit depends only on `step`, so that all ticks have the same
// unit.
func Tick(v, step float64, unit string) string {
	if v == 0 {
		return "0"
	}
	sc := ScaleOf(unit, step)
	return WithUnit(Plain(v/sc.Factor)+sc.Prefix, sc.Unit)
}

// Lone returns an interval with the estimate x and without bounds, which are NaN.
func Lone(x float64) stat.Interval {
	return stat.Interval{Estimate: x, Lo: math.NaN(), Hi: math.NaN()}
}

// Ticks returns round values between lo and hi, exclusive: 1, 2 and 5 in each decade, or coarser or finer steps,
// depending on the range. It returns nil unless lo is positive and hi is finite.
func Ticks(lo, hi float64) []float64 {
	if !(lo > 0) || math.IsInf(hi, 0) {
		return nil
	}
	at := func(steps []float64) (out []float64) {
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range steps {
				if x, err := strconv.ParseFloat(fmt.Sprintf("%ge%d", m, int(e)), 64); err == nil && x > lo && x < hi {
					out = append(out, x)
				}
			}
		}
		return out
	}
	for _, steps := range [][]float64{{1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}} {
		if t := at(steps); len(t) >= 3 {
			return t
		}
	}
	return at([]float64{1, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 2, 5, 8, 8.5, 9, 9.5})
}

// Around formats the estimate with its larger half-width: "260 ± 30 µs". If that range would include 0 although the
// interval does not, Around formats the bounds, as Value does.
func Around(i stat.Interval, unit string) string {
	if !Finite(i) || i.Estimate == 0 {
		return Number(i, unit)
	}
	if !i.Contains(0) && math.Max(i.Hi-i.Estimate, i.Estimate-i.Lo) >= math.Abs(i.Estimate) {
		return Value(i, unit)
	}
	sc := ScaleOf(unit, math.Max(math.Abs(i.Estimate), Half(i)))
	x, half := i.Estimate/sc.Factor, math.Max(i.Hi-i.Estimate, i.Estimate-i.Lo)/sc.Factor
	p := Places(x, half)
	return WithUnit(Fixed(x, p)+sc.Prefix+" ± "+Fixed(half, min(p, Places(half, math.NaN())+1))+sc.Prefix, sc.Unit)
}
