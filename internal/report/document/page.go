package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// A page builds the parts that only pages show: charts, tiles, facts, and every trial.
type page struct {
	trials    map[report.Cell][]*report.Trial
	timelines map[string]*report.Timeline
	heats     map[string][]report.Heat
	hues      map[string]int
	trend     func(compare.CellMetric) string
}

// Page returns the document with all details for a page. trend returns the address of a number's trend and may be nil.
func Page(r *report.Report, trend func(compare.CellMetric) string) (block.Document, error) {
	p := &page{trials: r.Counting(), hues: huesOf(r), trend: trend}
	var err error
	if p.timelines, err = r.Timelines(p.trials); err != nil {
		return block.Document{}, err
	}
	if p.heats, err = r.Heats(p.trials); err != nil {
		return block.Document{}, err
	}
	a := assess.Of(r)
	blocks := slices.Concat(first(r, a, 0), p.top(r, a.Sentences[0]), detailed(r, a, p))
	source := strings.TrimSuffix("iotax "+r.Run.Version+", run "+r.Run.ID, ", run ")
	return block.Document{Title: r.Run.Name, About: when(r), Source: source, Blocks: blocks}, nil
}

// `when` returns the date, the duration and the status of the run, and its baseline.
func when(r *report.Report) string {
	var parts []string
	if !r.Run.Start.IsZero() {
		parts = append(parts, r.Run.Start.UTC().Format("2 January 2006, 15:04 UTC"))
		if d := r.Run.End.Sub(r.Run.Start); !r.Run.End.IsZero() && d > 0 {
			parts = append(parts, "took "+d.Round(time.Second).String())
		}
	}
	if s := r.Run.Status; s != "" && s != iotax.Done {
		parts = append(parts, string(s))
	}
	if r.Baseline != "" {
		parts = append(parts, "baseline "+r.Baseline)
	}
	return strings.Join(parts, ", ")
}

// `top` returns the blocks after those of `first`, up to the plot and the table of all ratios.
func (p *page) top(r *report.Report, answer assess.Sentence) (out []block.Block) {
	for _, s := range []string{assess.Environment(r), assess.Job(r)} {
		if s != "" {
			out = append(out, block.Paragraph{Text: s, Tone: block.Quiet})
		}
	}
	if t := tiles(r, answer); t != nil {
		out = append(out, block.Tiles{Tiles: t})
	}
	if s := slices.DeleteFunc(steps(r, true), func(s block.Step) bool { return s.Name == "Open" }); len(s) > 0 {
		out = append(out, block.Steps{Steps: s})
	}
	wide, narrow := Forest(r, wideForest), Forest(r, narrowForest)
	if wide == nil {
		return out
	}
	caption := "Ratio to " + r.Baseline + ", paired by " + r.Counted() +
		", with 95 % intervals on a logarithmic axis. Right of 1 is in the target’s favour. The shaded band is the margin of ± " +
		format.Percent(r.Margin) + " inside which two targets count as equivalent."
	if o := others(r); o != "" {
		caption = strings.Replace(caption, r.Baseline, r.Baseline+" or to the reference in the plan, "+o, 1)
	}
	return append(out, block.Charts{Charts: []block.Chart{{Name: "ratios", Drawing: *wide, Narrow: *narrow, Caption: caption,
		Key: verdictKeys, Views: []string{"× slower", "% of baseline"}}}}, p.overview(r))
}

// `others` lists the references of ratios other than the baseline: "node-local export or guest ext4".
func others(r *report.Report) string {
	var names []string
	for _, row := range r.Rows() {
		if row.Ratio != nil && row.Against != r.Baseline && !slices.Contains(names, row.Against) {
			names = append(names, row.Against)
		}
	}
	return strings.Join(format.Cut(names, format.Listed, "target"), " or ")
}

// tiles returns the tiles: counts of verdicts, the largest loss, the number of rounds, and caveats. It returns nil
// without comparisons.
func tiles(r *report.Report, answer assess.Sentence) []block.Tile {
	counts := map[stat.Verdict]int{}
	all, words := map[string]int{}, map[string]int{} // by word; only `all` counts the baseline
	total, alike := 0, true
	var first *report.Section
	for _, c := range cellsOf(r) {
		word := r.Word(c.r, true)
		all[word]++
		if c.r.Baseline || c.r.Verdict == stat.NoVerdict {
			continue
		}
		total++
		counts[c.r.Verdict]++
		words[word]++
		if first == nil {
			first = c.s
		}
		alike = alike && format.ContrastOf(c.s.Metric, c.s.Better, c.s.Unit).Worse == format.ContrastOf(first.Metric, first.Better, first.Unit).Worse
	}
	if total == 0 {
		return nil
	}
	slower := "Worse"
	if format.ContrastOf(first.Metric, first.Better, first.Unit).Worse == "slower" && alike {
		slower = "Slower"
	}
	worse := block.Tile{Name: slower + " than " + r.Baseline, Figure: fmt.Sprintf("%d of %s", counts[stat.Worse], format.Plural(total, "result")),
		Tone: block.Bad, Link: "#ratios"}
	var others []string
	for _, v := range []stat.Verdict{stat.Better, stat.Equivalent, stat.BelowMargin, stat.Inconclusive, stat.TooFew, stat.NotRanked} {
		word := format.Verdict(v, true)
		if v == stat.Better && slower == "Slower" {
			word = "faster"
		}
		if n := counts[v]; n > 0 {
			others = append(others, fmt.Sprintf("%d %s", n, word))
		}
	}
	for _, word := range invalidWords {
		if n := words[word]; n > 0 {
			others = append(others, fmt.Sprintf("%d %s", n, word))
		}
	}
	cached, invalid := all[format.Cached], all[format.Cached]+all[format.Verdict(stat.NotComparable, true)]
	worse.About = strings.Join(others, ", ")
	largest := block.Tile{Name: "Worst result", Figure: "none confirmed", Tone: block.Quiet, Link: "#ratios"}
	if answer.Kind == assess.SaysLoss {
		f := answer.Figures[0]
		i := slices.IndexFunc(r.Sections, func(s report.Section) bool { return s.Workload == f.Workload && s.Metric == f.Metric })
		s := r.Sections[i]
		largest.Figure, largest.Tone = format.ContrastOf(s.Metric, s.Better, s.Unit).Estimate(*f.Ratio), block.Bad
		largest.About = f.Target + ", " + f.Workload
	} else {
		worse.Tone = block.Quiet
	}
	measured := block.Tile{Name: "Measured in", Figure: format.Plural(r.Protocol.MostRounds, r.Counted()), About: "95 % intervals", Tone: block.Strong, Link: "#how"}
	if r.Protocol.Trial > 0 {
		measured.About = "trials of " + r.Protocol.Trial.String() + ", 95 % intervals"
	}
	const fromChecks = "from the checks"
	fair := block.Tile{Name: "Caveats", Figure: "none", About: "no check found a problem", Tone: block.Quiet,
		Link: "#how"}
	severe := count(r)
	switch warned := severe[iotax.Warning]; {
	case cached > 0 && cached == invalid:
		fair = block.Tile{Name: "Caveats", Figure: format.Plural(cached, "result") + " " + format.Cached, About: "so invalid"}
	case invalid > 0:
		fair = block.Tile{Name: "Caveats", Figure: format.Plural(invalid, "result") + " invalid", About: "see the warnings"}
	case severe[iotax.Invalid]+warned > 0:
		fair = block.Tile{Name: "Caveats", Figure: severities(severe), About: fromChecks, Tone: block.Unsure, Link: "#notes"}
	}
	if invalid > 0 {
		fair.Tone, fair.Link = block.Bad, "#notes"
	}
	if len(r.Emulated()) > 0 {
		about := fair.Figure
		if fair.Tone == block.Quiet {
			about = "no other caveat"
		}
		fair = block.Tile{Name: fair.Name, Figure: "emulated guests", About: about, Tone: block.Bad, Link: fair.Link}
	}
	if slices.ContainsFunc(slices.Concat(r.General, r.Common, r.Notes), func(n report.Note) bool { return n.Rule == rules.NoisyBaseline.ID }) {
		fair.About = strings.TrimPrefix(fair.About+"; "+rules.Title(rules.NoisyBaseline.ID), fromChecks+"; ") // a noisy baseline affects every ratio
	}
	return []block.Tile{worse, largest, measured, fair}
}

func count(r *report.Report) map[iotax.Severity]int {
	out := map[iotax.Severity]int{}
	for _, n := range slices.Concat(r.General, r.Common, r.Notes) {
		out[n.Severity]++
	}
	return out
}

// severities formats the counts: "1 invalid, 3 warnings, 2 remarks".
func severities(counts map[iotax.Severity]int) string {
	var out []string
	if n := counts[iotax.Invalid]; n > 0 {
		out = append(out, fmt.Sprintf("%d invalid", n))
	}
	if n := counts[iotax.Warning]; n > 0 {
		out = append(out, format.Plural(n, "warning"))
	}
	if n := counts[iotax.Info]; n > 0 {
		out = append(out, format.Plural(n, "remark"))
	}
	return strings.Join(out, ", ")
}

// overview returns a table of all ratios that readers can sort and filter.
func (p *page) overview(r *report.Report) block.Fold {
	t := block.Table{Head: []string{"workload", "target", "median", "ratio", "verdict"}, Wraps: []int{0, 1}}
	for s, row := range r.Rows() {
		if !row.Baseline {
			t.Rows = append(t.Rows, block.Row{Cells: []block.Cell{{Text: format.Subject(s.Workload, s.Label)}, {Text: row.Target},
				value(s, row), ratio(row), verdict(r, row)}})
		}
	}
	return block.Fold{Summary: "All ratios as a table", Note: fmt.Sprintf("%d, to sort and to filter", len(t.Rows)),
		Blocks: []block.Block{t}}
}

// workloads returns the sections with their charts.
func (p *page) workloads(r *report.Report) (out []block.Block) {
	for rest := r.Sections; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Workload == rest[0].Workload {
			n++
		}
		part := rest[:n]
		rest = rest[n:]
		t := sections(r, part)
		t.Rows[0].Heading = ""
		if p.trend != nil {
			p.trends(&t, part)
		}
		s := &part[0]
		out = append(out, block.Heading{Text: s.Workload, Note: strings.TrimPrefix(assess.Heading(r, s), s.Workload+" · ")}, t)
		out = append(out, p.charts(r, part)...)
		if f := secondary(s); f != nil {
			out = append(out, block.Fold{Summary: "Latency, bandwidth, CPU", Note: "what else was measured", Blocks: []block.Block{f}})
		}
	}
	return out
}

// trends links each row of t that has a value to the trend of that value.
func (p *page) trends(t *block.Table, part []report.Section) {
	k := 0
	for i := range part {
		s := &part[i]
		for _, row := range byLosses(s) {
			if row.Err == "" && row.Value.N > 0 {
				c := &t.Rows[k].Cells[len(t.Rows[k].Cells)-1]
				c.Link = block.Link{Text: "trend", Href: p.trend(compare.CellMetric{Target: row.Target, Workload: s.Workload,
					Metric: s.Metric})}
			}
			k++
		}
	}
}

func (p *page) charts(r *report.Report, part []report.Section) (out []block.Block) {
	var charts, times, serving []block.Chart
	for i := range part {
		charts = append(charts, trialsChart(r, &part[i]))
	}
	s := &part[0]
	for _, d := range s.Distributions(r) {
		charts = append(charts, distributionCharts(d, p.hues)...)
	}
	if c := s.Cost(p.trials); c != nil {
		charts = append(charts, costCharts(c, p.hues)...)
	}
	out = append(out, block.Charts{Charts: charts})
	if heats := p.heats[s.Workload]; heats != nil {
		out = append(out, block.Heading{Text: "Latency over time", Sub: true}, block.Charts{Charts: heatCharts(heats, p.hues)},
			block.Paragraph{Tone: block.Quiet, Text: "Of each target, the trial with the longest stall. The stronger the colour, the larger a patch's share of the " +
				"time that the I/Os of that second took: up to 1, 3, 10 and 30 %, and more."})
	}
	tl := p.timelines[s.Workload]
	if tl == nil {
		return out
	}
	if times = timelineCharts(tl, p.hues); times != nil {
		out = append(out, block.Heading{Text: "During the trials", Sub: true}, block.Charts{Charts: times},
			block.Paragraph{Tone: block.Quiet,
				Text: format.Capital(tl.Label) + " second by second, a line for each trial. The shaded band is the mean ± " +
					format.Percent(stat.SteadyRange/2) + ": a trial whose five parts stay that close together is in a steady state (SNIA).",
			})
	}
	for _, cost := range tl.Serving {
		serving = append(serving, timelineCharts(cost, p.hues)...)
	}
	if serving != nil {
		out = append(out, block.Fold{Summary: "What serves the targets, over time", Note: "memory and CPU, a line for each trial",
			Blocks: []block.Block{block.Charts{Charts: serving}}})
	}
	return out
}

// secondary returns a table of a workload's other metrics, with a column for each target.
func secondary(s *report.Section) block.Block {
	rows := slices.DeleteFunc(slices.Clone(s.Rows), func(r report.Row) bool { return len(r.Secondary) == 0 })
	t := block.Table{Head: []string{"median"}, Wraps: []int{0}}
	at := map[string]int{}
	for k, r := range rows {
		t.Head = append(t.Head, r.Target)
		for _, f := range r.Secondary {
			i, ok := at[f.Name]
			if !ok {
				i = len(t.Rows)
				at[f.Name] = i
				label := f.Label
				if f.Merged {
					label += ", all trials together"
				}
				t.Rows = append(t.Rows, block.Words(append([]string{label}, slices.Repeat([]string{format.Dash}, len(rows))...)...))
			}
			text := format.Value(f.Value, f.Unit)
			switch {
			case f.Short:
				text = fmt.Sprintf("n/a (%s beyond)", format.Plural(f.Beyond, "sample"))
			case f.Merged:
				e := f.Value.Estimate
				f.Value.Lo, f.Value.Hi = e*(1-2*stat.HistogramError), e*(1+2*stat.HistogramError)
				text = format.Number(f.Value, f.Unit)
			}
			t.Rows[i].Cells[k+1].Text = text
		}
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// facts returns the last parts of a page: the boot times, the targets, the environment and the trials.
func (p *page) facts(r *report.Report) (out []block.Block) {
	var targets []block.Block
	var boots []block.Chart
	booted := map[string]bool{}
	for _, t := range r.Run.Targets {
		facts := map[string]string{}
		maps.Copy(facts, t.Facts)
		for k, v := range t.Labels {
			facts["label."+k] = v
		}
		var boot []iotax.Phase
		for k, v := range t.Facts {
			name, ok := strings.CutPrefix(k, "boot.")
			if d, err := time.ParseDuration(v); ok && err == nil && d >= 0 {
				boot = append(boot, iotax.Phase{Name: name, At: d})
				delete(facts, k)
			}
		}
		if len(boot) > 1 && !booted[t.Machine] {
			booted[t.Machine] = true
			boots = append(boots, bootChart(t.Machine, boot))
		}
		note := strings.Join(slices.DeleteFunc([]string{t.Place + " on " + t.Machine, t.Storage(), string(t.Durability)},
			func(s string) bool { return s == "" }), ", ")
		var blocks []block.Block
		if t.Err != "" {
			note = "could not be opened"
			blocks = append(blocks, block.Paragraph{Text: t.Err, Tone: block.Bad})
		}
		targets = append(targets, block.Fold{Summary: t.Name, Note: note, Blocks: append(blocks, pairs(facts)...)})
	}
	if boots != nil {
		out = append(out, block.Heading{Text: "Boot", Sub: true}, block.Charts{Charts: boots})
	}
	if targets != nil {
		out = append(out, block.Heading{Text: "Targets", Sub: true})
		out = append(out, targets...)
	}
	if env := pairs(r.Run.Environment); env != nil {
		out = append(out, block.Heading{Text: "Environment", Sub: true}, block.Fold{Summary: "Facts of this host",
			Note: format.Plural(len(r.Run.Environment), "fact"), Blocks: env})
	}
	return append(append(out, block.Heading{Text: "Trials", Sub: true}), everyTrial(r)...)
}

func pairs(m map[string]string) []block.Block {
	t := block.Table{Head: []string{"fact", "value"}, Wraps: []int{0, 1}}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		t.Rows = append(t.Rows, block.Words(k, m[k]))
	}
	if t.Rows == nil {
		return nil
	}
	return []block.Block{t}
}

// mostListed is the maximum number of trials that a page lists.
const mostListed = 2000

// listedTrials returns at most mostListed trials, in order of Seq. It prefers failed and discarded trials, then early
// ones.
func listedTrials(all []*report.Trial) []*report.Trial {
	if len(all) <= mostListed {
		return all
	}
	listed := slices.Clone(all)
	slices.SortStableFunc(listed, func(x, y *report.Trial) int {
		return cmp.Compare(min(1, len(y.Err+y.Discarded)), min(1, len(x.Err+x.Discarded)))
	})
	listed = listed[:mostListed]
	slices.SortFunc(listed, func(x, y *report.Trial) int { return cmp.Compare(x.Seq, y.Seq) })
	return listed
}

func everyTrial(r *report.Report) (out []block.Block) {
	metric := map[string]string{}
	for _, s := range slices.Backward(r.Sections) { // so that the first metric of each workload remains
		metric[s.Workload] = s.Metric
	}
	listed := listedTrials(r.Trials)
	if n := len(r.Trials); len(listed) < n {
		out = append(out, block.Paragraph{Tone: block.Quiet,
			Text: fmt.Sprintf("Of %d trials %d are listed: those that failed or do not count, then the first of the others. "+
				"iotax export has every one.", n, len(listed))})
	}
	failed, discarded := 0, 0
	for _, t := range r.Trials {
		if t.Err != "" {
			failed++
		}
		if t.Discarded != "" {
			discarded++
		}
	}
	t := block.Table{Head: []string{"trial", "at (UTC)", "took", "workload", r.Counted(), "target", "value", "outcome"},
		Wraps: []int{3, 5, 7}}
	for _, x := range listed {
		at, v, outcome := "", format.Dash, block.Cell{Text: "counts"}
		if !x.Start.IsZero() {
			at = x.Start.UTC().Format(time.TimeOnly)
		}
		if val, ok := x.Value(metric[x.Workload]); ok {
			v = format.Number(stat.Interval{Estimate: val.Value, Lo: val.Value * .995, Hi: val.Value * 1.005}, val.Unit)
		}
		var rules []string
		for _, f := range x.Findings {
			if !slices.Contains(rules, f.Rule) {
				rules = append(rules, f.Rule)
			}
		}
		if rules != nil {
			outcome.Text += "; " + strings.Join(rules, ", ")
		}
		if x.Discarded != "" {
			outcome = block.Cell{Text: "discarded: " + x.Discarded, Tone: block.Quiet}
		}
		if x.Err != "" {
			outcome = block.Cell{Text: "failed: " + x.Err, Tone: block.Bad}
		}
		row := block.Words(fmt.Sprint(x.Seq+1), at, x.Took.Round(100*time.Millisecond).String(), x.Workload, fmt.Sprint(x.Round+1),
			x.Target, v)
		t.Rows = append(t.Rows, block.Row{Cells: append(row.Cells, outcome)})
	}
	if t.Rows == nil {
		return append(out, block.Paragraph{Text: "None.", Tone: block.Quiet})
	}
	return append(out, block.Fold{Summary: "Every trial in order", Note: fmt.Sprintf("%s, %d failed, %d discarded",
		format.Plural(len(r.Trials), "trial"), failed, discarded), Blocks: []block.Block{t}})
}

// `with` inserts a chart after the heading, which must be the first of the blocks. If p is nil or the chart has no
// drawing, it returns blocks unchanged.
func (p *page) with(c block.Chart, blocks []block.Block) []block.Block {
	if p == nil || c.Drawing == nil {
		return blocks
	}
	return slices.Insert(blocks, 1, block.Block(block.Charts{Charts: []block.Chart{c}}))
}
