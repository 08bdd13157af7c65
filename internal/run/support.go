package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/stat"
)

// pilotTime limits the trial that counts I/Os before the first round.
const pilotTime = 2 * time.Second

// pilotSlack is the factor by which the short pilot may undercount the I/Os.
const pilotSlack = 2

// supported returns an error if the trials of the plan are too short for a quantile that the run must measure. If there
// is such a quantile, it counts the I/Os in one unsaved trial of each target. It does nothing if ln already has rounds,
// or if the plan has too few rounds for an interval. It also does nothing for a workload without a measurement window,
// because its number of I/Os does not depend on the length of a trial.
func (e *engine) supported(ctx context.Context, ln *lane) error {
	most := e.p.Measure.Rounds.Max
	if ln.round > 0 || ln.w.Caps().Limit > 0 || most < stat.LeastTrials {
		return nil
	}
	type quantile struct {
		of     string
		q      float64
		rounds int // rounds whose I/Os are pooled
	}
	var quantiles []quantile
	need := func(name string, rounds int) {
		if of, q, ok := iotax.Quantile(name); ok {
			quantiles = append(quantiles, quantile{of, q, rounds})
		}
	}
	for _, name := range ln.deciding() {
		need(name, most)
	}
	for _, x := range ln.expected {
		need(x.Metric, most)
	}
	if len(quantiles) == 0 {
		return nil
	}
	length := e.p.Measure.Length(ln.plan)
	for _, target := range ln.targets {
		t := e.newTrial(ln, target, 0, schedule.RoundSeed(e.run.Seed, ln.plan.Name, 0))
		e.seq--
		t.Ramp, t.Length = 0, min(length, pilotTime)
		e.d.Progress(Event{Kind: Preparing, Target: target.Name, Workload: ln.plan.Name, Text: "counting the I/Os of " + target.Name})
		if err := e.attempt(ctx, ln, target, t); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.Err != "" {
			continue // the rounds report the failure
		}
		for _, x := range quantiles {
			i := slices.IndexFunc(t.Histograms, func(h iotax.Histogram) bool { return h.Name == x.of })
			if i < 0 {
				continue
			}
			ios := 0.0
			for _, b := range t.Histograms[i].Bins {
				ios += float64(b.Count)
			}
			beyond := ios * length.Seconds() / t.Length.Seconds() * min(x.q, 1-x.q) * float64(x.rounds)
			if beyond*pilotSlack >= stat.MinBeyond {
				continue
			}
			hint := "use a quantile with more I/Os beyond"
			if longer := length.Seconds() * stat.MinBeyond / beyond; longer < math.MaxInt32 {
				hint = fmt.Sprintf("use `--trial %v`, or a quantile with more I/Os beyond", plan.Duration(math.Ceil(longer))*plan.Duration(time.Second))
			}
			return &iotax.Error{Op: fmt.Sprintf("judge %s.%s of", x.of, stat.QuantileName(x.q)), On: t.Cell(), Hint: hint,
				Err: fmt.Errorf("%d rounds of %v have about %.0f I/Os beyond it, and an interval needs %d", x.rounds, length, beyond, stat.MinBeyond)}
		}
	}
	return nil
}
