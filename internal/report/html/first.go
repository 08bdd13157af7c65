package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// others are the targets that ratios are to and that are not the baseline: "node-local export or guest ext4".
func others(r *report.Report) string {
	var names []string
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if row.Ratio != nil && row.Against != r.Baseline && !slices.Contains(names, row.Against) {
				names = append(names, row.Against)
			}
		}
	}
	return strings.Join(format.Cut(names, format.Listed, "target"), " or ")
}

// A tileView answers one of the four questions that a reader comes with.
type tileView struct {
	Question, Big string
	Class         string
	Small         []string
	Parts         []partView // of a bar: how many comparisons got which verdict
	Rules         []ruleView
}

type partView struct {
	Class, Word string
	N           int
	X, W        float64 // per cent
}

type ruleView struct{ Rule, Href string }

// verdictOrder is the order of a bar's parts.
var verdictOrder = []stat.Verdict{stat.Worse, stat.Inconclusive, stat.TooFew, stat.BelowMargin, stat.Equivalent, stat.Better}

// tilesOf are the first screen: what is lost, where, is it sure, was it fair. They count what the first
// sentence counts, the most important metric of each workload.
func tilesOf(r *report.Report) []tileView {
	counts := map[stat.Verdict]int{}
	total, bounded := 0, 0
	narrow, wide := math.Inf(1), 0.0
	var where []reach
	for _, s := range r.Sections {
		if !s.First {
			continue
		}
		for _, row := range s.Rows {
			if row.Baseline || row.Verdict == stat.NoVerdict { // the last is compared with nothing
				continue
			}
			total++
			counts[row.Verdict]++
			if row.Ratio == nil || !report.Conclusive(row.Verdict) && !report.Unsure(row.Verdict) {
				continue
			}
			if format.Finite(row.Ratio.Interval) {
				bounded++
				h := row.Ratio.HalfWidth()
				narrow, wide = math.Min(narrow, h), math.Max(wide, h)
			}
			e := row.Ratio.Estimate
			i := slices.IndexFunc(where, func(x reach) bool { return x.target == row.Target })
			if i < 0 {
				where = append(where, reach{row.Target, e, e, 0})
				i = len(where) - 1
			}
			where[i].lo, where[i].hi, where[i].n = math.Min(where[i].lo, e), math.Max(where[i].hi, e), where[i].n+1
		}
	}
	if total == 0 {
		return nil
	}
	return []tileView{lostTile(r, counts, total), whereTile(where), sureTile(r, counts, total, bounded, narrow, wide), fairTile(r, counts)}
}

func lostTile(r *report.Report, counts map[stat.Verdict]int, total int) tileView {
	t := tileView{Question: "What is lost?"}
	judged := 0
	for _, v := range verdictOrder {
		if n := counts[v]; n > 0 {
			judged += n
			t.Parts = append(t.Parts, partView{Class: verdictClass(v), Word: string(v), N: n})
		}
	}
	if n := total - judged; n > 0 {
		t.Parts = append(t.Parts, partView{Class: "invalid", Word: "without a verdict", N: n})
	}
	x := 0.0
	for i := range t.Parts {
		p := &t.Parts[i]
		p.X, p.W = x, 100*float64(p.N)/float64(total)
		x += p.W
	}
	switch worse := counts[stat.Worse]; {
	case worse > 0:
		t.Big, t.Class = fmt.Sprintf("%d of %d worse", worse, total), "worse"
	case judged == 0:
		t.Big, t.Class = "cannot be said", "invalid"
	case counts[stat.Inconclusive]+counts[stat.TooFew] > 0:
		t.Big, t.Class = "nothing for sure", "unsure"
	default:
		t.Big, t.Class = "nothing", "same"
	}
	return t
}

// A reach is what the ratios of one target span.
type reach struct {
	target string
	lo, hi float64
	n      int
}

func whereTile(where []reach) tileView {
	t := tileView{Question: "Where?", Big: "nothing was judged"}
	slices.SortStableFunc(where, func(a, b reach) int { return cmp.Compare(a.lo, b.lo) })
	for i, w := range where {
		ratio := format.Ratio(format.Lone(w.lo))
		if w.n > 1 && format.Ratio(format.Lone(w.hi)) != ratio {
			ratio += " to " + format.Ratio(format.Lone(w.hi))
		}
		switch {
		case i == 0:
			t.Big = format.Clean(w.target)
			t.Small = append(t.Small, ratio)
		case i < 3 || len(where) == 4:
			t.Small = append(t.Small, format.Clean(w.target)+" "+ratio)
		}
	}
	if n := len(where); n > 4 {
		t.Small = append(t.Small, fmt.Sprintf("and %d more", n-3))
	}
	return t
}

func sureTile(r *report.Report, counts map[stat.Verdict]int, total, bounded int, narrow, wide float64) tileView {
	t := tileView{Question: "Is it sure?"}
	sure := 0
	for v, n := range counts {
		if report.Conclusive(v) {
			sure += n
		}
	}
	t.Big = fmt.Sprintf("%d of %d sure", sure, total)
	if sure < total {
		t.Class = "unsure"
	}
	switch {
	case bounded == 0:
		t.Small = append(t.Small, "no judged ratio has an interval")
	case wide > 1:
		t.Small = append(t.Small, format.Unbroken("95 % intervals up to more than ± 100 %"))
	case format.Percent(narrow) == format.Percent(wide):
		t.Small = append(t.Small, format.Unbroken("95 % intervals of ± "+format.Percent(wide)))
	default:
		t.Small = append(t.Small, format.Unbroken("95 % intervals of ± "+format.Percent(narrow)+" to ± "+format.Percent(wide)))
	}
	if !r.Run.Imported() {
		blocks := format.Plural(r.Protocol.MostBlocks, "block")
		if r.Protocol.LeastBlocks != r.Protocol.MostBlocks {
			blocks = fmt.Sprintf("%d–%s", r.Protocol.LeastBlocks, blocks)
		}
		t.Small = append(t.Small, "from "+blocks+" per workload")
	}
	if c := r.Run.Calibration; c.Floor() > 0 {
		t.Small = append(t.Small, "noise floor ± "+format.Percent(c.Floor()))
	}
	return t
}

// fairTile names the rules that objected, errors first.
func fairTile(r *report.Report, counts map[stat.Verdict]int) tileView {
	t := tileView{Question: "Was it fair?"}
	seen := map[string]bool{}
	errors, warnings := 0, 0
	for _, severity := range []iotax.Severity{iotax.Invalid, iotax.Warning} {
		for _, n := range slices.Concat(r.Notes, r.Common, r.General) {
			if n.Severity != severity || seen[n.Rule] {
				continue
			}
			seen[n.Rule] = true
			if severity == iotax.Invalid {
				errors++
			} else {
				warnings++
			}
			href := "#run-notes"
			if n.Number > 0 {
				href = fmt.Sprintf("#n%d", n.Number)
			}
			t.Rules = append(t.Rules, ruleView{format.Clean(n.Rule), href})
		}
	}
	condemned := counts[stat.NotComparable] + counts[stat.TooManyDiscarded]
	switch {
	case condemned > 0:
		t.Big, t.Class = fmt.Sprintf("%s not to be quoted", format.Plural(condemned, "number")), "invalid"
	case errors > 0:
		t.Big, t.Class = format.Plural(errors, "error"), "invalid"
	case warnings > 0:
		t.Big, t.Class = format.Plural(warnings, "warning"), "unsure"
	default:
		t.Big, t.Class = "no objection", "same"
		t.Small = append(t.Small, "no check found anything wrong")
	}
	if n := len(t.Rules); n > 5 {
		t.Rules = t.Rules[:4]
		t.Small = append(t.Small, fmt.Sprintf("and %d more", n-4))
	}
	return t
}

// An overviewRow is one comparison in the table of all of them. Order is what the table sorts by where the
// text would not do.
type overviewRow struct {
	Workload, Target, Value, Ratio, Bounds, Verdict, Class string
	ValueOrder, RatioOrder                                 string
	Notes                                                  []int
	Href                                                   string
}

func overview(r *report.Report, href map[string]string) []overviewRow {
	var out []overviewRow
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if row.Baseline {
				continue
			}
			o := overviewRow{Workload: format.Clean(format.Subject(s.Workload, s.Label)), Target: format.Clean(row.Target), Value: format.Dash, Ratio: format.Dash, Href: href[s.Workload],
				Verdict: format.Verdict(row.Verdict, false), Class: verdictClass(row.Verdict), Notes: row.Notes}
			if row.Err == "" && row.Value.N > 0 {
				o.Value, o.ValueOrder = format.Number(row.Value, s.Unit), order(row.Value.Estimate)
			}
			if row.Ratio != nil {
				o.Ratio, o.Bounds = format.Split(format.Ratio(row.Ratio.Interval))
				o.RatioOrder = order(row.Ratio.Estimate)
			}
			out = append(out, o)
		}
	}
	return out
}

// order prints a number for a script to sort by.
func order(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%.6g", x))
}
