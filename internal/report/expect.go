package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/rules"
	"iotax/stat"
)

// An Expected is what the run shows of an expectation at one target.
type Expected struct {
	expect.Expectation // Target is set
	Outcome            expect.Outcome
	Unit               string        // of Value: the metric's, or that of a ratio
	Value              stat.Interval // that decided, at the level of the run
	Why                string        // of one that is undecided for another reason than its interval
	File               string        // of the plan that has it, "" for the command line
	Line               int
}

// expectations decides those of the plan, the missed ones first and then the undecided ones.
func (b *builder) expectations() error {
	if b.Run.Presentation == nil {
		return nil
	}
	for _, planned := range b.Run.Presentation.Expect {
		e, err := expect.Parse(planned.Text)
		if err != nil {
			return fmt.Errorf("read expectation of run %s: %w", b.Run.ID, err)
		}
		base := b.Run.BaselineOf(e.Workload)
		w := b.Workload(e.Workload)
		for _, t := range b.targets {
			if e.About(t.Name, base) && (w.At == nil || slices.Contains(w.At, t.Name)) {
				x := b.expected(e, base, t.Name)
				x.File, x.Line = planned.File, planned.Line
				b.Expected = append(b.Expected, x)
			}
		}
	}
	slices.SortStableFunc(b.Expected, func(x, y Expected) int {
		return cmp.Compare(slices.Index(expect.Outcomes, x.Outcome), slices.Index(expect.Outcomes, y.Outcome))
	})
	return nil
}

// dots are what the trials of a cell measured of a metric, in the order of the rounds: NaN of a quantile for which a trial is too
// short.
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
		dots = append(dots, Dot{Round: t.Round, Value: v.Value, Discarded: b.discarded[c.Workload][t.Round]})
	}
	slices.SortStableFunc(dots, func(x, y Dot) int { return cmp.Compare(x.Round, y.Round) })
	return dots
}

func (b *builder) expected(e expect.Expectation, base, target string) Expected {
	unit, _ := b.unit(e.Workload, e.Metric)
	x := Expected{Expectation: e, Outcome: expect.Undecided, Unit: e.Unit(unit)}
	x.Target = target
	from := target
	if e.OfBaseline {
		from = base
	}
	bs, xs := PairDots(b.dots(Cell{from, e.Workload}, e.Metric), b.dots(Cell{target, e.Workload}, e.Metric), false)
	var err error
	x.Value, err = e.Interval(bs, xs, stat.Options{Alpha: b.Alpha, Autocorrelation: b.Run.Calibration.Autocorrelation()})
	need := stat.LeastFor(b.Alpha)
	switch {
	case len(xs) == 0:
		x.Why = "not measured"
	case slices.ContainsFunc(slices.Concat(bs, xs), math.IsNaN):
		x.Why = "trials too short"
	case err != nil:
		x.Why = err.Error()
	case b.invalid(Cell{target, e.Workload}) || b.invalid(Cell{from, e.Workload}):
		x.Why = "invalid result"
	case len(xs) < need:
		x.Why = fmt.Sprintf("%d of %d rounds", len(xs), need)
	default:
		x.Outcome = e.Outcome(x.Value, unit)
	}
	return x
}

// invalid reports whether a check found that the numbers of a cell must not be quoted, whatever it found of the baseline. Values that
// only lack a ratio, because they are 0, can be quoted.
func (b *builder) invalid(c Cell) bool {
	return b.tooManyDiscarded(c) || slices.ContainsFunc(b.found, func(n *Note) bool {
		return n.Severity == iotax.Invalid && n.Rule != rules.NoRatio.ID && slices.ContainsFunc(n.raw, func(i rawItem) bool {
			return slices.Contains(i.Cells, c) || slices.Contains(i.Cells, Cell{Target: c.Target})
		})
	})
}

// Outcomes counts the expectations by their outcome.
func (r *Report) Outcomes() map[expect.Outcome]int {
	n := map[expect.Outcome]int{}
	for _, x := range r.Expected {
		n[x.Outcome]++
	}
	return n
}
