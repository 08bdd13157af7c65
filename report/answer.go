package report

import (
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/stat"
)

// answer is the report in a sentence: the largest loss that is sure, else the largest gain, else that
// nothing differs, else that nothing can be said; and how many comparisons could not be judged.
func (b *builder) answer() string {
	type pick struct {
		s Section
		r Row
	}
	var worst, best *pick
	counts := map[stat.Verdict]int{}
	total, judged := 0, 0
	for _, s := range b.Sections {
		if !s.First {
			continue
		}
		for _, r := range s.Rows {
			if r.Baseline {
				continue
			}
			total++
			counts[r.Verdict]++
			if conclusive(r.Verdict) || r.Verdict == stat.Inconclusive && r.Ratio != nil {
				judged++
			}
			switch p := (&pick{s, r}); r.Verdict {
			case stat.Worse:
				if worst == nil || r.Ratio.Estimate < worst.r.Ratio.Estimate {
					worst = p
				}
			case stat.Better:
				if best == nil || r.Ratio.Estimate > best.r.Ratio.Estimate {
					best = p
				}
			}
		}
	}
	base := b.Baseline
	var s string
	switch {
	case len(b.Trials) == 0:
		s = "Nothing was measured"
		if i := slices.IndexFunc(b.targets, func(t iotax.TargetInfo) bool { return t.Err != "" }); i >= 0 {
			s += ": " + b.targets[i].Name + " could not be opened"
		}
		return s + "."
	case total == 0:
		return fmt.Sprintf("Only %s was measured: there is nothing to compare it with.", base)
	case worst != nil:
		s = sentence(worst.s, worst.r, base)
		if judged > 1 {
			s += fmt.Sprintf(", the largest loss of %d comparisons", judged)
		}
	case best != nil:
		s = sentence(best.s, best.r, base)
		if judged > 1 {
			s += fmt.Sprintf(", the largest gain of %d comparisons, and nothing is lost for sure", judged)
		}
	case judged > 0 && counts[stat.Inconclusive] == 0:
		s = fmt.Sprintf("Nothing is lost: all %d comparisons with %s are within ± %s", judged, base, percent(b.Margin))
		if judged == 1 {
			s = fmt.Sprintf("Nothing is lost: the comparison with %s is within ± %s", base, percent(b.Margin))
		}
	case judged > 0:
		s = fmt.Sprintf("No loss is sure: %d of %d comparisons with %s need more %ss", counts[stat.Inconclusive], judged, base, b.counted())
	case counts[stat.NotRanked] > 0:
		s = fmt.Sprintf("No target can be ranked against %s", base)
	default:
		s = fmt.Sprintf("No target could be compared with %s", base)
	}
	if n := total - judged; n > 0 && judged > 0 {
		s += fmt.Sprintf(" (%d more cannot be judged, see the notes)", n)
	} else if n > 0 {
		s += ": see the notes"
	}
	return s + "."
}

// sentence says what one row came to: "guest keeps 31 % [29–33] of host disk's 4k random read IOPS".
func sentence(s Section, r Row, base string) string {
	what := subject(s.Workload, s.Label)
	i := r.Ratio.Interval
	if s.Better == iotax.Down {
		// A time: said as how many times as long it takes, not as what share of a speed is kept.
		inv := stat.Interval{Estimate: 1 / i.Estimate, Lo: 1 / i.Hi, Hi: 1 / i.Lo, N: i.N}
		p := places(inv.Estimate, half(inv))
		return fmt.Sprintf("%s: %s is %s× [%s–%s] that of %s", r.Target, what, fixed(inv.Estimate, p), fixed(inv.Lo, p), fixed(inv.Hi, p), base)
	}
	if i.Estimate >= 1 {
		p := places(i.Estimate, half(i))
		return fmt.Sprintf("%s reaches %s× [%s–%s] %s's %s", r.Target, fixed(i.Estimate, p), fixed(i.Lo, p), fixed(i.Hi, p), base, what)
	}
	pc := stat.Interval{Estimate: 100 * i.Estimate, Lo: 100 * i.Lo, Hi: 100 * i.Hi, N: i.N}
	p := places(pc.Estimate, half(pc))
	return fmt.Sprintf("%s keeps %s %% [%s–%s] of %s's %s", r.Target, fixed(pc.Estimate, p), fixed(pc.Lo, p), fixed(pc.Hi, p), base, what)
}

// subject joins a workload and a metric without saying "read" twice.
func subject(workload, label string) string {
	return strings.TrimSpace(workload + " " + remainder(workload, label))
}

// remainder is what a metric's label says beyond the workload's name.
func remainder(workload, label string) string {
	have := strings.Fields(strings.ToLower(workload))
	var rest []string
	for _, w := range strings.Fields(label) {
		if !slices.Contains(have, strings.ToLower(w)) {
			rest = append(rest, w)
		}
	}
	return strings.Join(rest, " ")
}

// environmentLine names what a reader asks first: kernel, CPU, load generator, accelerator.
func (r *Report) environmentLine() string {
	var parts []string
	add := func(label string, m map[string]string, keys ...string) bool {
		for _, k := range keys {
			if v := strings.TrimSpace(m[k]); v != "" {
				if label != "" && !strings.HasPrefix(strings.ToLower(v), strings.ToLower(label)) {
					v = label + " " + v
				}
				if !slices.Contains(parts, v) {
					parts = append(parts, v)
				}
				return true
			}
		}
		return false
	}
	env := r.Run.Environment
	add("Linux", env, "kernel", "kernel.release", "os.kernel", "uname")
	if cpu := cmpOr(env, "cpu", "cpu.model", "processor"); cpu != "" {
		if n := cmpOr(env, "cpus", "cpu.count", "cpu.cores"); n != "" {
			cpu += " × " + n
		}
		parts = append(parts, cpu)
	}
	add("", env, "memory")
	if !add("fio", env, "fio", "fio.version") {
		fio := false
		for _, t := range r.Trials {
			if fio = add("fio", t.Facts, "fio", "fio.version", "generator"); fio {
				break
			}
		}
		for _, t := range r.Run.Targets {
			if fio {
				break
			}
			fio = add("fio", t.Facts, "fio", "fio.version", "generator", "machine.fio")
		}
	}
	for _, t := range r.Run.Targets {
		version, accel := cmpOr(t.Facts, "qemu.version", "qemu", "machine.qemu"), cmpOr(t.Facts, "qemu.accel", "accel", "acceleration", "qemu.acceleration", "machine.accel")
		if version == "" && accel == "" {
			continue
		}
		s := version
		if !strings.HasPrefix(strings.ToUpper(s), "QEMU") {
			s = strings.TrimSpace("QEMU " + s)
		}
		if accel != "" {
			s += " (" + accel + ")"
		}
		if !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

func cmpOr(m map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(m[k]); v != "" {
			return v
		}
	}
	return ""
}

// counted is what a workload was measured in. Imported trials are in no blocks.
func (r *Report) counted() string {
	if r.Run.Imported() {
		return "trial"
	}
	return "block"
}

// protocolLine says how it was measured.
func (r *Report) protocolLine() string {
	p := r.Protocol
	if r.Run.Imported() {
		return plural(len(r.Trials), "imported trial") + ", not measured in turns"
	}
	var parts []string
	switch {
	case p.LeastBlocks == p.MostBlocks:
		parts = append(parts, plural(p.MostBlocks, "block")+" per workload")
	default:
		parts = append(parts, fmt.Sprintf("%d–%d blocks per workload", p.LeastBlocks, p.MostBlocks))
	}
	if p.Trial > 0 {
		s := "trials of " + p.Trial.String()
		if p.Ramp > 0 {
			s += " after " + p.Ramp.String() + " ramp"
		}
		parts = append(parts, s)
	}
	switch {
	case p.Cold && p.Warm:
		parts = append(parts, "cold and warm caches")
	case p.Cold:
		parts = append(parts, "cold caches")
	case p.Warm:
		parts = append(parts, "warm caches")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", p.Seed)), ", ")
}

// methodLine says what the brackets mean.
func (r *Report) methodLine() string {
	s := fmt.Sprintf("Brackets are 95 %% intervals; a ratio above 1 is in the target's favour; margin ± %s.", percent(r.Margin))
	if n := r.Protocol.Comparisons; n > 1 {
		s += fmt.Sprintf(" Of %d ratio intervals about %.1f may miss; worse and better allow for that (Holm).", n, float64(n)*(1-stat.Confidence))
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
