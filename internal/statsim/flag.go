package statsim

import (
	"math"

	"iotax"
	"iotax/internal/rules"
	"iotax/internal/rules/check"
)

// Flagged contains the results of the checks for studies with iotax's policies. These studies are simulated second by
// second.
type Flagged struct {
	Studies  int     `json:"studies"`
	Any      float64 `json:"any"`       // share of studies in which a rule other than not-steady warns
	OfMissed float64 `json:"of_missed"` // the same for the studies counted in Missed; 0 if there are none
	Missed   int     `json:"missed"`    // studies that are unranked or whose interval misses the true ratio
	Coverage float64 `json:"coverage"`  // share of all Studies whose interval contains the true ratio
	Rules    []Alarm `json:"rules"`     // share of studies in which each rule warns
}

// chatty is the ID of the rule that does not count as a flag. SNIA's steady-state criterion is a label, not a test, and
// marks many sound studies as unsteady.
var chatty = rules.NotSteady.ID

var flagRun = &iotax.Run{Baseline: baseline, Margin: margin,
	Targets:   []iotax.TargetInfo{{Name: baseline}, {Name: target}},
	Workloads: []iotax.WorkloadInfo{{Name: workload, Metrics: []string{metric}}}}

// flag simulates the studies with the numbers from `from` to `to`−1 second by second, and runs the checks on every
// trial and every run.
func (w *work) flag(m *Model, p *Policy, seed uint64, from, to int) tally {
	t := tally{rules: counter{}}
	w.keep = true
	for i := from; i < to; i++ {
		lnRho := math.Log(rhos[i%len(rhos)])
		w.begin(m, seedOf(seed, m), i, lnRho)
		w.kept = w.kept[:0]
		hit := t.score(p.run(w), lnRho+m.bias())
		found := check.Run(flagRun, w.kept)
		for _, x := range w.kept {
			found = append(found, x.Findings...)
		}
		warned := map[string]bool{}
		for _, f := range found {
			if f.Severity != iotax.Info {
				warned[f.Rule] = true
			}
		}
		for id := range warned {
			t.rules[id]++
		}
		if delete(warned, chatty); len(warned) > 0 {
			t.flagged++
			if !hit {
				t.flaggedMisses++
			}
		}
	}
	w.keep = false
	return t
}

// keepTrial creates a trial with its series, runs the checks on it, and stores it in w.kept. valid is false if a
// check discards the trial.
func (w *work) keepTrial(arm, round int, v float64, t Timing) (valid bool) {
	x := synthetic(w.r, arm, round, v, t, w.series)
	x.Findings, x.Discarded = check.Trial(x, place)
	w.kept = append(w.kept, x)
	return x.Discarded == ""
}

func flags(t *tally) *Flagged {
	studies := t.studies + t.unranked
	missed, n := studies-t.hit, float64(studies)
	f := &Flagged{Studies: studies, Any: float64(t.flagged) / n, Missed: missed, Coverage: 1 - float64(missed)/n, Rules: t.rules.shares(studies)}
	if missed > 0 {
		f.OfMissed = float64(t.flaggedMisses) / float64(missed)
	}
	return f
}
