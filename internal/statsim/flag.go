package statsim

import (
	"maps"
	"math"
	"slices"

	"iotax"
	"iotax/internal/rules"
	"iotax/internal/rules/check"
)

// Flagged says what the checks say of studies by iotax's policies, which are simulated second by second
// for it.
type Flagged struct {
	Studies  int     `json:"studies"`
	Any      float64 `json:"any"`       // share in which a rule warns, not-steady aside
	OfMissed float64 `json:"of_missed"` // the same among the studies whose interval misses; 0 if none does
	Missed   int     `json:"missed"`
	Coverage float64 `json:"coverage"` // of these studies: what the seconds say, beside what the closed forms do
	Rules    []Alarm `json:"rules"`    // share of studies in which each warns
}

// chatty is the rule that does not count as a flag. SNIA's criterion of a steady state is a label, not a
// test: of seconds that vary by 5 % it calls one window of ten seconds in forty unsteady, and so a quarter of
// all sound studies.
var chatty = rules.NotSteady.ID

type flagTally struct {
	studies, any, missed, anyMissed int
	rules                           counter
}

var flagRun = &iotax.Run{Baseline: baseline, Margin: margin,
	Targets:   []iotax.TargetInfo{{Name: baseline}, {Name: target}},
	Workloads: []iotax.WorkloadInfo{{Name: workload, Metrics: []string{metric}}}}

// flag runs studies from … to−1 second by second, and asks the checks about every trial and every run.
func (w *work) flag(m *Model, p protocol, seed uint64, from, to int) flagTally {
	t := flagTally{rules: counter{}}
	seed = seedOf(seed, m)
	for i := from; i < to; i++ {
		lnRho := math.Log(rhos[i%len(rhos)])
		w.reset(m, seed, uint64(i), lnRho)
		w.order = w.r.Uint64()
		w.kept = w.kept[:0]
		w.keep = true
		o := w.iotax(p)
		w.keep = false
		said := map[string]bool{}
		for _, f := range check.Run(flagRun, w.kept) {
			said[f.Rule] = said[f.Rule] || f.Severity != iotax.Info
		}
		for _, x := range w.kept {
			for _, f := range x.Findings {
				said[f.Rule] = said[f.Rule] || f.Severity != iotax.Info
			}
		}
		any := false
		for id, warns := range said {
			if warns {
				t.rules.add(id)
				any = any || id != chatty
			}
		}
		t.studies++
		truth := lnRho + m.bias()
		missed := !(o.lo <= truth && truth <= o.hi)
		if missed {
			t.missed++
		}
		if any {
			t.any++
			if missed {
				t.anyMissed++
			}
		}
	}
	return t
}

// keepTrial keeps a trial of a block with its series for the checks.
func (w *work) keepTrial(arm, block int, v float64, t Timing) (valid bool) {
	x := synthetic(w.r, arm, block, v, t, w.series)
	x.Findings, x.Discarded = check.Trial(x, place)
	w.kept = append(w.kept, x)
	return x.Discarded == ""
}

func flags(parts []flagTally) *Flagged {
	sum := flagTally{rules: counter{}}
	for _, p := range parts {
		sum.studies += p.studies
		sum.any += p.any
		sum.missed += p.missed
		sum.anyMissed += p.anyMissed
		for id, n := range p.rules {
			sum.rules[id] += n
		}
	}
	n := float64(sum.studies)
	f := &Flagged{Studies: sum.studies, Any: float64(sum.any) / n, Missed: sum.missed,
		Coverage: 1 - float64(sum.missed)/n, Rules: sum.rules.shares(sum.studies)}
	if sum.missed > 0 {
		f.OfMissed = float64(sum.anyMissed) / float64(sum.missed)
	}
	return f
}

func sortedKeys(c counter) []string { return slices.Sorted(maps.Keys(c)) }

func contains(list []string, s string) bool { return slices.Contains(list, s) }
