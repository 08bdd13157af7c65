package document

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

const (
	mostColumns = 4  // if there are more workloads than this, and more than there are targets, the workloads become the rows
	mostRows    = 12 // maximum number of compared targets as rows; if there is only one more, it is shown, too
	mostAcross  = 8  // the same for workloads as rows; fewer, because target names in the header take several lines
	mostNotes   = 5
	fewNotes    = 2 // maximum number of notes, and of warnings, in a tight document
	mostUnsure  = 2 // if at most this many cells (one more if only one target is compared) are too noisy, their notes contain the interval
)

// undecidedLoss is the loss by which undecided and invalid cells are ordered. It is between 0, for cells without a loss,
// and confirmed losses, which are above 1.
const undecidedLoss = .5

// matrix returns a table of the loss of each target under each workload, with the smallest losses first. Below it are
// the counts of verdicts and the notes on cells.
func matrix(r *report.Report, a assess.Assessment, tight bool) []block.Block {
	m := &making{Report: r, said: a.Sentences, cells: map[[2]string]cell{}, mostNotes: mostNotes}
	if tight {
		m.mostNotes = fewNotes
	}
	var works []string            // names that cell.work returns
	worst := map[string]float64{} // largest loss; keys are targets, and names in `works` with the prefix "/"
	for _, c := range cellsOf(r) {
		if c.r.Ran == 0 && c.r.Err == "" && len(c.r.Notes) == 0 {
			continue // the target does not run the workload
		}
		m.cells[[2]string{c.r.Target, c.work()}] = c
		if !slices.Contains(works, c.work()) {
			works = append(works, c.work())
		}
		loss := 0.0
		switch {
		case c.r.Verdict == stat.Worse:
			loss = 1 / c.r.Ratio.Estimate
			m.longest = math.Max(m.longest, loss)
		case c.r.Verdict != stat.NoVerdict && !report.Conclusive(c.r.Verdict) || r.InvalidBy(c.r) != nil:
			loss = undecidedLoss
		}
		worst[c.r.Target], worst["/"+c.work()] = math.Max(worst[c.r.Target], loss), math.Max(worst["/"+c.work()], loss)
		m.plain = m.plain || c.r.Ratio != nil && format.ContrastOf(c.s.Metric, c.s.Better, c.s.Unit).Worse != "slower"
		m.compared = m.compared || c.r.Ratio != nil
	}
	var targets []string
	for _, t := range r.Targets() {
		if slices.ContainsFunc(works, func(w string) bool { _, ok := m.cells[[2]string{t.Name, w}]; return ok }) {
			targets = append(targets, t.Name)
		}
	}
	worst[r.Baseline] = -1 // the baseline comes first
	slices.SortStableFunc(targets, func(x, y string) int { return cmp.Compare(worst[x], worst[y]) })
	m.mostUnsure = mostUnsure
	if len(targets) == 2 {
		m.mostUnsure++
	}
	for _, c := range m.cells {
		if c.r.Verdict == stat.Inconclusive {
			m.unsure++
		}
	}
	head := "Slower than " + r.Baseline
	switch {
	case !m.compared:
		head = ""
	case m.plain:
		head = "Compared with " + r.Baseline
	}
	t := block.Table{Wraps: []int{0}, Keys: 1, Ruled: true}
	across := len(works) > mostColumns && len(works) > len(targets)
	left := 0
	if across {
		slices.SortStableFunc(works, func(x, y string) int { return cmp.Compare(worst["/"+x], worst["/"+y]) })
		if left = len(works) - mostAcross; left > 1 {
			works = works[left:]
		}
		common, names := shared(works)
		if common != "" && head != "" {
			head = format.Capital(common) + ", " + strings.ToLower(head[:1]) + head[1:]
		}
		t.Head = append([]string{head}, targets...)
		for i, w := range works {
			row := block.Words(names[i])
			for _, target := range targets {
				row.Cells = append(row.Cells, m.cell(target, w))
			}
			t.Rows = append(t.Rows, row)
		}
	} else {
		var compared []string
		for _, target := range targets {
			if target != r.Baseline {
				compared = append(compared, target)
			}
		}
		if left = len(compared) - mostRows; left > 1 {
			targets = slices.DeleteFunc(targets, func(t string) bool { return slices.Contains(compared[:left], t) })
		}
		t.Head = append([]string{head}, works...)
		for _, target := range targets {
			name := target
			// The vda of a guest is not that of the host, and a name such as "guest virtio-fs" shows that it is a share.
			of, base := r.Target(target), r.Target(r.Baseline)
			if on := of.Storage(); on != "" && (target == r.Baseline || of.Machine == base.Machine && strings.Contains(on, " on ")) {
				name += " (" + on + ")"
			}
			row := block.Words(name)
			for _, w := range works {
				row.Cells = append(row.Cells, m.cell(target, w))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	for k := range t.Head[1:] {
		t.Wraps = append(t.Wraps, k+1)
	}
	out := []block.Block{t}
	sum := m.sum()
	if len(sum) == 1 && a.Sentences[0].Kind == assess.SaysUnsure {
		sum = nil // the answer already contains this count
	}
	if left > 1 {
		sum = append(sum, fmt.Sprintf("%d more without a larger confirmed loss: --details", left))
	}
	if sum != nil {
		out = append(out, block.Paragraph{Text: strings.Join(sum, " · "), Joined: true})
	}
	if m.notes != nil {
		out = append(out, block.Notes{Items: m.notes, Joined: true})
	}
	return out
}

// shared removes the words that all names have in common, but leaves at least one word of each name. It returns the
// removed words and the shortened names.
func shared(names []string) (words string, rest []string) {
	rest = slices.Clone(names)
	for _, word := range strings.Fields(names[0]) {
		if slices.ContainsFunc(rest, func(s string) bool { f := strings.Fields(s); return len(f) < 2 || !slices.Contains(f, word) }) {
			continue
		}
		words += " " + word
		for i, s := range rest {
			f := strings.Fields(s)
			k := slices.Index(f, word)
			rest[i] = strings.Join(slices.Delete(f, k, k+1), " ")
		}
	}
	return strings.TrimSpace(words), rest
}

// making holds the state of matrix.
type making struct {
	*report.Report
	said     []assess.Sentence
	cells    map[[2]string]cell // by target and work
	longest  float64            // the largest loss, as a factor
	plain    bool               // not all ratios compare speed
	compared bool
	unsure   int // number of cells that are too noisy

	mostUnsure int
	mostNotes  int
	notes      []block.Note
}

// note adds a note and returns its number. Equal texts share a note. The last possible note refers to --details, and
// all further texts get its number.
func (m *making) note(text string) []int {
	for _, n := range m.notes {
		if n.Text == text {
			return []int{n.Number}
		}
	}
	if len(m.notes) == m.mostNotes-1 {
		text = "More on this: --details."
	}
	if len(m.notes) == m.mostNotes {
		return []int{m.mostNotes}
	}
	m.notes = append(m.notes, block.Note{Number: len(m.notes) + 1, Text: text})
	return []int{len(m.notes)}
}

func (m *making) cell(target, work string) block.Cell {
	c, ok := m.cells[[2]string{target, work}]
	if !ok {
		return block.Cell{}
	}
	r, s := c.r, c.s
	words := format.ContrastOf(s.Metric, s.Better, s.Unit)
	out := block.Cell{Tone: block.Unsure}
	if r.Against != "" && r.Against != m.BaselineOf(s.Workload) {
		out.Notes = m.note("Compared with " + r.Against + ".")
	}
	verdict := r.Verdict
	if verdict == stat.NoVerdict && m.InvalidBy(r) != nil { // an invalid row without a reference, such as the baseline
		verdict = stat.NotComparable
	}
	switch verdict {
	case stat.Worse:
		out.Text, out.Short, out.Tone = words.Interval(r.Ratio.Interval), words.Estimate(r.Ratio.Interval), block.Bad
		if !m.plain {
			out.Text, out.Short = strings.Replace(out.Text, " slower", "", 1), strings.Replace(out.Short, " slower", "", 1)
		}
		out.Bar = []block.Part{{Share: 1 / r.Ratio.Estimate / m.longest}}
	case stat.Better:
		out.Text, out.Short, out.Tone = words.Interval(r.Ratio.Interval), words.Estimate(r.Ratio.Interval), block.Good
		if slices.ContainsFunc(r.Notes, func(k int) bool { return m.Report.Notes[k-1].Rule == rules.GuestBeatsHost.ID }) {
			out.Notes = append(out.Notes, m.note("Faster than the storage below it: perhaps a cache of the host answered.")...)
		}
	case stat.Equivalent, stat.BelowMargin:
		out.Text, out.Tone = "same", block.Quiet
	case stat.Inconclusive:
		out.Text = stat.TooNoisy
		between := ""
		if r.Ratio != nil {
			between = words.Interval(r.Ratio.Interval)
		}
		switch {
		case m.unsure > m.mostUnsure || r.Ratio == nil:
			out.Notes = append(out.Notes, m.note("More "+m.Counted()+"s or longer trials would decide.")...)
		case format.Vague(r.Ratio.Interval):
			out.Notes = append(out.Notes, m.note("The interval is wider than ± 100 %. Longer trials or a quieter machine would decide.")...)
		case r.Holm != nil && report.Conclusive(r.Holm.Alone):
			out.Notes = append(out.Notes, m.note(format.Capital(between)+fmt.Sprintf(": chance explains one such result among %d. More ", m.Protocol.Comparisons)+m.Counted()+"s would decide.")...)
		case !r.Ratio.Contains(1):
			out.Notes = append(out.Notes, m.note(format.Capital(between)+": perhaps within ± "+format.Percent(m.Margin)+". More "+m.Counted()+"s would decide.")...)
		default:
			out.Notes = append(out.Notes, m.note(format.Capital(between)+". More "+m.Counted()+"s would decide.")...)
		}
	case stat.TooFew:
		if r.Few != nil {
			out.Text = "too few I/Os"
			out.Notes = append(out.Notes, m.note("Too few I/Os beyond "+stat.QuantileName(r.Few.Quantile)+". Longer trials would decide: --details.")...)
			break
		}
		out.Text = format.Number(format.Lone(r.Value.Estimate), s.Unit)
		n, of := r.Value.N, m.Counted()
		if r.Ratio != nil {
			out.Text, n = "("+words.Estimate(format.Lone(r.Ratio.Estimate))+")", min(n, r.Ratio.N)
		}
		if k := r.FewStarts(); k > 0 {
			n, of = k, "start"
		}
		out.Notes = append(out.Notes, m.note(fmt.Sprintf("Too few for a verdict: %s of %d.", format.Plural(n, of), stat.LeastTrials))...)
	case stat.NotRanked:
		out.Text = "not ranked"
		for _, x := range m.sentences(assess.SaysUnlike, c) {
			out.Notes = append(out.Notes, m.note("Not ranked against "+r.Against+": "+x.Causes[0].Text+".")...)
		}
	case stat.NotComparable, stat.TooManyDiscarded:
		n := m.InvalidBy(r)
		if n == nil {
			out.Text = format.Number(format.Lone(r.Value.Estimate), s.Unit)
			out.Notes = append(out.Notes, m.note(format.Capital(string(stat.NotComparable))+": "+r.Against+" is "+m.Word(s.Row(r.Against), true)+".")...)
			break
		}
		if out.Text, out.Tone = m.Word(r, true), block.Bad; !m.Cached(r) {
			out.Notes = append(out.Notes, m.note("Invalid: "+rules.Title(n.Rule)+".")...)
		}
	case stat.NoResult:
		out.Text, out.Tone = "failed", block.Bad
		for _, x := range m.sentences(assess.SaysFailed, c) {
			out.Notes = append(out.Notes, m.note(x.Text)...)
		}
	default:
		out.Tone = block.Plain
		if r.Value.N == 0 {
			out.Text = format.Dash
			return out
		}
		out.Text = format.Number(format.Lone(r.Value.Estimate), s.Unit)
		if strings.HasSuffix(s.Label, "IOPS") && s.Unit == iotax.PerSecond {
			out.Text += " IOPS"
		}
		if !m.compared && format.Finite(r.Value) {
			out.Text += strings.TrimPrefix(format.Spread(r.Value, s.Unit), format.Number(r.Value, s.Unit))
		}
	}
	return out
}

// BaselineOf returns the baseline of a workload, or the baseline of the run if the workload has none.
func (m *making) BaselineOf(workload string) string {
	if base := m.Run.BaselineOf(workload); base != "" {
		return base
	}
	return m.Baseline
}

// sentences returns the sentences of a kind about a cell, or about its target if the target could not be opened.
func (m *making) sentences(kind assess.SentenceKind, c cell) (out []assess.Sentence) {
	for _, x := range m.said {
		if x.Kind == kind && slices.ContainsFunc(x.Figures, func(f assess.Figure) bool {
			return f.Target == c.r.Target && (f.Workload == c.s.Workload || c.r.Err != "")
		}) {
			out = append(out, x)
		}
	}
	return out
}

// invalidWords are the texts that Report.Word returns for rows that are invalid or have an invalid reference.
var invalidWords = []string{format.Verdict(stat.NotComparable, true), format.Cached, string(stat.NotComparable)}

// sum returns the number of cells with each verdict, as phrases: "2 within ± 5 %".
func (m *making) sum() []string {
	slower, faster := "slower", "faster"
	if m.plain {
		slower, faster = "worse", "better"
	}
	by := " by more than " + format.Percent(m.Margin)
	words := map[string]int{}
	var verdicts []stat.Verdict
	for _, c := range m.cells {
		words[m.Word(c.r, true)]++
		verdicts = append(verdicts, c.r.Verdict)
	}
	sure := " (95 % confidence)"
	if slices.Contains(verdicts, stat.Worse) && slices.Contains(verdicts, stat.Better) {
		slower, by = slower+by+sure, ""
		sure = ""
	}
	out := assess.Count(verdicts, []assess.Outcome{{Word: slower + by + sure, Of: []stat.Verdict{stat.Worse}}, {Word: faster + by + sure, Of: []stat.Verdict{stat.Better}},
		{Word: "within ± " + format.Percent(m.Margin), Of: []stat.Verdict{stat.Equivalent, stat.BelowMargin}},
		{Word: stat.TooNoisy, Of: []stat.Verdict{stat.Inconclusive}},
		{Word: "with too few " + m.TooFew(), Of: []stat.Verdict{stat.TooFew}},
		{Word: "not ranked", Of: []stat.Verdict{stat.NotRanked}}, {Word: "failed", Of: []stat.Verdict{stat.NoResult}}})
	for _, word := range invalidWords {
		if n := words[word]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, word))
		}
	}
	return out
}
