// Package report computes a Report from a run and its trials. Its subpackages compare, describe and draw reports.
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

// Counted returns the unit in which repetitions are counted: "round", or "trial" for imported trials, which have no
// common rounds.
func (r *Report) Counted() string {
	if r.Run.Imported() {
		return "trial"
	}
	return "round"
}

// A Report is the result of a run. It has a section for each workload and headline metric, with a row for each
// target. The rows refer to numbered notes.
type Report struct {
	Run      *iotax.Run
	Baseline string
	Margin   float64 // margin of the verdicts, as a fraction: 0.05 means ± 5 %
	Alpha    float64 // significance level of each ratio's interval; smaller than 0.05 if the run had interim analyses
	Sections []Section
	Expected []Expected
	Curves   []Curve // of open-loop workloads, by load
	Scalings []Scaling
	Notes    []Note // Notes[i] has number i+1
	General  []Note // about the whole run; rows do not refer to them
	Common   []Note // about every row; their number is 0
	Protocol Protocol
	Trials   []*Trial // in the order in which they ran

	Explanations []Explanation // one for each workload with explained trials
	Profiles     []Profile     // one for each workload with profiled trials

	Waterfalls []Waterfall // for each chain of layers, one for each section with results of the chain's targets
	Reference  *Reference  // comparison with published figures, or nil
	Layout     string      // the classic layout that the plan names, one of iotax.Layouts, or ""

	Page string // HTML file with this report, or ""

	source     Source
	histograms map[Cell][]*merged
	index
}

// A Section is one headline metric of one workload. Its rows are in the run's order, baseline first.
type Section struct {
	Workload string
	Metric   string // for example "read.iops"
	Label    string // for example "read IOPS"
	Short    string // the label without the words in the workload's name, for example "IOPS"
	Unit     string // base unit of the values
	Better   iotax.Better
	Cold     bool
	Open     string // load of an open loop, for example "open loop at 60 %, 12k IOPS offered"; "" for a closed loop
	First    bool   // the metric is the workload's first, which is its most important one
	Decides  bool   // the metric is the first, or the metrics were requested; other metrics are not assessed
	Rows     []Row

	histogram string // the histogram of which the metric is a quantile, or ""
	quantile  float64
}

// A Row is one target in a section.
type Row struct {
	Target   string
	Baseline bool
	Value    stat.Interval // median over the valid trials, or the quantile of their pooled I/Os; in the section's unit
	Ratio    *stat.Effect  // ratio to Against, paired by round except for imported trials; higher is better; may be nil
	Against  string        // the target that Ratio and Verdict are relative to, by default the baseline; "" without a reference
	Shares   []Share       // ratios to other targets that the plan compares the row with
	Verdict  stat.Verdict
	Err      string             // why the target could not be opened
	Notes    []int              // numbers of the notes about the row, ascending
	Few      *stat.TooFewBeyond // why a quantile has no ratio, if the trials are too short

	Ran, Failed, Discarded int            // trials of this target under this workload; Discarded counts those in discarded rounds
	Counted                int            // trials that did not fail and are not in a discarded round
	WithDiscarded          *stat.Interval // the ratio including discarded rounds, or nil
	Holm                   *Adjustment    // set if the verdict comes from the ratio's interval
	Dots                   []Dot
	tails                  []Dot    // for a quantile: the trials with a histogram
	Secondary              []Figure // other metrics; the same in each section of a workload
}

// A Dot is the value of one trial.
type Dot struct {
	Round, Seq int
	Start      int // iotax.Trial.StartIndex
	Value      float64
	Discarded  bool
	Tag        stat.Tag

	tail *stat.Tail
}

// A Figure is the value of a secondary metric.
type Figure struct {
	Name   string
	Label  string
	Unit   string
	Better iotax.Better
	Value  stat.Interval // has no bounds if Merged is set
	Merged bool          // a quantile of the merged histograms of all trials, not a median over trials
	Beyond int           // number of observations beyond the quantile, if Merged is set
	Short  bool          // too few observations are beyond the quantile, so Value has no estimate
}

// A Note describes a finding and the cells that it concerns. Findings with the same rule, hint and severity share a
// note.
type Note struct {
	iotax.Finding     // the first of the findings
	Number        int // 0 for a note about the run or about every row
	Items         []Item

	raw []rawItem
}

// An Item is one piece of evidence in a note. If Lead is set, Evidence consists of Lead and Detail, and items with
// the same Lead share a sentence.
type Item struct {
	Evidence, Lead, Detail string

	All    bool   // found in every cell
	Varies bool   // the numbers differ between trials or cells
	Cells  []Cell // where it was found; nil for the whole run
	Trials int    // number of trials with the finding; 0 if it did not come from trials
}

// A Cell is a target with a workload. If Workload is "", it is the target with all workloads.
type Cell struct{ Target, Workload string }

// Protocol describes how the run measured.
type Protocol struct {
	Fixed                   bool           // the number of rounds was fixed before the run
	Rounds                  map[string]int // number of rounds with a trial that counts, by workload
	Discarded               map[string]int // number of discarded rounds by workload
	Trial, Ramp             time.Duration  // zero if trials differ
	Seed                    uint64
	Cold, Warm              bool // both are set if trials differ
	Comparisons             int  // number of ratios in Holm's adjustment
	LeastRounds, MostRounds int  // minimum and maximum of Rounds
}

// New returns the report of a run. It accepts incomplete runs, and trials in any order. It panics if From would return
// an error.
func New(run *iotax.Run, trials []*iotax.Trial) *Report {
	r, err := From(run, Held(trials))
	if err != nil {
		panic(err) // for example, an expectation of the run cannot be read
	}
	return r
}

// From is like New, but reads the trials from src. If metrics are named, they replace the headline metrics of all
// workloads, and a workload without any of them has no section. From returns an error if src does, if a named metric
// exists in no workload, or if an expectation or a profile cannot be read. Methods that read series or intervals later
// also return errors of src.
func From(run *iotax.Run, src Source, metrics ...string) (*Report, error) {
	if run == nil {
		run = &iotax.Run{}
	}
	b := builder{
		Report: &Report{Run: run, Baseline: run.Baseline, Margin: run.Margin, source: src, histograms: map[Cell][]*merged{},
			index: index{byCell: map[Cell][]*Trial{}, discarded: map[string]map[int]bool{}, refs: map[*Note]map[*Row]bool{}}},
		byWorkload: map[string][]*Trial{},
		explained:  map[string][]*Trial{},
		profiled:   map[string][]*Trial{},
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
	if err := b.profiles(); err != nil {
		return nil, err
	}
	b.holdPlanned()
	if p := run.Presentation; p != nil && slices.Contains(iotax.Layouts, p.Layout) {
		b.Layout = p.Layout
	}
	return b.Report, nil
}

type builder struct {
	*Report
	byWorkload map[string][]*Trial
	explained  map[string][]*Trial // explained trials, which other lists omit
	profiled   map[string][]*Trial // profiled trials, which other lists omit
	notes      map[noteKey]*Note
	loads      map[string]openLoad
	metrics    []string // requested metrics
}

type noteKey struct {
	rule, hint string
	severity   iotax.Severity
}

// names returns the targets and workloads of the run and of its trials, baseline first. An incomplete run may lack
// targets and workloads that its trials have.
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
	if i := slices.IndexFunc(targets, func(t iotax.TargetInfo) bool { return t.Name == b.Baseline }); i > 0 {
		base := targets[i]
		targets = slices.Insert(slices.Delete(targets, i, i+1), 0, base)
	}
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
			if b.Counts(t) {
				rounds[t.Round] = true
			}
		}
		p.Rounds[w.Name], p.Discarded[w.Name] = len(rounds), len(b.discarded[w.Name])
		if i == 0 || len(rounds) < p.LeastRounds {
			p.LeastRounds = len(rounds)
		}
		p.MostRounds = max(p.MostRounds, len(rounds))
	}
	// A run without a significance level gets the stricter level, which allows for interim analyses.
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
		for j := range sec.Rows { // first compute all values, because a row may be compared with a later row
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
			t.tails[i].Bins = nil // the bins of all workloads would not fit into memory
		}
	}
	return nil
}

// unit returns the unit and direction of a metric from the first trial that has the metric.
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

// failures counts the failed and the discarded trials of a cell, by reason.
type failures struct {
	errs, discards map[string]int
	ownDiscarded   int // trials that are discarded themselves, not only because of their round
}

// values fills in the counts, the dots and the value of r. It returns the numbers of r's failed and discarded trials,
// by reason.
func (b *builder) values(s *Section, r *Row) failures {
	f := failures{map[string]int{}, map[string]int{}, 0}
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
		dot.Value = v.Value
		for i := range t.tails {
			if t.tails[i].metric == s.Metric {
				dot.tail = &t.tails[i].Tail
				r.tails = append(r.tails, dot)
			}
		}
		if ok {
			r.Dots = append(r.Dots, dot)
		}
	}
	pooled := len(r.tails) > len(r.Dots) // some trials are too short for the quantile, and the others are not representative
	if pooled {
		r.Dots = nil
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
	r.Value = stat.MedianOfStarts(r.Values(), stat.Options{Starts: r.Starts()})
	for _, h := range b.histograms[Cell{r.Target, s.Workload}] {
		if v, ok := stat.Quantile(h.Histogram, s.quantile); ok && pooled && h.Name == s.histogram {
			r.Value = stat.Interval{Estimate: v, Lo: math.NaN(), Hi: math.NaN(), N: h.trials}
		}
	}
	return f
}

// row computes the notes, the ratio and a preliminary verdict of r (see spreadBaseline).
func (b *builder) row(s *Section, r *Row, target iotax.TargetInfo, f failures) {
	cell := Cell{r.Target, s.Workload}
	about := iotax.AboutCell(r.Target, s.Workload)
	for f, it := range b.findings(cell) {
		b.note(r, f, it)
	}
	b.cpuBound(r, s, target)
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
	if k := r.FewStarts(); k > 0 {
		lead := "%d starts that agree may share a mode; a verdict needs"
		if r.Ratio.Starts == nil {
			lead = "the percentile pools the rounds of each of %d starts; a verdict needs"
		}
		b.note(r, rules.FewTrials.Only("--restarts").Found(about, ""),
			Item{Lead: fmt.Sprintf(lead, k), Detail: format.Plural(stat.LeastTrials, "start"), Cells: []Cell{cell}})
	} else if r.Err == "" && r.Value.N > 0 && n < stat.LeastTrials {
		flags := fmt.Sprintf("--rounds %d", stat.LeastTrials)
		if fixedProtocol.Match(b.Run.Plan) { // a fixed protocol rejects --rounds
			flags += " --protocol adaptive"
		}
		b.note(r, b.moreTrials(s.Workload, rules.FewTrials.With(fmt.Sprintf("--rounds %d", stat.LeastTrials), flags)).Found(about, ""),
			Item{Lead: fmt.Sprintf("an interval and a verdict need %d %ss; there are", stat.LeastTrials, b.Counted()), Detail: strconv.Itoa(n), Cells: []Cell{cell}})
	}
}

// fixedProtocol matches a protocol with a fixed number of rounds in a resolved plan.
var fixedProtocol = regexp.MustCompile(`(?m)^\s+protocol: "?fixed:`)

// moreTrials returns r, a rule about too few trials, with another hint: the one that the run printed when it stopped
// the workload early, or otherwise the applicable part of r's own hint.
func (b *builder) moreTrials(workload string, r rules.Rule) rules.Rule {
	for _, f := range b.Run.Findings {
		if f.Rule == rules.StoppedEarly.ID && f.Subject.Workload == workload {
			return r.Hinting(f.Hint)
		}
	}
	if b.Run.Imported() {
		return r.Only("import")
	}
	rounds, lost := 0, false
	for _, t := range b.byWorkload[workload] {
		rounds, lost = max(rounds, t.Round+1), lost || !b.Counts(t)
	}
	return r.Without("import", true).Without("--restarts", true).Without("iotax show", !lost && rounds < stat.LeastTrials).Given(rules.Facts{"--trial": b.Protocol.Trial.String(), "--rounds": strconv.Itoa(rounds)})
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

// Values returns the values of rounds that are not discarded, in the order of Dots.
func (r *Row) Values() []float64 { return r.values(false) }

func (r *Row) values(discarded bool) []float64 {
	var xs []float64
	for _, d := range r.Dots {
		if discarded || !d.Discarded {
			xs = append(xs, d.Value)
		}
	}
	return xs
}

// Options returns the options for intervals that are computed from paired rounds of the run.
func (r *Report) Options() stat.Options {
	return stat.Options{Alpha: r.Alpha, Autocorrelation: r.Run.Calibration.Autocorrelation()}
}

// compare computes r's ratio and a preliminary verdict.
func (b *builder) compare(s *Section, r *Row) {
	base := b.reference(s, r)
	if base == nil {
		b.unrelated(s, r)
		return
	}
	o := b.Options()
	ratio := func(discarded bool) (*stat.Effect, func(float64) float64, error) {
		if b.Run.Imported() {
			return b.change(s, base, r, discarded)
		}
		dots := [2][]Dot{base.Dots, r.Dots}
		if len(base.tails) >= len(base.Dots) && len(r.tails) >= len(r.Dots) {
			dots = [2][]Dot{base.tails, r.tails}
		}
		o := o
		d, err := s.logRatios(dots[0], dots[1], discarded, &o)
		if err != nil || len(d) == 0 {
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
	case err != nil && s.Better == iotax.Neither: // a count of 0 has no ratio, but is not an error
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
				Item{Lead: fmt.Sprintf("%d of %s discarded; with discarded %ss the ratio is", n, format.Plural(n+b.Protocol.Rounds[s.Workload], b.Counted()), b.Counted()),
					Detail: format.Ratio(with.Interval), Cells: []Cell{cell}})
		}
	}
}

// change returns the ratio of unpaired (imported) trials, and a function that returns the p value of a ratio.
func (b *builder) change(s *Section, base, r *Row, discarded bool) (*stat.Effect, func(float64) float64, error) {
	x, y := base.values(discarded), r.values(discarded)
	if len(x) == 0 || len(y) == 0 {
		return nil, nil, nil
	}
	o := stat.Options{Alpha: b.Alpha, Hidden: BinError(s.Metric)}
	c, err := stat.Unpaired(x, y, s.Better, o)
	if err != nil {
		return nil, nil, err
	}
	lx, ly := Logs(x), Logs(y)
	if s.Better == iotax.Down {
		lx, ly = ly, lx
	}
	return &c, func(ratio float64) float64 { return stat.ChangeP(lx, ly, ratio, o) }, nil
}

// spreadBaseline replaces the verdict of each row that cannot be compared with its reference: either row is invalid or
// has too many discarded trials, or their durabilities differ.
func (b *builder) spreadBaseline(s *Section) {
	for i := range s.Rows {
		r := &s.Rows[i]
		base := s.Row(r.Against)
		if base == nil || r.Verdict == stat.NoResult {
			continue
		}
		bd := b.Target(base.Target).Durability
		d := b.Target(r.Target).Durability
		if not := d.Unlike(bd); not != "" {
			r.Verdict = stat.NotRanked
			b.note(r, rules.DurabilityDiffers.Found(iotax.AboutTarget(r.Target), "what a flush promises here (%s) %s what it promises on %s (%s)", d, not, base.Target, bd), Item{Cells: []Cell{{Target: r.Target}}})
		}
		if b.Invalid(base) || b.Invalid(r) {
			r.Verdict = stat.NotComparable
		}
		if b.tooManyDiscarded(Cell{base.Target, s.Workload}) || b.tooManyDiscarded(Cell{r.Target, s.Workload}) {
			r.Verdict = stat.TooManyDiscarded
		}
		for _, n := range b.found {
			if n.Severity == iotax.Invalid && b.refs[n][base] && !b.refs[n][r] {
				b.refs[n][r] = false // r refers to the notes that explain why base is invalid, but they are not about r
			}
		}
	}
}

// Brief returns the first line of an error, and its hint. The lines between them, for example console output of a
// guest, differ from trial to trial.
func Brief(err string) string {
	rest, hint, found := strings.Cut(err, "\n  hint: ")
	line, _, _ := strings.Cut(rest, "\n")
	if found {
		line += "\n  hint: " + hint
	}
	return line
}
