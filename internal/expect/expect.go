// Package expect parses expectations, as 'read.latency.p99 < 10ms' or 'read.iops >= 80% of baseline', and decides
// by an interval whether one is met. It is pure.
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

// An Expectation is a limit of a metric.
type Expectation struct {
	Workload   string // "" is every workload that has the metric
	Metric     string
	Op         string // <, <=, > or >=
	Limit      string // as written, with its unit: "10ms", "80%"
	OfBaseline bool   // Limit is a percentage of the baseline's value
	Target     string // "" is every target; of those with OfBaseline, every one but the baseline
}

var grammar = regexp.MustCompile(`^(?:(.+): )?([^\s<>=]+) ?([<>]=?) ?([^\s<>=]+?(?: [^\s\d]\S*)??)( of baseline)?(?: at (.+))?$`)

// Form is the grammar in words.
const Form = "write METRIC < LIMIT, as in 'read.latency.p99 < 10ms' or 'read.iops >= 80% of baseline'"

// Parse reads [WORKLOAD: ]METRIC (<|<=|>|>=) LIMIT[ of baseline][ at TARGET]. Its errors are *syntax.ValueError.
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

// String is the expectation as Parse reads it.
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

// Condition is the expectation without its workload and its target.
func (e Expectation) Condition() string {
	s := e.Metric + " " + e.Op + " " + e.Limit
	if e.OfBaseline {
		s += " of baseline"
	}
	return s
}

// Unit is that of the interval that decides: the metric's, or that of a ratio.
func (e Expectation) Unit(metric string) string {
	if e.OfBaseline {
		return iotax.RatioUnit
	}
	return metric
}

// Bound is the limit of a metric of that base unit, in the unit of the interval. A wrong one is a *syntax.ValueError.
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

// Contradicts reports whether no value meets both expectations at a workload and target that both are about. The unit is that
// of the metrics.
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
		return false // the caller has refused them
	}
	return b < a || a == b && len(e.Op)+len(other.Op) < 4
}

// atMost reports whether the first of two metrics of a latency is never above the second.
func atMost(metric, other string) bool {
	of, q, ok := iotax.Quantile(metric)
	of2, q2, ok2 := iotax.Quantile(other)
	return ok && (ok2 && of == of2 && q <= q2 || other == of+".max")
}

func (e Expectation) below() bool { return e.Op[0] == '<' }

// An Outcome is what the interval of a metric shows of an expectation.
type Outcome string

const (
	Met       Outcome = "met"
	Missed    Outcome = "missed"
	Undecided Outcome = "undecided" // the interval contains the limit, or has no bounds
)

// Outcomes are all, in the order in which a reader wants them.
var Outcomes = []Outcome{Missed, Undecided, Met}

// About reports whether the expectation is one of that target of its workload.
func (e Expectation) About(target, baseline string) bool {
	return (e.Target == "" || e.Target == target) && !(e.OfBaseline && target == baseline)
}

// Outcome compares an interval, as Interval makes it of a metric of that base unit, with the limit.
func (e Expectation) Outcome(i stat.Interval, unit string) Outcome {
	bound, err := e.Bound(unit)
	if err != nil || !i.Bounded() {
		return Undecided
	}
	lo, hi := i.Lo, i.Hi
	if !e.below() { // mirrored, a lower limit is an upper one
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

// Interval is that of the metric at a target: the median over its rounds, or the ratio to the baseline (0.8 is 80 %, whichever
// direction of the metric is better), widened by the resolution of fio's histograms. Where a trial is too short for a quantile, and
// its value NaN, rounds are pooled by their tails; without tails a NaN leaves the interval without bounds. The slices are paired by
// round: [0] is the baseline's, which is not used without OfBaseline, and [1] the target's.
func (e Expectation) Interval(values [2][]float64, tails [2][]stat.Tail, o stat.Options) (i stat.Interval, err error) {
	hidden := 0. // by the bins that a quantile was read from
	_, q, quantile := iotax.Quantile(e.Metric)
	if quantile {
		hidden = stat.HistogramError
	}
	n := len(values[1])
	pooled := quantile && n > 0 && len(tails[1]) == n && (!e.OfBaseline || len(tails[0]) == n) && slices.ContainsFunc(slices.Concat(values[0], values[1]), math.IsNaN)
	if !e.OfBaseline {
		target, alpha := values[1], cmp.Or(o.Alpha, stat.AlphaFixed)
		if pooled {
			if target, err = stat.GroupQuantiles(tails[1], q, stat.LeastFor(alpha)); err != nil {
				return stat.Median(nil), err
			}
		}
		i = stat.MedianAt(target, alpha)
		i.Lo, i.Hi = i.Lo*(1-hidden), i.Hi*(1+hidden)
		return i, nil
	}
	var d []float64
	if pooled {
		d, err = stat.PairTails(tails, q, &o)
		for k := range d {
			d[k] = -d[k] // the ratio of the target to the baseline
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
