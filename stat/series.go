package stat

import (
	"math"

	"iotax"
)

// The Steady constants are from SNIA's Solid State Storage Performance Test Specification 2.0.2. The Step constants
// are for ThrottleStep.
const (
	SteadyRange   = 0.20 // range of the sub-window means divided by their mean
	SteadySlope   = 0.10 // rise or fall of the best-fit line divided by the mean
	SteadyWindows = 5
	StepSize      = 0.10 // minimum relative size of a throttle step
	StepLength    = 3.0  // seconds; minimum length of each side of a step
)

// A Steady reports whether a trial was in steady state over its measured window.
type Steady struct {
	Reached bool
	Enough  bool      // the series is long enough and has a positive mean; if not, Reached is false
	Range   float64   // (largest − smallest sub-window mean) / mean
	Slope   float64   // |rise of the best-fit line from the first to the last sub-window| / mean
	Means   []float64 // of the sub-windows, in order
}

// SteadyState applies SNIA's criterion to a per-second series: the range of the means of five equal sub-windows, and
// the rise or fall of the least-squares line through them, are at most SteadyRange and SteadySlope of their mean (SNIA
// SSS PTS 2.0.2, definition of steady state, with sub-windows instead of rounds). The means are weighted by time,
// because fio's last interval may have a different length. The series needs at least five intervals and a positive
// mean.
func SteadyState(s iotax.Series) Steady {
	st := Steady{Range: math.NaN(), Slope: math.NaN()}
	iv := intervals(s)
	if len(iv) < SteadyWindows {
		return st
	}
	from, to := iv[0].from, iv[len(iv)-1].to
	width := (to - from) / SteadyWindows
	for k := range SteadyWindows {
		st.Means = append(st.Means, meanOver(iv, from+float64(k)*width, from+float64(k+1)*width))
	}
	m := mean(st.Means)
	if !(m > 0) {
		return st
	}
	lo, hi := st.Means[0], st.Means[0]
	var sxy, sxx float64
	for k, y := range st.Means {
		lo, hi = math.Min(lo, y), math.Max(hi, y)
		x := float64(k) - float64(SteadyWindows-1)/2
		sxy += x * (y - m)
		sxx += x * x
	}
	st.Enough = true
	st.Range = (hi - lo) / m
	st.Slope = math.Abs(sxy/sxx) * (SteadyWindows - 1) / m
	// A series exactly at the limit passes despite rounding.
	st.Reached = st.Range <= SteadyRange*(1+1e-9) && st.Slope <= SteadySlope*(1+1e-9)
	return st
}

// A Step is the best division of a series into two levels.
type Step struct {
	Found         bool
	At            float64 // seconds after the start of the window
	Before, After float64 // mean levels
	Size          float64 // After/Before − 1, or 0 if Before is 0
	F             float64 // F statistic of two levels against one
}

// stepF is the minimum F statistic of a step. The split is chosen to maximize F, so Fisher's tables do not apply. The
// asymptotic 1 % value for a break at an unknown time is 12.2 (Andrews 1993, table I, 15 % trimmed). About twice that
// value keeps false alarms near 1 % for windows of ten seconds with correlated seconds.
const stepF = 25

// ThrottleStep searches for a lasting change of level, such as exhausted burst credit or a thermal limit. It
// divides the series where two levels fit best (least squares). It reports a step if each side lasts at least 3 s,
// the levels differ by at least 10 % of the first level, and F is large enough.
func ThrottleStep(s iotax.Series) Step {
	iv := intervals(s)
	var st Step
	if len(iv) < 4 {
		return st
	}
	var w, wy, wyy float64
	for _, v := range iv {
		l := v.to - v.from
		w, wy, wyy = w+l, wy+l*v.v, wyy+l*v.v*v.v
	}
	total := wyy - wy*wy/w
	var lw, lwy float64
	best, lasts := -1.0, 0.0
	for _, v := range iv[:len(iv)-1] {
		l := v.to - v.from
		lw, lwy = lw+l, lwy+l*v.v
		rw, rwy := w-lw, wy-lwy
		if between := lwy*lwy/lw + rwy*rwy/rw - wy*wy/w; between > best {
			best = between
			st.At, st.Before, st.After = v.to, lwy/lw, rwy/rw
			lasts = math.Min(lw, rw)
		}
	}
	if st.Before != 0 {
		st.Size = st.After/st.Before - 1
	}
	st.F = best / math.Max((total-best)/float64(len(iv)-2), 1e-12*wyy)
	st.Found = lasts >= StepLength-1e-9 && math.Abs(st.Size) >= StepSize && st.F >= stepF
	return st
}

// Stalls describes the intervals without I/O in a series.
type Stalls struct {
	Count   int     // number of runs of consecutive intervals without I/O
	Seconds float64 // total length
	Longest float64 // length of the longest run, in seconds
	First   float64 // start of the first run, in seconds after the start of the window
}

// FindStalls finds the intervals with a value of zero or less.
func FindStalls(s iotax.Series) Stalls {
	var st Stalls
	run := 0.0
	for _, v := range intervals(s) {
		if v.v > 0 {
			run = 0
			continue
		}
		if run == 0 {
			if st.Count == 0 {
				st.First = v.from
			}
			st.Count++
		}
		run += v.to - v.from
		st.Seconds += v.to - v.from
		st.Longest = math.Max(st.Longest, run)
	}
	return st
}

// A WarmUp describes the period at the start of a series that differs from the rest of the series.
type WarmUp struct {
	Enough bool    // the series is long enough
	Cut    float64 // seconds to cut from the start
	Shift  float64 // mean after the cut / overall mean − 1
	Over   bool    // false if the series never settled; see MSER5
}

// minBatches is the number of batches at the end of a series that MSER5 does not cut, because the statistic is erratic
// there.
const minBatches = 5

// warmShift is the minimum change of the mean for a late cut to count. On steady noise, the minimum of the
// statistic can be anywhere.
const warmShift = 0.05

// warmF is the minimum F statistic between the two sides of a late cut: the 1 % value for a break at an unknown
// time (Andrews 1993, table I).
const warmF = 12.2

// MSER5 finds the warm-up with the marginal standard error rule (White, Cobb & Spratt 2000). Over batches of five
// values it finds the cut d that minimizes Σ(y−ȳ)²/(n−d)² over the batches after the cut. Over is false (the trial
// never settled) if the cut is in the second half, the mean shifts by more than 5 %, and the two sides differ by more
// than noise explains. Series with fewer than 50 values use smaller batches, so that there are at least ten. A series
// needs at least ten values.
func MSER5(s iotax.Series) WarmUp {
	iv := intervals(s)
	size := min(5, len(iv)/(2*minBatches))
	if size == 0 {
		return WarmUp{Over: true}
	}
	var ys []float64
	for i := 0; i+size <= len(iv); i += size {
		ys = append(ys, meanOver(iv, iv[i].from, iv[i+size-1].to))
	}
	bestD, best := 0, math.Inf(1)
	var n, m, ss float64
	for d := len(ys) - 1; d >= 0; d-- {
		n++
		delta := ys[d] - m
		m += delta / n
		ss += delta * (ys[d] - m)
		if len(ys)-d < minBatches {
			continue
		}
		if g := ss / (n * n); g <= best {
			best, bestD = g, d
		}
	}
	w := WarmUp{Enough: true, Over: true}
	if bestD > 0 {
		w.Cut = iv[bestD*size].from - iv[0].from
	}
	if all := mean(ys); all != 0 {
		w.Shift = mean(ys[bestD:])/all - 1
	}
	late := 2*bestD >= len(ys)
	w.Over = !late || math.Abs(w.Shift) <= warmShift || splitF(ys, bestD) < warmF
	return w
}

// splitF returns the F statistic of two levels, before ys[d] and from ys[d] on, against one level.
func splitF(ys []float64, d int) float64 {
	if d == 0 {
		return 0
	}
	n, m := float64(len(ys)), mean(ys)
	a, b := mean(ys[:d]), mean(ys[d:])
	between := float64(d)*(a-m)*(a-m) + (n-float64(d))*(b-m)*(b-m)
	var total, square float64
	for _, y := range ys {
		total += (y - m) * (y - m)
		square += y * y
	}
	return between / math.Max((total-between)/(n-2), 1e-12*square)
}

type interval struct{ from, to, v float64 }

// intervals returns the intervals of a series. It omits values that are not finite, and intervals without a positive
// length.
func intervals(s iotax.Series) []interval {
	iv := make([]interval, 0, min(len(s.T), len(s.V)))
	from := 0.0
	// A part of a longer series does not start at 0. Assume that its first interval is as long as the second.
	if len(s.T) > 1 && s.T[0]-(s.T[1]-s.T[0]) > 1.5*(s.T[1]-s.T[0]) {
		from = s.T[0] - (s.T[1] - s.T[0])
	}
	for i := range min(len(s.T), len(s.V)) {
		t, v := s.T[i], s.V[i]
		if math.IsNaN(t) || math.IsInf(t, 0) || t <= from {
			continue
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			iv = append(iv, interval{from, t, v})
		}
		from = t
	}
	return iv
}

// meanOver returns the time-weighted mean of iv over [from, to].
func meanOver(iv []interval, from, to float64) float64 {
	var w, wv float64
	for _, v := range iv {
		if l := math.Min(v.to, to) - math.Max(v.from, from); l > 0 {
			w, wv = w+l, wv+l*v.v
		}
	}
	if w == 0 {
		return 0
	}
	return wv / w
}
