package stat

import (
	"cmp"
	"slices"

	"iotax"
)

// A Pairing takes the trials of one workload as they come and keeps of each only what Pairs needs, 24 bytes: a run
// that goes on for thousands of rounds asks for its pairs after each. The trials may come in any order.
type Pairing struct {
	Metric   string // whose values are paired
	SetAside bool   // leave out the rounds that SetAside makes discarded

	targets []string
	better  []iotax.Better // of the values of each target
	kept    []kept
}

// kept is what is kept of a trial.
type kept struct {
	value  float64
	round  int
	target int32
	marks  mark
}

type mark uint8

const (
	measured  mark = 1 << iota // the value is there
	valid                      // it neither failed nor is discarded
	condemned                  // it is valid, with an error beside the value
	discarded
)

// Add takes a trial, which it does not hold on to.
func (p *Pairing) Add(t *iotax.Trial) {
	i := slices.Index(p.targets, t.Target)
	if i < 0 {
		i = len(p.targets)
		p.targets, p.better = append(p.targets, t.Target), append(p.better, "")
	}
	k := kept{round: t.Round, target: int32(i)}
	if t.Discarded != "" {
		k.marks = discarded
	} else if t.Err == "" {
		k.marks = valid
		if _, wrong := errorOf(t); wrong {
			k.marks |= condemned
		}
	}
	if v, ok := t.Value(p.Metric); ok && t.Err == "" {
		k.value, p.better[i] = v.Value, v.Better
		k.marks |= measured
	}
	p.kept = append(p.kept, k)
}

// Pairs returns the values for the baseline and for the target as the function Pairs does.
func (p *Pairing) Pairs(baseline, target string) (base, other []float64, better iotax.Better) {
	b, t := slices.Index(p.targets, baseline), slices.Index(p.targets, target)
	if t >= 0 {
		better = p.better[t]
	}
	good, bad := make([]int, len(p.targets)), make([]int, len(p.targets))
	for _, k := range p.kept {
		if k.marks&valid != 0 {
			good[k.target]++
		}
		if k.marks&condemned != 0 {
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
			skip = skip || k.marks&discarded != 0 || p.SetAside && k.marks&condemned != 0 && few(bad[k.target], good[k.target])
			if k.marks&measured != 0 && int(k.target) == b {
				pair[0] = k
			}
			if k.marks&measured != 0 && int(k.target) == t {
				pair[1] = k
			}
		}
		if !skip && pair[0] != nil && pair[1] != nil {
			base, other = append(base, pair[0].value), append(other, pair[1].value)
		}
	}
	return base, other, better
}

// Pairs returns the values of metric for the baseline and for the target under one workload, one pair
// a round, in the order of the rounds, and which direction of the metric is better. A round counts
// when both trials succeeded and have the metric, and when no trial of it, on whichever target, is
// discarded.
func Pairs(trials []*iotax.Trial, workload, metric, baseline, target string) (base, other []float64, better iotax.Better) {
	p := Pairing{Metric: metric}
	for _, t := range trials {
		if t.Workload == workload && (t.Target == baseline || t.Target == target || t.Discarded != "") {
			p.Add(t)
		}
	}
	return p.Pairs(baseline, target)
}
