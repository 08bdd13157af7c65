package assess

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

// answer returns the first sentence: the largest confirmed loss, otherwise the largest gain, otherwise why there is
// neither.
func (a *assessing) answer(cells []assessed) (out Sentence) {
	var worst, best *assessed
	counts := map[stat.Verdict]int{}
	targets := map[string]bool{}
	judged := 0
	lone := len(cells) > 0
	cells = slices.DeleteFunc(slices.Clone(cells), func(c assessed) bool { return c.r.Verdict == stat.NoVerdict })
	for _, c := range cells {
		if report.Conclusive(c.r.Verdict) || open(c) {
			judged++
			counts[c.r.Verdict]++
			targets[c.r.Target] = true
		} else if c.r.Verdict == stat.NotRanked {
			counts[c.r.Verdict]++
		}
		switch c.r.Verdict {
		case stat.Worse:
			if worst == nil || c.r.Ratio.Estimate < worst.r.Ratio.Estimate {
				worst = &c
			}
		case stat.Better:
			if best == nil || c.r.Ratio.Estimate > best.r.Ratio.Estimate {
				best = &c
			}
		}
	}
	base, rest := a.Baseline, ""
	if n := len(cells) - judged; n > 0 {
		rest = fmt.Sprintf(" (%d more cannot be judged)", n)
	}
	out.Kind = SaysNothing
	not := ""
	noisy, few := counts[stat.Inconclusive], counts[stat.TooFew]
	switch {
	case len(a.Trials) == 0:
		out.Text = "Nothing was measured"
		if i := slices.IndexFunc(a.Targets(), func(t iotax.TargetInfo) bool { return t.Err != "" }); i >= 0 {
			out.Text += ": " + a.Targets()[i].Name + " could not be opened"
		} else if i := slices.IndexFunc(a.Run.Findings, func(f iotax.Finding) bool { return f.Rule == rules.RunFailed.ID }); i >= 0 {
			why, _, _ := strings.Cut(a.Run.Findings[i].Evidence, "\n")
			out.Text += ": " + why
		}
	case a.failedAll() != "":
		out.Text = "Nothing was measured, every trial failed: " + a.failedAll()
	case len(cells) == 0 && lone:
		out.Text = "No two targets did the same work: nothing can be compared"
	case len(cells) == 0:
		out.Text = fmt.Sprintf("Only %s was measured: there is nothing to compare it with", base)
	case worst != nil:
		out.Kind, out.Figures = SaysLoss, []Figure{worst.figure()}
		words := format.ContrastOf(worst.s.Metric, worst.s.Better, worst.s.Unit)
		if len(targets) == 1 || words.Worse != "slower" {
			if judged > 1 {
				out.Text = "Largest loss: "
			}
			out.Text += than(*worst, format.Contrast.Estimate, a.named(worst.r.Target))
			break
		}
		out.Text = a.named(worst.r.Target) + " is the slowest: " + than(*worst, format.Contrast.Estimate, "")
		var others []string
		for _, c := range tied(*worst, cells) {
			out.Figures = append(out.Figures, c.figure())
			others = append(others, c.r.Target+" ("+words.Estimate(c.r.Ratio.Interval)+")")
		}
		if others != nil {
			out.Text += ". " + format.Enumerate(others, format.Listed, "target") + " may be as slow"
		}
	case best != nil:
		out.Kind, out.Figures = SaysGain, []Figure{best.figure()}
		out.Text = "No loss found. "
		if judged > 1 {
			out.Text = fmt.Sprintf("No loss found in %d comparisons. Largest gain: ", judged)
		}
		out.Text += than(*best, format.Contrast.Estimate, a.named(best.r.Target)) + rest
	case judged > 0 && noisy+few == 0:
		out.Kind = SaysSame
		out.Text = fmt.Sprintf("No difference found: all %d comparisons with %s are within ± %s", judged, base, format.Percent(a.Margin))
		if judged == 1 {
			out.Text = fmt.Sprintf("No difference found: the comparison with %s is within ± %s", base, format.Percent(a.Margin))
		}
		out.Text += rest
	case judged > 0:
		out.Kind, out.Text = SaysUnsure, a.undecided(cells, judged, noisy, few)+rest
	case counts[stat.NotRanked] > 0 && slices.ContainsFunc(cells, func(c assessed) bool { not = cmp.Or(not, a.unlikeDurability(c)); return not != "" }):
		out.Text = fmt.Sprintf("No target can be ranked against %s: what a flush promises there %s the same", base, not)
	case counts[stat.NotRanked] > 0:
		out.Text = fmt.Sprintf("No target can be ranked against %s: see the notes", base)
	default:
		out.Text = fmt.Sprintf("No target could be compared with %s: see the notes", base)
	}
	out.Text += "."
	return out
}

// undecided returns the answer if no loss or gain is confirmed, and not all comparisons are within the margin.
func (a *assessing) undecided(cells []assessed, judged, noisy, few int) string {
	switch {
	case noisy == 0:
		found := "No verdict yet"
		if few < judged {
			found = "No difference found yet"
		}
		return fmt.Sprintf("%s against %s. Too few %s for a verdict: %d of %d", found, a.Baseline, a.TooFew(), few, judged)
	case few > 0:
		return fmt.Sprintf("No difference found yet against %s. Of %d comparisons %d are too noisy, and %d have too few %s",
			a.Baseline, judged, noisy, few, a.TooFew())
	}
	tooNoisy := fmt.Sprintf("%d of %d comparisons are too noisy", noisy, judged)
	switch {
	case judged == 1:
		tooNoisy = "It is too noisy"
	case noisy == judged && noisy == 2:
		tooNoisy = "Both comparisons are too noisy"
	case noisy == judged:
		tooNoisy = fmt.Sprintf("All %d comparisons are too noisy", judged)
	}
	one := cells[0].r.Target
	if slices.ContainsFunc(cells, func(c assessed) bool { return c.r.Target != one || c.r.Against != a.Baseline }) {
		return fmt.Sprintf("No difference found yet against %s. %s", a.Baseline, tooNoisy)
	}
	s := fmt.Sprintf("No difference found between %s and %s", a.Baseline, a.named(one))
	if x, y := a.Target(a.Baseline), a.Target(one); x.Device() != "" && x.Device() == y.Device() && x.Storage() == y.Storage() && x.Machine == y.Machine {
		s += fmt.Sprintf(" (both %s: the same disk)", x.Storage())
	}
	s += ". " + tooNoisy
	var words []format.Contrast
	lo, hi := 1.0, 1.0
	for _, c := range cells {
		if c.r.Verdict != stat.Inconclusive {
			continue
		}
		if c.r.Ratio == nil || format.Vague(c.r.Ratio.Interval) || !c.r.Ratio.Contains(1) { // there are no bounds to print
			return s
		}
		if w := format.ContrastOf(c.s.Metric, c.s.Better, c.s.Unit); !slices.Contains(words, w) {
			words = append(words, w)
		}
		lo, hi = min(lo, c.r.Ratio.Lo), max(hi, c.r.Ratio.Hi)
	}
	if len(words) > 1 {
		return s
	}
	worse, better := words[0].Sides(lo, hi)
	return fmt.Sprintf("%s: %s could be up to %s or %s", s, one, worse, better)
}

// failedAll returns the error of the first trial if all trials failed, otherwise "".
func (a *assessing) failedAll() string {
	if slices.ContainsFunc(a.Trials, func(t *report.Trial) bool { return t.Err == "" }) {
		return ""
	}
	why, _, _ := strings.Cut(a.Trials[0].Err, "\n")
	return strings.TrimSuffix(why, ".")
}

// tied returns the other losses in the worst cell's section that may be as large as its loss, the largest first. They
// have the same reference.
func tied(worst assessed, cells []assessed) (out []assessed) {
	for _, c := range cells {
		if c.s == worst.s && c.r != worst.r && c.r.Verdict == stat.Worse && c.r.Against == worst.r.Against &&
			!stat.Apart(c.r.Ratio.Interval, worst.r.Ratio.Interval) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(x, y assessed) int { return cmp.Compare(x.r.Ratio.Estimate, y.r.Ratio.Estimate) })
	return out
}

// named returns the name of a target, marked if it is emulated.
func (a *assessing) named(name string) string {
	if a.Target(name).Emulated() {
		name += " (emulated)"
	}
	return name
}

// than returns a text that compares one cell with its reference: "4k random read is 33× slower than on host disk". If
// `on` is not "", the text names the target: "4k random read on guest 9p is …".
func than(c assessed, number func(format.Contrast, stat.Interval) string, on string) string {
	s := format.Work(c.s.Workload, format.Label(c.s.Metric))
	if on != "" {
		s += " on " + on
	}
	return fmt.Sprintf("%s is %s than on %s", s, number(format.ContrastOf(c.s.Metric, c.s.Better, c.s.Unit), c.r.Ratio.Interval), c.r.Against)
}

// compared adds sentences about losses and gains. Cells of a target with the same verdict, reference and causes share a
// sentence.
func (a *assessing) compared(cells []assessed) {
	pick := slices.Clone(cells)
	slices.SortStableFunc(pick, func(x, y assessed) int { return cmp.Compare(distance(y.r), distance(x.r)) })
	for _, group := range grouped(pick, func(c assessed) (key string, ok bool) {
		if c.r.Verdict != stat.Better && c.r.Verdict != stat.Worse {
			return "", false
		}
		key = fmt.Sprintf("%v\x00%s\x00%s", c.r.Verdict, c.r.Target, c.r.Against)
		for _, w := range a.why(c) {
			key += "\x00" + w.rule
			if w.format == nil { // two cells may have the same rule with different texts
				key += w.tell("")
			}
		}
		return key, true
	}) {
		c := group[0]
		s := Sentence{Kind: SaysLoss}
		if c.r.Verdict == stat.Better {
			s.Kind = SaysGain
		}
		var parts []string
		for i, x := range group {
			s.Figures = append(s.Figures, x.figure())
			if i == 0 {
				parts = append(parts, than(x, format.Contrast.Interval, ""))
				continue
			}
			parts = append(parts, format.Work(x.s.Workload, format.Label(x.s.Metric))+" "+format.ContrastOf(x.s.Metric, x.s.Better, x.s.Unit).Interval(x.r.Ratio.Interval))
		}
		s.Text = c.r.Target + ": " + format.Enumerate(parts, format.Listed, "workload")
		s.Causes, s.Notes = a.causes(group)
		for _, cause := range s.Causes {
			s.Text += "; " + cause.Text
		}
		s.Text += "."
		a.say(s)
	}
}

// grouped groups items by key, in order of first occurrence. It omits items without a key.
func grouped[T any, K comparable](items []T, key func(T) (K, bool)) [][]T {
	at := map[K]int{}
	var out [][]T
	for _, x := range items {
		k, ok := key(x)
		if !ok {
			continue
		}
		i, there := at[k]
		if !there {
			i = len(out)
			at[k], out = i, append(out, nil)
		}
		out[i] = append(out[i], x)
	}
	return out
}

// distance returns how far a ratio is from 1, as a factor of at least 1. It returns 0 if there is no ratio.
func distance(r *report.Row) float64 {
	if r.Ratio == nil || !(r.Ratio.Estimate > 0) {
		return 0
	}
	return math.Max(r.Ratio.Estimate, 1/r.Ratio.Estimate)
}

// invalid adds a sentence for each note that makes results invalid. It includes invalid results of the baseline.
func (a *assessing) invalid() {
	var rows []assessed
	for s, r := range a.Rows() {
		rows = append(rows, assessed{s, r})
	}
	for _, group := range grouped(rows, func(c assessed) (*report.Note, bool) {
		n := a.InvalidBy(c.r)
		return n, c.s.Decides && n != nil && c.r.Verdict != stat.NoResult
	}) {
		n := a.InvalidBy(group[0].r)
		evidence := cmp.Or(conditions[n.Rule], n.Rule)
		s := Sentence{Kind: SaysInvalid, Causes: []Cause{{Rule: n.Rule, Text: evidence}}}
		var names []string
		for _, c := range group {
			names = append(names, c.name())
			s.Figures = append(s.Figures, c.figure())
		}
		if n.Number > 0 {
			s.Notes = []int{n.Number}
		}
		s.Text = fmt.Sprintf("Invalid: %s: %s.", format.Enumerate(names, format.Listed, "cell"), evidence)
		a.say(s)
	}
}

// conditions maps a rule that makes a number invalid to a phrase for the sentence.
var conditions = map[string]string{
	rules.CacheServed.ID:      "cached",
	rules.WriteAbsorbed.ID:    "cached writes",
	rules.LineRateExceeded.ID: "cached: faster than the line to the storage",
	rules.TooManyDiscarded.ID: "more than 20 % of the trials are discarded",
	rules.NoRatio.ID:          "a value has no logarithm",
}

// failed adds a sentence for each cell without a result, but only one for all cells of a target that could not be
// opened.
func (a *assessing) failed(cells []assessed) {
	opened := map[string]bool{}
	for _, c := range cells {
		if c.r.Verdict != stat.NoResult {
			continue
		}
		s := Sentence{Kind: SaysFailed, Figures: []Figure{c.figure()}}
		if c.r.Err != "" {
			if opened[c.r.Target] {
				continue
			}
			opened[c.r.Target] = true
			why, _, _ := strings.Cut(c.r.Err, "\n")
			if op, rest, ok := strings.Cut(why, ": "); ok && strings.HasPrefix(op, "open ") {
				why = rest
			}
			s.Notes = a.notes(c.r, rules.TargetNotOpened.ID)
			s.Text = fmt.Sprintf("%s could not be opened: %s.", c.r.Target, strings.TrimSuffix(why, "."))
		} else if ns := a.unmeasured(c.r); c.r.Ran == 0 && len(ns) > 0 {
			s.Notes = a.notes(c.r, rules.CellNotMeasured.ID)
			why := ""
			for _, it := range ns[0].Items {
				if it.About(c.r.Target, c.s.Workload) {
					why, _, _ = strings.Cut(it.Evidence, "\n")
				}
			}
			s.Text = fmt.Sprintf("%s could not be measured: %s.", c.name(), strings.TrimSuffix(why, "."))
		} else {
			s.Notes = a.notes(c.r, rules.TrialFailed.ID, rules.TrialDiscarded.ID)
			s.Text = fmt.Sprintf("%s has no result: none of its %s counts.", c.name(), format.Plural(c.r.Ran, "trial"))
		}
		a.say(s)
	}
}

// open reports whether more rounds or longer trials could lead to a verdict about a cell.
func open(c assessed) bool {
	return report.Unsure(c.r.Verdict) && (c.r.Ratio != nil || c.r.Few != nil)
}

// unsure adds a sentence about the cells that need more rounds or longer trials: first cells with a useful interval, then
// noisy cells, then cells with too few rounds or I/Os. In each group, the widest interval comes first.
func (a *assessing) unsure(cells []assessed) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c assessed) bool { return !open(c) })
	if len(cells) == 0 {
		return
	}
	width := func(c assessed) float64 {
		if c.r.Ratio != nil && !math.IsNaN(c.r.Ratio.HalfWidth()) {
			return c.r.Ratio.HalfWidth()
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(cells, func(x, y assessed) int { return cmp.Compare(width(y), width(x)) })
	s := Sentence{Kind: SaysUnsure}
	var parts, dark, few, short []string
	for _, c := range cells {
		s.Figures = append(s.Figures, c.figure())
		s.Notes = append(s.Notes, a.notes(c.r, rules.PrecisionNotReached.ID, rules.OneOfMany.ID, rules.FewTrials.ID)...)
		if c.r.Few != nil {
			short = append(short, c.name())
		} else if c.r.Verdict == stat.TooFew {
			few = append(few, fmt.Sprintf("%s (%d of %d)", c.name(), c.r.Ratio.N, stat.LeastTrials))
		} else if format.Vague(c.r.Ratio.Interval) {
			dark = append(dark, c.name())
		} else {
			parts = append(parts, fmt.Sprintf("%s, %s", c.name(), format.ContrastOf(c.s.Metric, c.s.Better, c.s.Unit).Interval(c.r.Ratio.Interval)))
		}
	}
	said := format.Cut(parts, format.Listed, "cell")
	if len(dark) > 0 {
		said = append(said, stat.TooNoisy+": "+format.Enumerate(dark, format.Listed, "cell"))
	}
	if len(few) > 0 {
		said = append(said, fmt.Sprintf("too few %ss: ", a.Lacks())+format.Enumerate(few, format.Listed, "cell"))
	}
	more := fmt.Sprintf("More %ss", a.Lacks())
	if len(short) > 0 {
		said = append(said, "too few I/Os: "+format.Enumerate(short, format.Listed, "cell"))
		more += " or longer trials"
	}
	if len(short) == len(cells) {
		more = "Longer trials"
	}
	s.Text = fmt.Sprintf("%s would decide: %s.", more, strings.Join(said, "; "))
	a.say(s)
}

// unlikeDurability returns the result of Durability.Unlike for the target of c and the target it is compared with.
func (a *assessing) unlikeDurability(c assessed) string {
	if c.r.Against == "" {
		return ""
	}
	return a.Target(c.r.Target).Durability.Unlike(a.Target(c.r.Against).Durability)
}

// unlike adds sentences about the targets that are not ranked because their durability differs from that of the target
// they are compared with. Targets with the same durability and comparison target share a sentence.
func (a *assessing) unlike(cells []assessed) {
	type kind struct {
		durability iotax.Durability
		against    string
	}
	of := func(c assessed) (kind, bool) {
		k := kind{a.Target(c.r.Target).Durability, c.r.Against}
		return k, c.r.Verdict == stat.NotRanked && a.unlikeDurability(c) != ""
	}
	for _, group := range grouped(cells, of) {
		k, _ := of(group[0])
		s := Sentence{Kind: SaysUnlike}
		var names []string
		for _, c := range group {
			names = append(names, c.r.Target)
			s.Figures = append(s.Figures, c.figure())
			s.Notes = append(s.Notes, a.notes(c.r, rules.DurabilityDiffers.ID)...)
		}
		what := map[iotax.Durability]string{
			iotax.DriveCache: "its flushes may end in the cache of the drive", iotax.FlushIgnored: "its flushes are acknowledged and not done",
			iotax.Volatile: "it is memory", iotax.Durable: "its flushes reach the device",
		}[k.durability]
		if k.durability == iotax.Durable {
			not := " do not"
			if !a.Target(k.against).Durability.Known() {
				not = " may not"
			}
			what += ", and those of " + k.against + not
		} else if !k.durability.Known() {
			what = "its flushes may not reach the device"
		}
		what = cmp.Or(what, "a flush promises something else there")
		s.Causes = []Cause{{rules.DurabilityDiffers.ID, what}}
		s.Text = fmt.Sprintf("Not ranked against %s, since %s: %s.", k.against, what, format.Enumerate(uniq(names), format.Listed, "target"))
		a.say(s)
	}
}

// unevenBelow is a threshold for the ratio of the slowest client's rate to the fastest client's. A cell is reported as
// uneven if the whole interval of its ratio is lower.
const unevenBelow = 0.8

// uneven adds a sentence for each target and workload whose clients get unequal shares at the largest number of
// clients.
func (a *assessing) uneven() {
	for _, c := range a.Scalings {
		p := c.Points[len(c.Points)-1]
		if !format.Finite(p.MinMax) || p.MinMax.Hi >= unevenBelow {
			continue
		}
		s := Sentence{Kind: SaysUneven, Figures: []Figure{{Target: p.Target, Workload: c.Workload, Metric: "fairness.min-max", Ratio: &p.MinMax}}}
		s.Text = fmt.Sprintf("The %d clients of %s / %s do not share alike: the slowest reaches %s of the fastest.", p.Clients, c.Target, c.Workload, format.Share(p.MinMax))
		a.say(s)
	}
}

// same adds a sentence about the cells whose difference is within the margin.
func (a *assessing) same(cells []assessed) {
	s := Sentence{Kind: SaysSame}
	var names []string
	for _, c := range cells {
		if c.r.Verdict == stat.Equivalent || c.r.Verdict == stat.BelowMargin {
			s.Figures = append(s.Figures, c.figure())
			names = append(names, c.name())
		}
	}
	if len(names) == 0 || len(names) == len(cells) { // if all cells are within the margin, the answer already reports this
		return
	}
	s.Text = fmt.Sprintf("No difference, within ± %s: %s.", format.Percent(a.Margin), format.Enumerate(names, format.Listed, "cell"))
	a.say(s)
}
