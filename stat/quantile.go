package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"iotax"
)

// TooFewBeyond is the error of QuantileRatio for trials that are too short for the quantile.
type TooFewBeyond struct {
	Quantile float64
	Have     int     // I/Os beyond the quantile in the trials of one side, if all rounds were like those with the fewest
	Need     int     // MinBeyond
	Longer   float64 // factor by which trials must be longer; +Inf without any I/O
}

func (e *TooFewBeyond) Error() string {
	s := fmt.Sprintf("too few I/Os beyond %s: the trials of one side have %d, and %d are needed", QuantileName(e.Quantile), e.Have, e.Need)
	if !math.IsInf(e.Longer, 1) {
		s += fmt.Sprintf(". Trials %.3g times as long have enough", math.Ceil(10*e.Longer)/10)
	}
	return s
}

// Hint returns a hint for trials of that length.
func (e *TooFewBeyond) Hint(trial time.Duration) string {
	if math.IsInf(e.Longer, 1) || trial <= 0 {
		return "use longer trials (`--trial`)"
	}
	return fmt.Sprintf("use longer trials (`--trial %v`), or a quantile with more I/Os beyond", time.Duration(math.Ceil(trial.Seconds()*e.Longer))*time.Second)
}

// QuantileName returns the name of a quantile: "p99.9" for 0.999.
func QuantileName(q float64) string { return "p" + strconv.FormatFloat(100*q, 'g', 6, 64) }

// QuantileRatio estimates the ratio of a quantile of a latency of a target to that of the baseline. The i-th histograms are
// those of the i-th round that counts, in the order of the rounds. The Effect is oriented like every other: 2 is half the
// latency.
//
// The evidence is one log ratio of quantiles a round, as for any value (Estimate), where each trial has MinBeyond I/Os beyond
// the quantile. Where trials have fewer, successive rounds are pooled: into as many groups of equal size as have MinBeyond I/Os
// beyond on both sides, but not into fewer than LeastTrials, with one log ratio of the quantiles of the merged histograms a
// group. These are the batches of the simulation of queues (Seila 1982, A batching approach to quantile estimation), made of
// whole rounds, so that I/Os that share a trial never count as replicates. N is the number of groups. Groups with fewer than
// MinBeyond I/Os beyond between them are refused with a *TooFewBeyond. Fewer than LeastTrials rounds have an estimate and no
// bounds.
//
// Nothing is assumed about the shape of the latencies, and within a trial they may be correlated in any way. The ratio is that
// of the geometric means of the groups' quantiles: where trials differ much (in moods, or in the stalls that they meet) it is
// not the ratio of the quantiles of all I/Os together, unless both sides differ in the same way.
//
// A quantile is interpolated in its bin as grouped data are, as far as the bin is a small part of the tail beyond. What the
// bins hide widens the interval on both ends (see logQuantile).
func QuantileRatio(baseline, target []iotax.Histogram, q float64, o Options) (Effect, error) {
	d, err := PairTails([2][]Tail{Tails(baseline, q), Tails(target, q)}, q, &o)
	if err != nil {
		return noEffect(len(d)), err
	}
	return Estimate(d, o)
}

// A Tail has the data of a trial for the ratio of a quantile.
type Tail struct {
	Log    float64 // logarithm of the quantile of the trial, even with fewer than MinBeyond I/Os beyond it; NaN if it is not positive
	Hidden float64 // see logQuantile
	N      float64 // I/Os
	Bins   []iotax.Bin
}

// TailOf returns the tail of a trial with these bins, in ascending order, which it keeps.
func TailOf(bins []iotax.Bin, q float64) (t Tail) {
	var n uint64
	for i := range bins {
		n += bins[i].Count
	}
	t.Bins, t.N = bins, float64(n)
	t.Log, t.Hidden = logQuantile([]Tail{t}, q)
	return t
}

// Alone reports whether the trial has MinBeyond I/Os beyond the quantile. If so on both sides in all rounds, no
// Bins are needed.
func (t *Tail) Alone(q float64) bool { return beyond(t.N, q) >= MinBeyond }

// Pool keeps the bins that the quantile of several trials together can depend on. least is the smallest Log of
// them. The I/Os below are added up in one bin.
func (t *Tail) Pool(bins []iotax.Bin, least float64) {
	from := math.Exp(least) * (1 - 4*HistogramError) // the quantile's bin, and a neighbour that its width depends on
	low := 0
	for low < len(bins) && bins[low].Value < from {
		low++
	}
	low = max(0, low-1)
	t.Bins = slices.Clone(bins[low:])
	for _, b := range bins[:low] {
		t.Bins[0].Count += b.Count
	}
}

// Tails returns the tails of trials.
func Tails(hs []iotax.Histogram, q float64) []Tail {
	out := make([]Tail, len(hs))
	for i, h := range hs {
		out[i] = TailOf(h.Bins, q)
	}
	return out
}

// beyond is how many of n I/Os are beyond the quantile, on the side of the nearer tail.
func beyond(n, q float64) float64 { return math.Min(1-q, q) * n * (1 + 1e-12) } // 0.1·1000 is 100

// PairTails returns the log ratios that QuantileRatio is estimated from, one a group of rounds. It sets o.Hidden. If the rounds
// have several starts (o.Starts) and are pooled, each start is a group: a mood of a start must not count as several. PairTails
// then clears o.Starts.
func PairTails(tails [2][]Tail, q float64, o *Options) (d []float64, err error) {
	baseline, target := tails[0], tails[1]
	if len(baseline) != len(target) {
		return nil, fmt.Errorf("pair rounds: %d trials of the baseline, %d of the target", len(baseline), len(target))
	}
	if !(q > 0 && q < 1) {
		return nil, fmt.Errorf("quantile %v is not between 0 and 1", q)
	}
	rounds := len(baseline)
	if rounds == 0 {
		return nil, errors.New("estimate ratio: no round has both the target and the baseline")
	}
	fewest := make([]float64, rounds) // beyond the quantile, on either side
	for i := range fewest {
		fewest[i] = beyond(math.Min(baseline[i].N, target[i].N), q)
	}
	groups, err := groupsOf(fewest, q, LeastTrials)
	if err != nil {
		return nil, err
	}
	bounds := make([]int, groups+1)
	for g := range bounds {
		bounds[g] = g * rounds / groups
	}
	if byStart := boundsOf(o.Starts); groups < rounds && len(byStart) > 2 {
		bounds = byStart
	}
	if len(bounds)-1 < rounds {
		o.Starts = nil
	}
	d, o.Hidden = make([]float64, len(bounds)-1), 0
	for g := range d {
		from, to := bounds[g], bounds[g+1]
		x, hx := together(baseline[from:to], q)
		y, hy := together(target[from:to], q)
		if d[g] = x - y; math.IsNaN(d[g]) {
			return nil, fmt.Errorf("%s is not positive in every round: a ratio needs positive numbers", QuantileName(q))
		}
		o.Hidden += (hx + hy) / float64(len(d))
	}
	return d, nil
}

// boundsOf returns where each start begins in the order of the rounds, and the number of rounds.
func boundsOf(starts []int) (bounds []int) {
	for i, s := range starts {
		if i == 0 || s != starts[i-1] {
			bounds = append(bounds, i)
		}
	}
	return append(bounds, len(starts))
}

// groupsOf is into how many groups of successive rounds trials are pooled that have so many I/Os beyond the quantile: each group has
// MinBeyond, or least groups have that together.
func groupsOf(beyond []float64, q float64, least int) (int, error) {
	groups := min(len(beyond), max(least, int(sum(beyond)/MinBeyond))) // no group of more would have as many as the mean
	for groups > least && smallest(beyond, groups) < MinBeyond {
		groups--
	}
	if have := smallest(beyond, groups) * float64(groups); have < MinBeyond {
		return 0, &TooFewBeyond{Quantile: q, Have: int(have), Need: MinBeyond, Longer: MinBeyond / have}
	}
	return groups, nil
}

// GroupQuantiles returns the quantile of each group of successive trials, pooled as for QuantileRatio, in at least
// least groups.
func GroupQuantiles(of []Tail, q float64, least int) ([]float64, error) {
	have := make([]float64, len(of))
	for i := range of {
		have[i] = beyond(of[i].N, q)
	}
	groups, err := groupsOf(have, q, least)
	values := make([]float64, groups)
	for g := range values {
		v, _ := together(of[g*len(of)/groups:(g+1)*len(of)/groups], q)
		values[g] = math.Exp(v)
	}
	return values, err
}

func together(of []Tail, q float64) (value, hidden float64) {
	if len(of) == 1 {
		return of[0].Log, of[0].Hidden
	}
	return logQuantile(of, q)
}

// smallest returns the smallest sum of groups of successive elements.
func smallest(xs []float64, groups int) float64 {
	least := math.Inf(1)
	for g := range groups {
		least = math.Min(least, sum(xs[g*len(xs)/groups:(g+1)*len(xs)/groups]))
	}
	return least
}

// logQuantile returns the logarithm of the q quantile of all I/Os of some trials, and its largest error, because
// I/Os are known by bin. It is NaN for a quantile that is not positive. Bins extend half way to their neighbours,
// but at most by HistogramError.
//
// If the distribution is wide compared with the bin, linear interpolation in the bin is nearly exact. Its rank,
// q·n, is Hazen's (Hyndman & Fan 1996, type 5), which is unbiased in an exponential tail. If the bin is a peak, as
// of a device that always takes the same time, the quantile may be anywhere in it: the result is the middle, and
// half the bin is hidden. A bin is a peak as far as the smaller of its neighbours has fewer observations, if it
// has at least a tenth of those beyond the quantile. Between the two everything is in proportion.
func logQuantile(of []Tail, q float64) (value, hidden float64) {
	rest, n := make([][]iotax.Bin, len(of)), 0.
	for i, t := range of {
		rest[i] = t.Bins
		n += t.N
	}
	// From the top of all histograms together, because a high quantile is near it.
	var up iotax.Bin
	bin, down, below := popLargest(rest), popLargest(rest), n
	for below -= float64(bin.Count); down.Count > 0 && below >= q*n; below -= float64(bin.Count) {
		up, bin, down = bin, down, popLargest(rest)
	}
	v, c := bin.Value, float64(bin.Count)
	if !(v > 0) || math.IsInf(v, 0) {
		return math.NaN(), 0
	}
	edge := [2]float64{v * (1 - HistogramError), v * (1 + HistogramError)}
	var beside [2]float64
	for side, b := range [2]iotax.Bin{down, up} {
		if half := (v + b.Value) / 2; b.Count > 0 && half >= edge[0] && half <= edge[1] {
			edge[side], beside[side] = half, float64(b.Count)
		}
	}
	peak := max(0, 1-min(beside[0], beside[1])/c) * min(1, 10*c/(n*min(q, 1-q)))
	at := (q*n-below)/c*(1-peak) + peak/2
	return math.Log(edge[0] + at*(edge[1]-edge[0])), peak * math.Log(edge[1]/edge[0]) / 2
}

// popLargest removes the bins of the largest value from rest, and returns their sum, or a bin with count 0 if all
// are removed.
func popLargest(rest [][]iotax.Bin) (top iotax.Bin) {
	for _, bins := range rest {
		if n := len(bins); n > 0 && (top.Count == 0 || bins[n-1].Value > top.Value) {
			top = bins[n-1]
		}
	}
	top.Count = 0
	for i, bins := range rest {
		if n := len(bins); n > 0 && bins[n-1].Value == top.Value {
			top.Count += bins[n-1].Count
			rest[i] = bins[:n-1]
		}
	}
	return top
}
