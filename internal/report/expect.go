package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"iotax"
	"iotax/internal/expect"
	"iotax/stat"
)

// An Expected is the outcome of an expectation on one target.
type Expected struct {
	expect.Expectation // Target is always set
	Outcome            expect.Outcome
	Unit               string        // unit of Value: the unit of the metric, or iotax.RatioUnit
	Value              stat.Interval // the deciding interval, at the confidence level of the run
	Why                string        // why the outcome is undecided, if not because of the interval
	File               string        // the plan file with the expectation; "" for the command line
	Line               int

	planned int    // index of the expectation in iotax.Presentation.Expect
	from    string // the target that Value is relative to; Target itself if the limit is absolute
	unit    string // unit of the metric
	rounds  int
}

// expected adds the expectations about a workload, with their values but without their outcomes (see expectations). The
// tails of the workload's trials must still contain their bins.
func (b *builder) expected(w iotax.WorkloadInfo) error {
	if b.Run.Presentation == nil {
		return nil
	}
	for i, planned := range b.Run.Presentation.Expect {
		e, err := expect.Parse(planned.Text)
		if err != nil {
			return fmt.Errorf("read expectation of run %s: %w", b.Run.ID, err)
		}
		base := b.Run.BaselineOf(w.Name)
		for _, t := range b.targets {
			if e.Workload == w.Name && e.About(t.Name, base) && (w.At == nil || slices.Contains(w.At, t.Name)) {
				x := b.measure(e, base, t.Name)
				x.File, x.Line, x.planned = planned.File, planned.Line, i
				b.Expected = append(b.Expected, x)
			}
		}
	}
	return nil
}

// expectations decides the outcomes. It sorts missed expectations first, then undecided ones, then those that are met.
func (b *builder) expectations() {
	slices.SortStableFunc(b.Expected, func(x, y Expected) int { return cmp.Compare(x.planned, y.planned) })
	for i := range b.Expected {
		x := &b.Expected[i]
		need := stat.LeastFor(b.Alpha)
		switch {
		case x.Why != "":
		case b.invalid(Cell{x.Target, x.Workload}) || b.invalid(Cell{x.from, x.Workload}):
			x.Why = "invalid result"
		case x.rounds < need:
			x.Why = fmt.Sprintf("%d of %d rounds", x.rounds, need)
		default:
			x.Outcome = x.Expectation.Outcome(x.Value, x.unit)
		}
	}
	slices.SortStableFunc(b.Expected, func(x, y Expected) int {
		return cmp.Compare(slices.Index(expect.Outcomes, x.Outcome), slices.Index(expect.Outcomes, y.Outcome))
	})
}

// dots returns the values of a metric in a cell's trials without errors, ordered by round. If a trial is too short for
// a quantile, its value is NaN.
func (b *builder) dots(c Cell, metric string) (dots []Dot) {
	_, _, quantile := iotax.Quantile(metric)
	for _, t := range b.byCell[c] {
		v, ok := t.Value(metric)
		if t.Err != "" || !ok && !quantile {
			continue
		}
		if !ok {
			v.Value = math.NaN()
		}
		dot := Dot{Round: t.Round, Start: t.StartIndex, Value: v.Value, Discarded: b.discarded[c.Workload][t.Round]}
		for i := range t.tails {
			if t.tails[i].metric == metric {
				dot.tail = &t.tails[i].Tail
			}
		}
		dots = append(dots, dot)
	}
	slices.SortStableFunc(dots, func(x, y Dot) int { return cmp.Compare(x.Round, y.Round) })
	return dots
}

func (b *builder) measure(e expect.Expectation, base, target string) Expected {
	x := Expected{Expectation: e, Outcome: expect.Undecided, from: target}
	x.unit, _ = b.unit(e.Workload, e.Metric)
	x.Unit, x.Target = e.Unit(x.unit), target
	if e.OfBaseline {
		x.from = base
	}
	p := PairDots(b.dots(Cell{x.from, e.Workload}, e.Metric), b.dots(Cell{target, e.Workload}, e.Metric), false)
	var err error
	o := b.Options()
	x.rounds, o.Starts = len(p.Starts), p.Starts
	x.Value, err = e.Interval(p.Values, p.tails, o)
	short := len(p.tails[1]) < x.rounds && slices.ContainsFunc(slices.Concat(p.Values[0], p.Values[1]), math.IsNaN)
	switch {
	case x.rounds == 0:
		x.Why = "not measured"
	case short || errors.As(err, new(*stat.TooFewBeyond)):
		x.Why = "trials too short"
	case err != nil:
		x.Why = err.Error()
	case !x.Value.Bounded() && x.rounds >= stat.LeastFor(b.Alpha):
		x.Why = "too few starts"
	}
	return x
}

// invalid reports whether a cell's own numbers are invalid, or too many of its trials are discarded. It reads the
// findings and not the notes, because a workload without a requested metric has no rows.
func (b *builder) invalid(c Cell) bool {
	for f := range b.findings(c) {
		if f.Severity == iotax.Invalid {
			return true
		}
	}
	return b.tooManyDiscarded(c)
}

// Outcomes counts the expectations by outcome.
func (r *Report) Outcomes() map[expect.Outcome]int {
	n := map[expect.Outcome]int{}
	for _, x := range r.Expected {
		n[x.Outcome]++
	}
	return n
}
