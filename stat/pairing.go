package stat

import (
	"cmp"
	"math"
	"slices"

	"iotax"
)

// A Pairing collects the trials of one workload in any order. It keeps only the data that its methods need, so that a
// run with thousands of rounds can compute its pairs after each round.
type Pairing struct {
	Metric   string // the metric to pair
	SetAside bool   // omit rounds with a trial that the function SetAside would discard

	quantile float64 // quantile of the histograms; 0 if the metric is not a quantile
	of       string  // name of the histograms

	targets []string
	better  []iotax.Better // better direction of the values of each target
	kept    []kept
}

type kept struct {
	value  float64 // NaN if the trial has no value
	tail   *Tail   // nil unless the metric is a quantile and the trial has its histogram
	round  int
	target int32
	start  int16
	marks  mark
}

type mark uint8

const (
	measured mark = 1 << iota // the trial did not fail, and has the value or the histogram
	usable                    // the trial neither failed nor was discarded
	invalid                   // the trial is usable, but a finding of severity Invalid makes its value invalid
	discarded
)

// Add adds a trial. It does not retain t.
func (p *Pairing) Add(t *iotax.Trial) {
	if p.targets == nil {
		p.of, p.quantile, _ = iotax.Quantile(p.Metric)
	}
	i := slices.Index(p.targets, t.Target)
	if i < 0 {
		i = len(p.targets)
		p.targets, p.better = append(p.targets, t.Target), append(p.better, "")
	}
	k := kept{value: math.NaN(), round: t.Round, start: int16(t.StartIndex), target: int32(i)}
	if t.Discarded != "" {
		k.marks = discarded
	} else if t.Err == "" {
		k.marks = usable
		if _, wrong := errorOf(t); wrong {
			k.marks |= invalid
		}
	}
	if v, ok := t.Value(p.Metric); ok && t.Err == "" {
		k.value, p.better[i] = v.Value, v.Better
		k.marks |= measured
	}
	for _, h := range t.Histograms {
		if p.quantile > 0 && h.Name == p.of && t.Err == "" && len(h.Bins) > 0 {
			tail := TailOf(slices.Clone(h.Bins), p.quantile)
			k.tail, p.better[i] = &tail, iotax.Down
			k.marks |= measured
		}
	}
	p.kept = append(p.kept, k)
}

// Measured reports whether any successful trial of the target has the metric.
func (p *Pairing) Measured(target string) bool {
	i := slices.Index(p.targets, target)
	return slices.ContainsFunc(p.kept, func(k kept) bool { return int(k.target) == i && k.marks&measured != 0 })
}

// Pairs returns the values for the baseline and the target, like the function Pairs.
func (p *Pairing) Pairs(baseline, target string) (base, other []float64, better iotax.Better) {
	values, _, _, better := p.Sides(baseline, target)
	return values[0], values[1], better
}

// Sides returns the values of Pairs and the start of each pair. If the metric is a quantile, it also returns the tails
// of the trials that have the histogram. The tails correspond to the values only if all of these trials have it. values
// and tails have the baseline at index 0 and the target at index 1.
func (p *Pairing) Sides(baseline, target string) (values [2][]float64, tails [2][]Tail, starts []int, better iotax.Better) {
	pairs, better := p.pairs(baseline, target)
	for _, pair := range pairs {
		starts = append(starts, int(pair[1].start))
		for side, k := range pair {
			values[side] = append(values[side], k.value)
			if k.tail != nil {
				tails[side] = append(tails[side], *k.tail)
			}
		}
	}
	return values, tails, starts, better
}

// Interval returns the interval of the ratio of the target to the baseline, and the number of valid rounds. It
// computes the interval from PairTails for a quantile of histograms, and like Ratio otherwise.
func (p *Pairing) Interval(baseline, target string, o Options) (i Interval, rounds int, err error) {
	d, rounds, err := p.logRatios(baseline, target, &o)
	if err != nil {
		return none(rounds), rounds, err
	}
	i, err = Hull(d, o)
	return i, rounds, err
}

// LogRatios returns the log ratios of the target to the baseline, one for each valid round. If it pools rounds for a
// quantile, it returns one for each group of rounds (see PairTails).
func (p *Pairing) LogRatios(baseline, target string) (d []float64, err error) {
	d, _, err = p.logRatios(baseline, target, &Options{})
	return d, err
}

func (p *Pairing) logRatios(baseline, target string, o *Options) (d []float64, rounds int, err error) {
	values, tails, starts, better := p.Sides(baseline, target)
	o.Starts = starts
	d, err = LogRatios(values, tails, p.quantile, better, o)
	return d, len(values[0]), err
}

// LogRatios returns the log ratios of a metric, from the values of the baseline and the target in the same rounds.
// o.Starts contains the start of each round, or is empty. If the metric is a quantile and all rounds have tails,
// LogRatios returns the result of PairTails, which sets o.Hidden and may pool rounds and clear o.Starts. Without tails,
// the values of a quantile are the values of bins, so LogRatios sets o.Hidden to the maximum error of both sides.
func LogRatios(values [2][]float64, tails [2][]Tail, quantile float64, better iotax.Better, o *Options) (d []float64, err error) {
	if quantile > 0 && quantile < 1 { // iotax.Quantile also returns 5 for a name with .p500
		if n := len(values[0]); n > 0 && len(tails[0]) == n && len(tails[1]) == n {
			return PairTails(tails, quantile, o)
		}
		o.Hidden = 2 * HistogramError
	}
	return Pair(values[0], values[1], better)
}

func (p *Pairing) pairs(baseline, target string) (pairs [][2]*kept, better iotax.Better) {
	b, t := slices.Index(p.targets, baseline), slices.Index(p.targets, target)
	if t >= 0 {
		better = p.better[t]
	}
	good, bad := make([]int, len(p.targets)), make([]int, len(p.targets))
	for _, k := range p.kept {
		if k.marks&usable != 0 {
			good[k.target]++
		}
		if k.marks&invalid != 0 {
			bad[k.target]++
		}
	}
	if ascending := func(a, b kept) int { return cmp.Compare(a.round, b.round) }; !slices.IsSortedFunc(p.kept, ascending) {
		slices.SortStableFunc(p.kept, ascending)
	}
	for i := 0; i < len(p.kept); {
		round, skip, pair := p.kept[i].round, false, [2]*kept{}
		for ; i < len(p.kept) && p.kept[i].round == round; i++ {
			k := &p.kept[i]
			skip = skip || k.marks&discarded != 0 || p.SetAside && k.marks&invalid != 0 && few(bad[k.target], good[k.target])
			if k.marks&measured != 0 && int(k.target) == b {
				pair[0] = k
			}
			if k.marks&measured != 0 && int(k.target) == t {
				pair[1] = k
			}
		}
		if !skip && pair[0] != nil && pair[1] != nil {
			pairs = append(pairs, pair)
		}
	}
	return pairs, better
}

// Pairs returns the values of metric for the baseline and the target under a workload, one pair for each valid
// round, in order. It also returns which direction of the metric is better. A round is valid if both trials
// succeeded and have the metric, and no trial of the round, on any target, is discarded.
func Pairs(trials []*iotax.Trial, workload, metric, baseline, target string) (base, other []float64, better iotax.Better) {
	p := Pairing{Metric: metric}
	for _, t := range trials {
		if t.Workload == workload && (t.Target == baseline || t.Target == target || t.Discarded != "") {
			p.Add(t)
		}
	}
	return p.Pairs(baseline, target)
}
