package stat

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
)

// A StartSpread contains the standard deviations of a run's log ratios, between starts and within starts. See
// SpreadByStart.
type StartSpread struct {
	Starts  int          `json:"starts"`          // number of starts
	Between iotax.Number `json:"between_starts"`  // between starts, without the part that the variation of rounds explains; if Within is NaN, the SD of the starts' means
	Within  iotax.Number `json:"between_rounds"`  // between the rounds of a start; NaN if no start has two rounds
	Agree   bool         `json:"agree"`           // the variation of the rounds explains the variation between starts
	Modes   [][]int      `json:"modes,omitempty"` // groups of starts with about the same ratio, by their numbers, the worst ratio first; nil if Agree
}

// byStart contains statistics of log ratios by start.
type byStart struct {
	starts []int
	n      []float64
	mean   []float64
	within float64 // sum of squared deviations from the means of the starts
	across float64 // sum of squared deviations of these means from the mean of all rounds, weighted by the number of rounds
	m, sd  float64 // mean and standard deviation of the means of the starts
}

// groupByStart groups the log ratios by start. It returns nil if `starts` is empty or contains only one start.
func groupByStart(d []float64, starts []int) (*byStart, error) {
	if len(starts) == 0 {
		return nil, nil
	}
	if len(starts) != len(d) {
		return nil, fmt.Errorf("estimate ratio: %d log ratios, and the starts of %d", len(d), len(starts))
	}
	g := &byStart{}
	at := map[int]int{}
	of := make([]int, len(d))
	for i, s := range starts {
		k, ok := at[s]
		if !ok {
			k = len(g.starts)
			at[s] = k
			g.starts, g.n, g.mean = append(g.starts, s), append(g.n, 0), append(g.mean, 0)
		}
		of[i] = k
		g.n[k]++
		g.mean[k] += d[i]
	}
	if len(g.starts) < 2 {
		return nil, nil
	}
	for k := range g.mean {
		g.mean[k] /= g.n[k]
	}
	for i, x := range d {
		g.within += (x - g.mean[of[i]]) * (x - g.mean[of[i]])
	}
	g.m, g.sd = meanSD(g.mean)
	all, _ := meanSD(d)
	for k, m := range g.mean {
		g.across += g.n[k] * (m - all) * (m - all)
	}
	return g, nil
}

// agreeAlpha is the level of the test in agree. It is low, so that a reported difference is rarely a false alarm.
const agreeAlpha = 0.01

// agree reports whether the variation of the rounds explains the variation between starts. It is the F test of a
// one-way analysis of variance (Fisher 1925; Searle, Casella & McCulloch, Variance Components, 3.5). If no start has
// two rounds, agree returns true.
func (g *byStart) agree() bool {
	k, n := float64(len(g.n)), 0.
	for _, x := range g.n {
		n += x
	}
	switch {
	case n <= k || g.across == 0:
		return true
	case g.within == 0:
		return false
	}
	return distuv.F{D1: k - 1, D2: n - k}.Survival(g.across/(k-1)/(g.within/(n-k))) > agreeAlpha
}

// modes returns groups of starts with about the same ratio, the worst first, or nil if the starts agree. Two starts
// with neighbouring means are in one group unless a t test at agreeAlpha, with the pooled variance of the rounds,
// separates them (Fisher's protected least significant difference, The Design of Experiments, 1935).
func (g *byStart) modes(rounds int) (modes [][]int) {
	df := rounds - len(g.n)
	if g.agree() {
		return nil
	}
	order := make([]int, len(g.n))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(g.mean[i], g.mean[j]) })
	for at, i := range order {
		if at > 0 {
			last := order[at-1]
			se := math.Sqrt(g.within / float64(df) * (1/g.n[i] + 1/g.n[last]))
			if g.mean[i]-g.mean[last] <= tQuantile(df, 1-agreeAlpha/2)*se {
				modes[len(modes)-1] = append(modes[len(modes)-1], g.starts[i])
				continue
			}
		}
		modes = append(modes, []int{g.starts[i]})
	}
	return modes
}

// se returns the standard error of the mean of the starts' means. Its square is an unbiased estimate of the variance
// of that mean under one-way random effects, for any number of rounds per start. With k starts, it has k − 1 degrees
// of freedom.
func (g *byStart) se() float64 { return g.sd / math.Sqrt(float64(len(g.mean))) }

func (g *byStart) df() float64 { return float64(len(g.mean) - 1) }

// SpreadByStart splits the variance of the log ratios d with the ANOVA estimators for one-way random effects. `starts`
// contains the start of each element of d. SpreadByStart returns nil if the lengths differ or if all elements have the
// same start.
func SpreadByStart(d []float64, starts []int) *StartSpread {
	g, err := groupByStart(d, starts)
	if g == nil || err != nil {
		return nil
	}
	k := float64(len(g.n))
	s := &StartSpread{Starts: len(g.n), Between: iotax.Number(g.sd), Within: iotax.Number(math.NaN()), Agree: g.agree(), Modes: g.modes(len(d))}
	if free := float64(len(d)) - k; free > 0 {
		var inverse float64
		for _, n := range g.n {
			inverse += 1 / n / k
		}
		within := g.within / free
		s.Within, s.Between = iotax.Number(math.Sqrt(within)), iotax.Number(math.Sqrt(math.Max(0, g.sd*g.sd-within*inverse)))
	}
	return s
}

// MedianOfStarts is like MedianAt at o.Alpha. If a start (o.Starts) has several values, the interval also covers that of
// Mean, because the values of a start resemble each other. It then has no bounds if that of Mean has none. Values must
// not be negative.
func MedianOfStarts(xs []float64, o Options) Interval {
	i := MedianAt(xs, cmp.Or(o.Alpha, 1-Confidence))
	if g, err := groupByStart(xs, o.Starts); err != nil || g != nil && len(g.mean) < len(xs) {
		m, _ := Mean(xs, Options{Alpha: o.Alpha, Starts: o.Starts}) // after an error it has no bounds
		i.Lo, i.Hi = math.Min(i.Lo, math.Max(0, m.Lo)), math.Max(i.Hi, m.Hi)
	}
	return i
}

// StartSamples returns the two samples of logarithms for the comparison of two runs, for example by EstimateChange.
// starts contains the start of each logarithm. The sample of a run with several starts contains the means of the starts,
// because the rounds of a start resemble each other and only starts are independent (Kalibera & Jones, ISMM'13). With
// fewer than LeastTrials starts, this sample is too small for an interval. The sample of a run with one start contains
// all its logarithms.
func StartSamples(logs [2][]float64, starts [2][]int) [2][]float64 {
	for i := range logs {
		if g, err := groupByStart(logs[i], starts[i]); g != nil && err == nil {
			logs[i] = g.mean
		}
	}
	return logs
}

// StartOf returns the start, counted from 1, of the round that follows n valid rounds, in a run that divides `rounds`
// rounds evenly among `starts` starts. With starts ≤ 1, it returns 1.
func StartOf(n, rounds, starts int) int {
	return max(1, min(starts, 1+n*starts/max(1, rounds)))
}
