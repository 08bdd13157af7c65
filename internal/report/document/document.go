// Package document converts reports and comparisons to documents: short ones for one screen, and ones with all numbers.
package document

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/internal/rules"
	"iotax/stat"
)

// Of returns the document of a report with all details.
func Of(r *report.Report) block.Document {
	a := assess.Of(r)
	return block.Document{Title: r.Run.Name, Blocks: slices.Concat(first(r, a, 0), detailed(r, a, nil), next(r, true))}
}

// Folded returns the short document, with all details in a fold.
func Folded(r *report.Report) block.Document {
	a := assess.Of(r)
	d := short(r, a, false)
	d.Blocks = append(d.Blocks, block.Fold{Summary: "All numbers and notes", Blocks: detailed(r, a, nil)})
	return d
}

// `first` returns the answer, the warnings, and about `most` expectations, or all expectations if most is 0.
func first(r *report.Report, a assess.Assessment, most int) []block.Block {
	out := []block.Block{block.Answer{Text: a.Answer()}}
	if b := banner(r); b != nil {
		out = append(out, block.Banner{Texts: b})
	}
	return append(out, expectations(r, most)...)
}

func banner(r *report.Report) (out []string) {
	if s := r.Banner(); s != "" {
		out = append(out, s)
	}
	var ended []string
	for _, f := range r.Run.Findings {
		if f.Rule == rules.StoppedEarly.ID || f.Rule == rules.RunnerDied.ID {
			why := strings.TrimSuffix(f.Evidence, ".")
			if f.Subject.Workload != "" && len(r.Run.Findings) > 1 {
				why = strings.TrimPrefix(why, f.Subject.Workload+": ")
			}
			ended = append(ended, why)
		}
	}
	switch n := len(ended); {
	case n == 1 || n > 1 && len(slices.Compact(slices.Clone(ended))) == 1:
		out = append(out, "Stopped early: "+ended[0]+".")
	case n > 1:
		out = append(out, fmt.Sprintf("Stopped early in %d of %s: %s; …", n, format.Plural(len(r.Run.Workloads), "workload"), ended[0]))
	case r.Run.Status == iotax.Interrupted:
		out = append(out, "Interrupted before the end.")
	}
	inMatrix := slices.Clone(shown)
	for _, c := range cellsOf(r) {
		if n := r.InvalidBy(c.r); n != nil && c.r.Verdict != stat.NoResult {
			inMatrix = append(inMatrix, n.Rule)
		}
	}
	var others, names []string
	for _, n := range slices.Concat(r.General, r.Common, r.Notes) {
		if n.Severity == iotax.Invalid && !slices.Contains(inMatrix, n.Rule) {
			others, names = append(others, format.Capital(rules.Title(n.Rule))+": "+strings.Join(n.Sentences(1), "; ")), append(names, rules.Title(n.Rule))
		}
	}
	out = append(out, lost(r, "failed", func(t *report.Trial) string { return t.Err })...)
	out = append(out, lost(r, "discarded", func(t *report.Trial) string { return t.Discarded })...)
	var served, at []string // the targets and the workloads of the results that a cache answered
	for _, c := range cellsOf(r) {
		if r.Cached(c.r) {
			served, at = append(served, c.r.Target), append(at, c.s.Workload)
		}
	}
	if len(others) > 1 || len(others) == 1 && len(out)+len(served) > 0 {
		others = []string{"Invalid for other reasons too: " + strings.Join(format.Cut(slices.Compact(slices.Sorted(slices.Values(names))), mostWarnings, "reason"), ", ") + " (--details)."}
	}
	out = append(out, others...)
	switch n := len(served); {
	case n > 0 && n <= 2 && at[0] == at[n-1]:
		out = append(out, "Cached, so invalid: "+format.Enumerate(served, n, "target")+" / "+at[0]+".")
	case n > 0:
		out = append(out, fmt.Sprintf("Cached, so invalid: %d results (a cache answered, not the disk).", n))
	}
	return out
}

// lost returns a line with the number of trials for which `why` returns a reason, and the first reason. It returns nil
// without such trials.
func lost(r *report.Report, how string, why func(*report.Trial) string) []string {
	n, first := 0, ""
	for _, t := range r.Trials {
		if text := why(t); text != "" {
			if n++; n == 1 {
				line, _, _ := strings.Cut(text, "\n")
				first = t.Cell() + ": " + ansi.Truncate(line, mostReason, "…")
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %s %s. The first: %s", n, format.Plural(len(r.Trials), "trial"), how, first)}
}

// mostReason is the maximum width in columns of a reason in the line that lost returns.
const mostReason = 160

// A cell is a row of a report, with its section.
type cell struct {
	s *report.Section
	r *report.Row
}

func cellsOf(r *report.Report) (out []cell) {
	for s, row := range r.Rows() {
		if s.Decides {
			out = append(out, cell{s, row})
		}
	}
	return out
}

// work returns a name for the workload and the metric (see format.Work).
func (c cell) work() string { return format.Work(c.s.Workload, format.Label(c.s.Metric)) }

// mostLines is the approximate maximum number of lines for the layout's tables, and for the expectations, in the short
// document.
const mostLines = 15

// Short returns the short document. A tight document has fewer notes, and does not list the causes of losses and gains.
func Short(r *report.Report, tight bool) block.Document { return short(r, assess.Of(r), tight) }

func short(r *report.Report, a assess.Assessment, tight bool) block.Document {
	d := block.Document{Title: r.Run.Name, Blocks: first(r, a, mostLines)}
	if len(r.Trials) == 0 { // only show why nothing was measured
		d.Blocks = append(d.Blocks, reasons(r, a.Answer())...)
		d.Blocks = append(d.Blocks, next(r, false)...)
		return d
	}
	if tables := table.Layout(r); tables != nil {
		tables, more := table.Worst(tables, mostLines)
		for _, t := range tables {
			d.Blocks = append(d.Blocks, titled(t)...)
		}
		if more > 0 {
			d.Blocks = append(d.Blocks, block.Paragraph{Text: format.Plural(more, "more row") + ": --details", Joined: true})
		}
		var failed []string // targets that could not be opened, which have no rows in these tables
		for _, t := range r.Targets() {
			if t.Err != "" {
				failed = append(failed, t.Name)
			}
		}
		if failed != nil {
			d.Blocks = append(d.Blocks, block.Paragraph{Text: "Could not be opened: " + format.Enumerate(failed, format.Listed, "target") + " (--details).", Tone: block.Bad, Joined: true})
		}
	} else {
		d.Blocks = append(d.Blocks, matrix(r, a, tight)...)
	}
	found, reported := insights(a, tight)
	d.Blocks = append(d.Blocks, found...)
	d.Blocks = append(d.Blocks, stageLines(r)...)
	how := circumstances(r)
	most := mostWarnings
	if tight {
		most = fewNotes
	}
	if s := warnings(r, most, reported); s != "" {
		how += " " + s
	}
	d.Blocks = append(d.Blocks, remarks(how, assess.Job(r))...)
	d.Blocks = append(d.Blocks, next(r, false)...)
	return d
}

// mostInsights is the maximum number of sentences below the table in the short document.
const mostInsights = 3

// insights returns sentences about facts that the matrix cannot show, and the rules of the causes that they mention.
func insights(a assess.Assessment, tight bool) (out []block.Block, reported []string) {
	var items []block.Item
	for _, s := range a.Sentences[1:] {
		switch s.Kind {
		case assess.SaysLoss, assess.SaysGain:
			if tight {
				continue
			}
			for _, c := range s.Causes[:min(len(s.Causes), mostInsights-len(items))] {
				items, reported = append(items, block.Item{Text: s.Figures[0].Target + ": " + c.Text + "."}), append(reported, c.Rule)
			}
		case assess.SaysStages, assess.SaysMemory, assess.SaysUneven, assess.SaysPath, assess.SaysBest, assess.SaysLazy, assess.SaysShare:
			items = append(items, block.Item{Text: s.Text})
		}
		if len(items) == mostInsights {
			break
		}
	}
	if items == nil {
		return nil, nil
	}
	return []block.Block{block.List{Items: items, Joined: true}}, reported
}

// firstLook is the trial length below which a run is called a first look.
const firstLook = 5 * time.Second

// circumstances describes in one line how the run was measured.
func circumstances(r *report.Report) string {
	var parts []string
	p := r.Protocol
	switch {
	case r.Run.Imported():
		parts = append(parts, format.Plural(len(r.Trials), "imported trial")+", not measured in turns")
	case p.Trial > 0 && p.Trial < firstLook:
		parts = append(parts, "First look: trials of "+p.Trial.String())
	case p.Trial > 0:
		parts = append(parts, "Trials of "+p.Trial.String())
	}
	if !r.Run.Imported() {
		rounds := format.Plural(p.MostRounds, r.Counted())
		if p.LeastRounds != p.MostRounds {
			rounds = fmt.Sprintf("%d–%s", p.LeastRounds, rounds)
		}
		switch n, of := r.Starts(); {
		case n > 1:
			rounds += fmt.Sprintf(" in %d starts", n)
		case n == 1 && of != "":
			rounds += ", " + of + " started once"
		}
		parts = append(parts, rounds)
	}
	if stolen := steal(r); stolen > 0 {
		parts = append(parts, "CPU steal "+format.Number(format.Lone(stolen), iotax.RatioUnit))
	}
	if r.Reference != nil {
		parts = append(parts, table.ReferenceTitle(r.Reference)+" (--details)")
	}
	return strings.Join(parts, ", ") + "."
}

// mostWarnings is the maximum number of warnings, or of reasons for invalid results, in one line of a document that is
// not tight.
const mostWarnings = 4

// warnings lists at most `most` of the run's warnings in one line. It omits the rules in `shown` and `reported`.
func warnings(r *report.Report, most int, reported []string) string {
	var warned []string
	for _, n := range slices.Concat(r.General, r.Common, r.Notes) {
		if t := rules.Title(n.Rule); n.Severity == iotax.Warning && !slices.Contains(warned, t) && !slices.Contains(shown, n.Rule) && !slices.Contains(reported, n.Rule) {
			warned = append(warned, t)
		}
	}
	if warned == nil {
		return ""
	}
	// A noisy baseline affects every ratio, so it comes first.
	if i := slices.Index(warned, rules.Title(rules.NoisyBaseline.ID)); i > 0 {
		warned = slices.Insert(slices.Delete(warned, i, i+1), 0, rules.Title(rules.NoisyBaseline.ID))
	}
	return "Warnings: " + strings.Join(format.Cut(warned, most, "warning"), "; ") + "."
}

// shown lists the rules that other parts of the short document report.
var shown = []string{rules.Emulated.ID, rules.ShortTrial.ID, rules.StoppedEarly.ID, rules.RunnerDied.ID, rules.Steal.ID, rules.TargetNotOpened.ID,
	rules.DurabilityDiffers.ID, rules.TrialFailed.ID, rules.TrialDiscarded.ID, rules.Imported.ID}

// steal returns the median share of CPU time stolen from the trials with the finding "steal", or 0.
func steal(r *report.Report) float64 {
	var xs []float64
	for _, t := range r.Trials {
		if slices.ContainsFunc(t.Findings, func(f iotax.Finding) bool { return f.Rule == rules.Steal.ID }) {
			if v, ok := t.Value(iotax.ValueCPUHostSteal); ok {
				xs = append(xs, v.Value)
			}
		}
	}
	if xs == nil {
		return 0
	}
	return stat.Median(xs).Estimate
}

// quoted is the trial length in the command of the step "Redo".
const quoted = 10 * time.Second

// spent reports whether workloads stopped early and none of their hints suggests resuming the run. It returns false if
// a target could not be opened.
func spent(r *report.Report) (all bool) {
	for _, f := range r.Run.Findings {
		if f.Rule == rules.StoppedEarly.ID {
			if all = !strings.Contains(f.Hint, "--resume"); !all {
				return false
			}
		}
	}
	return all && !slices.ContainsFunc(r.Targets(), func(t iotax.TargetInfo) bool { return t.Err != "" })
}

var planBudget = regexp.MustCompile(`(?m)^\s+budget: "?([0-9][0-9a-z.]*)`)

// `next` returns the suggested commands as a block, or nil without suggestions.
func next(r *report.Report, details bool) []block.Block {
	if s := steps(r, details); s != nil {
		return []block.Block{block.Steps{Steps: s}}
	}
	return nil
}

// steps returns the commands to suggest, with short descriptions.
func steps(r *report.Report, details bool) []block.Step {
	if r.Run.ID == "" {
		return nil
	}
	id := iotax.Quote(format.Clean(r.Run.ID))
	open := block.Step{Name: "Open", Command: "iotax report " + id + " -o report.html", About: "charts"}
	if r.Page != "" {
		open.Command, open.About = format.Clean(r.Page), "charts, latency, CPU, every trial"
	}
	steps := []block.Step{open}
	if len(r.Trials) == 0 {
		steps = nil // there is nothing to draw
	}
	if len(r.Emulated()) > 0 {
		steps = slices.Insert(steps, 0, block.Step{Name: "First", Command: "iotax doctor", About: "shows how to get KVM"})
	}
	divided := r.Divided() // a run with shards cannot be resumed by its id
	for _, f := range r.Run.Findings {
		command, about, ok := strings.Cut(f.Hint, " measures the rest, in ")
		if f.Rule == rules.StoppedEarly.ID && ok && !divided {
			steps = append(steps, block.Step{Name: "Finish", Command: strings.Trim(command, "`"), About: about})
			break
		}
	}
	finish := slices.ContainsFunc(steps, func(s block.Step) bool { return s.Name == "Finish" })
	if !finish && !divided && !spent(r) && (r.Run.Status == iotax.Interrupted || r.Run.Status == iotax.Incomplete) {
		steps = append(steps, block.Step{Name: "Finish", Command: "iotax run --resume=" + id, About: "what is missing"})
	}
	if t := r.Protocol.Trial; t > 0 && t < firstLook && !r.Run.Imported() {
		var took time.Duration
		for _, x := range r.Trials {
			took += x.Took - t + quoted
		}
		rounds, budget := "", ""
		if n := r.Protocol.MostRounds; n > 0 && n < stat.LeastTrials {
			rounds = fmt.Sprintf(" --rounds %d", stat.LeastTrials)
			took = took * stat.LeastTrials / time.Duration(n)
		}
		if m := planBudget.FindSubmatch(r.Run.Plan); m != nil {
			if d, err := time.ParseDuration(string(m[1])); err == nil && d > 0 && took > d {
				budget = fmt.Sprintf(" --budget %.0fm", 5*math.Ceil(1.25*took.Minutes()/5))
			}
		}
		steps = append(steps, block.Step{Name: "Redo", Command: again(r.Run.Environment[iotax.FactCommand], "--trial "+quoted.String()+rounds+budget), About: "longer trials, " + about(took)})
	}
	if details {
		steps = append(steps, block.Step{Name: "Trials", Command: "iotax show " + id, About: "every trial"})
	} else {
		steps = append(steps, block.Step{Name: "Details", Command: "iotax report " + id + " --details", About: "tables, warnings"})
	}
	return steps
}

var roundsFlag = regexp.MustCompile(` --rounds[ =]\S+`)

var replaced = regexp.MustCompile(` --(trial|budget)[ =]\S+| (-q|-v|--quiet|--verbose|--json|--details)\b| (-o|--output|--format)[ =]('[^']*'|\S+)`)

// `again` returns the command with `flags` in place of its --trial, --budget and (if it is among them) --rounds, and without
// flags that only affect its output. It puts `flags` before the arguments of fio.
func again(command, flags string) string {
	if command == "" {
		return "the same command with " + flags
	}
	before, job, found := strings.Cut(command, " -- ")
	command = replaced.ReplaceAllString(before, "")
	if strings.Contains(flags, "--rounds") {
		command = roundsFlag.ReplaceAllString(command, "")
	}
	command += " " + flags
	if found {
		command += " -- " + job
	}
	return command
}

func about(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("about %.0f s", max(1, d.Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("about %.0f min", d.Minutes())
	}
	return fmt.Sprintf("about %.0f h", math.Ceil(d.Hours()))
}

// reasons returns the notes of a run that measured nothing. Of a note that the answer contains, it returns only the
// hint.
func reasons(r *report.Report, answer string) (out []block.Block) {
	var rest []block.Note
	for _, n := range inOrder(r) {
		switch {
		case !strings.Contains(answer, strings.TrimSuffix(n.Text, ".")):
			n.Label = format.Capital(rules.Title(n.Label))
			rest = append(rest, n)
		case n.Hint != "":
			out = append(out, block.Paragraph{Text: "→ " + n.Hint, Joined: true})
		}
	}
	if rest != nil {
		out = append(out, block.Notes{Items: rest})
	}
	return out
}

// inOrder returns all notes of the report: notes about the whole run or every row come first, in order of severity.
func inOrder(r *report.Report) (items []block.Note) {
	rank := []iotax.Severity{iotax.Invalid, iotax.Warning, iotax.Info}
	all := slices.Concat(r.General, r.Common)
	slices.SortStableFunc(all, func(x, y report.Note) int {
		return cmp.Compare(slices.Index(rank, x.Severity), slices.Index(rank, y.Severity))
	})
	for _, n := range append(all, r.Notes...) {
		items = append(items, Note(n))
	}
	return items
}

// Note converts a note of a report.
func Note(n report.Note) block.Note {
	tone := block.Quiet
	switch n.Severity {
	case iotax.Warning:
		tone = block.Unsure
	case iotax.Invalid:
		tone = block.Bad
	}
	shown := n.Sentences(report.ShownItems)
	out := block.Note{Number: n.Number, Label: n.Rule, Level: string(n.Severity), Tone: tone, Text: strings.Join(shown, "; "), Hint: n.Hint}
	if all := n.Sentences(0); len(all) != len(shown) {
		out.More = all
	}
	return out
}
