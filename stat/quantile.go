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

// TooFewBeyond reports that trials are too short for a quantile.
type TooFewBeyond struct {
	Quantile float64
	Have     int     // I/Os beyond the quantile in the trials of one side, extrapolated from the group of rounds with the fewest
	Need     int     // MinBeyond
	Longer   float64 // factor by which trials must be longer; +Inf if a group has no I/Os
}

func (e *TooFewBeyond) Error() string {
	s := fmt.Sprintf("too few I/Os beyond %s: the trials of one side have %d, and %d are needed", QuantileName(e.Quantile), e.Have, e.Need)
	if !math.IsInf(e.Longer, 1) {
		s += fmt.Sprintf(". Trials %.3g times as long have enough", math.Ceil(10*e.Longer)/10)
	}
	return s
}

// Hint returns a hint for the user. trial is the current trial length, or 0 if it is unknown.
func (e *TooFewBeyond) Hint(trial time.Duration) string {
	if math.IsInf(e.Longer, 1) || trial <= 0 {
		return "use longer trials (`--trial`)"
	}
	return fmt.Sprintf("use longer trials (`--trial %v`), or a quantile with more I/Os beyond", time.Duration(math.Ceil(trial.Seconds()*e.Longer))*time.Second)
}

// QuantileName returns the name of a quantile: "p99.9" for 0.999.
func QuantileName(q float64) string { return "p" + strconv.FormatFloat(100*q, 'g', 6, 64) }

// A Tail contains the data of a trial for the ratio of a quantile.
type Tail struct {
	Log    float64 // logarithm of the quantile of the trial, even with fewer than MinBeyond I/Os beyond it; NaN if the quantile is not positive
	Hidden float64 // maximum error of Log
	N      float64 // number of I/Os
	Bins   []iotax.Bin
}

// TailOf returns the tail of a trial with these bins, which must be in ascending order. The tail refers to the bins.
func TailOf(bins []iotax.Bin, q float64) (t Tail) {
	var n uint64
	for i := range bins {
		n += bins[i].Count
	}
	t.Bins, t.N = bins, float64(n)
	t.Log, t.Hidden = logQuantile([]Tail{t}, q)
	return t
}

// Alone reports whether the trial has MinBeyond I/Os beyond the quantile. If this is true for the baseline and the
// target in all rounds, Bins are not needed.
func (t *Tail) Alone(q float64) bool { return beyond(t.N, q) >= MinBeyond }

// Pool sets t.Bins to a copy of the bins that can affect the quantile of several trials together. least is the
// smallest Log of these trials. The first bin of the copy also counts the I/Os in all lower bins.
func (t *Tail) Pool(bins []iotax.Bin, least float64) {
	// The bins with at least this value include the bin of the quantile and the neighbour that determines its width.
	from := math.Exp(least) * (1 - 4*HistogramError)
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

func Tails(hs []iotax.Histogram, q float64) []Tail {
	out := make([]Tail, len(hs))
	for i, h := range hs {
		out[i] = TailOf(h.Bins, q)
	}
	return out
}

// beyond returns how many of n I/Os are beyond the quantile, in the nearer tail.
func beyond(n, q float64) float64 { return math.Min(1-q, q) * n * (1 + 1e-12) } // the factor makes 0.1·1000 exactly 100

// PairTails returns the log ratios between a latency quantile of a target and of the baseline, for Estimate. They are
// oriented: a positive one means that the target has the smaller latency. tails contains the baseline at index 0 and the
// target at index 1, one tail for each valid round.
//
// If each trial has MinBeyond I/Os beyond the quantile, PairTails returns one log ratio per round. Otherwise it pools
// successive rounds into groups of about equal size, and clears o.Starts. It forms as many groups as possible in which
// both sides have MinBeyond I/Os beyond the quantile, but at least LeastTrials groups. With several starts (o.Starts), it
// pools successive starts instead, because the state of one start must not count several times. Each group contributes
// one log ratio of the quantiles of the merged histograms, as a batch of a queueing simulation does (Seila 1982, A
// batching approach to quantile estimation). PairTails returns a *TooFewBeyond if the number of groups times the
// smallest number of I/Os beyond the quantile in a group is less than MinBeyond.
//
// Latencies within a trial may have any distribution and correlation. The mean of the log ratios is the log ratio of the
// geometric means of the groups' quantiles. If trials differ much (in their state, or in the number of stalls), this is
// not the log ratio of the quantiles of all I/Os together, unless the trials of both sides differ in the same way.
//
// PairTails sets o.Hidden to the mean error from the unknown position of the quantiles within their bins (see
// logQuantile).
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
	fewest := make([]float64, rounds) // I/Os beyond the quantile, on the side with fewer
	for i := range fewest {
		fewest[i] = beyond(math.Min(baseline[i].N, target[i].N), q)
	}
	bounds, err := pool(fewest, q, LeastTrials, o.Starts)
	if err != nil {
		return nil, err
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

// pool returns the index of the first round of each group of groupsOf, and the number of rounds. If several rounds are
// pooled and there are several starts, groups consist of whole starts. It modifies `beyond`.
func pool(beyond []float64, q float64, least int, starts []int) ([]int, error) {
	bounds := make([]int, len(beyond)+1) // of the units to pool: rounds, or starts if there are several
	for i := range bounds {
		bounds[i] = i
	}
	groups, err := groupsOf(beyond, q, least)
	if byStart := boundsOf(starts); len(byStart) > 2 && groups < len(beyond) {
		bounds = byStart
		for s := range len(bounds) - 1 {
			beyond[s] = sum(beyond[bounds[s]:bounds[s+1]])
		}
		groups, err = groupsOf(beyond[:len(bounds)-1], q, least)
	}
	if err != nil {
		return nil, err
	}
	units := len(bounds) - 1
	for g := range groups + 1 {
		bounds[g] = bounds[g*units/groups]
	}
	return bounds[:groups+1], nil
}

// boundsOf returns the index of the first round of each start, and the number of rounds.
func boundsOf(starts []int) (bounds []int) {
	for i, s := range starts {
		if i == 0 || s != starts[i-1] {
			bounds = append(bounds, i)
		}
	}
	return append(bounds, len(starts))
}

// groupsOf returns the number of groups of successive rounds for pooling. `beyond` contains, for each round, the number
// of I/Os beyond the quantile. If possible, each group has at least MinBeyond of them. Otherwise there are `least`
// groups, or one per round if there are fewer rounds. groupsOf returns a *TooFewBeyond if the number of groups times
// the I/Os beyond the quantile in the smallest group is less than MinBeyond.
func groupsOf(beyond []float64, q float64, least int) (int, error) {
	groups := min(len(beyond), max(least, int(sum(beyond)/MinBeyond))) // more groups would have a mean below MinBeyond
	for groups > least && smallest(beyond, groups) < MinBeyond {
		groups--
	}
	if have := smallest(beyond, groups) * float64(groups); have < MinBeyond {
		return 0, &TooFewBeyond{Quantile: q, Have: int(have), Need: MinBeyond, Longer: MinBeyond / have}
	}
	return groups, nil
}

// GroupQuantiles returns the quantile of each group of successive trials. It forms at least `least` groups, or one per
// trial if there are fewer trials. With several starts, it pools whole starts, so there are at most as many groups.
func GroupQuantiles(of []Tail, q float64, least int, starts []int) ([]float64, error) {
	have := make([]float64, len(of))
	for i := range of {
		have[i] = beyond(of[i].N, q)
	}
	bounds, err := pool(have, q, least, starts)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(bounds)-1)
	for g := range values {
		v, _ := together(of[bounds[g]:bounds[g+1]], q)
		values[g] = math.Exp(v)
	}
	return values, nil
}

func together(of []Tail, q float64) (value, hidden float64) {
	if len(of) == 1 {
		return of[0].Log, of[0].Hidden
	}
	return logQuantile(of, q)
}

// smallest divides xs into groups of successive elements and returns the smallest sum of a group.
func smallest(xs []float64, groups int) float64 {
	least := math.Inf(1)
	for g := range groups {
		least = math.Min(least, sum(xs[g*len(xs)/groups:(g+1)*len(xs)/groups]))
	}
	return least
}

// logQuantile returns the logarithm of the q quantile of all I/Os of some trials, and its maximum error. The logarithm
// has an error because histograms record only the bin of each I/O. value is NaN if the quantile is not positive. Bins
// extend halfway to their neighbours, but at most by HistogramError.
//
// If the distribution is wide compared with the bin, linear interpolation within the bin is nearly exact. It uses the
// rank q·n (Hazen; Hyndman & Fan 1996, type 5), which is unbiased in an exponential tail. If the bin is a peak (a
// device that always takes the same time), the quantile may be anywhere in the bin. The value is then the middle of the
// bin, and hidden is half its width. The variable peak, from 0 to 1, interpolates between the two cases.
func logQuantile(of []Tail, q float64) (value, hidden float64) {
	rest, n := make([][]iotax.Bin, len(of)), 0.
	for i, t := range of {
		rest[i] = t.Bins
		n += t.N
	}
	// Start at the top of all histograms together, because a high quantile is near it.
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

// popLargest removes the bins with the largest value from rest, and returns their sum. If rest has no bins left, it
// returns a bin with count 0.
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
