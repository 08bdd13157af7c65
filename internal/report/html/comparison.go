package html

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

//go:embed comparison.html
var compareHTML string

var compareTemplate = template.Must(template.Must(pageTemplate.Clone()).New("compare").Parse(compareHTML))

// A ComparisonPage shows one or more runs held against the same one.
type ComparisonPage struct {
	All []*compare.Comparison // of one A; at least one

	// What a server puts around it. Head ends the page's head, and Top begins its body.
	Head, Top template.HTML
	// Links are the addresses of a run's report, and of the same page with that run as A; "" where there is
	// none. It may be nil.
	Links func(run *iotax.Run) (report, base string)
	// Trend is the address of what a number of a cell was over time. It may be nil.
	Trend func(compare.CellMetric) string
	Other string // address of the same page judged the other way
}

// Comparison writes the comparison as one page of the same kind as a report's.
func Comparison(w io.Writer, c *compare.Comparison) error {
	return ComparisonPage{All: []*compare.Comparison{c}}.Write(w)
}

// Write writes the page.
func (p ComparisonPage) Write(w io.Writer) error {
	var b bytes.Buffer
	if err := compareTemplate.Execute(&b, p.view()); err != nil {
		return fmt.Errorf("write HTML comparison: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

type compareView struct {
	headView
	Top                                   template.HTML
	Script                                template.JS
	Answer, Banner, What, Against, Margin string
	ByLoss                                bool
	Other                                 string
	Alone                                 bool // one run is held against A
	A                                     sideView
	Others                                []sideView
	Wide, Narrow                          *forest
	Rows                                  []changeView
	Trends                                bool // rows have addresses of theirs
	Method                                string
}

// A sideView is one of the runs, and what is said beside the numbers of its comparison with A.
type sideView struct {
	Letter, Line, Link, Base, Answer string
	Gate                             string
	Failed                           bool
	General, Notes                   []noteView
	Only                             []onlyView
	Differences                      []differenceView
}

// A changeView is a cell of A with what the others have there.
type changeView struct {
	Workload, Target, A, AOrder string
	Trend                       string // address
	Cells                       []changeCell
}

type changeCell struct {
	Value, Order, Ratio, Bounds, RatioOrder, Loss, LossBounds, LossOrder, Verdict, Class string
	Notes                                                                                []int
}

type onlyView struct {
	ID, Where string
	Cells     []string
}

type differenceView struct{ Key, Where, A, B string }

func (p ComparisonPage) view() compareView {
	first := p.All[0]
	v := compareView{headView: newHead(first.A.Run.Version, "B against A", p.Head), Top: p.Top, Script: template.JS(PageJS), // ours, from the binary
		Answer: format.Unbroken(format.Clean(first.Answer)), Banner: format.Unbroken(format.Clean(compare.BannerOfAll(p.All))), Margin: format.Unbroken(format.Percent(first.Margin)), What: "B over A", ByLoss: first.By == compare.ByLoss, Other: p.Other, Alone: len(p.All) == 1, Trends: p.Trend != nil,
		Method: format.Unbroken(format.Clean(first.Method()))}
	v.Version = format.Clean(first.B.Run.Version)
	if v.ByLoss {
		v.What = "B’s ratio to " + format.Clean(first.B.Baseline) + " over A’s"
	}
	if !v.Alone {
		v.Title = format.Plural(len(p.All), "run") + " against A"
		v.Answer = format.Unbroken(format.Clean(compare.AnswerOfAll(p.All)))
		v.What = "Each run over A"
		if v.ByLoss {
			v.What = "Each run’s ratio to " + format.Clean(first.A.Baseline) + " over A’s"
		}
		v.Method = "Each letter’s ratios are to A; above 1 the letter is better. " + v.Method + " Verdicts of each run are adjusted for their number, and not those of several runs together."
	}
	v.A = p.side("A", first.A, nil, 0)
	told := 0
	at := make([]map[compare.CellMetric]*compare.Change, len(p.All))
	refs := make([]map[compare.CellMetric][]int, len(p.All))
	for i, c := range p.All {
		var notes []report.Note
		notes, refs[i] = c.Notes()
		o := p.side(c.Letter, c.B, c, i)
		for _, n := range notes {
			n.Number += told
			nv := viewNote(n)
			nv.fold()
			o.Notes = append(o.Notes, nv)
		}
		for _, ns := range refs[i] {
			for k := range ns {
				ns[k] += told
			}
		}
		told += len(notes)
		v.Others = append(v.Others, o)
		at[i] = map[compare.CellMetric]*compare.Change{}
		for j := range c.Rows {
			at[i][c.Rows[j].CellMetric] = &c.Rows[j]
			if c.Rows[j].Loss != nil {
				v.Against = format.Clean(c.A.Baseline)
			}
		}
	}
	var groups []forestGroup
	var ratios []stat.Interval
	for _, k := range compare.CellMetrics(first.A) {
		row := changeView{Target: format.Clean(k.Target)}
		var items []forestItem
		known := false
		for i, c := range p.All {
			ch := at[i][k]
			if ch == nil {
				row.Cells = append(row.Cells, changeCell{Value: format.Dash, Ratio: format.Dash, Loss: format.Dash})
				continue
			}
			known = true
			row.Workload, row.A, row.AOrder = format.Clean(format.Subject(k.Workload, ch.Label)), format.Number(ch.A, ch.Unit), order(ch.A.Estimate)
			row.Cells = append(row.Cells, viewChange(ch, refs[i][k]))
			it := forestItem{Name: k.Target, Verdict: ch.Verdict}
			if !v.Alone {
				it.Name += ", " + c.Letter
			}
			if e := ch.Judged(c.By); e != nil {
				it.Ratio = &e.Interval
				ratios = append(ratios, e.Interval)
			}
			items = append(items, it)
		}
		if !known {
			continue
		}
		if p.Trend != nil {
			row.Trend = p.Trend(k)
		}
		v.Rows = append(v.Rows, row)
		if n := len(groups); n == 0 || groups[n-1].Label != row.Workload {
			groups = append(groups, forestGroup{Label: row.Workload})
		}
		g := &groups[len(groups)-1]
		g.Items = append(g.Items, items...)
	}
	lo, hi := report.RangeOf(ratios, first.Margin)
	v.Wide, v.Narrow = drawForest(groups, v.What, first.Margin, lo, hi, wideForest), drawForest(groups, v.What, first.Margin, lo, hi, narrowForest)
	return v
}

// side is one run of the page; c is its comparison with A, the i-th, nil for A itself.
func (p ComparisonPage) side(letter string, r *report.Report, c *compare.Comparison, i int) sideView {
	s := sideView{Letter: letter, Line: format.Clean(compare.RunLine(r))}
	if p.Links != nil {
		s.Link, s.Base = p.Links(r.Run)
	}
	if c == nil {
		return s
	}
	s.Answer, s.Gate, s.Failed = format.Unbroken(format.Clean(c.Answer)), format.Clean(c.Gate()), c.Failed
	for _, f := range c.Findings {
		s.General = append(s.General, viewNote(report.Note{Finding: f, Items: []report.Item{{Evidence: f.Evidence}}}))
	}
	for k, only := range [][]compare.CellMetric{c.OnlyA, c.OnlyB} {
		if len(only) == 0 {
			continue
		}
		o := onlyView{ID: fmt.Sprintf("only%d%d", i, k), Where: "in " + c.SideName(k)}
		if k == 0 && len(p.All) > 1 {
			o.Where += ", and not in " + letter
		}
		for _, cell := range only {
			o.Cells = append(o.Cells, format.Clean(cell.String()))
		}
		s.Only = append(s.Only, o)
	}
	for _, d := range c.Differences {
		where := format.Clean(d.Place(0))
		if where == "" {
			where = "run"
		}
		s.Differences = append(s.Differences, differenceView{format.Clean(d.Key), where, format.OrDash(format.Clean(d.A)), format.OrDash(format.Clean(d.B))})
	}
	return s
}

// viewChange is what the page prints of a change.
func viewChange(r *compare.Change, notes []int) changeCell {
	c := changeCell{Value: format.Number(r.B, r.Unit), Order: order(r.B.Estimate), Ratio: format.Dash, Loss: format.Dash,
		Verdict: format.Verdict(r.Verdict, false), Class: verdictClass(r.Verdict), Notes: slices.Compact(slices.Sorted(slices.Values(notes)))}
	if c.Verdict == "" {
		c.Verdict = "baseline"
	}
	if r.Ratio != nil {
		c.Ratio, c.Bounds = format.Split(format.Ratio(r.Ratio.Interval))
		c.RatioOrder = order(r.Ratio.Estimate)
	}
	if r.Loss != nil {
		c.Loss, c.LossBounds = format.Split(format.Ratio(r.Loss.Interval))
		c.LossOrder = order(r.Loss.Estimate)
	}
	return c
}
