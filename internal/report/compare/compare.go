// Package compare determines how two runs differ, and whether a gate passes.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// A Comparison compares one saved run, A, with another, B. It has a row for each target, workload and headline metric
// that both runs have. The trials of A and B were not interleaved, so a drift between the runs affects the ratios, but
// not their intervals (see stat.Change).
type Comparison struct {
	A, B   *report.Report
	Letter string // name of B: "B", unless several runs are compared with A
	By     By
	Margin float64 // margin of the verdicts, as a fraction: 0.05 means ± 5 %
	Alpha  float64 // significance level of each interval, and of all worse and better verdicts together
	Answer string  // one sentence: the largest confirmed loss, otherwise the largest gain, otherwise why there is neither

	Rows         []Change // in the order of A
	OnlyA, OnlyB []CellMetric
	Differences  []Difference // in the environment, the protocol and the names of workloads
	Findings     []iotax.Finding
	Family       int // number of verdicts in Holm's adjustment

	FailOn  FailOn
	Failed  bool     // the gate failed
	Reasons []string // why the gate failed, largest losses first

	called map[report.Cell]string // keys are cells of A; values are the names of the same workloads in B, or "" if B lacks them
}

// inB converts the key of a number in A to its key in B.
func (c *Comparison) inB(k CellMetric) CellMetric {
	k.Workload = c.called[report.Cell{Target: k.Target, Workload: k.Workload}]
	return k
}

// renamed adds a difference for each workload that has another name in B but does the same work.
func (c *Comparison) renamed() {
	for i, r := range c.Rows {
		to := c.inB(r.CellMetric).Workload
		if to != r.Workload && (i == 0 || c.Rows[i-1].Target != r.Target || c.Rows[i-1].Workload != r.Workload) {
			c.Differences = append(c.Differences, Difference{Where: []string{r.Target}, Key: "name of the workload", A: r.Workload, B: to})
		}
	}
}

// By selects the basis of the verdicts.
type By string

const (
	ByValue By = "value" // B's value divided by A's
	ByLoss  By = "loss"  // B's ratio to the baseline divided by A's, so that changes of the host cancel out
)

// FailOn selects which verdicts fail the gate.
type FailOn string

const (
	FailOnNothing FailOn = ""
	FailOnWorse   FailOn = "worse"   // worse by more than the margin, or a number that can no longer be judged
	FailOnDiffers FailOn = "differs" // worse or better by more than the margin, or a number that can no longer be judged
)

// Options configures a comparison.
type Options struct {
	Margin float64 // as a fraction; negative means the margin of B
	By     By      // "" means ByValue
	FailOn FailOn
	Letter string // name of the run that is compared with A; "" means "B"
}

// A Change compares one metric of one cell in both runs.
type Change struct {
	CellMetric
	Label    string        `json:"-"`
	Unit     string        `json:"unit"` // base unit
	Better   iotax.Better  `json:"better"`
	Baseline bool          `json:"baseline"` // the target is the common baseline of both runs
	A        stat.Interval `json:"before"`   // see report.Row.Value
	B        stat.Interval `json:"value"`

	Ratio *stat.Change `json:"ratio"`            // ratio of B to A; higher is better; nil if it cannot be computed
	Loss  *stat.Change `json:"against_baseline"` // B's ratio to its baseline, divided by A's ratio to its baseline; nil if it cannot be computed

	P        iotax.Number    `json:"p"`          // p value of the hypothesis that the change is within the margin; NaN if the change is not judged
	Adjusted iotax.Number    `json:"p_adjusted"` // P after Holm's adjustment
	Verdict  stat.Verdict    `json:"verdict"`
	Holm     bool            `json:"-"`    // the interval alone shows worse or better, but Holm's adjustment withdrew the verdict
	Lost     bool            `json:"lost"` // A's number is valid, but B has no number that can be compared with it
	Findings []iotax.Finding `json:"findings"`
}

// A CellMetric identifies a number of a run.
type CellMetric struct {
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
}

// String returns the name of the cell and the label of the metric.
func (c CellMetric) String() string {
	return report.Cell{Target: c.Target, Workload: c.Workload}.String() + ": " + format.Label(c.Metric)
}

// Judged returns the ratio that the verdict is based on.
func (c *Change) Judged(by By) *stat.Change {
	if by == ByLoss {
		return c.Loss
	}
	return c.Ratio
}

// Of compares two runs. It matches their cells by target, metric, and work. If no workload of B does the same work, it
// matches the cell by the name of the workload.
func Of(a, b *report.Report, o Options) *Comparison {
	c := &Comparison{A: a, B: b, By: cmp.Or(o.By, ByValue), Margin: o.Margin, FailOn: o.FailOn, Letter: cmp.Or(o.Letter, "B"), Alpha: min(a.Alpha, b.Alpha)}
	if c.Margin < 0 || math.IsNaN(c.Margin) {
		c.Margin = b.Margin
	}
	sides := [2]side{sideOf(a), sideOf(b)}
	c.called = counterparts(sides[0], sides[1])
	both := map[CellMetric]bool{}
	for _, k := range sides[0].order {
		kb := c.inB(k)
		if sides[1].rows[kb].Row == nil {
			c.OnlyA = append(c.OnlyA, k)
			continue
		}
		both[kb] = true
		c.Rows = append(c.Rows, c.change(k, sides))
	}
	for _, k := range sides[1].order {
		if !both[k] {
			c.OnlyB = append(c.OnlyB, k)
		}
	}
	c.holm()
	c.Differences = Differences(a, b)
	c.summarize()
	c.renamed()
	c.Answer = c.answer()
	c.gate(sides[0])
	return c
}

// A side is one run's report, indexed by cell and metric.
type side struct {
	*report.Report
	rows  map[CellMetric]located
	order []CellMetric
	works map[report.Cell]work
}

func (s side) work(k CellMetric) work {
	return s.works[report.Cell{Target: k.Target, Workload: k.Workload}]
}

type located struct {
	*report.Section
	*report.Row
	short bool // some trials are too short for the percentile, so Row has no dots
}

func sideOf(r *report.Report) side {
	s := side{Report: r, rows: map[CellMetric]located{}, works: works(r.Trials)}
	for sec, row := range r.Rows() {
		k := CellMetric{row.Target, sec.Workload, sec.Metric}
		if s.rows[k].Row == nil {
			s.order = append(s.order, k)
		}
		_, _, quantile := iotax.Quantile(sec.Metric)
		short := quantile && row.Value.N > 0 && len(row.Values()) < row.Counted
		if short && len(row.Dots) > 0 { // the other trials had more I/Os, so they are not representative
			without := *row
			without.Dots, without.Value = nil, stat.Median(nil)
			row = &without
		}
		s.rows[k] = located{sec, row, short}
	}
	return s
}

// CellMetrics returns the keys of a report's numbers, in the order of its rows.
func CellMetrics(r *report.Report) []CellMetric { return sideOf(r).order }

// SideName returns the letter of the first (0) or the second (1) run.
func (c *Comparison) SideName(i int) string { return [2]string{"A", c.Letter}[i] }

// unfit returns the verdict and the finding that forbid a comparison of a number. It returns NoVerdict if the number
// may be compared. It ignores faults of the baseline, because a target's value does not depend on the baseline.
func (s side) unfit(k CellMetric) (stat.Verdict, iotax.Finding) {
	row := s.rows[k]
	if row.short {
		return stat.TooFew, rules.FewTrials.Hinting("use longer trials (`--trial`)").Found(iotax.AboutCell(k.Target, k.Workload),
			"some of the %s are too short: too few of their I/Os are beyond the percentile", format.Plural(row.Counted, "trial"))
	}
	if len(row.Values()) == 0 {
		f := rules.NoValues.Found(iotax.AboutCell(k.Target, k.Workload), "no trial that counts has this number")
		if row.Err != "" {
			why, hint, _ := strings.Cut(report.Brief(row.Err), "\n  hint: ")
			f.Evidence, f.Hint = why, cmp.Or(hint, f.Hint)
		}
		for _, n := range row.Notes {
			if why, ok := s.Notes[n-1].FindingAbout(k.Target, k.Workload); ok && why.Rule == rules.CellNotMeasured.ID {
				f.Evidence, f.Hint = why.Evidence, cmp.Or(why.Hint, f.Hint)
			}
		}
		return stat.NoResult, f
	}
	for _, n := range row.Notes {
		note := s.Notes[n-1]
		if note.Severity != iotax.Invalid || note.Rule == rules.NoRatio.ID {
			continue
		}
		if f, ok := note.FindingAbout(k.Target, k.Workload); ok {
			v := stat.NotComparable
			if note.Rule == rules.TooManyDiscarded.ID {
				v = stat.TooManyDiscarded
			}
			return v, f
		}
	}
	return stat.NoVerdict, iotax.Finding{}
}

func (c *Comparison) change(k CellMetric, sides [2]side) Change {
	keys := [2]CellMetric{k, c.inB(k)}
	a, b := sides[0].rows[k], sides[1].rows[keys[1]]
	ch := Change{CellMetric: k, Label: b.Label, Unit: cmp.Or(b.Unit, a.Unit), Better: cmp.Or(b.Better, a.Better),
		Baseline: c.A.Baseline == k.Target && c.B.Baseline == k.Target, A: a.Value, B: b.Value,
		P: iotax.Number(math.NaN()), Adjusted: iotax.Number(math.NaN()), Findings: []iotax.Finding{}}
	about := iotax.AboutCell(k.Target, k.Workload)
	refuse := func(v stat.Verdict, f iotax.Finding) {
		ch.Verdict = cmp.Or(ch.Verdict, v)
		ch.Findings = append(ch.Findings, f)
	}
	fit := [2]bool{}
	for i, s := range sides {
		v, f := s.unfit(keys[i])
		fit[i] = v == stat.NoVerdict
		if !fit[i] {
			f.Evidence = "in " + c.SideName(i) + ": " + f.Evidence
			refuse(v, f)
		}
	}
	ta, tb := c.A.Target(k.Target), c.B.Target(k.Target)
	if not := tb.Durability.Unlike(ta.Durability); not != "" {
		refuse(stat.NotRanked, rules.DurabilityDiffers.Found(iotax.AboutTarget(k.Target), "what a flush promises in %s (%s) %s what it promised in A (%s)", c.Letter, tb.Durability, not, ta.Durability))
	}
	if ea, eb := ta.Emulated(), tb.Emulated(); ea != eb {
		name := map[bool]string{true: "emulated (QEMU TCG)", false: "not emulated"}
		refuse(stat.NotRanked, rules.Emulated.Only("both had").Found(iotax.AboutTarget(k.Target), "the guest was %s in A and %s in %s", name[ea], name[eb], c.Letter))
	}
	if why := unlike(sides[0].work(k), sides[1].work(keys[1]), c.Letter); why != "" {
		refuse(stat.NotRanked, rules.WorkDiffers.Found(about, "not the same work in both: %s", why))
	}
	if ch.Better == iotax.Neither && ch.Verdict == "" {
		ch.Verdict = stat.NotRanked
	}
	ch.Lost = fit[0] && ch.Verdict != "" && ch.Better != iotax.Neither

	bins := report.BinError(k.Metric)
	logs := [2][]float64{report.Logs(a.Values()), report.Logs(b.Values())}
	if ch.Better == iotax.Down {
		for _, side := range logs {
			for i := range side {
				side[i] = -side[i]
			}
		}
	}
	values := sampleOf(logs, [2][]int{a.Starts(), b.Starts()}, "trials", stat.Options{Alpha: c.Alpha, Hidden: bins})
	if len(a.Values()) > 0 && len(b.Values()) > 0 {
		r, err := stat.Unpaired(a.Values(), b.Values(), ch.Better, values.Options)
		if err == nil {
			r, err = stat.EstimateChange(values.logs[0], values.logs[1], values.Options)
		}
		if err == nil {
			ch.Ratio = &r
		} else {
			refuse(stat.NotComparable, rules.NoRatio.Found(about, "%s", err))
			ch.Lost = fit[0] && ch.Better != iotax.Neither && slices.Min(a.Values()) > 0
		}
	}
	d, starts := c.losses(k, ch.Better, sides)
	losses := sampleOf(d, starts, "pairs", stat.Options{Alpha: c.Alpha, Autocorrelation: c.autocorrelation(), Hidden: 2 * bins})
	if len(d[0]) > 0 && len(d[1]) > 0 {
		if r, err := stat.EstimateChange(losses.logs[0], losses.logs[1], losses.Options); err == nil {
			ch.Loss = &r
		}
	}
	if ch.Verdict != "" {
		return ch
	}
	if c.By == ByLoss {
		switch {
		case ch.Baseline: // the baseline itself has no loss to judge
			return ch
		case ch.Loss == nil:
			refuse(stat.NotRanked, rules.NoCommonBaseline.Found(about, "the runs do not share a valid baseline"))
			ch.Lost = len(d[0]) > 0
			return ch
		}
		ch.judge(ch.Loss, c, losses)
		return ch
	}
	ch.judge(ch.Ratio, c, values)
	return ch
}

// judge sets the verdict for the interval of r, and the p value for Holm's adjustment (see report.MarginP).
func (ch *Change) judge(r *stat.Change, c *Comparison, s sample) {
	x, y := s.logs[0], s.logs[1]
	if ch.Verdict = stat.Judge(r.Interval, c.Margin); ch.Verdict == stat.TooFew {
		rule := rules.FewTrials.Without("import", true)
		need, a, b := s.units[0], "", ""
		if s.units[0] != s.units[1] {
			need, a, b = s.units[0]+" or "+s.units[1], " "+s.units[0], " "+s.units[1]
		}
		lacks := func(i int) bool { return len(s.logs[i]) < stat.LeastTrials && s.units[i] != "starts" }
		if !lacks(0) && !lacks(1) {
			rule = rules.FewTrials.Only("--restarts")
		}
		ch.Findings = append(ch.Findings, rule.Found(iotax.AboutCell(ch.Target, ch.Workload),
			"an interval and a verdict need %d %s on either side; there are %d%s in A and %d%s in %s", stat.LeastTrials, need, len(x), a, len(y), b, c.Letter))
		ch.Lost = len(x) >= stat.LeastTrials && len(y) < stat.LeastTrials
	}
	if !r.Bounded() {
		return
	}
	ch.P = iotax.Number(report.MarginP(r.Estimate, c.Margin, func(ratio float64) float64 { return stat.ChangeP(x, y, ratio, s.Options) }))
}

// A sample contains the oriented logarithms of both runs, one per trial or, for a run with several starts, per start.
type sample struct {
	logs  [2][]float64
	units [2]string // what the logarithms of each run are from, in the plural
	stat.Options
}

func sampleOf(logs [2][]float64, starts [2][]int, unit string, o stat.Options) sample {
	s := sample{stat.StartSamples(logs, starts), [2]string{unit, unit}, o}
	for i := range s.logs {
		if len(s.logs[i]) < len(logs[i]) {
			s.units[i] = "starts"
		}
	}
	return s
}

// losses returns the log ratios to A's baseline in both runs, one per round, and the starts of the rounds. d[0] or d[1]
// is nil if that run has no valid paired values. d[1] is also nil if B's baseline does different work, has another
// durability, or is emulated in only one of the runs.
func (c *Comparison) losses(k CellMetric, better iotax.Better, sides [2]side) (d [2][]float64, starts [2][]int) {
	base := CellMetric{c.A.Baseline, k.Workload, k.Metric}
	if base.Target == "" || base.Target == k.Target {
		return d, starts
	}
	bases, keys := [2]CellMetric{base, c.inB(base)}, [2]CellMetric{k, c.inB(k)}
	for i, s := range sides {
		if s.rows[bases[i]].Row == nil || hasRule(s.Run.Findings, rules.Imported.ID) { // imported trials have no common rounds
			return d, starts
		}
		if v, _ := s.unfit(bases[i]); v != stat.NoVerdict {
			return d, starts
		}
		p := report.PairDots(s.rows[bases[i]].Dots, s.rows[keys[i]].Dots, false)
		ratios, err := stat.Pair(p.Values[0], p.Values[1], better)
		if err != nil {
			return d, starts // a value is not positive and finite, so there is no ratio
		}
		d[i], starts[i] = ratios, p.Starts
	}
	if ta, tb := c.A.Target(base.Target), c.B.Target(base.Target); ta.Durability != tb.Durability || ta.Emulated() != tb.Emulated() ||
		unlike(sides[0].work(bases[0]), sides[1].work(bases[1]), c.Letter) != "" {
		d[1] = nil
	}
	return d, starts
}

func hasRule(fs []iotax.Finding, rule string) bool {
	return slices.ContainsFunc(fs, func(f iotax.Finding) bool { return f.Rule == rule })
}

// autocorrelation returns the larger autocorrelation of the two runs' calibrations.
func (c *Comparison) autocorrelation() float64 {
	return max(c.A.Run.Calibration.Autocorrelation(), c.B.Run.Calibration.Autocorrelation())
}

// holm applies Holm's adjustment: it withdraws verdicts that may be due to chance, given the number of comparisons.
// Afterwards, the probability that any "worse" or "better" of the comparison is wrong is at most Alpha, if the noise is
// normal: outside the range of all differences, p comes from the t test alone (stat.ChangeP).
func (c *Comparison) holm() {
	p := make([]float64, len(c.Rows))
	for i, r := range c.Rows {
		p[i] = float64(r.P)
		if !math.IsNaN(p[i]) {
			c.Family++
		}
	}
	for i, q := range stat.Holm(p) {
		r := &c.Rows[i]
		if r.Adjusted = iotax.Number(q); (r.Verdict == stat.Worse || r.Verdict == stat.Better) && q > c.Alpha {
			r.Verdict, r.Holm = stat.Inconclusive, true
		}
	}
}

// summarize adds the findings about the whole comparison.
func (c *Comparison) summarize() {
	if n := len(c.Differences); n > 0 {
		var keys []string
		for _, d := range c.Differences {
			if !slices.Contains(keys, d.Key) {
				keys = append(keys, d.Key)
			}
		}
		if len(keys) > 6 {
			keys = append(keys[:5], fmt.Sprintf("%d more", len(keys)-5))
		}
		c.Findings = append(c.Findings, rules.EnvironmentDiffers.Without("--by loss", c.By == ByLoss).Found(iotax.AboutRun(), "the runs differ in %s", strings.Join(keys, ", ")))
	}
	var moved []string
	var by *Change
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Baseline && c.By == ByValue && (r.Verdict == stat.Worse || r.Verdict == stat.Better) {
			moved = append(moved, fmt.Sprintf("%s is %s", format.Subject(r.Workload, r.Label), r.words().Interval(r.Ratio.Interval)))
			by = r
		}
	}
	if by != nil && slices.ContainsFunc(c.Rows, func(r Change) bool { return r.Loss != nil }) {
		c.Findings = append(c.Findings, rules.BaselineChanged.Found(iotax.AboutTarget(by.Target), "%s itself changed (%s): the host is in every value", by.Target, strings.Join(moved, ", ")))
	}
	var undone int
	for _, r := range c.Rows {
		if r.Holm {
			undone++
		}
	}
	if undone > 0 {
		are := "are"
		if undone == 1 {
			are = "is"
		}
		c.Findings = append(c.Findings, rules.OneOfMany.Found(iotax.AboutRun(), "%d of the %s would be worse or better alone, and %s not after Holm's adjustment", undone, format.Plural(c.Family, "comparison"), are))
	}
}

// gate decides whether the comparison fails, and why. The comparison also fails if nothing could be compared. It also
// fails if B lacks a valid number that A has, because a target that no longer starts is not a success.
func (c *Comparison) gate(a side) {
	if c.FailOn == FailOnNothing {
		return
	}
	type reason struct {
		rank float64
		text string
	}
	var reasons []reason
	judged := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if report.Conclusive(r.Verdict) || r.Verdict == stat.Inconclusive {
			judged++
		}
		if v := r.Judged(c.By); r.Verdict == stat.Worse || r.Verdict == stat.Better && c.FailOn == FailOnDiffers {
			reasons = append(reasons, reason{v.Estimate, fmt.Sprintf("%s is %s", r.CellMetric, r.words().Interval(v.Interval))})
		}
		if r.Lost {
			why := r.Findings[0]
			reasons = append(reasons, reason{math.Inf(1), fmt.Sprintf("%s cannot be judged: %s: %s", r.CellMetric, why.Rule, why.Evidence)})
		}
	}
	for _, k := range c.OnlyA {
		if v, _ := a.unfit(k); v == stat.NoVerdict {
			reasons = append(reasons, reason{math.Inf(1), k.String() + " is missing in " + c.Letter})
		}
	}
	if judged == 0 && len(reasons) == 0 {
		reasons = append(reasons, reason{0, "nothing could be compared"})
	}
	slices.SortStableFunc(reasons, func(x, y reason) int { return cmp.Compare(x.rank, y.rank) })
	for _, r := range reasons {
		c.Reasons = append(c.Reasons, r.text)
	}
	c.Failed = len(reasons) > 0
}
