package fiojob

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/support"
	"iotax/stat"
)

// With `find:`, each trial is a search. It runs fio in an open loop at a series of loads that stat.Search chooses, and
// its result is one limit.

// Find is the value of the key `find:`.
type Find struct {
	Most  string `yaml:"most" doc:"what to find the highest of: iops"`
	While string `yaml:"while" doc:"condition that holds up to the limit, as in 'read.latency.p99 < 2ms'"`
}

func (f *Fio) finds() bool { return f.Find != (Find{}) }

// lasts returns the length of a trial as a multiple of the plan's trial length, for plan.Traits.Lasts.
func (f *Fio) lasts() float64 {
	if f.finds() {
		return findLasts * cmp.Or(f.Times, 1)
	}
	return f.Times
}

// findLasts is the length of a search as a multiple of the plan's trial length. Each step takes half of a trial length.
const findLasts = stat.SearchSteps / 2

// A search tries loads from about findFrom to about findTo times the pilot's rate.
const findFrom, findTo = 1. / 32, 2

// leastBeyond is the minimum number of I/Os beyond the condition's quantile in a step at the limit. It is smaller than
// stat.MinBeyond, because the rounds show the spread of the results.
const leastBeyond = 10

// A condition is a parsed Find.While.
type condition struct {
	expect.Expectation
	bound float64 // upper limit of the metric, s
}

// condition checks Find.Most and parses Find.While. Its errors are *plan.FieldError.
func (f *Fio) condition() (c condition, err error) {
	fail := func(field, hint, format string, args ...any) (condition, error) {
		return c, &plan.FieldError{Field: "find." + field, Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	const form = "find: {most: iops, while: 'read.latency.p99 < 2ms'}"
	switch {
	case f.Find.Most == "":
		return fail("most", form, "no metric is named to find the most of")
	case f.Find.Most != "iops":
		return fail("most", "most: iops", "%q cannot be found; there is iops", f.Find.Most)
	case f.Find.While == "":
		return fail("while", form, "a limit needs a condition")
	}
	if c.Expectation, err = expect.Parse(f.Find.While); err != nil {
		return c, fieldError("find.while", err)
	}
	limits := f.latencies()
	i := slices.IndexFunc(limits, func(name string) bool { return name == c.Metric })
	switch {
	case c.OfBaseline || c.Target != "" || c.Workload != "":
		return fail("while", "write METRIC < LIMIT", "a condition is about one trial, without a workload, a target or the baseline")
	case i < 0:
		return fail("while", "there are "+strings.Join(limits, ", "), "%s is not a latency of this workload", c.Metric)
	case c.Op[0] != '<':
		return fail("while", "write "+c.Metric+" < "+c.Limit, "a latency grows with the load: only an upper limit holds up to some load")
	}
	if c.bound, err = c.Bound(iotax.Seconds); err != nil {
		return c, fieldError("find.while", err)
	}
	if c.bound == 0 {
		return fail("while", "write a time above 0", "no latency is below %s", c.Limit)
	}
	return c, nil
}

// latencies returns the metrics that a condition may use.
func (f *Fio) latencies() (names []string) {
	rated := Fio{Rate: "10/s", settings: f.settings}
	for _, m := range rated.metrics() {
		if strings.HasPrefix(m.Name, iotax.ValueReadLatency+".") || strings.HasPrefix(m.Name, "write.latency.") {
			if !strings.Contains(m.Name, "submission") && !strings.Contains(m.Name, "completion") {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// beyond returns how many of the `ios` I/Os are beyond the condition's quantile. If the metric is not a quantile, it
// returns leastBeyond.
func (c condition) beyond(ios float64) float64 {
	if _, q, ok := iotax.Quantile(c.Metric); ok {
		return ios * (1 - q) * (1 + 1e-12) // the factor keeps rounding from making 100·(1 − 0.9) less than 10
	}
	return leastBeyond
}

// value returns the condition's metric in a step. ok is false if the step has no such metric. If fewer than three I/Os
// are beyond a quantile, value returns a lower quantile, so that one slow I/O among a hundred does not determine the
// p99.
func (c condition) value(step *iotax.Trial) (v float64, ok bool) {
	of, q, quantile := iotax.Quantile(c.Metric)
	if !quantile {
		x, ok := step.Value(c.Metric)
		return x.Value, ok
	}
	i := slices.IndexFunc(step.Histograms, func(h iotax.Histogram) bool { return h.Name == of })
	if i < 0 {
		return 0, false
	}
	n := 0.
	for _, b := range step.Histograms[i].Bins {
		n += float64(b.Count)
	}
	v, _ = stat.Quantile(step.Histograms[i], max(0, min(q, 1-3/n)))
	return v, n > 0
}

// find runs a trial that searches for the limit on t.
func (j *fioJob) find(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	fail := func(hint, format string, args ...any) error {
		return &iotax.Error{Op: "find the limit of " + j.name + " on", On: t.Name, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	c, err := j.spec.condition()
	if err != nil {
		return fail("", "%w", err)
	}
	capacity := j.capacities[t.Name]
	if !(capacity > 0) {
		return fail("", "no pilot has measured its rate")
	}
	search := stat.NewSearch(max(leastRate, capacity*findFrom), capacity*findTo, out.Seed)
	window := out.Length / stat.SearchSteps
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	direction, _, _ := strings.Cut(j.rateMetric(), ".")
	var tried, found []string
	var ios, bytes float64
	late, lateAt := 1., 0. // lowest share of late I/Os among the loads that failed only because of late I/Os, and that load
	for i := range stat.SearchSteps {
		step := &iotax.Trial{Target: out.Target, Workload: out.Workload, Seed: out.Seed + uint64(i), Length: window, Ramp: out.Ramp / stat.SearchSteps, Cold: out.Cold}
		rated := *j
		rated.rate = search.Next()
		if err := rated.once(ctx, t, step); err != nil {
			out.Raw = step.Raw
			return err
		}
		offered, _ := step.Value(iotax.ValueLoadOffered)
		n, _ := step.Value(direction + ".ios")
		b, _ := step.Value(direction + ".bytes")
		lateness, _ := step.Value(iotax.ValueLoadLate)
		v, holds, met := j.judgeStep(c, step)
		search.Tried(offered.Value, met)
		answer := "missed"
		switch {
		case met:
			answer = "met"
		case holds:
			answer = "late"
			if lateness.Value <= late {
				late, lateAt = lateness.Value, offered.Value
			}
		}
		tried = append(tried, fmt.Sprintf("%.0f/s: %v, %s", offered.Value, time.Duration(v*1e9).Round(time.Microsecond), answer))
		ios, bytes = ios+n.Value, bytes+b.Value
		out.Raw = append(append(out.Raw, step.Raw...), '\n')
		maps.Copy(out.Facts, step.Facts)
		for _, f := range step.Findings {
			if f.Rule != rules.LoadNotReached.ID && f.Rule != rules.ArrivalsLate.ID && !slices.Contains(found, f.Rule) {
				found = append(found, f.Rule)
				out.Findings = append(out.Findings, f)
			}
		}
	}
	out.Raw = out.Raw[:min(len(out.Raw), support.RawLimit)]
	delete(out.Facts, iotax.FactLoadJob) // a search is not a point of a load curve
	out.Facts[iotax.FactTried] = strings.Join(tried, "; ")
	limit, noneMet, noneMissed := search.Limit()
	switch {
	case noneMet && lateAt > 0:
		return fail("use longer trials (`--trial`)", "no load met %s; at %.0f/s the latency did, but %.1f %% of the I/Os came late", j.spec.Find.While, lateAt, 100*late)
	case noneMet:
		return fail("a longer limit, or fewer `numjobs`", "%s does not hold at %.0f/s, the lowest load that was tried", j.spec.Find.While, limit)
	case noneMissed:
		return fail("a shorter limit", "%s holds at %.0f/s, the highest load that was tried", j.spec.Find.While, limit)
	case c.beyond(limit*window.Seconds()) < leastBeyond:
		return j.tooFew(t, c, limit, out.Length)
	case lateAt > 0:
		rated := *j
		rated.rate = limit
		out.Findings = append(out.Findings, rated.line(t, j.states[t], &iotax.Trial{Length: window}).arrivalsLate().Found(iotax.AboutTrial(out),
			"%.1f %% of the I/Os found their source busy at %.0f/s, where the others met the condition: the limit may be higher", 100*late, lateAt))
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueLimitIOPS, Value: limit, Unit: iotax.PerSecond, Better: iotax.Up},
		iotax.Value{Name: direction + ".ios", Value: ios, Unit: iotax.Count},
		iotax.Value{Name: direction + ".bytes", Value: bytes, Unit: iotax.Bytes})
	return nil
}

// judgeStep returns the value of the condition's metric in a step. holds is true if the condition holds and the target did
// what was offered. met is true if, in addition, few I/Os were late.
func (j *fioJob) judgeStep(c condition, step *iotax.Trial) (v float64, holds, met bool) {
	direction, _, _ := strings.Cut(j.rateMetric(), ".")
	offered, _ := step.Value(iotax.ValueLoadOffered)
	n, _ := step.Value(direction + ".ios")
	late, _ := step.Value(iotax.ValueLoadLate)
	v, known := c.value(step)
	asked := offered.Value * step.Length.Seconds()
	holds = known && v < c.bound && n.Value > offeredBelow*asked-3*math.Sqrt(asked)
	return v, holds, holds && late.Value <= lateAbove
}

// tooFew returns the error for trials of the given length whose steps have too few I/Os beyond the quantile at the load
// `limit`.
func (j *fioJob) tooFew(t *iotax.Target, c condition, limit float64, length time.Duration) error {
	step := length / stat.SearchSteps
	beyond := c.beyond(limit * step.Seconds())
	longer := plan.Duration(math.Ceil(2*length.Seconds()/j.spec.lasts()*leastBeyond/beyond)) * plan.Duration(time.Second)
	return &iotax.Error{Op: "find the limit of " + j.name + " on", On: t.Name, Hint: fmt.Sprintf("use `--trial %v`, or a quantile with more I/Os beyond", longer),
		Err: fmt.Errorf("a step of %v at %.0f/s has %.1f I/Os beyond %s, and needs %d", step, limit, beyond, c.Metric, leastBeyond)}
}

// measureAll does the work of Pilot for a search: it measures the capacity of each target. Its facts are
// capacity.TARGET (1/s). A resumed run reuses the capacities in `known`.
func (j *fioJob) measureAll(ctx context.Context, targets []*iotax.Target, length time.Duration, known map[string]string) (map[string]string, error) {
	facts := map[string]string{}
	j.capacities = map[string]float64{}
	condition, err := j.spec.condition()
	if err != nil {
		return nil, &iotax.Error{Op: "find the limit of", On: j.name, Err: err}
	}
	for _, t := range targets {
		st, err := j.state(ctx, t)
		if err != nil {
			return nil, err
		}
		c, err := strconv.ParseFloat(known["capacity."+t.Name], 64)
		if err != nil || !(c > 0) {
			if c, err = j.capacity(ctx, t, st); err != nil {
				return nil, err
			}
		}
		if condition.beyond(c*length.Seconds()/stat.SearchSteps) < leastBeyond {
			return nil, j.tooFew(t, condition, c, length)
		}
		facts["capacity."+t.Name] = strconv.FormatFloat(c, 'f', 0, 64)
		j.capacities[t.Name] = c
	}
	return facts, nil
}
