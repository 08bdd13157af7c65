// Package report turns a run and its trials into a Report, which is plain data. The packages below it describe and draw it. They
// do not compute.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// Counted returns the unit of a workload's repetitions. Imported trials have no rounds.
func (r *Report) Counted() string {
	if r.Run.Imported() {
		return "trial"
	}
	return "round"
}

// A Report is the result of a run: a section for each workload and headline metric, a row in it for each target, and numbered
// notes that the rows refer to.
type Report struct {
	Run      *iotax.Run
	Baseline string
	Margin   float64 // δ of the verdicts, a ratio
	Alpha    float64 // of each ratio's interval; smaller than 0.05 if the run had interim analyses
	Sections []Section
	Expected []Expected
	Curves   []Curve // of workloads in an open loop, by load
	Scalings []Scaling
	Notes    []Note // Notes[i] has number i+1
	General  []Note // about the run as a whole; no row refers to them
	Common   []Note // about every row, with number 0
	Protocol Protocol
	Trials   []*Trial // in the order in which they ran

	Explanations []Explanation // of each workload with explained trials

	Waterfalls []Waterfall // of each chain of layers, one for each section that measured it
	Reference  *Reference  // comparison with published figures, or nil
	Layout     string      // the classic table that the plan names, one of iotax.Layouts, or ""

	Page string // file with this report as HTML, or ""

	source     Source
	histograms map[Cell][]*merged
	index
}

// A Section is one headline metric of one workload. Rows are in the run's order, the baseline first.
type Section struct {
	Workload string
	Metric   string // "read.iops"
	Label    string // "read IOPS"
	Short    string // "IOPS", if the workload's name has the other words
	Unit     string // base unit of the values
	Better   iotax.Better
	Cold     bool
	Open     string // the load of an open loop: "open loop at 60 %, 12k/s offered"; "" for a closed one
	First    bool   // the metric is the workload's most important one
	Decides  bool   // it decided when to stop: it is the first, or all were requested
	Rows     []Row

	histogram string // whose quantile the metric is, or ""
	quantile  float64
}

// A Row is one target in a Section.
type Row struct {
	Target   string
	Baseline bool
	Value    stat.Interval // median over the valid trials, in the section's unit
	Ratio    *stat.Effect  // to Against, paired by round, higher is better, or nil
	Against  string        // the target that Ratio and Verdict are relative to: the baseline, unless the plan names another; "" without one
	Shares   []Share       // of other targets that the plan compares it with
	Verdict  stat.Verdict
	Err      string             // why the target could not be opened
	Notes    []int              // numbers of the notes that concern it, ascending
	Few      *stat.TooFewBeyond // why a quantile has no ratio, if the trials are too short

	Ran, Failed, Discarded int            // trials of this target under this workload; discarded: those in discarded rounds
	Counted                int            // trials that neither failed nor are in a discarded round
	WithDiscarded          *stat.Interval // the ratio with discarded rounds included, nil if no round is discarded
	Holm                   *Adjustment    // of a verdict from the ratio, else nil
	Dots                   []Dot
	tails                  []Dot    // of a quantile: the trials with a histogram
	Secondary              []Figure // other metrics, the same in each section of a workload
}

// A Dot is one trial's value.
type Dot struct {
	Round, Seq int
	Start      int // iotax.Trial.StartIndex
	Value      float64
	Discarded  bool
	Tag        stat.Tag

	tail *stat.Tail
}

// A Figure is a secondary value of a cell.
type Figure struct {
	Name   string
	Label  string
	Unit   string
	Better iotax.Better
	Value  stat.Interval // without bounds if Merged
	Merged bool          // quantile of the merged histograms of all trials, not a median over trials
	Beyond int           // of a Merged figure: observations beyond it
	Short  bool          // too few observations are beyond it: Value has no estimate
}

// A Note is a finding and where it was made. Findings of one rule share a note.
type Note struct {
	iotax.Finding     // the first of them
	Number        int // 0 for a note about the run, or about every row
	Items         []Item

	raw []rawItem
}

// An Item is one piece of evidence of a note. If Detail is set, Evidence is Lead and Detail joined, and items with the same Lead
// can share a sentence.
type Item struct {
	Evidence, Lead, Detail string

	All    bool   // seen in every cell
	Varies bool   // trials of the cell have different numbers
	Cells  []Cell // where it was seen; none for the whole run
	Trials int    // number of trials with it, 0 if it is not from trials
}

// A Cell is a target with a workload, or only a target.
type Cell struct{ Target, Workload string }

// Protocol describes how the run measured.
type Protocol struct {
	Fixed                   bool           // the number of rounds was fixed before the run
	Rounds                  map[string]int // valid rounds by workload
	Discarded               map[string]int // discarded rounds by workload
	Trial, Ramp             time.Duration  // zero if trials differ
	Seed                    uint64
	Cold, Warm              bool // both if cells differ
	Comparisons             int  // ratios with an interval
	LeastRounds, MostRounds int  // valid rounds of any workload
}

// New returns the report of a run from its trials. It accepts incomplete runs and trials in any order. Missing results are left
// out or reported in a note.
func New(run *iotax.Run, trials []*iotax.Trial) *Report {
	r, err := From(run, Held(trials))
	if err != nil {
		panic(err) // trials in memory can be read
	}
	return r
}

// From is New for trials that need not be in memory. The named metrics, if any, take the place of the headline metrics of all
// workloads that have them. The error is the source's, or that no workload has such a metric; the formats that need series later
// return the source's errors, too.
func From(run *iotax.Run, src Source, metrics ...string) (*Report, error) {
	if run == nil {
		run = &iotax.Run{}
	}
	b := builder{
		Report: &Report{Run: run, Baseline: run.Baseline, Margin: run.Margin, source: src, histograms: map[Cell][]*merged{},
			index: index{byCell: map[Cell][]*Trial{}, discarded: map[string]map[int]bool{}, refs: map[*Note]map[*Row]bool{}}},
		byWorkload: map[string][]*Trial{},
		explained:  map[string][]*Trial{},
		notes:      map[noteKey]*Note{},
		metrics:    metrics,
	}
	if err := b.read(src); err != nil {
		return nil, err
	}
	b.targets, b.workloads = b.names()
	if err := b.choose(); err != nil {
		return nil, err
	}
	if b.Baseline == "" && len(b.targets) > 0 {
		b.Baseline = b.targets[0].Name
	}
	b.protocol()
	for _, w := range b.workloads {
		if err := b.workload(w); err != nil {
			return nil, err
		}
	}
	b.holm()
	b.expectations()
	b.shares()
	b.curves()
	b.scalings()
	b.general(run.Findings)
	b.number()
	b.waterfalls()
	b.explanations()
	b.holdPlanned()
	if p := run.Presentation; p != nil && slices.Contains(iotax.Layouts, p.Layout) {
		b.Layout = p.Layout
	}
	return b.Report, nil
}

type builder struct {
	*Report
	byWorkload map[string][]*Trial
	explained  map[string][]*Trial // explained trials, which are in no other list
	notes      map[noteKey]*Note
	loads      map[string]openLoad
	metrics    []string // requested ones
}

type noteKey struct {
	rule, hint string
	severity   iotax.Severity
}

// names returns the targets and workloads of the run and of its trials. An incomplete run may lack them.
func (b *builder) names() ([]iotax.TargetInfo, []iotax.WorkloadInfo) {
	targets, workloads := slices.Clone(b.Run.Targets), slices.Clone(b.Run.Workloads)
	known, at := map[string]bool{}, map[string]int{}
	for _, t := range targets {
		known[t.Name] = true
	}
	for i, w := range slices.Backward(workloads) {
		at[w.Name] = i
	}
	for _, t := range b.Trials {
		if !known[t.Target] {
			known[t.Target] = true
			targets = append(targets, iotax.TargetInfo{Name: t.Target})
		}
		i, ok := at[t.Workload]
		if !ok {
			i = len(workloads)
			at[t.Workload] = i
			workloads = append(workloads, iotax.WorkloadInfo{Name: t.Workload, Cold: t.Cold})
		}
		if len(workloads[i].Metrics) == 0 && len(t.xs) > 0 {
			workloads[i].Metrics = []string{t.value(0).Name}
		}
	}
	slices.SortStableFunc(targets, func(x, y iotax.TargetInfo) int {
		rank := func(t iotax.TargetInfo) int {
			if t.Name == b.Baseline {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(x), rank(y))
	})
	return targets, workloads
}

func (b *builder) protocol() {
	p := &b.Protocol
	p.Seed, p.Rounds, p.Discarded = b.Run.Seed, map[string]int{}, map[string]int{}
	for i, t := range b.Trials {
		if i == 0 {
			p.Trial, p.Ramp = t.Length, t.Ramp
		}
		if t.Length != p.Trial {
			p.Trial = 0
		}
		if t.Ramp != p.Ramp {
			p.Ramp = 0
		}
		p.Cold, p.Warm = p.Cold || t.Cold, p.Warm || !t.Cold
	}
	for i, w := range b.workloads {
		rounds := map[int]bool{}
		for _, t := range b.byWorkload[w.Name] {
			if !b.discarded[w.Name][t.Round] {
				rounds[t.Round] = true
			}
		}
		p.Rounds[w.Name], p.Discarded[w.Name] = len(rounds), len(b.discarded[w.Name])
		if i == 0 || len(rounds) < p.LeastRounds {
			p.LeastRounds = len(rounds)
		}
		p.MostRounds = max(p.MostRounds, len(rounds))
	}
	// A run without a level gets the stricter one.
	b.Alpha = stat.AlphaPerLook
	if a := b.Run.Alpha; a > 0 && a < 1 {
		b.Alpha = a
	}
	p.Fixed = b.Alpha >= stat.AlphaFixed
}

func (b *builder) workload(w iotax.WorkloadInfo) error {
	if err := b.pool(w.Name); err != nil {
		return err
	}
	secondary := map[string][]Figure{}
	var targets []iotax.TargetInfo
	for _, t := range b.targets {
		if w.At != nil && !slices.Contains(w.At, t.Name) && len(b.byCell[Cell{t.Name, w.Name}]) == 0 {
			continue
		}
		targets = append(targets, t)
		secondary[t.Name] = b.secondary(w, t.Name)
	}
	for i, metric := range w.Metrics {
		s := Section{Workload: w.Name, Metric: metric, Label: b.latencyLabel(w.Name, metric), Cold: w.Cold, First: i == 0, Decides: i == 0 || w.Chosen}
		s.histogram, s.quantile, _ = iotax.Quantile(metric)
		s.Short = format.Remainder(w.Name, s.Label)
		s.Unit, s.Better = b.unit(w.Name, metric)
		for _, t := range targets {
			s.Rows = append(s.Rows, Row{Target: t.Name, Baseline: t.Name == b.Baseline, Err: t.Err, Secondary: secondary[t.Name]})
		}
		b.Sections = append(b.Sections, s)
		sec := &b.Sections[len(b.Sections)-1]
		failed := make([]failures, len(sec.Rows))
		for j := range sec.Rows { // a row may be compared with one below it
			failed[j] = b.values(sec, &sec.Rows[j])
		}
		for j := range sec.Rows {
			b.row(sec, &sec.Rows[j], targets[j], failed[j])
		}
		b.spreadBaseline(sec)
	}
	if err := b.expected(w); err != nil {
		return err
	}
	for _, t := range b.byWorkload[w.Name] {
		for i := range t.tails {
			t.tails[i].Bins = nil // those of all workloads would not fit into memory
		}
	}
	return nil
}

// unit returns the unit and direction of a metric from the first trial that has it.
func (b *builder) unit(workload, metric string) (string, iotax.Better) {
	for _, t := range b.byWorkload[workload] {
		if v, ok := t.Value(metric); ok {
			return v.Unit, v.Better
		}
	}
	for _, t := range b.byWorkload[workload] {
		for _, x := range t.tails {
			if x.metric == metric {
				return x.unit, iotax.Down
			}
		}
	}
	return "", iotax.Neither
}

// failures counts the failed and discarded trials of a cell, by reason.
type failures struct {
	errs, discards map[string]int
	ownDiscarded   int // trials that are discarded themselves, not by their round
}

// values computes r from its own trials.
func (b *builder) values(s *Section, r *Row) failures {
	f := failures{map[string]int{}, map[string]int{}, 0}
	var xs []float64
	for _, t := range b.byCell[Cell{r.Target, s.Workload}] {
		r.Ran++
		discarded := b.discarded[s.Workload][t.Round]
		if discarded {
			r.Discarded++
		}
		if t.Discarded != "" {
			f.ownDiscarded++
			f.discards[t.Discarded]++
		}
		if t.Err != "" {
			r.Failed++
			f.errs[Brief(t.Err)]++
			continue
		}
		if !discarded {
			r.Counted++
		}
		dot := Dot{Round: t.Round, Seq: t.Seq, Start: t.StartIndex, Discarded: discarded}
		v, ok := t.Value(s.Metric)
		if dot.Value = v.Value; ok {
			r.Dots = append(r.Dots, dot)
			if !discarded {
				xs = append(xs, v.Value)
			}
		}
		for i := range t.tails {
			if t.tails[i].metric == s.Metric {
				dot.tail = &t.tails[i].Tail
				r.tails = append(r.tails, dot)
			}
		}
	}
	pooled := len(r.tails) > len(r.Dots) // single trials are too short for the quantile, and the longer ones are not representative
	if pooled {
		r.Dots, xs = nil, nil
	}
	for _, dots := range [][]Dot{r.Dots, r.tails} {
		slices.SortStableFunc(dots, func(x, y Dot) int { return cmp.Compare(x.Round, y.Round) })
	}
	tags, k := stat.Tukey(r.Values()), 0
	for i := range r.Dots {
		if !r.Dots[i].Discarded {
			r.Dots[i].Tag, k = tags[k], k+1
		}
	}
	r.Value = stat.Median(xs)
	for _, h := range b.histograms[Cell{r.Target, s.Workload}] {
		if v, ok := stat.Quantile(h.Histogram, s.quantile); ok && pooled && h.Name == s.histogram {
			r.Value = stat.Interval{Estimate: v, Lo: math.NaN(), Hi: math.NaN(), N: h.trials}
		}
	}
	return f
}

// row computes notes, ratio and verdict of r, except for faults of the baseline (see spreadBaseline).
func (b *builder) row(s *Section, r *Row, target iotax.TargetInfo, f failures) {
	cell := Cell{r.Target, s.Workload}
	about := iotax.AboutCell(r.Target, s.Workload)
	trials := b.byCell[cell]
	b.findings(r, s, trials, target)
	b.cpuBound(r, s, trials, target)
	if r.Err != "" {
		r.Verdict = stat.NoResult
		b.note(r, rules.TargetNotOpened.Hinting("").FoundError(iotax.AboutTarget(r.Target), r.Err), Item{Cells: []Cell{{Target: r.Target}}})
	}
	for _, why := range slices.Sorted(maps.Keys(f.errs)) {
		b.note(r, rules.TrialFailed.Hinting("").FoundError(about, why), Item{Cells: []Cell{cell}, Trials: f.errs[why]})
	}
	if !r.Baseline {
		b.compare(s, r)
	}
	for _, why := range slices.Sorted(maps.Keys(f.discards)) {
		b.note(r, rules.TrialDiscarded.Hinting("").Found(about, "%s", why), Item{Cells: []Cell{cell}, Trials: f.discards[why]})
	}
	if b.tooManyDiscarded(cell) {
		b.note(r, rules.TooManyDiscarded.Found(about, "%d of %d trials are discarded, more than %.0f %%", f.ownDiscarded, r.Ran, 100*stat.MaxDiscarded), Item{Cells: []Cell{cell}})
	}
	n := r.Value.N
	if r.Ratio != nil {
		n = min(n, r.Ratio.N)
	}
	if r.Err == "" && r.Value.N > 0 && n < stat.LeastTrials {
		flags := fmt.Sprintf("--rounds %d", stat.LeastTrials)
		if fixedProtocol.Match(b.Run.Plan) { // a fixed protocol refuses another number
			flags += " --protocol adaptive"
		}
		b.note(r, b.moreTrials(s.Workload, rules.FewTrials.With(fmt.Sprintf("--rounds %d", stat.LeastTrials), flags)).Found(about, ""),
			Item{Lead: fmt.Sprintf("an interval and a verdict need %d %ss; there are", stat.LeastTrials, b.Counted()), Detail: strconv.Itoa(n), Cells: []Cell{cell}})
	}
}

// fixedProtocol matches a protocol with a fixed number of rounds in a resolved plan.
var fixedProtocol = regexp.MustCompile(`(?m)^\s+protocol: "?fixed:`)

// moreTrials returns a rule about too few trials with the hint that the run gave when it stopped, else with the part of its own
// hint that applies.
func (b *builder) moreTrials(workload string, r rules.Rule) rules.Rule {
	for _, f := range b.Run.Findings {
		if f.Rule == rules.StoppedEarly.ID && f.Subject.Workload == workload {
			return r.Hinting(f.Hint)
		}
	}
	if b.Run.Imported() {
		return r.Only("import")
	}
	rounds := 0
	for _, t := range b.byWorkload[workload] {
		rounds = max(rounds, t.Round+1)
	}
	return r.Without("import", true).Given(rules.Facts{"--trial": b.Protocol.Trial.String(), "--rounds": strconv.Itoa(rounds)})
}

func (b *builder) tooManyDiscarded(c Cell) bool {
	discarded, trials := 0, b.byCell[c]
	for _, t := range trials {
		if t.Discarded != "" {
			discarded++
		}
	}
	return discarded > 0 && float64(discarded) > stat.MaxDiscarded*float64(len(trials))
}

// Values returns the valid values, in the order of Dots.
func (r *Row) Values() []float64 {
	var xs []float64
	for _, d := range r.Dots {
		if !d.Discarded {
			xs = append(xs, d.Value)
		}
	}
	return xs
}

// compare computes r's ratio and a first verdict.
func (b *builder) compare(s *Section, r *Row) {
	base := b.reference(s, r)
	if base == nil {
		b.unrelated(s, r)
		return
	}
	o := stat.Options{Alpha: b.Alpha, Autocorrelation: b.Run.Calibration.Autocorrelation()}
	ratio := func(discarded bool) (*stat.Effect, func(float64) float64, error) {
		if b.Run.Imported() {
			return b.change(base, r, s.Better)
		}
		var values [2][]float64
		var tails [2][]stat.Tail
		dots := [2][]Dot{base.Dots, r.Dots}
		if len(base.tails) >= len(base.Dots) && len(r.tails) >= len(r.Dots) {
			dots = [2][]Dot{base.tails, r.tails}
		}
		pairs := pairDots(dots[0], dots[1], discarded)
		for _, pair := range pairs {
			for side, dot := range pair {
				values[side] = append(values[side], dot.Value)
				if dot.tail != nil {
					tails[side] = append(tails[side], *dot.tail)
				}
			}
		}
		if len(values[0]) == 0 {
			return nil, nil, nil
		}
		o := o
		o.Starts = startsOf(pairs)
		d, err := stat.LogRatios(values, tails, s.quantile, s.Better, &o)
		if err != nil {
			return nil, nil, err
		}
		e, err := stat.Estimate(d, o)
		return &e, func(ratio float64) float64 { return stat.EffectP(d, ratio, o) }, err
	}
	cell := Cell{r.Target, s.Workload}
	e, p, err := ratio(false)
	switch {
	case errors.As(err, &r.Few):
		b.note(r, rules.FewTrials.Hinting(r.Few.Hint(b.Protocol.Trial)).Found(iotax.AboutCell(r.Target, s.Workload), ""), Item{Lead: s.Label + " has", Detail: err.Error(), Cells: []Cell{cell}})
		e, r.Verdict = nil, cmp.Or(r.Verdict, stat.TooFew)
	case err != nil && s.Better == iotax.Neither: // a count of 0 is not a fault
		e = nil
		r.Verdict = cmp.Or(r.Verdict, stat.NotRanked)
	case err != nil:
		b.note(r, rules.NoRatio.Found(iotax.AboutCell(r.Target, s.Workload), "%s", err), Item{Cells: []Cell{cell}})
		e = nil
	}
	r.Ratio = e
	switch {
	case r.Verdict != "":
	case e == nil && len(r.Values()) == 0:
		r.Verdict = stat.NoResult
	case e == nil:
		r.Verdict = stat.Inconclusive
	case s.Better == iotax.Neither:
		r.Verdict = stat.NotRanked
	default:
		r.Verdict = stat.Judge(e.Interval, b.Margin)
		if e.Bounded() {
			r.Holm = &Adjustment{P: MarginP(e.Estimate, b.Margin, p)}
		}
		if e.Bounded() && s.Decides && b.metrics == nil && b.Run.Precision > 0 && !b.Protocol.Fixed && !stat.Precise(e.Interval, b.Run.Precision) {
			b.note(r, b.moreTrials(s.Workload, rules.PrecisionNotReached).Found(iotax.AboutCell(r.Target, s.Workload), ""),
				Item{Lead: fmt.Sprintf("the ratio was asked to ± %s and is", format.Percent(b.Run.Precision)),
					Detail: stat.PlusMinus(e.HalfWidth(), 1), Cells: []Cell{cell}})
		}
	}
	if n := len(b.discarded[s.Workload]); n > 0 {
		with, _, err := ratio(true)
		if err == nil && with != nil {
			r.WithDiscarded = &with.Interval
			b.note(r, rules.RoundsDiscarded.Hinting("").Found(iotax.AboutCell(r.Target, s.Workload), ""),
				Item{Lead: fmt.Sprintf("%d of %s discarded; with discarded rounds the ratio is", n, format.Plural(n+b.Protocol.Rounds[s.Workload], "round")),
					Detail: format.Ratio(with.Interval), Cells: []Cell{cell}})
		}
	}
}

// change returns the ratio of unpaired trials (imported ones) and its p value, by Welch's t and rank sums.
func (b *builder) change(base, r *Row, better iotax.Better) (*stat.Effect, func(float64) float64, error) {
	x, y := base.Values(), r.Values()
	if len(x) == 0 || len(y) == 0 {
		return nil, nil, nil
	}
	c, err := stat.Unpaired(x, y, better, stat.Options{Alpha: b.Alpha})
	if err != nil {
		return nil, nil, err
	}
	lx, ly := Logs(x), Logs(y)
	if better == iotax.Down {
		lx, ly = ly, lx
	}
	return &c, func(ratio float64) float64 { return stat.ChangeP(lx, ly, ratio, 0) }, nil
}

// Baseline returns the row of the baseline, or nil.
func (s *Section) Baseline() *Row {
	for i := range s.Rows {
		if s.Rows[i].Baseline {
			return &s.Rows[i]
		}
	}
	return nil
}

// spreadBaseline replaces verdicts whose row or baseline is invalid.
func (b *builder) spreadBaseline(s *Section) {
	info := func(name string) iotax.TargetInfo {
		i := slices.IndexFunc(b.targets, func(t iotax.TargetInfo) bool { return t.Name == name })
		return b.targets[i]
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		base := s.Row(r.Against)
		if base == nil || r.Verdict == stat.NoResult {
			continue
		}
		bd := info(base.Target).Durability
		baseBad, baseDiscarded := b.Invalid(base), b.tooManyDiscarded(Cell{base.Target, s.Workload})
		if d := info(r.Target).Durability; d != bd && d != "" && bd != "" {
			r.Verdict = stat.NotRanked
			b.note(r, rules.DurabilityDiffers.Found(iotax.AboutTarget(r.Target), "what a flush promises here (%s) is not what it promises on %s (%s)", d, base.Target, bd), Item{Cells: []Cell{{Target: r.Target}}})
		}
		if baseBad || b.Invalid(r) {
			r.Verdict = stat.NotComparable
			if baseBad {
				b.blame(base, r)
			}
		}
		if baseDiscarded || b.tooManyDiscarded(Cell{r.Target, s.Workload}) {
			r.Verdict = stat.TooManyDiscarded
			if baseDiscarded {
				b.blame(base, r)
			}
		}
	}
}

// Brief returns the first line of an error and its hint. The lines between them, such as the console of a guest, differ from
// trial to trial.
func Brief(err string) string {
	rest, hint, found := strings.Cut(err, "\n  hint: ")
	line, _, _ := strings.Cut(rest, "\n")
	if found {
		line += "\n  hint: " + hint
	}
	return line
}
