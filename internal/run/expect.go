package run

import (
	"iotax/internal/expect"
	"iotax/internal/plan"
	"iotax/stat"
)

// An expected is an expectation about a workload, with the metric's values measured so far.
type expected struct {
	plan.Expectation
	pairing stat.Pairing
}

// undecided returns how many expectations of ln are still undecided. An expectation counts once for each of its targets.
// A target does not count if it, or the baseline that the expectation compares it with, was given up or dropped.
func (e *engine) undecided(ln *lane) (n int) {
	base, least := e.run.BaselineOf(ln.plan.Name), stat.LeastFor(e.run.Alpha) // the report needs at least `least` rounds
	for i := range ln.expected {
		x := &ln.expected[i]
		for _, t := range ln.targets {
			from := t.Name
			if x.OfBaseline {
				from = base
			}
			if !x.About(t.Name, base) || !ln.measures(t.Name) || !ln.measures(from) {
				continue
			}
			values, tails, starts, _ := x.pairing.Sides(from, t.Name)
			interval, err := x.Interval(values, tails, stat.Options{Alpha: e.run.Alpha, Autocorrelation: e.run.Calibration.Autocorrelation(), Starts: starts})
			if err != nil || len(values[1]) < least || x.Outcome(interval, x.MetricUnit) == expect.Undecided {
				n++
			}
		}
	}
	return n
}
