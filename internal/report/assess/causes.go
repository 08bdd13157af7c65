package assess

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// Thresholds for shares of a network's rate. If the share is at least lineIsLimit, the network is the limit. If it is
// at most lineIsNoLimit, the network is not the limit. A share above lineAtMost means that a cache served the I/O, or
// that the network was slower when its rate was measured.
const (
	lineIsLimit   = 0.85
	lineIsNoLimit = 0.50
	lineAtMost    = 1.05
)

// A reason is a cause in one cell, with a number that quantifies the cause. If several cells share a sentence, their
// numbers are combined into a range.
type reason struct {
	rule   string
	figure float64 // NaN if there is no number
	tell   func(figure string) string
	format func(float64) string
	notes  []int
}

// causes returns the causes of cells, and the numbers of the notes that support them. All cells must have the same
// causes.
func (a *assessing) causes(cells []assessed) ([]Cause, []int) {
	var out []Cause
	var notes []int
	for _, r := range a.why(cells[0]) {
		notes = append(notes, r.notes...)
		lo, hi := r.figure, r.figure
		for _, c := range cells {
			for _, x := range a.why(c) {
				if x.rule == r.rule {
					lo, hi = math.Min(lo, x.figure), math.Max(hi, x.figure)
					notes = append(notes, x.notes...)
				}
			}
		}
		figure := ""
		if r.format != nil && !math.IsNaN(lo) {
			figure = r.format(lo)
			if s := r.format(hi); s != figure {
				figure += " to " + s
			}
		}
		out = append(out, Cause{r.rule, r.tell(figure)})
	}
	slices.Sort(notes)
	return out, slices.Compact(notes)
}

// why returns the reasons for a cell's result. A finding that the reference has too is not a reason.
func (a *assessing) why(c assessed) []reason {
	if known, ok := a.reasons[c.r]; ok {
		return known
	}
	out := a.findReasons(c)
	a.reasons[c.r] = out
	return out
}

func (a *assessing) findReasons(c assessed) []reason {
	var out []reason
	add := func(rule string, figure float64, format func(float64) string, tell func(string) string) {
		out = append(out, reason{rule, figure, tell, format, a.notes(c.r, rule)})
	}
	plain := func(rule, text string) { add(rule, math.NaN(), nil, func(string) string { return text }) }
	here := func(rule string) bool { return a.found(c.r, c.s, rule) }
	there := func(rule string) bool {
		base := c.s.Row(c.r.Against)
		return base != nil && a.found(base, c.s, rule)
	}
	share := func(x float64) string { return format.Number(format.Lone(x), iotax.RatioUnit) }
	worse := c.r.Ratio != nil && c.r.Ratio.Estimate < 1

	if name, x, ok := a.lineShare(c); ok && worse {
		x, copies := a.withCopies(c, x)
		switch text, sure := ofLine(x); {
		case !sure || text == "" || x.Lo > lineAtMost: // the share allows no conclusion, or is too high to explain a loss
		default:
			rule, with := "line-rate", ""
			if x.Estimate <= lineIsNoLimit {
				rule = "line-rate-unused"
			}
			if copies > 0 {
				rule, with = rule+"-copies", "with the "+copiesText(copies)+" that the server sends on "
			}
			add(rule, x.Estimate, share, func(f string) string { return with + "it is at " + f + " of " + name + ", so " + text })
		}
	}
	if !worse {
		for _, x := range []struct{ rule, text string }{
			{rules.CacheServed.ID, "a cache answered a part"},
			{rules.DeviceDidLess.ID, "the host's cache did a part of it"},
			{rules.WriteAbsorbed.ID, "a cache took a part of the writes"},
		} {
			if here(x.rule) && !there(x.rule) {
				plain(x.rule, x.text)
			}
		}
		if there(rules.GeneratorBound.ID) && !here(rules.GeneratorBound.ID) {
			plain(rules.GeneratorBound.ID, c.r.Against+" was limited by the CPU of its load generator")
		}
		return out
	}
	blocking := here(rules.BlockingSubmit.ID) && !there(rules.BlockingSubmit.ID)
	short := here(rules.DepthNotReached.ID) && !there(rules.DepthNotReached.ID)
	var depth, asked float64
	if blocking || short {
		depth, asked = a.depth(c)
	}
	switch {
	case depth >= stat.DepthReached*asked && asked > 1: // the queue reached the requested depth
	case blocking && depth > 0 && asked > 1:
		add(rules.BlockingSubmit.ID, depth, depthText, func(f string) string {
			return fmt.Sprintf("submission blocks: only %s of %s I/Os were in flight", f, depthText(asked))
		})
	case short && depth > 0 && asked > 1:
		add(rules.DepthNotReached.ID, depth, depthText, func(f string) string {
			return fmt.Sprintf("only %s of %s I/Os were in flight (Little's law)", f, depthText(asked))
		})
	}
	// If the CPU limits both the target and its reference, it does not explain the difference.
	for _, x := range []struct{ rule, text string }{
		{rules.GeneratorBound.ID, "its load generator had no more CPU, so the CPU is the limit"},
		{rules.CPUBound.ID, "it is near the limit of the CPU"},
	} {
		if here(x.rule) == there(x.rule) {
			continue
		}
		if here(x.rule) {
			plain(x.rule, x.text)
		} else {
			plain(x.rule, c.r.Against+" was itself limited by its CPU, so the loss may be larger")
		}
		break
	}
	// Stolen time explains a loss only if it is at least half as large as the loss.
	lost := 1 - c.r.Ratio.Estimate
	if stolen := max(a.median(c, iotax.ValueCPUHostSteal), a.median(c, iotax.ValueCPUMachineSteal)); here(rules.Steal.ID) && !there(rules.Steal.ID) && stolen >= lost/2 {
		add(rules.Steal.ID, stolen, share, func(f string) string { return f + " of its CPU time was stolen" })
	}
	if here(rules.ThrottleStep.ID) && !there(rules.ThrottleStep.ID) {
		plain(rules.ThrottleStep.ID, "a rate limit began during its trials")
	}
	// fio does not count I/Os that complete after the window, but it counts their bytes. So only IOPS are too low.
	if over := a.overrun(c); strings.HasSuffix(c.s.Metric, "iops") && here(rules.DrainCounted.ID) && !there(rules.DrainCounted.ID) && over >= lost/2 {
		add(rules.DrainCounted.ID, over, share, func(f string) string {
			return "the end of its queue was counted as time, so it looks " + f + " slower than it is"
		})
	}
	return out
}

func depthText(x float64) string {
	if x >= 9.95 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

// found reports whether more than half of a row's valid trials, or the row's target, have a finding of the rule. For
// rules.CPUBound, a note about the row also counts.
func (a *assessing) found(r *report.Row, s *report.Section, rule string) bool {
	trials, with := a.Valid(report.Cell{Target: r.Target, Workload: s.Workload}), 0
	for _, t := range trials {
		if slices.ContainsFunc(t.Findings, func(f iotax.Finding) bool { return f.Rule == rule }) {
			with++
		}
	}
	if 2*with > len(trials) {
		return true
	}
	if slices.ContainsFunc(a.Target(r.Target).Findings, func(f iotax.Finding) bool {
		return f.Rule == rule && f.Subject.Concerns(r.Target, s.Workload)
	}) {
		return true
	}
	return rule == rules.CPUBound.ID && slices.ContainsFunc(a.Found(), func(x *report.Note) bool { return x.Rule == rule && a.Concerns(x, r) })
}

// depth returns the number of I/Os in flight by Little's law, as the median over the trials, and the number that the
// job requested. Unknown numbers are 0.
func (a *assessing) depth(c assessed) (got, asked float64) {
	var depths []float64
	for _, t := range a.Valid(c.cell()) {
		var flows []stat.Flow
		for _, d := range []string{"read", "write", "trim"} {
			rate, ok := t.Value(d + ".iops")
			latency, known := t.Value(d + ".latency.mean")
			if ok && known {
				flows = append(flows, stat.Flow{Rate: rate.Value, Latency: latency.Value})
			}
		}
		d := stat.Little(flows...)
		if n, err := strconv.Atoi(t.Facts[iotax.FactClients]); err == nil && n > 1 {
			d /= float64(n) // each client has its own queue
		}
		if d > 0 {
			depths = append(depths, d)
		}
		if d, err := strconv.ParseFloat(t.Facts[iotax.FactIODepth], 64); err == nil && d > 0 {
			asked = d
			if n, err := strconv.ParseFloat(t.Facts[iotax.FactNumJobs], 64); err == nil && n > 0 {
				asked *= n
			}
		}
	}
	if len(depths) == 0 {
		return 0, asked
	}
	return stat.Median(depths).Estimate, asked
}

// median returns the median of a value over the cell's valid trials, or 0 if no trial has the value.
func (a *assessing) median(c assessed, name string) float64 {
	return a.medianOf(c, func(t *report.Trial) (float64, bool) {
		v, ok := t.Value(name)
		return v.Value, ok
	})
}

// overrun returns the share of a trial's duration that follows its measuring window, as the median over the trials.
func (a *assessing) overrun(c assessed) float64 {
	return a.medianOf(c, func(t *report.Trial) (float64, bool) {
		v, ok := t.Value(iotax.ValueDuration)
		return 1 - t.Length.Seconds()/v.Value, ok && v.Value > 0 && t.Length > 0
	})
}

func (a *assessing) medianOf(c assessed, of func(*report.Trial) (float64, bool)) float64 {
	var xs []float64
	for _, t := range a.Valid(c.cell()) {
		if x, ok := of(t); ok {
			xs = append(xs, x)
		}
	}
	if len(xs) == 0 {
		return 0
	}
	return stat.Median(xs).Estimate
}

// lineShare returns the share of a network's rate that a cell reaches, and the name of the rate. If the plan compares
// the cell with a network workload, this is the rate that the workload measured, otherwise the line rate in the facts of
// the cell's trials or target. ok is false if neither rate is known.
func (a *assessing) lineShare(c assessed) (name string, share stat.Interval, ok bool) {
	for _, sh := range c.r.Shares {
		if a.Workload(sh.Workload).Kind == "network" {
			return "the measured line rate (" + sh.Against + ")", sh.Ratio, true
		}
	}
	var xs []float64
	of, bandwidth := a.Target(c.r.Target).Facts[iotax.FactLineRate], report.BandwidthOf(c.s.Metric)
	for _, t := range a.Valid(c.cell()) {
		line, err := strconv.ParseFloat(cmp.Or(t.Facts[iotax.FactLineRate], of), 64)
		if err != nil || !(line > 0) {
			continue
		}
		if v, ok := t.Value(bandwidth); ok && v.Unit == iotax.BytesPerSecond {
			xs = append(xs, v.Value/line)
		}
	}
	if len(xs) == 0 {
		return "", stat.Interval{}, false
	}
	return "the line rate", stat.Median(xs), true
}

// withCopies returns the share of the network's rate that a storage server needs to send further copies of written
// data, and the number of these copies. A server that replicates data receives each byte once and sends it once for
// each further copy. Without further copies, withCopies returns share and 0.
func (a *assessing) withCopies(c assessed, share stat.Interval) (stat.Interval, int) {
	kept, _, _ := strings.Cut(a.Target(c.r.Target).Facts[iotax.FactS3Copies], ",")
	n, err := strconv.Atoi(kept)
	of, _, _ := strings.Cut(c.s.Metric, ".")
	if err != nil || n < 2 || !slices.Contains([]string{"upload", "put", "write"}, of) {
		return share, 0
	}
	by := float64(n - 1)
	share.Estimate, share.Lo, share.Hi = by*share.Estimate, by*share.Lo, by*share.Hi
	return share, n - 1
}

func copiesText(n int) string {
	if n == 1 {
		return "copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// lines adds sentences about shares. It omits a share of a network's rate that explains a loss, because findReasons
// reports this share as a cause.
func (a *assessing) lines(cells []assessed) {
	open := Sentence{Kind: SaysUnsure}
	var parts []string
	// Cells of a target with the same reference and conclusion share a sentence.
	type group struct {
		target, of, limit string
		sure              bool
		cells             []assessed
		shares            []report.Share
		notes             []int
	}
	var groups []*group
	for _, c := range cells {
		if len(c.r.Values()) == 0 || a.Invalid(c.r) {
			continue
		}
		first := true // no share of a network's rate precedes this one; lineShare uses only the first such share
		for _, sh := range c.r.Shares {
			network := a.Workload(sh.Workload).Kind == "network"
			used, copies := a.withCopies(c, sh.Ratio)
			text, sure := ofLine(used)
			explains := network && first && c.r.Verdict == stat.Worse && text != "" && sure && used.Lo <= lineAtMost
			first = first && !network
			if explains {
				continue
			}
			if format.Vague(sh.Ratio) {
				open.Figures = append(open.Figures, Figure{c.r.Target, c.s.Workload, c.s.Metric, sh.Against, &sh.Ratio})
				open.Notes = append(open.Notes, a.notes(c.r, rules.ComparedWithAnother.ID)...)
				parts = append(parts, fmt.Sprintf("%s / %s of %s", c.r.Target, c.s.Workload, sh.Against))
				continue
			}
			g := &group{target: c.r.Target, of: sh.Against + "'s " + format.Subject(sh.Workload, format.Label(sh.Metric)), sure: true}
			if network {
				g.limit, g.sure = text, sure
			}
			if network && copies > 0 {
				g.limit = strings.TrimSuffix(format.Share(used)+" with the "+copiesText(copies)+" that the server sends on: "+g.limit, ": ")
			}
			if i := slices.IndexFunc(groups, func(o *group) bool { return o.target == g.target && o.of == g.of && o.limit == g.limit }); i >= 0 {
				g = groups[i]
			} else {
				groups = append(groups, g)
			}
			g.cells, g.shares, g.notes = append(g.cells, c), append(g.shares, sh), append(g.notes, a.notes(c.r, rules.ComparedWithAnother.ID)...)
		}
	}
	for _, g := range groups {
		s := Sentence{Kind: SaysShare, Notes: g.notes}
		var names, shares []string
		for i, c := range g.cells {
			s.Figures = append(s.Figures, Figure{c.r.Target, c.s.Workload, c.s.Metric, g.shares[i].Against, &g.shares[i].Ratio})
			name := c.s.Workload
			if strings.Contains(name, ",") && len(g.cells) > 1 {
				name = strconv.Quote(name) // a comma in a name must not look like a separator of the list
			}
			names = append(names, name)
		}
		if len(g.cells) == 1 {
			s.Text = fmt.Sprintf("%s / %s reaches %s of %s", g.target, names[0], format.Share(g.shares[0].Ratio), g.of)
		} else {
			least := slices.MinFunc(g.shares, func(x, y report.Share) int { return cmp.Compare(x.Ratio.Estimate, y.Ratio.Estimate) })
			most := slices.MaxFunc(g.shares, func(x, y report.Share) int { return cmp.Compare(x.Ratio.Estimate, y.Ratio.Estimate) })
			shares = append(shares, format.Share(least.Ratio))
			if s := format.Share(most.Ratio); s != shares[0] {
				shares = append(shares, s)
			}
			s.Text = fmt.Sprintf("%s reaches %s of %s (%s)", g.target, strings.Join(shares, " to "), g.of, format.Enumerate(names, format.Listed, "workload"))
		}
		if g.limit != "" {
			if g.sure {
				s.Causes = []Cause{{"line-rate", g.limit}}
			}
			s.Text += ": " + g.limit
		}
		s.Text += "."
		a.say(s)
	}
	if len(parts) > 0 {
		open.Text = fmt.Sprintf("More %ss would decide what share is reached: %s.", a.Counted(), format.Enumerate(parts, format.Listed, "share"))
		a.say(open)
	}
}

// ofLine returns a text that states whether the network is the limit. i is the share of the network's rate that a cell
// reaches. `text` is "" for a share between the thresholds. `sure` is false if the interval allows no conclusion.
func ofLine(i stat.Interval) (text string, sure bool) {
	switch {
	case i.Lo > lineAtMost:
		return "more than the line carries: a cache answered, or the line was slower when it was measured", true
	case i.Hi < lineIsLimit:
		if i.Estimate <= lineIsNoLimit {
			return "the network is not the limit", true
		}
		return "", true
	case i.Lo > lineIsNoLimit && i.Estimate >= lineIsLimit:
		return "the network is the limit", true
	}
	return "whether the network is the limit is not decided", false
}

// fastPath is the minimum speed-up of a repeated operation that indicates the fast path.
const fastPath = 10

// paths adds a sentence for each cell with a repeated operation.
func (a *assessing) paths() {
	for _, w := range a.Workloads() {
		for _, t := range a.Targets() {
			var first, second []float64
			for _, x := range a.Valid(report.Cell{Target: t.Name, Workload: w.Name}) {
				f, ok := pathValue(x, iotax.ValueFirstDuration)
				s, both := pathValue(x, iotax.ValueSecondDuration)
				if !ok || !both {
					break // all trials of a cell have the same set of values
				}
				first, second = append(first, f), append(second, s)
			}
			if len(first) == 0 {
				continue
			}
			i, err := stat.Ratio(first, second, iotax.Down, a.Alpha)
			if err != nil {
				continue
			}
			s := Sentence{Kind: SaysPath, Figures: []Figure{{t.Name, w.Name, iotax.ValueSecondDuration, "", &i}}}
			s.Text = fmt.Sprintf("%s / %s: the second is %s as fast as the first", t.Name, w.Name, format.Times(i))
			switch sure := i.Bounded(); {
			case sure && i.Lo >= fastPath:
				s.Text += ", so the fast path is taken."
			case sure && i.Hi < fastPath:
				s.Text += fmt.Sprintf(", and not %d times: the fast path is missed.", fastPath)
			default:
				s.Text += fmt.Sprintf("; whether that is %d times is not decided.", fastPath)
			}
			a.say(s)
		}
	}
}

// pathValue returns the positive value with the given name, or with a prefix before that name
// ("volume.first.duration").
func pathValue(t *report.Trial, name string) (float64, bool) {
	for v := range t.All() {
		if (v.Name == name || strings.HasSuffix(v.Name, "."+name)) && v.Value > 0 {
			return v.Value, true
		}
	}
	return 0, false
}
