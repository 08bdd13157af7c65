package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"iotax/stat"
)

//go:embed compare.html
var compareHTML string

var compareTemplate = template.Must(template.Must(pageTemplate.Clone()).New("compare").Parse(compareHTML))

// HTML writes the comparison as one page of the same kind as a report's.
func (c *Comparison) HTML(w io.Writer) error {
	var b bytes.Buffer
	if err := compareTemplate.Execute(&b, c.view()); err != nil {
		return fmt.Errorf("write HTML comparison: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

type compareView struct {
	CSS                                  template.CSS
	Script                               template.JS
	Policy, Version, Title, Answer, Gate string
	Failed                               bool
	A, B, What, Against, Margin, Method  string
	Wide, Narrow                         *forest
	Rows                                 []changeView
	General, Notes                       []noteView
	Only                                 []onlyView
	Differences                          []differenceView
}

type changeView struct {
	Workload, Target, A, B, AOrder, BOrder                 string
	Ratio, Bounds, RatioOrder, Loss, LossBounds, LossOrder string
	Verdict, Class                                         string
	Notes                                                  []int
}

type onlyView struct {
	ID, Side string
	Cells    []string
}

type differenceView struct{ Key, Where, A, B string }

func (c *Comparison) view() compareView {
	notes, refs := c.notes()
	v := compareView{CSS: template.CSS(pageCSS), Script: template.JS(pageJS), Policy: pagePolicy, // ours, from the binary
		Version: clean(c.B.Run.Version), Title: "B against A", Answer: bind(clean(c.Answer)), Gate: clean(c.gateLine()), Failed: c.Failed,
		A: clean(runLine(c.A)), B: clean(runLine(c.B)), Margin: bind(percent(c.Margin)), Method: bind(clean(c.methodLine())), What: "B over A"}
	if c.By == ByLoss {
		v.What = "B’s ratio to " + clean(c.B.Baseline) + " over A’s"
	}
	var groups []forestGroup
	var ratios []stat.Interval
	for i := range c.Rows {
		r := &c.Rows[i]
		row := changeView{Workload: clean(subject(r.Workload, r.Label)), Target: clean(r.Target), A: number(r.A, r.Unit), B: number(r.B, r.Unit),
			AOrder: order(r.A.Estimate), BOrder: order(r.B.Estimate), Ratio: dash, Loss: dash, Verdict: r.verdict(false), Class: verdictClass(r.Verdict), Notes: refs[r.CellMetric]}
		if row.Verdict == "" {
			row.Verdict = "baseline"
		}
		if r.Ratio != nil {
			row.Ratio, row.Bounds = splitBounds(formatRatio(r.Ratio.Interval))
			row.RatioOrder = order(r.Ratio.Estimate)
		}
		if r.Loss != nil {
			v.Against = clean(c.A.Baseline)
			row.Loss, row.LossBounds = splitBounds(formatRatio(r.Loss.Interval))
			row.LossOrder = order(r.Loss.Estimate)
		}
		v.Rows = append(v.Rows, row)

		if n := len(groups); n == 0 || groups[n-1].Label != row.Workload {
			groups = append(groups, forestGroup{Label: row.Workload})
		}
		it := forestItem{Name: r.Target, Verdict: r.Verdict}
		if e := r.judged(c.By); e != nil {
			it.Ratio = &e.Interval
			ratios = append(ratios, e.Interval)
		}
		g := &groups[len(groups)-1]
		g.Items = append(g.Items, it)
	}
	lo, hi := rangeOf(ratios, c.Margin)
	v.Wide, v.Narrow = drawForest(groups, v.What, c.Margin, lo, hi, wideForest), drawForest(groups, v.What, c.Margin, lo, hi, narrowForest)
	for _, f := range c.Findings {
		v.General = append(v.General, viewNote(Note{Rule: f.Rule, Severity: f.Severity, Mend: f.Mend, Items: []Item{{Evidence: f.Evidence}}}))
	}
	for _, n := range notes {
		nv := viewNote(n)
		nv.fold()
		v.Notes = append(v.Notes, nv)
	}
	for i, only := range [][]CellMetric{c.OnlyA, c.OnlyB} {
		if len(only) == 0 {
			continue
		}
		o := onlyView{ID: "only" + "ab"[i:i+1], Side: "AB"[i : i+1]}
		for _, k := range only {
			o.Cells = append(o.Cells, clean(k.String()))
		}
		v.Only = append(v.Only, o)
	}
	for _, d := range c.Differences {
		where := clean(d.where(0))
		if where == "" {
			where = "run"
		}
		v.Differences = append(v.Differences, differenceView{clean(d.Key), where, orDash(clean(d.A)), orDash(clean(d.B))})
	}
	return v
}
