package web

import (
	"context"
	"fmt"
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
	"iotax/internal/report/block"
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

// foremost is how the names of those numbers end that a reader sees beside the headline's without asking for them.
var foremost = []string{".iops", ".bandwidth", ".latency.mean", ".latency.p99", ".duration"}

func (s *Server) trend(w http.ResponseWriter, r *http.Request) error {
	d, err := s.trendOf(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	return s.document(w, barView{Trends: "/trends", JSON: "/api/trend?" + r.URL.RawQuery}, d.document(r.URL.Query()))
}

const minute = "2006-01-02 15:04"

// document is the page of a trend; q is what its address asks for.
func (d *trendData) document(q url.Values) block.Document {
	doc := block.Document{Title: d.cell.Target + ", " + d.cell.Workload}
	if d.name != "" {
		doc.About = "runs named " + d.name
	}
	points := 0
	for _, dot := range d.dots {
		if dot.unlike == "" {
			points++
		}
	}
	add := func(b ...block.Block) { doc.Blocks = append(doc.Blocks, b...) }
	quiet := func(text string) block.Paragraph { return block.Paragraph{Text: text, Tone: block.Quiet} }
	add(block.Answer{Text: d.answer(points)})
	add(d.choices(q)...)

	what := d.label
	switch {
	case d.byRatio:
		what += ", ratio to " + d.baseline + "; more is better for the target"
	case d.better == iotax.Up:
		what += "; more is better"
	case d.better == iotax.Down:
		what += "; less is better"
	}
	what += ". A dot is a run"
	if d.bounded() {
		what += ", with its 95 % interval"
	}
	what += ", on a logarithmic axis; the lines are the levels between change points."
	if points < len(d.dots) {
		what += " Hollow dots take no part: see the table."
	}
	add(block.Charts{Charts: []block.Chart{{Name: "trend", Drawing: d.chart(wideTrend), Narrow: d.chart(narrowTrend),
		Caption: what}}},
		block.Heading{Text: "Changes", ID: "changes"})

	changes := block.Table{Head: []string{"since the run of", "new level to old", "p",
		"verdict (± " + format.Percent(d.margin) + ")",
		"what differs from the run before"}, Wraps: []int{4}}
	for _, c := range slices.Backward(d.changes) {
		before, after := d.dots[c.before].run, d.dots[c.after].run
		var differ []string
		for _, x := range c.differences {
			s := x.Key + ": " + x.Step()
			if where := x.Place(2); where != "" {
				s += " (" + where + ")"
			}
			differ = append(differ, s)
		}
		differ = format.Cut(differ, 6, "difference")
		if differ == nil {
			differ = []string{"nothing that the runs recorded"}
		}
		row := block.Words(after.Start.UTC().Format(minute), format.Ratio(c.change), strconv.FormatFloat(c.p, 'g', 1, 64),
			format.Verdict(c.verdict, false), strings.Join(differ, "; "))
		row.Cells[0].Link = runLink(after)
		row.Cells[3].Tone = document.Tone(c.verdict)
		row.Cells[4].Link = block.Link{Text: "compare the two", Href: "/compare?" + url.Values{"run": {before.ID, after.ID}}.Encode()}
		changes.Rows = append(changes.Rows, row)
	}
	switch {
	case changes.Rows != nil:
		add(changes)
	case points < 10:
		add(block.Paragraph{Text: "Fewer than ten runs cannot show a change: chance alone makes one as large too often."})
	default:
		add(block.Paragraph{Text: "None."})
	}
	add(quiet("Change points are found by E-divisive, with permutations: without a change, one in a hundred such trends shows one, "+
		"whatever the noise; runs that resemble their neighbours show more. A change lasts for three runs at least. "+
		"The interval takes its place as given, and is a little too narrow for that."), block.Heading{Text: "Runs", ID: "points"})

	runs := block.Table{Head: []string{"started (UTC)", "name", "median", "remarks"}, Wraps: []int{1, 3}}
	if d.byRatio {
		runs.Head[2] = "ratio"
	}
	for _, dot := range slices.Backward(d.dots) { // the newest first, as everywhere
		row := block.Words(dot.run.Start.UTC().Format(minute), dot.run.Name, d.text(dot.value), "")
		row.Cells[0].Link = runLink(dot.run)
		if dot.unlike != "" {
			row.Cells[2].Tone, row.Cells[3].Text = block.Quiet, "takes no part: "+dot.unlike
		}
		runs.Rows = append(runs.Rows, row)
	}
	add(runs)
	return doc
}

func runLink(r iotax.Run) block.Link {
	return block.Link{Text: r.ID, Href: "/runs/" + url.PathEscape(r.ID)}
}

// choices lead to other numbers of the cell, the same one judged otherwise, and other runs.
func (d *trendData) choices(q url.Values) (out []block.Block) {
	link := func(text, key, value string) block.Link {
		m := maps.Clone(q)
		m.Del("workload")
		m.Del("target")
		m.Set(key, value)
		return block.Link{Text: text, Href: trendAddress(d.cell, m)}
	}
	var numbers, more, other []block.Link
	for _, f := range d.metrics {
		switch l := link(f.label, "metric", f.metric); {
		case f.metric == d.metric:
		case f.headline || slices.ContainsFunc(foremost, func(end string) bool { return strings.HasSuffix(f.metric, end) }):
			numbers = append(numbers, l)
		default:
			more = append(more, l)
		}
	}
	if d.hasRatio && d.byRatio {
		other = append(other, link("value", "by", "value"))
	} else if d.hasRatio {
		other = append(other, link("ratio to "+d.baseline, "by", "ratio"))
	}
	if d.name != "" {
		other = append(other, link("all runs", "name", ""))
	}
	for _, p := range []block.Paragraph{{Text: "Shown: " + d.label + ". Also:", Links: numbers}, {Text: "Instead:", Links: other}} {
		if p.Links != nil {
			p.Tone = block.Quiet
			out = append(out, p)
		}
	}
	if more != nil {
		out = append(out, block.Fold{Summary: format.Plural(len(more), "more number"),
			Blocks: []block.Block{block.Paragraph{Links: more}}})
	}
	return out
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
