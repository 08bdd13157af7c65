package assess

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// A way is one of several cells of a target that do the same work with different settings.
type way struct {
	assessed
	facts map[string]string
}

// ways returns the valid cells of a metric, by target, whose workload has the given kind and whose trials have the
// given fact.
func (a *assessing) ways(kind, metric, fact string) map[string][]way {
	out := map[string][]way{}
	for s, r := range a.Rows() {
		if s.Metric != metric || a.Workload(s.Workload).Kind != kind || len(r.Values()) == 0 || a.Invalid(r) {
			continue
		}
		if facts := a.TrialsOf(report.Cell{Target: r.Target, Workload: s.Workload})[0].Facts; facts[fact] != "" {
			out[r.Target] = append(out[r.Target], way{assessed{s, r}, facts})
		}
	}
	return out
}

// of returns the ratio of x to y, paired by round, with an interval at confidence level 1 − alpha. The ratio is above 1
// if x is better.
func (a *assessing) of(x, y way, alpha float64) (stat.Interval, bool) {
	o := a.Options()
	o.Alpha = alpha
	i, err := x.s.RatioOf(y.r.Dots, x.r.Dots, o)
	return i, err == nil
}

// fastestParts adds a sentence for each group of comparable uploads, about the combination of part size and concurrency
// that is fastest. It also names the combinations that may be as fast. The intervals of a sentence have a joint
// confidence level of 1 − α (Bonferroni).
func (a *assessing) fastestParts() {
	all := a.ways("object", iotax.ValueUploadBandwidth, iotax.FactPart)
	for _, t := range a.Targets() {
		for _, group := range grouped(all[t.Name], func(w way) (string, bool) { // compare only uploads with equal objects, clients and payload
			return w.facts["size"] + "×" + w.facts["count"] + "×" + w.facts[iotax.FactClients] + w.facts[iotax.FactPayload], true
		}) {
			a.fastest(group)
		}
	}
}

func (a *assessing) fastest(ways []way) {
	if len(ways) < 2 {
		return
	}
	pair := func(w way) string {
		return format.Clean(w.facts[iotax.FactPart]) + " × " + format.Clean(w.facts[iotax.FactConcurrency])
	}
	best := slices.MaxFunc(ways, func(x, y way) int { return cmp.Compare(x.r.Value.Estimate, y.r.Value.Estimate) })
	s := Sentence{Kind: SaysBest, Figures: []Figure{best.figure()}}
	var next string
	var nearest stat.Interval
	var maybe []string
	alike := true // all combinations are within the margin of the fastest
	for _, w := range ways {
		if w.r == best.r {
			continue
		}
		i, ok := a.of(w, best, a.Alpha/float64(len(ways)-1))
		if !ok {
			return
		}
		s.Figures = append(s.Figures, Figure{w.r.Target, w.s.Workload, w.s.Metric, best.r.Target, &i})
		if next == "" || i.Estimate > nearest.Estimate {
			next, nearest = pair(w), i
		}
		alike = alike && i.Bounded() && i.Lo >= 1/(1+a.Margin)
		if !i.Bounded() || i.Hi >= 1 {
			maybe = append(maybe, fmt.Sprintf("%s (%s)", pair(w), format.Share(i)))
		}
	}
	s.Text = fmt.Sprintf("%s: of %d ways to upload %s in parts, %s uploads fastest, %s", best.r.Target, len(ways), format.Clean(best.facts["size"]), pair(best), format.Value(best.r.Value, best.s.Unit))
	switch {
	case alike && a.Margin > 0:
		s.Text += fmt.Sprintf("; it makes no difference: all are within %s of it.", format.Percent(a.Margin))
	case len(maybe) == 0:
		s.Text += fmt.Sprintf("; the next, %s, reaches %s of that.", next, format.Share(nearest))
	default:
		s.Text += fmt.Sprintf("; that it is the fastest is not sure: %s.", format.Enumerate(maybe, format.Listed, "way"))
	}
	a.say(s)
}

// lazy adds a sentence for each target with a lazy and an eager copy of equal size, about the costs and gains of using
// the volume before it is fully copied.
func (a *assessing) lazy() {
	for _, t := range a.Targets() {
		pair := func(metric string) (i stat.Interval, lazy way, ok bool) {
			var eager *way
			for _, w := range a.ways("materialise", metric, iotax.FactLazy)[t.Name] {
				if w.facts[iotax.FactLazy] == "yes" {
					lazy, ok = w, true
				} else {
					eager = &w
				}
			}
			if !ok || eager == nil || eager.facts["size"] != lazy.facts["size"] {
				return i, lazy, false
			}
			i, ok = a.of(lazy, *eager, a.Alpha)
			return i, lazy, ok
		}
		first, w, ok := pair(iotax.ValueFirstIO)
		if !ok {
			continue
		}
		s := Sentence{Kind: SaysLazy, Figures: []Figure{{t.Name, w.s.Workload, iotax.ValueFirstIO, t.Name, &first}}}
		parts := []string{fmt.Sprintf("its first I/O comes in %s of the time that a copy takes", format.Share(format.Inverse(first)))}
		for _, x := range []struct{ metric, text string }{{"duration", "all of it is there in %s of that time"}, {report.SteadyReads + iotax.ValueReadBandwidth, "reads then reach %s of a copy's"}} {
			if i, w, ok := pair(x.metric); ok {
				s.Figures = append(s.Figures, Figure{t.Name, w.s.Workload, x.metric, t.Name, &i})
				if w.s.Better == iotax.Down {
					i = format.Inverse(i)
				}
				parts = append(parts, fmt.Sprintf(x.text, format.Share(i)))
			}
		}
		s.Text = fmt.Sprintf("%s, used lazily: %s.", t.Name, strings.Join(parts, "; "))
		a.say(s)
	}
}
