package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"iotax"
	"iotax/report"
	"iotax/stat"
	"iotax/store"
)

// mostCompared is how many runs stand beside each other: more fit no page.
const mostCompared = 6

type compareView struct {
	view
	A      comparedView
	Others []comparedView
	By     string
	ByHref string // the same by the other
	Groups []changeGroup
	Alone  bool     // there is one other: its intervals are drawn
	Ends   []string // of the strips on which they are
}

type comparedView struct {
	ID, Name, Href, Started, Answer string
	Base                            string // the page on which the others are held against this one
	Differences                     []differenceView
	Notes                           []changeNote
	Only                            []string // cells that the other side does not have
}

type differenceView struct{ Where, Key, A, B string }

type changeNote struct{ Rule, Severity, Text, Mend string }

type changeGroup struct {
	Workload, Label, Direction string
	Rows                       []changeRow
}

type changeRow struct {
	Target, Value, Bounds string
	Baseline              bool
	Cells                 []changeCell
}

type changeCell struct {
	Value, Bounds, Change, ChangeBounds, Verdict, Class string
	Why                                                 string
	Plot                                                *stripView
}

// stripView is a ratio on a logarithmic strip around 1, in per cent of its width.
type stripView struct {
	X, Lo, W, BandLo, BandW float64
	HasInterval             bool
	Label                   string
}

// chosen reads the runs of ?run=A&run=B…, the one that the others are held against first: the oldest, or base.
func (s *Server) chosen(ctx context.Context, v url.Values) ([]*iotax.Run, error) {
	refs := v["run"]
	if len(refs) < 2 {
		return nil, wrong("tick two or more runs to compare them")
	}
	if len(refs) > mostCompared {
		return nil, wrong("%d runs are too many to compare at once: %d are the most", len(refs), mostCompared)
	}
	var runs []*iotax.Run
	for _, ref := range refs {
		r, err := s.Store.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(o *iotax.Run) bool { return o.ID == r.ID }) {
			runs = append(runs, r)
		}
	}
	if len(runs) < 2 {
		return nil, wrong("tick two runs that are not the same")
	}
	slices.SortStableFunc(runs, func(a, b *iotax.Run) int { return a.Start.Compare(b.Start) })
	if base := v.Get("base"); base != "" {
		i := slices.IndexFunc(runs, func(r *iotax.Run) bool { return r.ID == base })
		if i < 0 {
			return nil, wrong("run %q is not among those that are compared", base)
		}
		first := runs[i]
		runs = append([]*iotax.Run{first}, slices.Delete(runs, i, i+1)...)
	}
	return runs, nil
}

// comparisons holds each run but the first against the first.
func (s *Server) comparisons(ctx context.Context, v url.Values) (*report.Report, []*report.Comparison, error) {
	o := report.CompareOptions{Margin: -1, By: report.By(v.Get("by"))}
	if o.By != "" && o.By != report.ByValue && o.By != report.ByLoss {
		return nil, nil, wrong("runs are compared by value or loss, not by %q", o.By)
	}
	runs, err := s.chosen(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	done, err := s.work(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	var first *report.Report
	var out []*report.Comparison
	for i, r := range runs {
		rep, err := s.report(ctx, r, store.Brief)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			first = rep
			continue
		}
		out = append(out, report.Compare(first, rep, o))
	}
	return first, out, nil
}

func (s *Server) compare(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	a, all, err := s.comparisons(r.Context(), query)
	if err != nil {
		return err
	}
	v := compareView{view: s.view(r, "Comparison", "compare"), By: string(all[0].By), Alone: len(all) == 1}
	same := func(change func(url.Values)) string {
		q := url.Values{"run": query["run"]}
		if b := query.Get("base"); b != "" {
			q.Set("base", b)
		}
		if v.By == string(report.ByLoss) {
			q.Set("by", v.By)
		}
		change(q)
		return "/compare?" + q.Encode()
	}
	v.ByHref = same(func(q url.Values) { q.Set("by", string(report.ByLoss)) })
	if v.By == string(report.ByLoss) {
		v.ByHref = same(func(q url.Values) { q.Del("by") })
	}
	side := func(r *iotax.Run) comparedView {
		c := comparedView{ID: r.ID, Name: report.Clean(r.Name), Href: "/runs/" + url.PathEscape(r.ID), Base: same(func(q url.Values) { q.Set("base", r.ID) })}
		if c.Name == "" {
			c.Name = r.ID
		}
		if !r.Start.IsZero() {
			c.Started = r.Start.UTC().Format("2006-01-02 15:04 UTC")
		}
		return c
	}
	v.A = side(a.Run)
	for _, c := range all {
		o := side(c.B.Run)
		o.Answer = unbroken(report.Clean(c.Answer))
		for _, d := range c.Differences {
			o.Differences = append(o.Differences, differenceView{report.Clean(d.Place()), report.Clean(d.Key), report.Clean(d.A), report.Clean(d.B)})
		}
		for _, f := range c.Findings {
			o.Notes = append(o.Notes, changeNote{f.Rule, string(f.Severity), report.Clean(f.Evidence), report.Clean(f.Mend)})
		}
		for _, k := range c.OnlyA {
			o.Only = append(o.Only, report.Clean(k.String())+", in A alone")
		}
		for _, k := range c.OnlyB {
			o.Only = append(o.Only, report.Clean(k.String())+", in B alone")
		}
		v.Others = append(v.Others, o)
	}
	reach := reachOf(all)
	v.Ends = []string{fmt.Sprintf("%.2g×", 1/reach), fmt.Sprintf("%.3g×", reach)}
	v.Groups = changeGroups(a, all, reach)
	s.write(w, r, http.StatusOK, "compare.html", v)
	return nil
}

// changeGroups has a group for each workload and metric of A that any other run has too.
func changeGroups(a *report.Report, all []*report.Comparison, reach float64) []changeGroup {
	var out []changeGroup
	at := make([]map[report.CellMetric]*report.Change, len(all))
	for i, c := range all {
		at[i] = map[report.CellMetric]*report.Change{}
		for j := range c.Rows {
			at[i][c.Rows[j].CellMetric] = &c.Rows[j]
		}
	}
	for _, sec := range a.Sections {
		g := changeGroup{Workload: report.Clean(sec.Workload), Label: sec.Label, Direction: direction(sec.Better)}
		for _, row := range sec.Rows {
			cr := changeRow{Target: report.Clean(row.Target), Baseline: row.Baseline}
			if row.Value.N > 0 {
				cr.Value, cr.Bounds = parted(report.Value(row.Value, sec.Unit))
			}
			known := false
			for i, c := range all {
				ch := at[i][report.CellMetric{Target: row.Target, Workload: sec.Workload, Metric: sec.Metric}]
				known = known || ch != nil
				cr.Cells = append(cr.Cells, cellOf(c, ch, reach))
			}
			if known {
				g.Rows = append(g.Rows, cr)
			}
		}
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func direction(b iotax.Better) string {
	switch b {
	case iotax.Up:
		return "more is better"
	case iotax.Down:
		return "less is better"
	}
	return ""
}

func cellOf(c *report.Comparison, ch *report.Change, reach float64) changeCell {
	if ch == nil {
		return changeCell{}
	}
	cell := changeCell{Verdict: report.VerdictWord(ch.Verdict), Class: report.VerdictClass(ch.Verdict)}
	if ch.B.N > 0 {
		cell.Value, cell.Bounds = parted(report.Value(ch.B, ch.Unit))
	}
	if r := judged(c, ch); r != nil {
		cell.Change, cell.ChangeBounds = parted(report.Ratio(r.Interval))
		cell.Plot = strip(r.Interval, c.Margin, reach)
	}
	var why []string
	for _, f := range ch.Findings {
		why = append(why, report.Clean(f.Rule+": "+f.Evidence))
	}
	if ch.Holm {
		why = append(why, "it would be worse or better alone, and is not among so many comparisons (Holm)")
	}
	cell.Why = strings.Join(why, "; ")
	return cell
}

func judged(c *report.Comparison, ch *report.Change) *stat.Change {
	if c.By == report.ByLoss {
		return ch.Loss
	}
	return ch.Ratio
}

// reaches are the ratios at which strips may end.
var reaches = []float64{1.25, 1.5, 2, 3, 5, 10}

// reachOf is the ratio at which the strips of a page end, so that every estimate and most intervals lie on
// them.
func reachOf(all []*report.Comparison) float64 {
	most := 1.0
	for _, c := range all {
		for i := range c.Rows {
			r := judged(c, &c.Rows[i])
			if r == nil {
				continue
			}
			for _, v := range []float64{r.Estimate, r.Lo, r.Hi} {
				if v > 0 && !math.IsInf(v, 0) {
					most = math.Max(most, math.Exp(math.Abs(math.Log(v))))
				}
			}
		}
	}
	for _, r := range reaches {
		if most <= r {
			return r
		}
	}
	return reaches[len(reaches)-1]
}

func strip(i stat.Interval, margin, reach float64) *stripView {
	if !(i.Estimate > 0) || math.IsInf(i.Estimate, 0) {
		return nil
	}
	x := func(v float64) float64 { return 100 * min(1, max(0, .5+math.Log(v)/(2*math.Log(reach)))) }
	s := &stripView{X: x(i.Estimate), BandLo: x(1 / (1 + margin)), Label: report.Ratio(i)}
	s.BandW = x(1+margin) - s.BandLo
	if i.Bounded() && i.Lo > 0 {
		s.HasInterval, s.Lo = true, x(i.Lo)
		s.W = max(.5, x(i.Hi)-s.Lo)
	}
	return s
}

var interval = regexp.MustCompile(`(\d)–(\d)`)

// unbroken keeps the two ends of an interval in one line.
func unbroken(s string) string { return interval.ReplaceAllString(s, "$1\u2060–\u2060$2") }

// functions are what templates may call.
func (s *Server) functions() map[string]any {
	return map[string]any{
		"f":   func(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", x), ".00") },
		"add": func(a, b float64) float64 { return a + b },
		"letter": func(i int) string {
			return string(rune('B' + i))
		},
	}
}
