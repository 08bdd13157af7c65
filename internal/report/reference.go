package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/published"
	"iotax/internal/report/format"
	"iotax/stat"
)

// A Reference compares a run with published figures. Because the machines differ, only ratios are compared. Values
// are shown for information.
type Reference struct {
	Name      string         `json:"name"`                          // name of the data set, or path of a table
	Source    string         `json:"source"`                        // origin of the figures
	Reference string         `json:"reference,omitempty"`           // this run's target that ratios are relative to, or ""
	Theirs    string         `json:"published_reference,omitempty"` // published name of that target
	Rows      []ReferenceRow `json:"rows"`
	Unmatched []string       `json:"unmatched,omitempty"` // cells of this run without matching figures
	Unused    []string       `json:"unused,omitempty"`    // published cells without a counterpart in this run
	Notes     []string       `json:"notes,omitempty"`     // limitations of the comparison
}

// A ReferenceRow is one metric of one cell, with its published counterpart.
type ReferenceRow struct {
	Target    string         `json:"target"` // target of this run
	Workload  string         `json:"workload"`
	Metric    string         `json:"metric"`
	Label     string         `json:"-"`
	Unit      string         `json:"unit"`
	Value     stat.Interval  `json:"value"` // median over the trials
	Ratio     *stat.Interval `json:"ratio"` // to the reference; higher is better; may be nil
	Published PublishedCell  `json:"published"`
	Agree     Agreement      `json:"agree,omitempty"`
	Invalid   string         `json:"-"` // why the ratio has no Agree: "cached", "invalid" or "not comparable"; "" for valid results
}

// A PublishedCell is the published counterpart of a cell. Its value is the median over the repetitions.
type PublishedCell struct {
	Target   string         `json:"target"`
	Workload string         `json:"workload"`
	Value    stat.Interval  `json:"value"`
	Ratio    *stat.Interval `json:"ratio"`
}

// An Agreement describes how this run's ratio relates to the published one.
type Agreement string

const (
	Overlap   Agreement = "agrees"     // this run's interval overlaps the published ratio or its interval
	Above     Agreement = "loses less" // this run's ratio is better
	Below     Agreement = "loses more" // this run's ratio is worse
	Undecided Agreement = ""           // this run's or the published ratio is missing, or this run's ratio has no interval or is invalid
)

// holdPlanned compares the run with the reference that its plan names, if the reference is available.
func (r *Report) holdPlanned() {
	p := r.Run.Presentation
	if p == nil || p.Reference == nil {
		return
	}
	if fs, ok := published.Figures(p.Reference.Published); ok {
		r.HoldReference(fs, *p.Reference, published.Caveat(p.Reference.Published))
	}
}

// HoldReference compares the run with published figures and sets r.Reference. names maps this run's names to the
// published ones. Without a mapping, names of targets and workloads match regardless of case, and of whether words are
// separated by hyphens, underscores or spaces.
func (r *Report) HoldReference(fs []published.Figure, names iotax.Reference, caveat string) {
	b := &referrer{Report: r, names: names, theirs: map[referenceKey][]float64{}, single: map[Cell]bool{}}
	b.index(fs)
	b.Reference = &Reference{Name: names.Published}
	var sources []string
	for _, f := range fs {
		if !slices.ContainsFunc(sources, func(s string) bool { return strings.HasPrefix(s, f.Source) }) {
			sources = append(sources, f.Source)
		}
	}
	b.Reference.Source = strings.Join(format.Cut(sources, 2, "source"), "; ")
	b.pairs()
	b.reference()
	b.rows()
	b.singles()
	b.leftOver()
	b.notes(caveat)
}

type referenceKey struct{ workload, target, metric string }

// A referencePair is a cell of the run and its published counterpart.
type referencePair struct {
	cell  Cell
	their Cell
}

type referrer struct {
	*Report
	names  iotax.Reference
	theirs map[referenceKey][]float64 // keys are published names
	order  []referenceKey             // in the order of publication
	cells  []Cell                     // published cells, in order
	pair   []referencePair
	single map[Cell]bool // published cells with figures that the plan maps individually
}

func (b *referrer) index(fs []published.Figure) {
	for _, f := range fs {
		if !figures(f.Value, f.Unit) {
			continue
		}
		k := referenceKey{f.Workload, f.Target, f.Metric}
		if b.theirs[k] == nil {
			b.order = append(b.order, k)
		}
		b.theirs[k] = append(b.theirs[k], f.Value)
		if c := (Cell{f.Target, f.Workload}); !slices.Contains(b.cells, c) {
			b.cells = append(b.cells, c)
		}
	}
}

// figures reports whether a value was measured. In publications, 0 means that a direction was not measured. A
// count of 0, for example of retransmits, is a measurement.
func figures(v float64, unit string) bool {
	return v > 0 && !math.IsInf(v, 0) || v == 0 && unit == iotax.Count
}

func calls(names map[string]string, ours, theirs string) bool {
	if name, ok := names[ours]; ok {
		return name == theirs
	}
	return format.Fold(ours) == format.Fold(theirs)
}

// pairs finds the published counterpart of each cell. A cell with several metrics has rows in several sections, but gets
// only one counterpart.
func (b *referrer) pairs() {
	seen := map[Cell]bool{}
	for s, r := range b.Rows() {
		c := Cell{r.Target, s.Workload}
		if seen[c] || r.Ran == 0 {
			continue
		}
		seen[c] = true
		i := slices.IndexFunc(b.cells, func(their Cell) bool {
			return calls(b.names.Workloads, c.Workload, their.Workload) && calls(b.names.Targets, c.Target, their.Target)
		})
		if i < 0 {
			b.Reference.Unmatched = append(b.Reference.Unmatched, c.String())
			continue
		}
		b.pair = append(b.pair, referencePair{c, b.cells[i]})
	}
}

// reference sets the target that ratios are relative to: the baseline if it is published, otherwise the first
// published target.
func (b *referrer) reference() {
	for _, p := range b.pair {
		if p.cell.Target == b.Baseline || b.Reference.Reference == "" {
			b.Reference.Reference, b.Reference.Theirs = p.cell.Target, p.their.Target
		}
		if p.cell.Target == b.Baseline {
			return
		}
	}
}

// values returns the measured values of a metric in a cell, by round. It omits failed trials and marks discarded
// rounds.
func (b *referrer) values(c Cell, metric string) (dots []Dot, unit string, better iotax.Better) {
	for _, t := range b.byCell[c] {
		if v, ok := t.Value(metric); ok && t.Err == "" && figures(v.Value, v.Unit) {
			unit, better = v.Unit, v.Better
			dots = append(dots, Dot{Round: t.Round, Start: t.StartIndex, Value: v.Value, Discarded: b.discarded[c.Workload][t.Round]})
		}
	}
	slices.SortStableFunc(dots, func(x, y Dot) int { return x.Round - y.Round })
	return dots, unit, better
}

func counted(dots []Dot) []float64 {
	r := Row{Dots: dots}
	return r.Values()
}

// ourMetric returns this run's name of a published metric.
func (b *referrer) ourMetric(published string) string {
	name := strings.Replace(published, ".stddev", ".sd", 1)
	for _, mine := range slices.Sorted(maps.Keys(b.names.Metrics)) {
		if b.names.Metrics[mine] == published {
			name = mine
		}
	}
	return name
}

// row returns a row without ratios, and the values of the cell. ok is false if the cell has no valid trial.
func (b *referrer) row(c Cell, metric string, k referenceKey) (row ReferenceRow, dots []Dot, better iotax.Better, ok bool) {
	dots, unit, better := b.values(c, metric)
	row = ReferenceRow{Workload: c.Workload, Target: c.Target, Metric: metric, Label: format.Label(metric), Unit: unit,
		Value: stat.Median(counted(dots)), Invalid: b.invalid(c),
		Published: PublishedCell{Target: k.target, Workload: k.workload, Value: stat.Median(b.theirs[k])}}
	return row, dots, better, row.Value.N > 0
}

func (b *referrer) rows() {
	for _, p := range b.pair {
		found := false
		for _, k := range b.order {
			if k.target != p.their.Target || k.workload != p.their.Workload {
				continue
			}
			metric := b.ourMetric(k.metric)
			row, dots, better, ok := b.row(p.cell, metric, k)
			if !ok {
				continue
			}
			found = true
			if p.cell.Target != b.Reference.Reference && better != iotax.Neither {
				base, _, _ := b.values(Cell{b.Reference.Reference, p.cell.Workload}, metric)
				row.Ratio = b.ratio(base, dots, Section{Metric: metric, Better: better})
				row.Published.Ratio = theirRatio(b.theirs[referenceKey{k.workload, b.Reference.Theirs, k.metric}], b.theirs[k], better)
				if row.Invalid == "" && b.invalid(Cell{b.Reference.Reference, p.cell.Workload}) != "" {
					row.Invalid = string(stat.NotComparable)
				}
				if row.Invalid == "" {
					row.Agree = agree(row.Ratio, row.Published.Ratio)
				}
			}
			b.Reference.Rows = append(b.Reference.Rows, row)
		}
		if !found {
			b.Reference.Unmatched = append(b.Reference.Unmatched, p.cell.String())
		}
	}
}

// invalid returns "cached" or "invalid" if the cell's own numbers are invalid.
func (b *referrer) invalid(c Cell) string {
	for s, r := range b.Rows() {
		if s.Workload == c.Workload && r.Target == c.Target && b.Invalid(r) {
			return b.Word(r, true)
		}
	}
	return ""
}

// singles adds rows for the figures that the plan maps individually. These rows have no ratio, because a single figure
// has no counterpart on the reference target.
func (b *referrer) singles() {
	for _, k := range b.order {
		for _, ours := range slices.Sorted(maps.Keys(b.names.Values)) {
			o := strings.Split(ours, " / ")
			if len(o) != 3 || b.names.Values[ours] != k.target+" / "+k.workload+" / "+k.metric {
				continue
			}
			cell := Cell{o[0], o[1]}
			if row, _, _, ok := b.row(cell, o[2], k); ok {
				b.single[Cell{k.target, k.workload}] = true
				b.Reference.Unmatched = slices.DeleteFunc(b.Reference.Unmatched, func(c string) bool { return c == cell.String() })
				b.Reference.Rows = append(b.Reference.Rows, row)
			}
		}
	}
}

func (b *referrer) ratio(base, dots []Dot, s Section) *stat.Interval {
	if b.Run.Imported() {
		c, err := stat.Unpaired(counted(base), counted(dots), s.Better, stat.Options{Alpha: b.Alpha, Hidden: BinError(s.Metric)})
		if err != nil {
			return nil
		}
		return &c.Interval
	}
	i, err := s.RatioOf(base, dots, b.Options())
	if err != nil {
		return nil
	}
	return &i
}

// theirRatio returns the ratio of two published samples, or nil if it cannot be computed. If both samples have at least
// two repetitions, the ratio has an interval for unpaired samples.
func theirRatio(base, xs []float64, better iotax.Better) *stat.Interval {
	c, err := stat.Unpaired(base, xs, better, stat.Options{Least: 2})
	if err != nil {
		return nil
	}
	return &c.Interval
}

func agree(ours, theirs *stat.Interval) Agreement {
	if ours == nil || theirs == nil || !ours.Bounded() || math.IsNaN(theirs.Estimate) {
		return Undecided
	}
	lo, hi := theirs.Estimate, theirs.Estimate
	if theirs.Bounded() {
		lo, hi = theirs.Lo, theirs.Hi
	}
	switch {
	case ours.Lo > hi:
		return Above
	case ours.Hi < lo:
		return Below
	}
	return Overlap
}

func (b *referrer) leftOver() {
	for _, c := range b.cells {
		used := slices.ContainsFunc(b.pair, func(p referencePair) bool { return p.their == c })
		if !used && !b.single[c] {
			b.Reference.Unused = append(b.Reference.Unused, c.String())
		}
	}
}

func (b *referrer) notes(caveat string) {
	say := func(format string, args ...any) {
		b.Reference.Notes = append(b.Reference.Notes, fmt.Sprintf(format, args...))
	}
	switch {
	case len(b.Reference.Rows) == 0:
		say("No name of this run is in %s. Map the names with reference: in the plan, or with --reference-map.", b.Reference.Name)
	case b.Reference.Reference != "" && b.Reference.Reference != b.Baseline:
		say("The publication has nothing like %s, so that the ratios on both sides are to %s.", b.Baseline, b.Reference.Reference)
	}
	if len(b.Reference.Rows) > 0 {
		say("Another machine, another time: only ratios may be compared.")
	}
	if caveat != "" {
		say("Of the published figures: %s", caveat)
	}
}
