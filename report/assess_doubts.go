package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
)

// noisySpread is the standard deviation of the logarithm above which a figure is called noisy, as check's
// noisy-baseline does; below four trials it says too little.
const noisySpread = 0.10

// noise tells which figures vary from trial to trial.
func (a *assessing) noise() {
	type noisy struct {
		c  assessed
		sd float64
	}
	var all []noisy
	for i := range a.Sections {
		s := &a.Sections[i]
		for j := range s.Rows {
			if sd := spreadOf(s.Rows[j].values()); s.First && sd > noisySpread {
				all = append(all, noisy{assessed{s, &s.Rows[j]}, sd})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y noisy) int { return cmp.Compare(y.sd, x.sd) })
	s := Sentence{Kind: SaysNoise}
	var parts []string
	for _, n := range all {
		s.Figures = append(s.Figures, AssessedFigure{Target: n.c.r.Target, Workload: n.c.s.Workload, Metric: n.c.s.Metric})
		parts = append(parts, fmt.Sprintf("%s (%s)", n.c.name(), percent(n.sd)))
	}
	s.Text = fmt.Sprintf("Noisy, trials vary by more than %s: %s.", percent(noisySpread), enumerate(parts, listed, "cell"))
	a.say(s)
}

// spreadOf is the standard deviation of the logarithms; NaN for fewer than four positive values.
func spreadOf(xs []float64) float64 {
	if len(xs) < 4 {
		return math.NaN()
	}
	var m, ss float64
	for _, x := range xs {
		m += math.Log(x) / float64(len(xs))
	}
	for _, x := range xs {
		ss += (math.Log(x) - m) * (math.Log(x) - m)
	}
	return math.Sqrt(ss / float64(len(xs)-1))
}

// doubts tells the warnings that no other sentence has told; or that there are none.
func (a *assessing) doubts() {
	var parts []string
	var numbers []int
	warned := len(a.Trials) == 0 || a.Run.Imported()
	for _, n := range a.General {
		if n.Severity == iotax.Warning || n.Severity == iotax.Invalid {
			warned = true
			parts = append(parts, n.Rule)
		}
	}
	for _, n := range a.order {
		if n.Severity == iotax.Info {
			continue
		}
		warned = true
		if a.told[n] || slices.Contains(tellsItself, n.Rule) {
			continue
		}
		var cells []string
		for _, it := range n.Items {
			for _, c := range it.Cells {
				if !slices.Contains(cells, c.String()) {
					cells = append(cells, c.String())
				}
			}
		}
		if n.Number > 0 {
			numbers = append(numbers, n.Number)
			parts = append(parts, fmt.Sprintf("%s (%s)", n.Rule, strings.Join(cut(cells, 1, "cell"), ", ")))
		} else {
			parts = append(parts, n.Rule+" (all)")
		}
	}
	switch {
	case len(parts) > 0:
		a.say(Sentence{Kind: SaysDoubt, Notes: numbers, Text: fmt.Sprintf("Checks that warn, see the notes: %s.", strings.Join(uniq(parts), ", "))})
	case !warned:
		a.say(Sentence{Kind: SaysFair, Text: "Fair, as far as checks can tell: none has a word against these figures."})
	}
}

// tellsItself are warnings about trials that count for nothing any more, which the table shows.
var tellsItself = []string{"trial-void", "trial-failed", "target-not-opened", "durability-differs"}

func uniq(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
