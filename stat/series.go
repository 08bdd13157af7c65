package stat

import (
	"math"

	"iotax"
)

// Limits of SNIA's Solid State Storage Performance Test Specification 2.0.2, and of the flags beside
// it.
const (
	SteadyRange   = 0.20 // range of the sub-window means over their mean
	SteadySlope   = 0.10 // excursion of the best-fit line over their mean
	SteadyWindows = 5
	StepSize      = 0.10 // least relative size of a throttle step
	StepLength    = 3.0  // seconds that each side of a step lasts at least
)

// A Steady says whether a trial was in steady state over its measured window.
type Steady struct {
	Reached bool
	Enough  bool      // the series is long enough to tell; Reached is false otherwise
	Range   float64   // (largest − smallest sub-window mean) / mean
	Slope   float64   // |rise of the best-fit line from the first to the last sub-window| / mean
	Means   []float64 // of the sub-windows, in order
}

// SteadyState applies SNIA's criterion to a per-second series: of five equal sub-windows, the means
// range over at most 20 % of their mean, and the least-squares line through them rises or falls by at most 10 % of it
// (SNIA SSS PTS 2.0.2, definition of steady state, with sub-windows in place of rounds). Sub-window
// means are weighted by time, so that fio's uneven last interval does no harm. A series needs at
// least five intervals and a positive mean.
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
	// Rounding must not fail a series that lies on the limit.
	st.Reached = st.Range <= SteadyRange*(1+1e-9) && st.Slope <= SteadySlope*(1+1e-9)
	return st
}

// A Step is the best split of a series into two levels.
type Step struct {
	Found         bool
	At            float64 // seconds after the start of the window
	Before, After float64 // mean levels
	Size          float64 // After/Before − 1
	F             float64 // F statistic of two levels against one
}

// stepF is the least F statistic of a step. The split is chosen to make F large, so Fisher's tables
// do not apply; the asymptotic 1 % value for a break at an unknown time is 12.2 (Andrews 1993, table
// I, 15 % trimmed). Twice that keeps false alarms near 1 % for windows of ten seconds too, and the
// seconds of a trial are not independent.
const stepF = 25

// ThrottleStep looks for a change of level that lasts: burst credit used up, a thermal limit. It
// splits the series where two levels fit best (least squares), and reports a step when each side lasts
// at least 3 s, the levels differ by at least 10 % of the first, and the split explains far more than
// noise would (see F).
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

// Stalls are the intervals of a series in which nothing was done.
type Stalls struct {
	Count   int     // runs of such intervals
	Seconds float64 // together
	Longest float64 // seconds of the longest run
	First   float64 // start of the first, seconds after the start of the window
}

// FindStalls finds the intervals whose value is zero or less.
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

// A WarmUp says how much of the start of a series is unlike the rest.
type WarmUp struct {
	Enough bool    // the series is long enough to tell
	Cut    float64 // seconds to cut from the start
	Shift  float64 // mean after the cut over mean of all, − 1
	Over   bool    // the warm-up ended within the first half, or there was none to speak of
}

// minBatches is the least number of batches that MSER is tried on; the same number at the end may not
// be cut, since the statistic is erratic there.
const minBatches = 5

// warmShift is how much cutting must change the mean before a late cut means anything: on steady
// noise the minimum of the statistic falls anywhere.
const warmShift = 0.05

// warmF is the least F statistic of the two sides of a late cut: the 1 % value for a break at an
// unknown time (Andrews 1993, table I).
const warmF = 12.2

// MSER5 finds the warm-up by the marginal standard error rule (White, Cobb & Spratt 2000): over
// batches of five values, the cut d that minimises Σ(y−ȳ)²/(n−d)² of what remains. A cut beyond the
// first half says that the trial never settled (Over is false), if the mean shifts by more than 5 %
// and the two sides differ by more than noise would let them. Series of fewer than 50 values use smaller batches, so that ten remain; fewer than ten values
// say nothing.
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
	// From the end, so that each cut costs one step.
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

// splitF is the F statistic of two levels, before and from ys[d], against one.
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

// intervals drops what cannot be placed in time: NaN, and intervals of no length.
func intervals(s iotax.Series) []interval {
	iv := make([]interval, 0, min(len(s.T), len(s.V)))
	from := 0.0
	// A series that was cut out of a longer one does not start at 0; its first interval is taken to be
	// as long as its second.
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

// meanOver is the time-weighted mean of what iv covers of [from, to].
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
