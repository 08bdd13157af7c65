// Package trend follows one metric of a cell over the runs of a store and finds the runs where its value changed.
package trend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/store"
	"iotax/stat"
)

const (
	Runs     = 100 // default number of runs
	MostRuns = stat.MostPoints
)

// Values of Options.By.
const (
	ByRatio = "ratio" // the ratio to the target that the cell is compared with, by default the baseline
	ByValue = "value"
)

// Options selects a metric and runs.
type Options struct {
	Cell   store.Cell
	Name   string // name of the runs; "" selects all
	Metric string // "" selects the headline of the workload
	By     string // "" selects ByRatio if the newest run has a ratio
	Runs   int    // number of newest runs; 0 means the constant Runs
}

// A Trend is one metric of a cell over several runs, oldest first.
type Trend struct {
	Options
	ByRatio  bool
	Unit     string
	Better   iotax.Better
	Dots     []Dot
	Changes  []Change
	label    string
	metrics  []figure // of the newest run
	hasRatio bool
	against  string // the target that the ratio is relative to
	margin   float64
}

// A Dot is the value of the metric in one run, or its ratio if Trend.ByRatio is set.
type Dot struct {
	Run    iotax.Run // without its plan and findings
	Value  stat.Interval
	Unlike string // why the dot is excluded, or ""
}

// A Change is a significant change of the metric between two included dots.
type Change struct {
	Before, After int // indexes into Dots
	P             float64
	Ratio         stat.Interval // new level / old level, or its inverse if lower values in the trend are better
	Verdict       stat.Verdict
	differences   []compare.Difference
}

// A Reader computes trends from the runs of a store. It caches the values of finished runs. It is safe for concurrent
// use.
type Reader struct {
	Store *store.Store
	mu    sync.Mutex
	all   map[pointKey]point
}

// A point contains the values of a cell in one run.
type point struct {
	run     iotax.Run // without its plan and findings
	work    string    // the settings of the workload on the target
	figures []figure
}

type figure struct {
	metric, label, unit string
	better              iotax.Better
	headline            bool
	value               stat.Interval
	unfit               string // why the value cannot be compared

	ratio              *stat.Interval
	against, workThere string // the target that the ratio is relative to, and the settings of the workload there
	unfitAgainst       string // why the value of that target cannot be compared
}

type pointKey struct {
	store.Cell
	run, metric string
	ended       time.Time
}

// mostPoints is the maximum number of cached points. It limits the memory of a server that runs for months.
const mostPoints = 20000

func (r *Reader) point(ctx context.Context, o Options, run *iotax.Run) (point, error) {
	key := pointKey{o.Cell, run.ID, o.Metric, run.End}
	r.mu.Lock()
	p, ok := r.all[key]
	r.mu.Unlock()
	if ok {
		return p, nil
	}
	rep, err := r.report(ctx, o, run)
	if err != nil {
		return point{}, err
	}
	p = pointOf(o.Cell, rep)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= mostPoints {
		r.all = map[pointKey]point{}
	}
	r.all[key] = p
	return p, nil
}

// report returns a report of one workload of a run, with the same values as in the full report of the run.
func (r *Reader) report(ctx context.Context, o Options, run *iotax.Run) (*report.Report, error) {
	part := *run
	part.Workloads = slices.DeleteFunc(slices.Clone(run.Workloads), func(w iotax.WorkloadInfo) bool { return w.Name != o.Cell.Workload })
	var metrics []string
	if o.Metric != "" {
		metrics = []string{o.Metric}
	}
	return report.From(&part, r.Store.Parts(ctx, run.ID, o.Cell.Workload, store.Brief), metrics...)
}

func pointOf(c store.Cell, rep *report.Report) point {
	p := point{run: *rep.Run, work: compare.Work(rep, report.Cell{Target: c.Target, Workload: c.Workload})}
	p.run.Plan, p.run.Findings = nil, nil
	for _, sec := range rep.Sections {
		for _, row := range sec.Rows {
			if row.Target != c.Target || row.Value.N == 0 {
				continue
			}
			f := figure{metric: sec.Metric, label: sec.Label, unit: sec.Unit, better: sec.Better, headline: true, value: row.Value,
				unfit: compare.Unfit(rep, compare.CellMetric{Target: c.Target, Workload: c.Workload, Metric: sec.Metric})}
			if row.Ratio != nil {
				f.ratio, f.against = &row.Ratio.Interval, row.Against
				f.workThere = compare.Work(rep, report.Cell{Target: row.Against, Workload: c.Workload})
				if f.unfitAgainst = compare.Unfit(rep, compare.CellMetric{Target: row.Against, Workload: c.Workload, Metric: sec.Metric}); f.unfitAgainst != "" {
					f.unfitAgainst = row.Against + ": " + f.unfitAgainst
				}
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

// Of computes a trend. The error wraps store.ErrNotFound if no finished run contains values of the cell.
func (r *Reader) Of(ctx context.Context, o Options) (*Trend, error) {
	if o.Runs == 0 {
		o.Runs = Runs
	}
	if o.Runs < 1 || o.Runs > MostRuns {
		return nil, iotax.Usage(fmt.Errorf("a trend shows 1 to %d runs, not %d", MostRuns, o.Runs))
	}
	if o.By != "" && o.By != ByRatio && o.By != ByValue {
		return nil, iotax.Usage(fmt.Errorf("a trend follows value or ratio, not %q", o.By))
	}
	runs, err := r.Store.With(ctx, o.Cell, o.Name, o.Runs)
	if err != nil {
		return nil, err
	}
	var all []point
	for i := range runs {
		if runs[i].Status == iotax.Running {
			continue // an unfinished run is not a point
		}
		p, err := r.point(ctx, o, &runs[i])
		if errors.Is(err, iotax.ErrUsage) && len(all) > 0 {
			continue // an older run lacks the metric
		}
		if err != nil {
			return nil, err
		}
		if len(p.figures) > 0 {
			all = append(all, p)
		}
	}
	slices.Reverse(all)
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no run that has ended has a number of %s / %s", store.ErrNotFound, o.Cell.Target, o.Cell.Workload)
	}
	t := &Trend{Options: o}
	t.choose(all)
	return t, t.find(ctx, r)
}

// choose sets the metric and the dots of the trend. It excludes dots that cannot be compared with that of the newest
// run.
func (d *Trend) choose(all []point) {
	newest := all[len(all)-1]
	d.metrics, d.margin = newest.figures, newest.run.Margin
	if newest.figure(d.Metric) == nil {
		d.Metric = newest.figures[0].metric
	}
	chosen := newest.figure(d.Metric)
	d.label, d.Unit, d.Better, d.against = chosen.label, chosen.unit, chosen.better, chosen.against
	d.hasRatio = chosen.ratio != nil
	d.ByRatio = d.hasRatio && d.By != ByValue
	for _, p := range all {
		f := p.figure(d.Metric)
		if f == nil {
			continue
		}
		dot := Dot{Run: p.run, Value: f.value, Unlike: f.unfit}
		work, want := p.work, newest.work
		if d.ByRatio {
			if f.ratio == nil {
				continue
			}
			dot.Value, dot.Unlike = *f.ratio, cmp.Or(f.unfit, f.unfitAgainst)
			work, want = work+" against "+f.against+" "+f.workThere, want+" against "+chosen.against+" "+chosen.workThere
		}
		switch {
		case dot.Unlike != "":
		case !(dot.Value.Estimate > 0) || math.IsInf(dot.Value.Estimate, 0):
			dot.Unlike = "it is not a positive number"
		case work != want:
			dot.Unlike = "not the same work or reference: " + differ(work, want)
		case f.unit != chosen.unit:
			dot.Unlike = "another unit"
		}
		d.Dots = append(d.Dots, dot)
	}
}

// differ lists the settings that only `work` has, then those that only `newest` has.
func differ(work, newest string) string {
	without := func(a, b string) string {
		left := slices.DeleteFunc(strings.Fields(a), func(word string) bool { return slices.Contains(strings.Fields(b), word) })
		slices.Sort(left)
		return cmp.Or(strings.Join(slices.Compact(left), " "), "nothing else")
	}
	return without(work, newest) + "; the newest run has " + without(newest, work)
}

// Since returns the changes whose new level starts in one of the last `runs` dots.
func (d *Trend) Since(runs int) (recent []Change) {
	for _, c := range d.Changes {
		if c.After >= len(d.Dots)-runs {
			recent = append(recent, c)
		}
	}
	return recent
}

// find finds the change points among the included dots, and the differences between the two runs around each change
// point.
func (d *Trend) find(ctx context.Context, r *Reader) error {
	var logs []float64
	var at []int
	for i, dot := range d.Dots {
		if dot.Unlike == "" {
			logs, at = append(logs, math.Log(dot.Value.Estimate)), append(at, i)
		}
	}
	hidden := report.BinError(d.Metric)
	if d.ByRatio {
		hidden *= 2
	}
	for _, c := range stat.ChangePoints(logs, hidden) {
		t := Change{Before: at[c.Index-1], After: at[c.Index], P: c.P, Ratio: c.Change.Interval}
		if d.Better == iotax.Down && !d.ByRatio {
			i := t.Ratio
			t.Ratio = stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
		}
		t.Verdict = stat.NotRanked
		if d.Better != iotax.Neither {
			t.Verdict = stat.Judge(t.Ratio, d.margin)
		}
		var sides [2]*report.Report
		for i, k := range []int{t.Before, t.After} {
			run, err := r.Store.Get(ctx, d.Dots[k].Run.ID)
			if err != nil {
				return err
			}
			if sides[i], err = r.report(ctx, d.Options, run); err != nil {
				return err
			}
		}
		t.differences = compare.Differences(sides[0], sides[1])
		d.Changes = append(d.Changes, t)
	}
	return nil
}
