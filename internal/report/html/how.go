package html

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

func viewTargets(r *report.Report, v *pageView) {
	booted := map[string]bool{}
	for _, t := range r.Run.Targets {
		tv := targetView{Name: format.Clean(t.Name), Machine: format.Clean(t.Machine), Place: format.Clean(t.Place), Storage: format.Clean(t.Storage()), Durability: format.Clean(string(t.Durability)), Err: format.Clean(t.Err)}
		facts := maps.Clone(t.Facts)
		for k, val := range t.Labels {
			if facts == nil {
				facts = map[string]string{}
			}
			facts["label."+k] = val
		}
		var boot []iotax.Phase
		for k, val := range t.Facts {
			name, ok := strings.CutPrefix(k, "boot.")
			if d, err := time.ParseDuration(val); ok && err == nil && d >= 0 {
				boot = append(boot, iotax.Phase{Name: name, At: d})
				delete(facts, k)
			}
		}
		tv.Facts = sortedPairs(facts)
		v.Targets = append(v.Targets, tv)
		if len(boot) > 1 && !booted[t.Machine] {
			booted[t.Machine] = true
			v.Boots = append(v.Boots, viewBoot(format.Clean(t.Machine), boot))
		}
	}
	longest := 0.0
	for _, b := range v.Boots {
		for _, p := range b.Phases {
			longest = math.Max(longest, p.X+p.W)
		}
	}
	for i := range v.Boots {
		for j := range v.Boots[i].Phases {
			p := &v.Boots[i].Phases[j]
			p.X, p.W = 100*p.X/longest, 100*p.W/longest
		}
	}
}

// viewBoot turns moments into phases: what was reached at At took the time since the one before.
func viewBoot(machine string, boot []iotax.Phase) bootView {
	slices.SortFunc(boot, func(a, b iotax.Phase) int { return int(a.At - b.At) })
	b := bootView{Machine: machine, Total: boot[len(boot)-1].At.Round(time.Millisecond).String()}
	last := time.Duration(0)
	for _, p := range boot {
		if d := p.At - last; d > 0 {
			b.Phases = append(b.Phases, phaseView{X: last.Seconds(), W: d.Seconds(), Name: format.Clean(p.Name), At: p.At.Round(time.Millisecond).String(),
				Class: fmt.Sprintf("p%d", len(b.Phases)%4)})
		}
		last = p.At
	}
	return b
}

// A page holds so many trials and dots, and a reader looks at no more.
const (
	mostListed = 2000 // trials in the table of a run
	mostDots   = 200  // in a row
)

// listedTrials are those that the table shows, in their order: of very many a part, among them what went wrong.
func listedTrials(all []*report.Trial) []*report.Trial {
	if len(all) <= mostListed {
		return all
	}
	wrong := func(t *report.Trial) bool { return t.Err != "" || t.Discarded != "" }
	bad := 0
	for _, t := range all {
		if wrong(t) {
			bad++
		}
	}
	// A room for each that went wrong, as far as there is room; and at least a tenth for the others.
	rooms := min(bad, mostListed-mostListed/10)
	var out []*report.Trial
	seenBad, seen := 0, 0
	for _, t := range all {
		if wrong(t) {
			if seenBad++; part(seenBad, bad, rooms) {
				out = append(out, t)
			}
		} else if seen++; part(seen, len(all)-bad, mostListed-rooms) {
			out = append(out, t)
		}
	}
	return out
}

// part chooses k of n evenly: whether the i-th, from 1, is one of them.
func part(i, n, k int) bool {
	return n <= k || i*k/n != (i-1)*k/n
}

func viewTrials(r *report.Report, v *pageView) {
	metric := map[string]string{}
	for _, s := range r.Sections {
		if s.First {
			metric[s.Workload] = s.Metric
		}
	}
	listed := listedTrials(r.Trials)
	if n := len(r.Trials); len(listed) < n {
		v.Listed = fmt.Sprintf("Of %d trials %d are listed: those that failed or do not count first of all, and of the rest some, evenly chosen. iotax export has every one.", n, len(listed))
	}
	for _, t := range listed {
		tv := trialView{Seq: t.Seq, Block: t.Block, Workload: format.Clean(t.Workload), Target: format.Clean(t.Target), Value: format.Dash,
			Took: t.Took.Round(100 * time.Millisecond).String(), TookOrder: order(t.Took.Seconds()), Outcome: "counts"}
		if !t.Start.IsZero() {
			tv.At = t.Start.UTC().Format("15:04:05")
		}
		if val, ok := t.Value(metric[t.Workload]); ok {
			tv.Value = format.Number(stat.Interval{Estimate: val.Value, Lo: val.Value * .995, Hi: val.Value * 1.005}, val.Unit)
		}
		var rules []string
		for _, f := range t.Findings {
			if !slices.Contains(rules, format.Clean(f.Rule)) {
				rules = append(rules, format.Clean(f.Rule))
			}
		}
		if len(rules) > 0 {
			tv.Outcome = "counts; " + strings.Join(rules, ", ")
		}
		if t.Discarded != "" {
			tv.Outcome, tv.Class = "discarded: "+format.Clean(t.Discarded), "gone"
		}
		if t.Err != "" {
			tv.Outcome, tv.Class = "failed: "+format.Clean(t.Err), "bad"
		}
		v.Trials = append(v.Trials, tv)
	}
}
