package web

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/chart"
	"iotax/internal/report/compare"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/internal/store"
	"iotax/stat"
)

const (
	trendRuns = 100 // that a trend shows if nothing else is asked for
	mostRuns  = stat.MostPoints
)

// A point is what one run says about a cell.
type point struct {
	run      iotax.Run // without its plan
	baseline string
	work     string // what was done, on target and baseline
	figures  []figure
}

type figure struct {
	metric, label, unit string
	better              iotax.Better
	headline            bool
	value               stat.Interval
	ratio               *stat.Interval
	unfit               string // why the number must not be held against others
}

type pointKey struct {
	store.Cell
	run   string
	ended time.Time
}

// points are kept: what a run that has ended says does not change, unless it is resumed.
type points struct {
	mu  sync.Mutex
	all map[pointKey]point
}

// mostPoints keeps the memory of a server that runs for months in bounds.
const mostPoints = 20000

func (s *Server) point(ctx context.Context, c store.Cell, run *iotax.Run) (point, error) {
	key := pointKey{c, run.ID, run.End}
	s.points.mu.Lock()
	p, ok := s.points.all[key]
	s.points.mu.Unlock()
	if ok {
		return p, nil
	}
	rep, err := s.cellReport(ctx, c, run)
	if err != nil {
		return point{}, err
	}
	p = pointOf(c, rep)
	s.points.mu.Lock()
	defer s.points.mu.Unlock()
	if len(s.points.all) >= mostPoints {
		clear(s.points.all)
	}
	s.points.all[key] = p
	return p, nil
}

// cellReport is the report of one workload of a run: the same numbers as in the whole one.
func (s *Server) cellReport(ctx context.Context, c store.Cell, run *iotax.Run) (*report.Report, error) {
	part := *run
	part.Workloads = slices.DeleteFunc(slices.Clone(run.Workloads), func(w iotax.WorkloadInfo) bool { return w.Name != c.Workload })
	return report.From(&part, s.Store.Parts(ctx, run.ID, c.Workload, store.Brief))
}

func pointOf(c store.Cell, rep *report.Report) point {
	p := point{run: *rep.Run, baseline: rep.Baseline}
	p.run.Plan, p.run.Findings = nil, nil
	p.work = compare.Work(rep, report.Cell{Target: c.Target, Workload: c.Workload}) + " against " + rep.Baseline + " " + compare.Work(rep, report.Cell{Target: rep.Baseline, Workload: c.Workload})
	for _, sec := range rep.Sections {
		for _, row := range sec.Rows {
			if row.Target != c.Target || row.Value.N == 0 {
				continue
			}
			f := figure{metric: sec.Metric, label: sec.Label, unit: sec.Unit, better: sec.Better, headline: true, value: row.Value,
				unfit: compare.Unfit(rep, compare.CellMetric{Target: c.Target, Workload: c.Workload, Metric: sec.Metric})}
			if row.Ratio != nil {
				f.ratio = &row.Ratio.Interval
			}
			p.figures = append(p.figures, f)
			for _, other := range row.Secondary {
				if other.Merged || slices.ContainsFunc(p.figures, func(f figure) bool { return f.metric == other.Name }) {
					continue
				}
				p.figures = append(p.figures, figure{metric: other.Name, label: other.Label, unit: other.Unit, better: other.Better, value: other.Value, unfit: f.unfit})
			}
		}
	}
	return p
}

func (p *point) figure(metric string) *figure {
	for i := range p.figures {
		if p.figures[i].metric == metric {
			return &p.figures[i]
		}
	}
	return nil
}

// A trendData is one number of a cell over runs, the oldest first.
type trendData struct {
	cell    store.Cell
	name    string // of the runs; "" is any
	metric  string
	byRatio bool
	limit   int

	label, unit string
	better      iotax.Better
	metrics     []figure // to choose from: those of the newest run
	hasRatio    bool
	baseline    string
	margin      float64
	dots        []trendDot
	changes     []trendChange
}

type trendDot struct {
	run    iotax.Run
	value  stat.Interval
	unlike string // why it takes no part
}

// A trendChange is a place where the number changed, between two dots that take part.
type trendChange struct {
	before, after int // indexes of dots
	p             float64
	change        stat.Interval // oriented: above 1 is better
	verdict       stat.Verdict
	differences   []compare.Difference
}

// trendOf computes the trend that an address asks for.
func (s *Server) trendOf(ctx context.Context, q url.Values) (*trendData, error) {
	d := &trendData{cell: store.Cell{Workload: q.Get("workload"), Target: q.Get("target")}, name: q.Get("name"), metric: q.Get("metric"), limit: trendRuns}
	if text := q.Get("runs"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostRuns {
			return nil, wrong("a trend shows 1 to %d runs, not %q", mostRuns, text)
		}
		d.limit = n
	}
	by := q.Get("by")
	if by != "" && by != "ratio" && by != "value" {
		return nil, wrong("a trend is of value or ratio, not of %q", by)
	}
	runs, err := s.Store.With(ctx, d.cell, d.name, d.limit)
	if err != nil {
		return nil, err
	}
	done, err := s.work(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var all []point
	for i := range runs {
		if runs[i].Status == iotax.Running {
			continue // half a run is no point
		}
		p, err := s.point(ctx, d.cell, &runs[i])
		if err != nil {
			return nil, err
		}
		if len(p.figures) > 0 {
			all = append(all, p)
		}
	}
	slices.Reverse(all)
	if len(all) == 0 {
		return nil, problem{fmt.Errorf("no run that has ended has a number of %s / %s", d.cell.Target, d.cell.Workload), http.StatusNotFound}
	}
	d.choose(all, by)
	if err := d.find(ctx, s); err != nil {
		return nil, err
	}
	return d, nil
}

// choose picks the number out of the points. What is unlike the newest run takes no part.
func (d *trendData) choose(all []point, by string) {
	newest := all[len(all)-1]
	d.metrics, d.margin, d.baseline = newest.figures, newest.run.Margin, newest.baseline
	if newest.figure(d.metric) == nil {
		d.metric = newest.figures[0].metric
	}
	chosen := newest.figure(d.metric)
	d.label, d.unit, d.better = chosen.label, chosen.unit, chosen.better
	d.hasRatio = chosen.ratio != nil
	d.byRatio = d.hasRatio && by != "value"
	for _, p := range all {
		f := p.figure(d.metric)
		if f == nil {
			continue
		}
		dot := trendDot{run: p.run, value: f.value, unlike: f.unfit}
		if d.byRatio {
			if f.ratio == nil {
				continue
			}
			dot.value = *f.ratio
		}
		switch {
		case dot.unlike != "":
		case !(dot.value.Estimate > 0) || math.IsInf(dot.value.Estimate, 0):
			dot.unlike = "it has no logarithm"
		case p.work != newest.work && d.byRatio, before(p.work) != before(newest.work):
			dot.unlike = "not the same work, or not against the same baseline: " + p.work
		case f.unit != chosen.unit:
			dot.unlike = "another unit"
		}
		d.dots = append(d.dots, dot)
	}
}

// before is the target's part of a point's work.
func before(work string) string {
	work, _, _ = strings.Cut(work, " against ")
	return work
}

// find looks for change points among the dots that take part, and for what changed with them.
func (d *trendData) find(ctx context.Context, s *Server) error {
	var logs []float64
	var at []int
	for i, dot := range d.dots {
		if dot.unlike == "" {
			logs, at = append(logs, math.Log(dot.value.Estimate)), append(at, i)
		}
	}
	for _, c := range stat.ChangePoints(logs) {
		t := trendChange{before: at[c.Index-1], after: at[c.Index], p: c.P, change: c.Change.Interval}
		if d.better == iotax.Down && !d.byRatio {
			i := t.change
			t.change = stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
		}
		t.verdict = stat.NotRanked
		if d.byRatio || d.better != iotax.Neither {
			t.verdict = stat.Judge(t.change, d.margin)
		}
		var sides [2]*report.Report
		for i, k := range []int{t.before, t.after} {
			run, err := s.Store.Get(ctx, d.dots[k].run.ID)
			if err != nil {
				return err
			}
			if sides[i], err = s.cellReport(ctx, d.cell, run); err != nil {
				return err
			}
		}
		t.differences = compare.Differences(sides[0], sides[1])
		d.changes = append(d.changes, t)
	}
	return nil
}

type trendsView struct {
	view
	Name, Text string
	Groups     []cellsView
	Cells      int
}

type cellsView struct {
	Workload string
	Targets  []linkView
}

type linkView struct{ Label, Href string }

// trends lists the cells there are.
func (s *Server) trends(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v := trendsView{view: s.view(r, "Trends", "trends"), Name: q.Get("name"), Text: q.Get("q")}
	cells, err := s.Store.Cells(r.Context())
	if err != nil {
		return err
	}
	if v.Name != "" {
		if cells, err = s.cellsOf(r.Context(), v.Name); err != nil {
			return err
		}
	}
	words := strings.Fields(strings.ToLower(v.Text))
	for _, c := range cells {
		text := strings.ToLower(c.Workload + "\n" + c.Target)
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Workload != format.Clean(c.Workload) {
			v.Groups = append(v.Groups, cellsView{Workload: format.Clean(c.Workload)})
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Targets = append(g.Targets, linkView{format.Clean(c.Target), trendAddress(c, url.Values{"name": {v.Name}})})
		v.Cells++
	}
	s.write(w, r, http.StatusOK, "trends.html", v)
	return nil
}

// cellsOf are the cells of the newest run of that name, in its order.
func (s *Server) cellsOf(ctx context.Context, name string) ([]store.Cell, error) {
	found, _, err := s.Store.Find(ctx, store.Query{Name: name, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var cells []store.Cell
	for _, w := range found[0].Workloads {
		for _, t := range found[0].Targets {
			cells = append(cells, store.Cell{Workload: w, Target: t})
		}
	}
	return cells, nil
}

func trendAddress(c store.Cell, more url.Values) string {
	v := url.Values{"workload": {c.Workload}, "target": {c.Target}}
	for k, values := range more {
		if len(values) > 0 && values[0] != "" {
			v.Set(k, values[0])
		}
	}
	return "/trend?" + v.Encode()
}

// trendsOf gives the addresses of the trends of what runs measured: among runs of their name, where they have one and
// have it in common. A number that has a ratio to the baseline is shown as that, unless it is asked for as it is.
func trendsOf(byValue bool, runs ...*iotax.Run) func(compare.CellMetric) string {
	more := url.Values{}
	if !slices.ContainsFunc(runs, func(r *iotax.Run) bool { return r.Name != runs[0].Name }) {
		more.Set("name", runs[0].Name)
	}
	if byValue {
		more.Set("by", "value")
	}
	return func(c compare.CellMetric) string {
		more := maps.Clone(more)
		more.Set("metric", c.Metric)
		return trendAddress(store.Cell{Workload: c.Workload, Target: c.Target}, more)
	}
}

type trendView struct {
	view
	Workload, Target, Name, Label, Direction, Baseline, Margin string
	ByRatio                                                    bool
	Bys, Metrics, More, Names                                  []linkChoice // More: numbers that are rarely asked for
	Wide, Narrow                                               template.HTML
	HasInterval                                                bool
	Changes                                                    []changeView
	Dots                                                       []dotRow
	Points, Unlike                                             int
	Answer                                                     string
	Few                                                        bool
}

// foremost is how the names of those numbers end that stand beside the headline's without being asked for.
var foremost = []string{".iops", ".bandwidth", ".latency.mean", ".latency.p99", ".duration"}

type linkChoice struct {
	linkView
	Chosen bool
}

type changeView struct {
	Started, ID, Href, Compare, Change, Bounds, Verdict, Class string
	P                                                          string
	Differences                                                []differenceView
	More                                                       int
}

type dotRow struct {
	Started, ID, Name, Href, Value, Bounds, Unlike, Class string
}

func (s *Server) trend(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	d, err := s.trendOf(r.Context(), q)
	if err != nil {
		return err
	}
	v := trendView{view: s.view(r, "Trend", "trends"), Workload: format.Clean(d.cell.Workload), Target: format.Clean(d.cell.Target), Name: format.Clean(d.name),
		Label: d.label, Direction: direction(d.better), Baseline: format.Clean(d.baseline), Margin: format.Percent(d.margin), ByRatio: d.byRatio}
	v.Title = v.Target + ", " + v.Workload
	with := func(key, value string) string {
		m := maps.Clone(q)
		m.Del("workload")
		m.Del("target")
		m.Set(key, value)
		return trendAddress(d.cell, m)
	}
	if d.hasRatio {
		v.Bys = []linkChoice{{linkView{"ratio to " + v.Baseline, with("by", "ratio")}, d.byRatio}, {linkView{"value", with("by", "value")}, !d.byRatio}}
	}
	for _, f := range d.metrics {
		c := linkChoice{linkView{f.label, with("metric", f.metric)}, f.metric == d.metric}
		if c.Chosen || f.headline || slices.ContainsFunc(foremost, func(end string) bool { return strings.HasSuffix(f.metric, end) }) {
			v.Metrics = append(v.Metrics, c)
		} else {
			v.More = append(v.More, c)
		}
	}
	if len(v.More) == 1 { // it takes no more room than to say that there is one
		v.Metrics, v.More = append(v.Metrics, v.More...), nil
	}
	if d.name != "" {
		v.Names = []linkChoice{{linkView{"runs named " + v.Name, with("name", d.name)}, true}, {linkView{"all runs", with("name", "")}, false}}
	}
	for _, dot := range d.dots {
		row := dotRow{Started: dot.run.Start.UTC().Format("2006-01-02 15:04"), ID: dot.run.ID, Name: format.Clean(dot.run.Name), Href: "/runs/" + url.PathEscape(dot.run.ID), Unlike: format.Clean(dot.unlike)}
		row.Value, row.Bounds = parted(d.text(dot.value))
		if dot.unlike != "" {
			v.Unlike++
			row.Class = "gone"
		} else {
			v.Points++
		}
		v.Dots = append(v.Dots, row)
	}
	slices.Reverse(v.Dots) // the newest first, as everywhere
	for _, c := range slices.Backward(d.changes) {
		cv := changeView{Started: d.dots[c.after].run.Start.UTC().Format("2006-01-02 15:04"), ID: d.dots[c.after].run.ID, Href: "/runs/" + url.PathEscape(d.dots[c.after].run.ID),
			Compare: "/compare?" + url.Values{"run": {d.dots[c.before].run.ID, d.dots[c.after].run.ID}}.Encode(),
			Verdict: format.Verdict(c.verdict, false), Class: document.VerdictTone(c.verdict), P: strconv.FormatFloat(c.p, 'g', 1, 64)}
		cv.Change, cv.Bounds = parted(format.Ratio(c.change))
		for _, diff := range c.differences {
			if len(cv.Differences) == 6 {
				cv.More = len(c.differences) - 6
				break
			}
			cv.Differences = append(cv.Differences, differenceView{format.Clean(diff.Place(2)), format.Clean(diff.Key), format.Clean(diff.A), format.Clean(diff.B)})
		}
		v.Changes = append(v.Changes, cv)
	}
	v.Few = v.Points < 10
	v.Answer = d.answer(v.Points)
	v.Wide, v.Narrow, v.HasInterval = chart.SVG(d.chart(wideTrend)), chart.SVG(d.chart(narrowTrend)), d.bounded()
	s.write(w, r, http.StatusOK, "trend.html", v)
	return nil
}

func (d *trendData) text(i stat.Interval) string {
	if d.byRatio {
		return format.Ratio(i)
	}
	return format.Value(i, d.unit)
}

// answer is the trend in a sentence.
func (d *trendData) answer(points int) string {
	what := format.Clean(d.cell.Target)
	if len(d.changes) == 0 {
		if points < 10 {
			return fmt.Sprintf("%s: %d runs, too few to tell a change from chance", what, points)
		}
		return fmt.Sprintf("%s: no change in %d runs", what, points)
	}
	c := d.changes[len(d.changes)-1]
	word := "changed to " + format.Ratio(c.change)
	switch c.verdict {
	case stat.Worse:
		word = "got worse, to " + format.Ratio(c.change)
	case stat.Better:
		word = "got better, to " + format.Ratio(c.change)
	}
	form := "2 January 2006"
	if day(d.dots[c.before].run) == day(d.dots[c.after].run) {
		form += ", 15:04"
	}
	return fmt.Sprintf("%s %s of what it was, with the run of %s", what, word, d.dots[c.after].run.Start.UTC().Format(form))
}

// day is the one on which a run was started, in UTC.
func day(r iotax.Run) string { return r.Start.UTC().Format(time.DateOnly) }

type differenceView struct{ Where, Key, A, B string }

func direction(b iotax.Better) string {
	switch b {
	case iotax.Up:
		return "more is better"
	case iotax.Down:
		return "less is better"
	}
	return ""
}
