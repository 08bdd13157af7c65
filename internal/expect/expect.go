// Package expect parses expectations such as 'read.latency.p99 < 10ms' or 'read.iops >= 80% of baseline', and decides
// from an interval whether an expectation is met. It does no I/O.
package expect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/plan/syntax"
	"iotax/stat"
)

// An Expectation is a limit for a metric.
type Expectation struct {
	Workload   string // "" means every workload that has the metric
	Metric     string
	Op         string // <, <=, > or >=
	Limit      string // as written, with its unit: "10ms", "80%"
	OfBaseline bool   // Limit is a percentage of the baseline's value
	Target     string // "" means every target or, with OfBaseline, every target except the baseline
}

var grammar = regexp.MustCompile(`^(?:(.+): )?([^\s<>=]+) ?([<>]=?) ?([^\s<>=]+?(?: [^\s\d]\S*)??)( of baseline)?(?: at (.+))?$`)

// Form is the hint that describes the grammar.
const Form = "write METRIC < LIMIT, as in 'read.latency.p99 < 10ms' or 'read.iops >= 80% of baseline'"

// Parse parses [WORKLOAD: ]METRIC (<|<=|>|>=) LIMIT[ of baseline][ at TARGET]. Its errors are *syntax.ValueError.
func Parse(text string) (Expectation, error) {
	m := grammar.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Expectation{}, &syntax.ValueError{Msg: syntax.Quote(text) + " is not an expectation", Hint: Form}
	}
	e := Expectation{Workload: m[1], Metric: m[2], Op: m[3], Limit: m[4], OfBaseline: m[5] != "", Target: m[6]}
	if !e.OfBaseline {
		return e, nil
	}
	share, err := syntax.ParsePercent(e.Limit)
	if err == nil && share == 0 {
		err = &syntax.ValueError{Msg: "0% of the baseline is not a limit", Hint: "write a percentage above 0, as in 80%"}
	}
	return e, err
}

// String returns the expectation in the form that Parse accepts.
func (e Expectation) String() string {
	s := e.Condition()
	if e.Workload != "" {
		s = e.Workload + ": " + s
	}
	if e.Target != "" {
		s += " at " + e.Target
	}
	return s
}

// Condition returns the expectation without its workload and target.
func (e Expectation) Condition() string {
	s := e.Metric + " " + e.Op + " " + e.Limit
	if e.OfBaseline {
		s += " of baseline"
	}
	return s
}

// Unit returns the unit of the interval that is compared with the limit: iotax.RatioUnit with OfBaseline, otherwise
// `metric`, the base unit of the metric.
func (e Expectation) Unit(metric string) string {
	if e.OfBaseline {
		return iotax.RatioUnit
	}
	return metric
}

// Bound returns the limit as a number in the unit that Unit returns. unit is the base unit of the metric. If the limit
// does not fit that unit, the error is a *syntax.ValueError.
func (e Expectation) Bound(unit string) (float64, error) {
	limit, example := e.Limit, ""
	wrong := func(err error) (float64, error) {
		var v *syntax.ValueError
		if !errors.As(err, &v) {
			v = &syntax.ValueError{Msg: syntax.Quote(e.Limit) + " is not a limit", Hint: "write " + example}
		}
		return 0, &syntax.ValueError{Msg: fmt.Sprintf("%s is measured in %s: %s", e.Metric, inWords(unit), v.Msg), Hint: v.Hint}
	}
	switch e.Unit(unit) {
	case iotax.RatioUnit:
		p, err := syntax.ParsePercent(limit)
		if err != nil {
			return wrong(err)
		}
		return float64(p), nil
	case iotax.Seconds:
		d, err := syntax.ParseDuration(limit)
		if err != nil {
			return wrong(err)
		}
		return d.Duration().Seconds(), nil
	case iotax.BytesPerSecond:
		size, ok := strings.CutSuffix(limit, "/s")
		if !ok {
			return wrong(&syntax.ValueError{Msg: syntax.Quote(limit) + " has no /s", Hint: "write it as in 100MiB/s"})
		}
		limit = size
		fallthrough
	case iotax.Bytes:
		n, err := syntax.ParseSize(limit)
		if err != nil {
			return wrong(err)
		}
		return float64(n), nil
	case iotax.PerSecond:
		limit, example = strings.TrimSuffix(limit, "/s"), "a number, as in 5000, 12k or 1.5M"
	default:
		limit, example = strings.TrimSpace(strings.TrimSuffix(limit, unit)), "a number, as in 5000"
	}
	n, ok := syntax.ParseNumber(limit)
	if !ok {
		return wrong(nil)
	}
	return n, nil
}

func inWords(unit string) string {
	switch unit {
	case iotax.Seconds:
		return "time"
	case iotax.Bytes:
		return "bytes"
	case iotax.BytesPerSecond:
		return "bytes per second"
	case iotax.PerSecond:
		return "operations per second"
	case iotax.RatioUnit:
		return "per cent"
	case iotax.Count, "":
		return "plain numbers"
	}
	return syntax.Quote(unit)
}

// Contradicts reports whether e and other can never both be met on a workload and target to which both apply. unit is
// the unit of the metrics.
func (e Expectation) Contradicts(other Expectation, unit string) bool {
	apart := func(a, b string) bool { return a != "" && b != "" && a != b }
	above, below := e, other
	if e.below() {
		above, below = other, e
	}
	if above.below() || !below.below() || e.OfBaseline != other.OfBaseline || apart(e.Workload, other.Workload) || apart(e.Target, other.Target) ||
		above.Metric != below.Metric && (e.OfBaseline || !atMost(above.Metric, below.Metric)) {
		return false
	}
	a, err := above.Bound(unit)
	b, err2 := below.Bound(unit)
	if err != nil || err2 != nil {
		return false // the caller has already rejected such limits
	}
	return b < a || a == b && len(e.Op)+len(other.Op) < 4
}

// atMost reports whether the first of two latency metrics can never exceed the second.
func atMost(metric, other string) bool {
	of, q, ok := iotax.Quantile(metric)
	of2, q2, ok2 := iotax.Quantile(other)
	return ok && (ok2 && of == of2 && q <= q2 || other == of+".max")
}

func (e Expectation) below() bool { return e.Op[0] == '<' }

// An Outcome is the result of comparing the interval of a metric with an expectation.
type Outcome string

const (
	Met       Outcome = "met"
	Missed    Outcome = "missed"
	Undecided Outcome = "undecided" // the interval contains the limit, or has no bounds
)

// Outcomes lists all outcomes, most important first.
var Outcomes = []Outcome{Missed, Undecided, Met}

// About reports whether the expectation applies to target. baseline is the baseline of the workload.
func (e Expectation) About(target, baseline string) bool {
	return (e.Target == "" || e.Target == target) && !(e.OfBaseline && target == baseline)
}

// Outcome compares i, a result of Interval, with the limit. unit is the base unit of the metric.
func (e Expectation) Outcome(i stat.Interval, unit string) Outcome {
	bound, err := e.Bound(unit)
	if err != nil || !i.Bounded() {
		return Undecided
	}
	lo, hi := i.Lo, i.Hi
	if !e.below() { // mirror the values, so that a lower limit becomes an upper one
		lo, hi, bound = -hi, -lo, -bound
	}
	strict := len(e.Op) == 1
	switch {
	case hi < bound || hi == bound && !strict:
		return Met
	case lo > bound || lo == bound && strict:
		return Missed
	}
	return Undecided
}

// Interval returns the interval of the metric on a target: of its median over the rounds or, with OfBaseline, of its
// ratio to the baseline (0.8 is 80 %, even if lower values are better). values[1] and tails[1] contain an element for
// each round of the target. With OfBaseline, values[0] and tails[0] contain those of the same rounds of the baseline.
//
// For a quantile, Interval widens the interval by the resolution of fio's histograms. A value is NaN if its trial is
// too short for the quantile. If a value is NaN, Interval pools the tails of several rounds. If it needs the tails and
// they are missing, the interval has no bounds. With several starts (o.Starts), it may have none either (see
// stat.MedianOfStarts).
func (e Expectation) Interval(values [2][]float64, tails [2][]stat.Tail, o stat.Options) (i stat.Interval, err error) {
	hidden := 0. // relative error of a quantile from histogram bins
	_, q, quantile := iotax.Quantile(e.Metric)
	if quantile {
		hidden = stat.HistogramError
	}
	n := len(values[1])
	pooled := quantile && n > 0 && len(tails[1]) == n && (!e.OfBaseline || len(tails[0]) == n) && slices.ContainsFunc(slices.Concat(values[0], values[1]), math.IsNaN)
	if !e.OfBaseline {
		target, alpha := values[1], cmp.Or(o.Alpha, stat.AlphaFixed)
		if pooled {
			if target, err = stat.GroupQuantiles(tails[1], q, stat.LeastFor(alpha), o.Starts); err != nil {
				return stat.Median(nil), err
			}
			o.Starts = nil // the groups are independent
		}
		i = stat.MedianOfStarts(target, o)
		i.Lo, i.Hi = i.Lo*(1-hidden), i.Hi*(1+hidden)
		return i, nil
	}
	var d []float64
	if pooled {
		d, err = stat.PairTails(tails, q, &o)
		for k := range d {
			d[k] = -d[k] // invert the ratio: target / baseline
		}
	} else {
		o.Hidden = 2 * hidden
		d, err = stat.Pair(values[0], values[1], iotax.Up)
	}
	if err != nil || len(d) == 0 {
		return stat.Median(nil), err
	}
	return stat.Hull(d, o)
}
