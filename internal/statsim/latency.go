package statsim

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// A shape is the distribution of the log latencies of a trial's I/Os around the trial's level.
type shape struct {
	modes []mode
	// In a stall, many successive I/Os are slow. The number of stalls per trial has a Poisson distribution with the
	// mean `stalls`. The share of the I/Os in each stall has an exponential distribution with the mean `stallShare`.
	// stalled is the distribution of latencies in a stall.
	stalls, stallShare float64
	stalled            mode

	alpha float64 // if above 0: Pareto distribution instead of modes
}

// A mode is a lognormal part of a shape: its share of the I/Os, and the mean and standard deviation of their log
// latencies.
type mode struct{ share, at, sd float64 }

// above returns the share of I/Os whose log latency is above x. stalled is the share of I/Os in stalls. slower
// shifts all modes except the first.
func (s *shape) above(x, stalled, slower float64) float64 {
	if s.alpha > 0 {
		return math.Exp(-s.alpha * max(x, 0))
	}
	var p float64
	for i, m := range s.modes {
		at := m.at
		if i > 0 {
			at += slower
		}
		p += (1 - stalled) * m.share * survival((x-at)/m.sd)
	}
	if stalled > 0 {
		p += stalled * survival((x-s.stalled.at)/s.stalled.sd)
	}
	return p
}

// survival returns the upper tail probability of the normal distribution. It interpolates for speed.
func survival(z float64) float64 {
	const steps = 256
	switch i := (z + normalEnd) * steps; {
	case i < 0:
		return 1
	case i >= 2*normalEnd*steps:
		return 0
	default:
		a, f := survivals[int(i)], i-math.Floor(i)
		return a + f*(survivals[int(i)+1]-a)
	}
}

const normalEnd = 9

var survivals = func() (t [2*normalEnd*256 + 1]float64) {
	for i := range t {
		t[i] = math.Erfc((float64(i)/256-normalEnd)/math.Sqrt2) / 2
	}
	return t
}()

// quantile returns the logarithm of the q quantile without stalls.
func (s *shape) quantile(q, slower float64) float64 {
	lo, hi := -10.0, 20.0
	for range 60 {
		if mid := (lo + hi) / 2; s.above(mid, 0, slower) > 1-q {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// window returns the range around the q quantile in which draw counts I/Os in separate bins, as logarithms relative to
// the trial's level.
func (s *shape) window(q, slower float64) (from, to float64) {
	from, to = s.quantile(1-min(5*(1-q), .98), slower), s.quantile(1-(1-q)/25, slower)
	if s.stalls > 0 {
		to = max(to, s.stalled.at+3*s.stalled.sd)
	}
	return from, to
}

// fioBins contains fio's bins from 128 ns on, 64 per power of two: the logarithms of their lower bounds in
// nanoseconds, and their values in seconds.
var fioBins = func() (b struct{ edges, values [64 * 40]float64 }) {
	lower := func(i int) float64 { return math.Ldexp(1+float64(i%64)/64, 7+i/64) }
	for i := range b.edges {
		b.edges[i], b.values[i] = math.Log(lower(i)), (lower(i)+lower(i+1))/2e9
	}
	return b
}()

// level returns the logarithm of the baseline's typical latency in nanoseconds, from 100 to 200 µs. It differs between
// studies, so that latencies occur at all positions within the bins.
func (w *work) level() float64 { return math.Log(100e3) + math.Ln2*w.octave }

// draw adds the histogram of a trial of arm a whose log rate is v. The load is a closed loop, so a slower trial does
// fewer I/Os, except on the target of a model with SlowOnly. The I/Os below the window around the quantile are counted
// in one bin, and those above it in another.
func (w *work) draw(a int, v float64) {
	s, slower := w.m.shape(a), 0.0
	ios := w.ios * math.Exp(v)
	if a == 1 && w.m.SlowOnly {
		v, slower = v-w.lnRho, -w.lnRho
		ios = w.ios
	}
	var stalled float64
	if s.stalls > 0 {
		for at := w.r.ExpFloat64(); at < s.stalls; at += w.r.ExpFloat64() {
			stalled += s.stallShare * w.r.ExpFloat64()
		}
		stalled = min(stalled, .5)
	}
	if len(w.histograms[a]) == 0 {
		w.windows[a][0], w.windows[a][1] = s.window(w.quantile, slower)
	}
	hs := w.histograms[a]
	var bins []iotax.Bin
	if len(hs) < cap(hs) {
		bins = hs[:len(hs)+1][len(hs)].Bins[:0]
	}
	gap := w.r.ExpFloat64() // distance to the next event of a Poisson process with rate 1
	count := func(i int, mean float64) {
		var n uint64
		if mean >= 10 {
			n = uint64(distuv.Poisson{Lambda: mean, Src: &w.src}.Rand())
		} else {
			for ; gap < mean; gap += w.r.ExpFloat64() {
				n++
			}
			gap -= mean
		}
		if n > 0 {
			bins = append(bins, iotax.Bin{Value: fioBins.values[i], Count: n})
		}
	}
	at := w.level() - v // level of the trial
	first := sort.SearchFloat64s(fioBins.edges[:], at+w.windows[a][0]) - 2
	last := first + int((w.windows[a][1]-w.windows[a][0])*64/math.Ln2) + 4
	left := ios * s.above(fioBins.edges[first]-at, stalled, slower)
	count(first-1, ios-left)
	for i := first; i < last; i++ {
		next := ios * s.above(fioBins.edges[i+1]-at, stalled, slower)
		count(i, left-next)
		left = next
	}
	count(last, left)
	w.histograms[a] = append(hs, iotax.Histogram{Bins: bins})
}
