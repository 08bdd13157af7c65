package statsim

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Markdown is the page docs/evaluation.md: what was simulated, what came of it, and what a user must know
// where it falls short. It depends on the result alone, so that the same options make the same page.
func (r *Result) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Evaluation\n")
	p("How often iotax is right, found by simulation: rigs that misbehave in known ways, studies on them, and a count of the intervals")
	p("that hold the ratio that was put in. `go run ./cmd/iotax-statsim --studies %d --seed %d --out docs/evaluation.md` makes this page, the same", r.Studies, r.Seed)
	p("to the bit on any number of CPUs. What was measured on real parts is in [evaluation-real.md](evaluation-real.md).\n")

	p("## In short\n")
	for i, s := range r.Sentences() {
		if i > 0 && !strings.HasPrefix(s, "- ") {
			p("")
		}
		p("%s", wrap(s, 120))
	}
	p("")
	if rows := r.of(Ours); len(rows) > 0 {
		p("## iotax, model by model\n")
		p("Coverage is the share of intervals that hold the true ratio, with its 95 %% Wilson interval; 95 %% is promised where a model is")
		p("marked ●. The next two columns say on which side the others lie. *Blocks* are compared with the oracle, which knows the")
		p("noise and takes the fewest blocks that reach ± 5 %%. *±* is the half width that was reached (root mean square), and how many")
		p("studies came to ± 5 %%. *Seconds* are device-seconds of a whole study: %g s to write the test files, %g s of calibration, and", Preconditioning, Calibration)
		p("%g s a trial (start %g s, ramp %g s, window %g s), discarded blocks included. The last columns are the false verdicts: *worse* or", ours.trial(), ours.Setup, ours.Ramp, ours.Length)
		p("*better* where the ratio is 1, and *equivalent* where it is 1/1.05.\n")
		p("| model | coverage | too low, too high | blocks (oracle, regret) | ± (reached) | seconds | false ≠ | false = |")
		p("|---|---|---|---|---|---|---|---|")
		for _, x := range rows {
			p("| %s%s | %s [%s, %s] | %s, %s | %.1f (%d, %.1f) | %s (%s) | %.0f | %s | %s |", x.Model, mark(x.Promised), pc(x.Coverage), pc(x.Lo), pc(x.Hi),
				pc(x.MissedBelow), pc(x.MissedAbove), x.Blocks, x.Oracle, x.Regret, pc(x.HalfWidth), share(x.Reached), x.DeviceSeconds, pc(x.FalseDifferent), pc(x.FalseEqual))
		}
		p("")
		r.looks(p, rows)
	}
	r.beside(p)
	r.flagged(p)
	r.corrupt(p)
	p("## What is simulated\n")
	p("Each of the six true ratios 0.5, 0.62, 0.9, 0.952, 1 and 1.05 has a sixth of a cell's studies. The noise multiplies, so that one")
	p("interval, shifted, tells the verdicts at 1 and at 1/1.05 too (`any-stop`, which looks at the effect, is run again there).")
	p("All policies meet the same rigs.\n")
	p("| models | |")
	p("|---|---|")
	for _, row := range modelTexts() {
		p("| %s | %s |", row[0], row[1])
	}
	p("\n| policy | |")
	p("|---|---|")
	for _, q := range Policies() {
		p("| %s (%s) | %s |", q.Name, q.ID, q.Text)
	}
	p("\nTrials are not simulated second by second: the mean of each kind of noise over a window has a known distribution (sums of")
	p("an AR(1); the joint law of an Ornstein-Uhlenbeck process and its integral; the share of a window after a step), and is drawn")
	p("from it. The value of a trial is thus geometric over noise and arithmetic over levels and stalls. What the checks say of a")
	p("trial needs its seconds; so a part of the studies is simulated second by second, with seconds that vary by a further %g %%", 100*jitter)
	p("about the trial's mean, and `check.Trial` and `check.Run` judge it. The coverage of both ways is compared in the tests.")
	p("`pilot` and `rciw` look at seconds too. They follow what is published of those tools' rules, in short; they are not the tools.\n")
	p("The ratio that a study estimates is the mean of log ratios; where one place alone has two moods, both moods are in it. Where the")
	p("ratio itself changes with time, the true one is that at the start (drift) or at the end (warm-up).\n")
	p("A policy that measures less looks cheap. So the second table below *Beside other rules* has the device-seconds that each would")
	p("need to reach ± 5 %%: its mean device-seconds times (its half width/5 %%)², with half widths as logarithms.\n")
	p("α′, the level of each look, comes from a simulation of its own, `go generate ./stat`; seed and size are in `stat/tables.json`.")
	return strings.TrimRight(b.String(), "\n") + "\n"
}

type printer func(format string, args ...any)

func mark(promised bool) string {
	if promised {
		return " ●"
	}
	return ""
}

// of returns the rows of a policy.
func (r *Result) of(policy string) []*Row {
	var rows []*Row
	for _, x := range r.Rows {
		if x.Policy == policy {
			rows = append(rows, x)
		}
	}
	return rows
}

// Sentences say what came out, the worst of it included.
func (r *Result) Sentences() []string {
	var out []string
	ours := r.of(Ours)
	var low *Row
	promised, met := 0, 0
	for _, x := range ours {
		if !x.Promised {
			continue
		}
		promised++
		if x.Met() {
			met++
		}
		if low == nil || x.Lo < low.Lo {
			low = x
		}
	}
	if promised > 0 {
		verdict := fmt.Sprintf("The promise is kept: under each of the %d models", promised)
		if met < promised {
			verdict = fmt.Sprintf("**The promise is not kept**: only under %d of the %d models", met, promised)
		}
		out = append(out, fmt.Sprintf("%s for which the method promises 95 %%, the lower bound of the coverage of iotax is at least %s. "+
			"The lowest is %s, with %s [%s, %s].", verdict, pc(Gate), low.Model, pc(low.Coverage), pc(low.Lo), pc(low.Hi)))
		if met < promised && low.Coverage >= Gate {
			out = append(out, "No coverage is too low; too few studies were simulated to show more.")
		}
	}
	var wrong, equal *Row
	for _, x := range ours {
		if x.Promised && (wrong == nil || x.FalseDifferent > wrong.FalseDifferent) {
			wrong = x
		}
		if x.Promised && (equal == nil || x.FalseEqual > equal.FalseEqual) {
			equal = x
		}
	}
	if wrong != nil {
		out = append(out, fmt.Sprintf("False verdicts under these models: at most %s of studies say *worse* or *better* where there is no difference (%s), "+
			"and at most %s say *equivalent* where the difference is the margin (%s).", pc(wrong.FalseDifferent), wrong.Model, pc(equal.FalseEqual), equal.Model))
	}
	if fails := r.short(ours); len(fails) > 0 {
		out = append(out, fmt.Sprintf("**What you must know**: the interval is too narrow under %d other models, and the checks cannot always tell.", len(fails)))
		for _, x := range fails {
			out = append(out, "- "+shortfall(x))
		}
		if names := r.unflagged(fails); names != "" {
			out = append(out, fmt.Sprintf("The goal that the checks flag %.0f %% of the studies under M3, M5-one-arm and M7 where the coverage falls short is missed under %s: "+
				"so few blocks do not show it, and a study whose blocks happen to agree looks like a good one.", 100*FlagGate, names))
		}
		out = append(out, "What helps: a look at the dots of the report; more blocks where a place may have two moods (`--blocks 30`), so that the checks "+
			"can see them; a long `--ramp` where one place warms up; calibration, which widens the interval where blocks resemble each other.")
	}
	if names := r.held(ours); names != "" {
		out = append(out, "Nothing is promised, and 95 % are reached nevertheless, under "+names+".")
	}
	return out
}

// short are the rows without a promise that fall short of it.
func (r *Result) short(rows []*Row) []*Row {
	var out []*Row
	for _, x := range rows {
		if !x.Promised && !x.Met() && x.Coverage < 1-alpha {
			out = append(out, x)
		}
	}
	return out
}

// unflagged names the rows for which there is a goal of flags that was missed.
func (r *Result) unflagged(rows []*Row) string {
	var names []string
	for _, x := range rows {
		if x.goal() && x.Flags.Any < FlagGate {
			names = append(names, x.Model)
		}
	}
	return strings.Join(names, ", ")
}

// goal reports whether the checks should flag such studies.
func (r *Row) goal() bool {
	return r.Flags != nil && !r.Promised && !r.Met() && r.Coverage < 1-alpha &&
		slices.ContainsFunc([]string{"M3", "M5-one-arm", "M7"}, func(f string) bool { return strings.HasPrefix(r.Model, f) })
}

func (r *Result) held(rows []*Row) string {
	var names []string
	for _, x := range rows {
		if !x.Promised && x.Met() {
			names = append(names, x.Model)
		}
	}
	return strings.Join(names, ", ")
}

// shortfall says what a user must know of a row that falls short.
func shortfall(x *Row) string {
	why := ""
	switch {
	case strings.HasPrefix(x.Model, "M3"):
		why = "the ratio itself wanders from block to block, so that blocks that lie together agree by chance"
	case strings.HasPrefix(x.Model, "M4-target warm-up"):
		why = "the target warms up for minutes and the baseline does not"
	case strings.HasPrefix(x.Model, "M4"):
		why = "the target drifts away from the baseline"
	case strings.HasPrefix(x.Model, "M5") && strings.HasSuffix(x.Model, "sticky"):
		why = "a place is in one of two moods for many trials on end, and a study sees one of them"
	case strings.HasPrefix(x.Model, "M5"):
		why = "some trials of the target are 15 % slower, and six blocks may hold none of them"
	}
	s := fmt.Sprintf("%s: %s of intervals hold the true ratio", x.Model, pc(x.Coverage))
	if why != "" {
		s += "; " + why
	}
	if f := x.Flags; f != nil {
		verb := "The checks flag"
		if f.Any < FlagGate {
			verb = "The checks flag only"
		}
		s += fmt.Sprintf(". %s %s of such studies", verb, share(f.Any))
		if f.Missed > 0 {
			s += fmt.Sprintf(" (%s of those that miss)", share(f.OfMissed))
		}
	}
	return s + "."
}

func (r *Result) looks(p printer, rows []*Row) {
	p("Coverage of the studies that ended at each look, and how many did. Those that end early do so because their noise looked")
	p("small; those that go on to the end make up for it.\n")
	head, line := "| model |", "|---|"
	for _, n := range defaultLooks {
		head += fmt.Sprintf(" %d blocks |", n)
		line += "---|"
	}
	p("%s\n%s", head, line)
	for _, x := range rows {
		s := "| " + x.Model + mark(x.Promised) + " |"
		for _, n := range defaultLooks {
			i := slices.IndexFunc(x.Looks, func(l Look) bool { return l.Blocks == n })
			if i < 0 || x.Looks[i].Share < .0005 {
				s += " |"
				continue
			}
			s += fmt.Sprintf(" %s (%s) |", pc(x.Looks[i].Coverage), share(x.Looks[i].Share))
		}
		p("%s", s)
	}
	p("")
}

// beside holds the policies against each other.
func (r *Result) beside(p printer) {
	var names []string
	for _, q := range Policies() {
		if q.protocol != nil && q.Name != Ours {
			continue
		}
		if len(r.of(q.Name)) > 0 {
			names = append(names, q.Name)
		}
	}
	if len(names) < 2 {
		return
	}
	p("## Beside other rules\n")
	table := func(of func(*Row) string) {
		p("| model | %s |", strings.Join(names, " | "))
		p("|---|%s", strings.Repeat("---|", len(names)))
		seen := ""
		for _, x := range r.Rows {
			if x.Model == seen {
				continue
			}
			seen = x.Model
			cells := make([]string, len(names))
			for i, n := range names {
				if y := r.Row(x.Model, n); y != nil {
					cells[i] = of(y)
				}
			}
			p("| %s | %s |", x.Model, strings.Join(cells, " | "))
		}
		p("")
	}
	p("Coverage, in per cent; **bold** where the upper bound is below 95 %%.\n")
	table(func(x *Row) string {
		s := fmt.Sprintf("%.1f", 100*x.Coverage)
		if x.Hi < 1-alpha {
			s = "**" + s + "**"
		}
		return s
	})
	p("Device-seconds at equal precision, ± 5 %%: what a study would take that reaches it, mean device-seconds × (half width/5 %%)². Read")
	p("it beside the coverage: a rule that is wrong is quickly so. Where a rule stops far inside ± 5 %%, the figure is below what any")
	p("real study takes.\n")
	table(func(x *Row) string { return thousands(x.EqualSeconds) })
	p("Device-seconds as they were spent, and the half width that they bought.\n")
	table(func(x *Row) string { return fmt.Sprintf("%s ±%s", thousands(x.DeviceSeconds), coarse(x.HalfWidth)) })
}

// flagged tells how the checks fare where nothing is promised.
func (r *Result) flagged(p printer) {
	var hard []*Row
	for _, x := range r.of(Ours) {
		if x.Flags != nil {
			hard = append(hard, x)
		}
	}
	if len(hard) == 0 {
		return
	}
	p("## What the checks say\n")
	p("The share of studies in which a rule warns, and the same among those whose interval misses. `not-steady` is not counted: SNIA's")
	p("criterion is a label, and of seconds that vary by %g %% it calls one window of ten seconds in forty unsteady. The goal is %.0f %% of", 100*jitter, 100*FlagGate)
	p("the studies under M3, M5-one-arm and M7 where the coverage falls short (○ where it is missed).\n")
	p("| model | coverage | flagged | of the misses | by |")
	p("|---|---|---|---|---|")
	for _, x := range hard {
		goal := ""
		if x.goal() && x.Flags.Any < FlagGate {
			goal = " ○"
		}
		missed := "–"
		if x.Flags.Missed >= 20 {
			missed = share(x.Flags.OfMissed)
		}
		p("| %s%s | %s | %s%s | %s | %s |", x.Model, mark(x.Promised), pc(x.Coverage), share(x.Flags.Any), goal, missed, alarms(x.Flags.Rules, .02))
	}
	var more []*Row
	for _, name := range []string{"from-12", "all-30", "widened"} {
		more = append(more, r.of(name)...)
	}
	if len(more) == 0 {
		p("")
		return
	}
	p("\nMore blocks show more. Under the models that fall short, iotax with `--blocks 12..30`, with `--blocks 30`, and with an interval that")
	p("is widened by √((1+φ)/(1−φ)) for a correlation φ that is known:\n")
	p("| model | 6..30 | 12..30 | 30 | widened |")
	p("|---|---|---|---|---|")
	cell := func(x *Row) string {
		switch {
		case x == nil:
			return ""
		case x.Flags == nil:
			return pc(x.Coverage)
		}
		return fmt.Sprintf("%s, %s flagged", pc(x.Coverage), share(x.Flags.Any))
	}
	for _, x := range r.short(r.of(Ours)) {
		p("| %s | %s | %s | %s | %s |", x.Model, cell(x), cell(r.Row(x.Model, "from-12")), cell(r.Row(x.Model, "all-30")), cell(r.Row(x.Model, "widened")))
	}
	p("")
	p("More blocks do not correct an interval that takes correlated blocks for independent ones: it only becomes narrower, and what it")
	p("misses is then found by `blocks-correlated`. A correlation that calibration finds (`iotax calibrate`) widens the interval.\n")
}

func (r *Result) corrupt(p printer) {
	if len(r.Corruptions) == 0 {
		return
	}
	p("## Corrupt trials\n")
	p("Sound trials are spoilt, and `check.Trial` is asked: %d of each kind. *seen* is the share that the rule for it finds, *discarded* the", r.Corruptions[0].Trials)
	p("share that is thrown away with its block and run again.\n")
	p("| what is wrong | rule | seen | discarded | others that speak |")
	p("|---|---|---|---|---|")
	for _, c := range r.Corruptions {
		rules := "none: the value is not touched"
		if len(c.Rules) > 0 {
			rules = "`" + strings.Join(c.Rules, "`, `") + "`"
		}
		seen := "–"
		if len(c.Rules) > 0 {
			seen = pc(c.Seen)
		}
		p("| %s | %s | %s | %s | %s |", c.Name, rules, seen, pc(c.Discarded), alarms(c.Other, .01))
	}
	p("\nFalse alarms, on as many sound trials: %s.", orNone(alarms(r.FalseAlarms, 0)))
	if x := r.Row("M9 corrupt", Ours); x != nil {
		s := fmt.Sprintf("In whole studies with one corrupt trial of twenty (M9), iotax covers %s at ± %s, with %.1f discarded blocks a study; "+
			"%s of the studies end without a verdict.", pc(x.Coverage), pc(x.HalfWidth), x.Discards, pc(x.Unranked))
		if y := r.Row("M9 corrupt", "interleaved"); y != nil {
			s += fmt.Sprintf(" Without checks, `interleaved` covers %s, at ± %s.", pc(y.Coverage), pc(y.HalfWidth))
		}
		p("%s", wrap(s, 120))
	}
	p("")
}

func modelTexts() [][2]string {
	var out [][2]string
	for _, m := range Models() {
		if n := len(out); n > 0 && out[n-1][1] == m.Text {
			continue
		}
		out = append(out, [2]string{m.Family(), m.Text})
	}
	return out
}

func alarms(as []Alarm, from float64) string {
	as = slices.Clone(as)
	slices.SortStableFunc(as, func(a, b Alarm) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	var out []string
	for _, a := range as {
		if a.Share >= from {
			out = append(out, fmt.Sprintf("%s %s", a.Rule, share(a.Share)))
		}
	}
	return strings.Join(out, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// pc is a share in per cent with one decimal.
func pc(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// share is a share in whole per cent, or finer where it is small.
func share(x float64) string {
	switch {
	case x == 0 || x >= .0995:
		return fmt.Sprintf("%.0f %%", 100*x)
	case x >= .001:
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return "< 0.1 %"
}

func coarse(x float64) string {
	if x >= .0995 {
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return pc(x)
}

func thousands(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// wrap breaks a paragraph at a width; a list item hangs.
func wrap(s string, width int) string {
	indent := ""
	if strings.HasPrefix(s, "- ") {
		indent = "  "
	}
	var b strings.Builder
	col := 0
	for i, word := range strings.Fields(s) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case col+1+n > width:
			b.WriteString("\n" + indent)
			col = len(indent)
		default:
			b.WriteString(" ")
			col++
		}
		b.WriteString(word)
		col += n
	}
	return b.String()
}
