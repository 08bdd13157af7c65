package stat

import (
	"math"
	"slices"

	"iotax"
)

// AboveBounds contains the latency limits, in seconds, for Stalled.Above.
var AboveBounds = []float64{0.01, 0.1, 1}

const (
	stallTimes  = 10   // minimum latency of a stall, in multiples of the median latency
	browned     = 0.9  // an interval is a stall if slow I/Os are at least this share of its I/Os, and their latencies add up to at least this share of its length
	brownBound  = 0.1  // s; minimum latency of the slow I/Os in such an interval
	nearby      = 1.05 // maximum distance of a periodic stall from its expected time, in median interval lengths; above 1 because lengths vary slightly
	chanceStall = 0.05 // maximum probability that stalls at random times look periodic
)

// Stalled describes the stalls in the latencies of a trial.
type Stalled struct {
	Longest float64   // s: the longest latency or, if longer, the longest time in which nearly all I/Os were stalled
	Period  float64   // s from one stall to the next if they recur regularly, or 0
	Above   []float64 // for each bound in AboveBounds, the share of the sum of all latencies that comes from I/Os above the bound
}

// StalledIn finds stalls in the intervals of one histogram. The intervals must be in time order.
//
// For the period, a stall is an interval with a latency of at least half the longest latency and at least ten times the
// median. Adjacent intervals are one stall. Three or more stalls are periodic if each one is within 1.05 intervals of
// its expected time between the first and the last, and if stalls at random times would be that regular with a
// probability of at most 5 %. For n stalls, that probability is (n−2)! (2.1·length/span)^(n−2), where length is the
// median length of an interval, and span is the time from the first to the last stall.
func StalledIn(intervals []iotax.Interval) Stalled {
	out := Stalled{Above: make([]float64, len(AboveBounds))}
	var all []iotax.Bin
	total, lengths := 0.0, []float64(nil)
	for _, i := range intervals {
		lengths, all = append(lengths, i.To-i.From), append(all, i.Bins...)
		for _, b := range i.Bins {
			waited := b.Value * float64(b.Count)
			total, out.Longest = total+waited, max(out.Longest, b.Value)
			for k, bound := range AboveBounds {
				if b.Value > bound {
					out.Above[k] += waited
				}
			}
		}
	}
	if total == 0 {
		return out
	}
	for k := range out.Above {
		out.Above[k] /= total
	}
	slices.SortFunc(all, func(a, b iotax.Bin) int { return int(math.Copysign(1, a.Value-b.Value)) })
	least := stallTimes * medianOf(all)
	at := stallsAbove(intervals, max(least, out.Longest/2))
	length := Median(lengths).Estimate
	if n := len(at); n > 2 {
		span, even := at[n-1]-at[0], true
		for i, x := range at {
			even = even && math.Abs(x-at[0]-span*float64(i)/float64(n-1)) <= nearby*length
		}
		ways, _ := math.Lgamma(float64(n - 1))
		if even && ways+float64(n-2)*math.Log(2*nearby*length/span) <= math.Log(chanceStall) {
			out.Period = span / float64(n-1)
		}
	}
	out.Longest = max(out.Longest, brownout(intervals, max(least, brownBound)))
	return out
}

// medianOf returns the median of sorted bins.
func medianOf(bins []iotax.Bin) float64 {
	total, sum := uint64(0), uint64(0)
	for _, b := range bins {
		total += b.Count
	}
	for _, b := range bins {
		if sum += b.Count; 2*sum >= total {
			return b.Value
		}
	}
	return math.NaN()
}

// stallsAbove returns the start times of the intervals with a latency of at least `least`. It treats adjacent
// intervals as one stall.
func stallsAbove(intervals []iotax.Interval, least float64) (at []float64) {
	last := math.Inf(-1)
	for _, i := range intervals {
		if n := len(i.Bins); n > 0 && i.Bins[n-1].Value >= least {
			if i.From != last {
				at = append(at, i.From)
			}
			last = i.To
		}
	}
	return at
}

// brownout returns the length of the longest period in which nearly all I/Os took longer than bound and at least one
// I/O was in flight. It includes a gap between two intervals if an I/O of the second interval took at least as long as
// the gap.
func brownout(intervals []iotax.Interval, bound float64) (longest float64) {
	run, last := 0.0, 0.0
	for _, i := range intervals {
		count, slow, waited, most := uint64(0), uint64(0), 0.0, 0.0
		for _, b := range i.Bins {
			if count, most = count+b.Count, b.Value; b.Value > bound {
				slow, waited = slow+b.Count, waited+b.Value*float64(b.Count)
			}
		}
		if gap := i.From - last; run > 0 && gap <= most {
			run += gap
		} else {
			run = 0
		}
		if float64(slow) >= browned*float64(count) && waited >= browned*(i.To-i.From) {
			run += i.To - i.From
		} else {
			run = 0
		}
		last, longest = i.To, max(longest, run)
	}
	return longest
}
