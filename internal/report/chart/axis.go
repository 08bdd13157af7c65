package chart

import (
	"math"
	"slices"

	"iotax/internal/report/format"
)

// A Tick is a labelled mark on an axis.
type Tick struct {
	At    float64
	Label string
}

// An Axis maps values to positions on a line. Values outside [Lo, Hi] map to its ends. A logarithmic axis needs Lo >
// 0.
type Axis struct {
	Label  string
	Lo, Hi float64
	Log    bool
	Ticks  []Tick
}

// Linear returns an axis that ranges from 0 to slightly above `most`. It returns a zero Axis unless `most` is positive
// and finite.
func Linear(label string, most float64, unit string) Axis {
	a := Axis{Label: label, Hi: most * 1.06}
	if !(most > 0) || math.IsInf(most, 0) {
		return Axis{}
	}
	step := format.Step(most/3.5, unit)
	for k := 0.0; k*step <= a.Hi; k++ {
		a.Ticks = append(a.Ticks, Tick{k * step, format.Tick(k*step, step, unit)})
	}
	return a
}

// Log returns a logarithmic axis that ranges from slightly below lo to slightly above hi. It returns a zero Axis if lo
// is not positive or hi is infinite.
func Log(label string, lo, hi float64, unit string) Axis {
	a := Axis{Label: label, Lo: lo / 1.15, Hi: hi * 1.15, Log: true}
	if !(lo > 0) || math.IsInf(hi, 0) {
		return Axis{}
	}
	base := format.Base(unit, a.Lo)
	for _, t := range ticks(a.Lo/base, a.Hi/base) {
		scale := t
		if format.Binary(unit) {
			scale = base
		}
		a.Ticks = append(a.Ticks, Tick{t * base, format.Tick(t*base, scale, unit)})
	}
	return a
}

// ticks returns round numbers between lo and hi, in equal steps if the range is small.
func ticks(lo, hi float64) (out []float64) {
	if out = format.Ticks(lo, hi); len(out) > 2 || !(hi > lo*(1+1e-9)) || math.IsInf(hi, 0) { // if lo and hi are almost equal, or hi is infinite, the loop below would not end
		return out
	}
	out = nil
	step := format.Step((hi-lo)/7, "")
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		out = append(out, k*step)
	}
	return out
}

// Ratios returns a logarithmic axis of ratios that has a tick at 1.
func Ratios(lo, hi float64) Axis {
	a := Axis{Lo: lo, Hi: hi, Log: true}
	for _, t := range ticks(lo, hi) {
		if math.Abs(math.Log(t)) > .03*math.Log(hi/lo) {
			a.Ticks = append(a.Ticks, Tick{t, format.Plain(t) + "×"})
		}
	}
	a.Ticks = append([]Tick{{1, "1×"}}, a.Ticks...) // horizontal omits labels that would touch an earlier one, so 1 comes first
	return a
}

// Multiples returns a logarithmic axis of ratios, labelled as multiples in both directions from 1. percent contains the
// ticks of the second view, labelled as percentages.
func Multiples(lo, hi float64) (a Axis, percent []Tick) {
	a, one := Ratios(lo, hi), Tick{1, "1×"}
	for _, t := range a.Ticks {
		percent = append(percent, Tick{t.At, format.Plain(100*t.At) + " %"})
	}
	a.Ticks = []Tick{one}
	for _, t := range Ratios(1, math.Max(1/lo, hi)).Ticks[1:] {
		a.Ticks = append(a.Ticks, Tick{1 / t.At, t.Label}, t)
	}
	return a, percent
}

func (a Axis) ok() bool { return finite(a.Lo, a.Hi) && a.Hi > a.Lo && (!a.Log || a.Lo > 0) }

func (a Axis) has(v float64) bool { return v >= a.Lo && v <= a.Hi }

// at returns the position of v between `from` and `to`. It returns NaN if v has no position.
func (a Axis) at(v, from, to float64) float64 {
	lo, hi := a.Lo, a.Hi
	if a.Log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	t := (v - lo) / (hi - lo)
	if math.IsNaN(t) || math.IsInf(t, 0) {
		return math.NaN()
	}
	return from + math.Min(1, math.Max(0, t))*(to-from)
}

// horizontal draws the grid lines of a horizontal axis, and their labels at each of the y coordinates. It draws the
// lines only inside the bands, each given as the y coordinates of its top and bottom. It omits labels that would touch
// an earlier one.
func (a Axis) horizontal(c *canvas, left, right float64, labels []float64, bands ...[2]float64) {
	var taken [][2]float64 // the ends of the labels
	for _, t := range a.Ticks {
		x := a.at(t.At, left, right)
		if !a.has(t.At) || !finite(x) {
			continue
		}
		for _, b := range bands {
			c.line("grid", x, b[0], x, b[1])
		}
		at, from, to := within(x, t.Label, 2, c.width-2)
		if slices.ContainsFunc(taken, func(s [2]float64) bool { return to+5 >= s[0] && from-5 <= s[1] }) {
			continue
		}
		for _, y := range labels {
			c.text(at, y, "tick", "middle", t.Label)
		}
		taken = append(taken, [2]float64{from, to})
	}
}
