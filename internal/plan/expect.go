package plan

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"iotax/internal/expect"
	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
	"iotax/stat"
)

// An Expectation is an expect.Expectation about one workload, with the base unit of its metric.
type Expectation struct {
	expect.Expectation
	MetricUnit string
	Pos        Pos // zero for the command line
}

// Alpha returns α, the significance level of each interval of a run (1 − confidence). It is lower if the run checks its
// intervals several times.
func (p *Plan) Alpha() float64 {
	switch r := p.Measure.Rounds; {
	case p.Measure.Fixed():
		return stat.AlphaFixed
	case len(p.Expectations) > 0 || p.Measure.Drop != "":
		return stat.AlphaDecided(r.Min, r.Max)
	default:
		return stat.Alpha(r.Min, r.Max)
	}
}

// Expected returns the expectations of `workload`.
func (p *Plan) Expected(workload string) (out []Expectation) {
	for _, e := range p.Expectations {
		if e.Workload == workload {
			out = append(out, e)
		}
	}
	return out
}

// Expect adds the expectations given on the command line.
func (p *Plan) Expect(texts []string) error {
	c := &syntax.Collector{}
	for i, text := range texts {
		src := &syntax.Source{Word: "--expect", Index: i, Lines: []string{text}}
		p.expect(c, &syntax.Node{Kind: syntax.ScalarNode, Src: src, Line: 1, Col: 1, Width: utf8.RuneCountInString(text), Text: text}, "")
	}
	return c.Err()
}

// expect adds the expectations in `list`, which is below `workload`, or at the top of the plan if `workload` is "". At
// the top, an expectation that names no workload is added for each workload to which it can apply.
func (p *Plan) expect(c *syntax.Collector, list *syntax.Node, workload string) {
	for _, n := range list.Listed() {
		if n.Kind != syntax.ScalarNode {
			c.Fail(syntax.OrKey(n, list), expect.Form, "expect takes an expectation or a list of them, not %s", n.What())
			continue
		}
		e, err := expect.Parse(n.Text)
		if err != nil {
			c.Fail(n, bind.AsFieldError(err).Hint, "%s", bind.AsFieldError(err).Msg)
			continue
		}
		if workload != "" && e.Workload != "" {
			c.Fail(token(n, e.Workload), "leave it out, or write the expectation below expect: of the plan", "it is below a workload, and it names a workload")
			continue
		}
		e.Workload = cmp.Or(e.Workload, workload)
		p.expectOne(c, n, e)
	}
}

func (p *Plan) expectOne(c *syntax.Collector, n *syntax.Node, e expect.Expectation) {
	var workloads, targets []string
	for _, w := range p.Workloads {
		workloads = append(workloads, w.Name)
	}
	for _, t := range p.Targets {
		targets = append(targets, t.Name)
	}
	switch {
	case e.Workload != "" && !slices.Contains(workloads, e.Workload):
		c.Fail(token(n, e.Workload), syntax.DidYouMean(e.Workload, workloads), "there is no workload %s", syntax.Quote(e.Workload))
		return
	case e.Target != "" && !slices.Contains(targets, e.Target):
		c.Fail(token(n, e.Target), syntax.DidYouMean(e.Target, targets), "there is no target %s", syntax.Quote(e.Target))
		return
	}
	found, reason := false, (*syntax.ValueError)(nil)
	for _, w := range p.Workloads {
		if w.Aside || e.Workload != "" && e.Workload != w.Name || e.Target != "" && !w.Done(e.Target) {
			continue
		}
		base := p.Baseline
		if !w.Done(base) {
			base = w.At[0]
		}
		if e.OfBaseline && !slices.ContainsFunc(targets, func(t string) bool {
			return w.Done(t) && t != base && (e.Target == "" || e.Target == t)
		}) {
			reason = cmp.Or(reason, &syntax.ValueError{Msg: "nothing is compared with the baseline " + syntax.Quote(base),
				Hint: "write a limit in the unit of " + e.Metric + ", or name another target"})
			continue
		}
		v, hint, err := find(w.Name, w.Possible(), e.Metric)
		if err != nil {
			reason = cmp.Or(reason, &syntax.ValueError{Msg: err.Error(), Hint: hint})
			continue
		}
		found = true
		one := Expectation{e, v.Unit, n.Pos()}
		one.Workload, one.Metric = w.Name, v.Name
		if _, err := one.Bound(v.Unit); err != nil {
			c.Fail(token(n, e.Limit), bind.AsFieldError(err).Hint, "%s", bind.AsFieldError(err).Msg)
			return
		}
		for _, other := range p.Expectations {
			if one.Contradicts(other.Expectation, v.Unit) {
				c.Fail(n, "remove one", "%s contradicts %s: no value meets both", syntax.Quote(one.String()), syntax.Quote(other.String()))
				return
			}
		}
		if !slices.ContainsFunc(p.Expectations, func(x Expectation) bool { return x.Expectation == one.Expectation }) {
			p.Expectations = append(p.Expectations, one)
		}
	}
	if !found {
		if reason == nil {
			reason = &syntax.ValueError{Msg: "no workload is measured at " + syntax.Quote(e.Target)}
		}
		c.Fail(token(n, e.Metric), reason.Hint, "%s", reason.Msg)
	}
}

// token returns a node that covers the last occurrence of part in the text of n.
func token(n *syntax.Node, part string) *syntax.Node {
	i := max(0, strings.LastIndex(n.Text, part))
	at := *n.From(utf8.RuneCountInString(n.Text[:i]) + 1)
	at.Width = utf8.RuneCountInString(part)
	return &at
}
