package stat

import (
	"cmp"
	"math"
	"slices"

	"iotax"
)

// MinBeyond is the minimum number of observations beyond a reported quantile.
const MinBeyond = 100

// HistogramError is the maximum relative error of a quantile from fio's json+ bins.
const HistogramError = 1.0 / 128

// Add returns the sum of `a` and `b`, histograms of the same quantity. Use it to compute a quantile over several trials,
// because percentiles of single trials must not be averaged. The bins of `a` must be in ascending order of their values.
// Add may modify these bins, so the caller must not use `a` afterwards.
func Add(a, b iotax.Histogram) iotax.Histogram {
	bins, sum := b.Bins, a.Bins
	for i := 1; i < len(bins); i++ {
		if !(bins[i-1].Value <= bins[i].Value) {
			bins = slices.Clone(bins)
			slices.SortStableFunc(bins, byValue)
			break
		}
	}
	var fresh []iotax.Bin
	j := 0
	for _, bin := range bins {
		for j < len(sum) && sum[j].Value < bin.Value {
			j++
		}
		if j < len(sum) && sum[j].Value == bin.Value {
			sum[j].Count += bin.Count
		} else if bin.Count > 0 {
			fresh = append(fresh, bin)
		}
	}
	if len(fresh) > 0 {
		a.Bins = addBins(make([]iotax.Bin, 0, len(sum)+len(fresh)), sum, fresh)
	}
	return a
}

func byValue(a, b iotax.Bin) int { return cmp.Compare(a.Value, b.Value) }

// addBins appends the sum of the sorted bins a and b to `to`. It omits empty bins.
func addBins(to, a, b []iotax.Bin) []iotax.Bin {
	for len(a) > 0 || len(b) > 0 {
		var bin iotax.Bin
		if len(b) == 0 || len(a) > 0 && byValue(a[0], b[0]) <= 0 {
			bin, a = a[0], a[1:]
		} else {
			bin, b = b[0], b[1:]
		}
		if n := len(to); n > 0 && to[n-1].Value == bin.Value {
			to[n-1].Count += bin.Count
		} else if bin.Count > 0 {
			to = append(to, bin)
		}
	}
	return to
}

// Quantile returns the q quantile of a histogram by nearest rank: the smallest value with at least q·n observations at
// or below it (Hyndman & Fan 1996, type 1). The bins must be in ascending order. ok reports whether at least MinBeyond
// observations are beyond that rank, in the nearer tail. The value is NaN if the histogram is empty or q is outside [0,
// 1].
func Quantile(h iotax.Histogram, q float64) (value float64, ok bool) {
	n, rank := rankOf(h, q)
	if rank == 0 {
		return math.NaN(), false
	}
	var seen uint64
	for _, b := range h.Bins {
		if seen += b.Count; seen >= rank {
			return b.Value, min(n-rank, rank) >= MinBeyond
		}
	}
	return math.NaN(), false
}

// Beyond returns the number of observations beyond the q quantile, in the nearer tail. It returns 0 if the histogram is
// empty or q is outside [0, 1].
func Beyond(h iotax.Histogram, q float64) int {
	n, rank := rankOf(h, q)
	return int(min(n-rank, rank))
}

// rankOf returns the number of observations and the rank of the q quantile, from 1. It returns 0, 0 if the histogram is
// empty or q is outside [0, 1].
func rankOf(h iotax.Histogram, q float64) (n, rank uint64) {
	for _, b := range h.Bins {
		n += b.Count
	}
	if n == 0 || !(q >= 0 && q <= 1) {
		return 0, 0
	}
	// The factor compensates for rounding, as the quotient 99.9/100 is slightly above 0.999.
	return n, max(1, uint64(math.Ceil(q*float64(n)*(1-1e-12))))
}

// A Flow is one type of I/O: its rate in 1/s and its mean latency in seconds.
type Flow struct {
	Rate, Latency float64
}

// Little returns the mean number of I/Os in flight, Σ rate × latency (Little 1961). This is the queue depth that
// was reached. It is NaN if a rate or latency is NaN, infinite or negative.
func Little(flows ...Flow) float64 {
	var depth float64
	for _, f := range flows {
		if !(f.Rate >= 0 && f.Latency >= 0) {
			return math.NaN()
		}
		depth += f.Rate * f.Latency
	}
	if math.IsInf(depth, 0) {
		return math.NaN()
	}
	return depth
}
