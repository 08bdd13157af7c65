package assess

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	gonum "gonum.org/v1/gonum/stat"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// Environment lists the kernel, the CPU, the memory, the versions of fio and QEMU, and QEMU's accelerator.
func Environment(r *report.Report) string {
	var parts []string
	add := func(label, s string) {
		if s = strings.TrimSpace(s); s != "" && !strings.HasPrefix(strings.ToLower(s), strings.ToLower(label)) {
			s = strings.TrimSpace(label + " " + s)
		}
		if s != "" && !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	env := r.Run.Environment
	add("Linux", env[iotax.FactKernel])
	cpu := env[iotax.FactCPUModel]
	if n := env[iotax.FactCPUCount]; n != "" && cpu != "" {
		cpu += " × " + n
	}
	add("", cpu)
	add("", env["memory"])
	fio := env[iotax.FactFio]
	for _, t := range r.Trials {
		fio = cmp.Or(fio, t.Facts[iotax.FactFio])
	}
	for _, t := range r.Run.Targets {
		fio = cmp.Or(fio, t.Facts[iotax.FactFio], t.Facts["machine.fio"])
	}
	add("fio", fio)
	for _, t := range r.Run.Targets {
		version, accel := cmp.Or(t.Facts["qemu"], t.Facts["machine.qemu"]), cmp.Or(t.Facts[iotax.FactAccel], t.Facts["machine.accel"])
		if accel != "" {
			version = strings.TrimPrefix(version+" ("+accel+")", " ")
		}
		if version != "" {
			add("QEMU", version)
		}
	}
	return strings.Join(parts, " · ")
}

// Targets lists the file system and the device of each target. It returns "" if none is known.
func Targets(r *report.Report) string {
	var out []string
	for _, t := range r.Targets() {
		if on := t.Storage(); on != "" {
			out = append(out, format.Clean(t.Name)+" ("+format.Clean(on)+")")
		}
	}
	if out == nil {
		return ""
	}
	return "Targets: " + strings.Join(out, ", ") + "."
}

// Protocol describes the rounds, trials, caches and seed.
func Protocol(r *report.Report) string {
	p := r.Protocol
	if r.Run.Imported() {
		return format.Plural(len(r.Trials), "imported trial") + ", not measured in turns"
	}
	var parts []string
	switch {
	case p.LeastRounds == p.MostRounds:
		parts = append(parts, format.Plural(p.MostRounds, "round")+" per workload")
	default:
		parts = append(parts, fmt.Sprintf("%d–%d rounds per workload", p.LeastRounds, p.MostRounds))
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

// Job describes the options of the fio jobs: "fio: io_uring, direct=1, iodepth=32 (1M sequential read: 8), 256MiB".
// It returns "" if no trial ran fio.
func Job(r *report.Report) string {
	options := []string{iotax.FactIOEngine, iotax.FactDirect, iotax.FactIODepth, iotax.FactNumJobs, "size"}
	values := map[string]map[string][]string{} // by option and workload
	var works []string
	for _, t := range r.Trials {
		if r.Workload(t.Workload).Kind != "fio" || t.Facts[iotax.FactIOEngine] == "" {
			continue
		}
		if !slices.Contains(works, t.Workload) {
			works = append(works, t.Workload)
		}
		for _, o := range options {
			v := t.Facts[o]
			if o == "size" {
				v = size(t.Facts[iotax.FactJob])
			}
			if values[o] == nil {
				values[o] = map[string][]string{}
			}
			if all := values[o][t.Workload]; v != "" && !slices.Contains(all, v) {
				values[o][t.Workload] = append(all, v)
			}
		}
	}
	var parts []string
	for _, o := range options {
		groups := grouped(works, func(w string) (string, bool) {
			v := strings.Join(values[o][w], " or ")
			return v, v != ""
		})
		slices.SortStableFunc(groups, func(x, y []string) int { return len(y) - len(x) })
		value := func(works []string) string { return strings.Join(values[o][works[0]], " or ") }
		switch n := len(groups); {
		case n == 0, n == 1 && o == iotax.FactNumJobs && value(groups[0]) == "1":
			continue
		case n <= 2:
			s := strings.TrimPrefix(strings.TrimPrefix(o+"="+value(groups[0]), "ioengine="), "size=")
			if len(groups) == 2 {
				s += " (" + format.Enumerate(groups[1], format.Listed, "workload") + ": " + value(groups[1]) + ")"
			}
			parts = append(parts, s)
		default:
			var all []string
			for _, g := range groups {
				all = append(all, value(g))
			}
			parts = append(parts, o+"="+strings.Join(format.Cut(all, mostValues, "value"), ", "))
		}
	}
	if parts == nil {
		return ""
	}
	return "fio: " + strings.Join(parts, ", ") + "."
}

// mostValues is the maximum number of values of an option that Job lists.
const mostValues = 6

// size returns the value of a job's option "size", or "" if it is unknown. job contains the options as a JSON object.
func size(job string) string {
	var options map[string]string
	if json.Unmarshal([]byte(job), &options) != nil { // not written by iotax
		return ""
	}
	n, err := strconv.ParseFloat(options["size"], 64)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(rules.Bytes(n), " ", "")
}

// Method explains the intervals in brackets.
func Method(r *report.Report) string {
	s := fmt.Sprintf("Brackets are 95 %% intervals; a ratio above 1 is in the target's favour; margin ± %s.", format.Percent(r.Margin))
	if n := r.Protocol.Comparisons; n > 1 {
		s += fmt.Sprintf(" Of %d ratio intervals about %.1f may miss; worse and better allow for that (Holm).", n, float64(n)*(1-stat.Confidence))
	}
	return s
}

// Generated returns the first line of the layout "generated": the date, the version and the environment.
func Generated(r *report.Report) string {
	s := "Generated"
	if !r.Run.Start.IsZero() {
		s += " on " + r.Run.Start.UTC().Format("2006-01-02 15:04 UTC")
	}
	s += " with iotax " + format.Clean(r.Run.Version)
	if env := Environment(r); env != "" {
		s += ", " + format.Clean(env)
	}
	return s + "."
}

// Starts describes how much the ratios vary between starts and between the rounds of a start, using the cell that
// varies most between starts. For a single start of machines or servers, it states that the intervals do not cover what
// another start may change.
func Starts(r *report.Report) string {
	if n, of := r.Starts(); n == 1 && of != "" {
		return format.Capital(of) + fmt.Sprintf(" started once: intervals do not cover what another start may change. `--restarts %d` measures that.", stat.LeastTrials)
	}
	var most *stat.StartSpread
	var moody *report.Row
	cell := ""
	for s, row := range r.Rows() {
		if e := row.Ratio; e != nil && e.Starts != nil && (most == nil || e.Starts.Between > most.Between) {
			moody = row
			most, cell = e.Starts, format.Clean(row.Target)+" / "+format.Clean(s.Workload)
		}
	}
	if most == nil {
		return ""
	}
	sd := func(x iotax.Number) string { return format.Percent(math.Expm1(float64(x))) }
	text := fmt.Sprintf("%d starts; standard deviation of the ratio: between starts %s", most.Starts, sd(most.Between))
	if !math.IsNaN(float64(most.Within)) {
		text += ", between rounds " + sd(most.Within)
	}
	text += " (" + cell + ")."
	if n := len(most.Modes); n > 1 {
		var counts []string // of starts
		for _, starts := range most.Modes {
			counts = append(counts, strconv.Itoa(len(starts)))
		}
		text += fmt.Sprintf(" There are %d speeds, in %s starts (the worst first)", n, format.Enumerate(counts, n, ""))
		if fact, values := r.Separates(moody); fact != "" {
			text += fmt.Sprintf("; they differ in %s: %s", fact, format.Clean(strings.Join(values, ", ")))
		}
		text += "."
	}
	if r.Lacks() == "start" {
		text += fmt.Sprintf(" Fewer than %d starts that agree may share a mode, so they have no verdict.", stat.LeastTrials)
	}
	return text
}

// Noise describes the noise floor or, without calibration, the variation between trials of the baseline.
func Noise(r *report.Report) string {
	if c := r.Run.Calibration; c.Floor() > 0 {
		s := fmt.Sprintf("Noise floor: A/A %s (%s of %s, %s, %s)", stat.PlusMinus(c.Floor(), 2), format.Plural(c.Rounds, "round"), c.Length, format.Clean(c.Workload), c.At.Format("2006-01-02"))
		if phi := c.Autocorrelation(); phi > 0 {
			s += fmt.Sprintf("; intervals are widened by %.2f, because successive rounds resemble each other (φ = %.2f)", stat.Widening(phi), phi)
		}
		return s + "."
	}
	lo, hi := baselineVariation(r)
	s := "Noise floor: not calibrated (`iotax calibrate`)"
	if r.Run.Imported() {
		s = "Noise floor: not known of imported trials"
	}
	switch base := format.Clean(r.Baseline); {
	case math.IsNaN(lo):
		return s + "."
	case format.Percent(lo) == format.Percent(hi):
		return s + fmt.Sprintf("; single trials of %s vary by %s.", base, format.Percent(lo))
	default:
		return s + fmt.Sprintf("; single trials of %s vary by %s–%s.", base, strings.TrimSuffix(format.Percent(lo), " %"), format.Percent(hi))
	}
}

// baselineVariation computes the coefficient of variation of the baseline's trials for each workload, and returns the
// smallest and the largest. Both are NaN if no workload has two trials.
func baselineVariation(r *report.Report) (lo, hi float64) {
	lo, hi = math.NaN(), math.NaN()
	for s, base := range r.Rows() {
		xs := base.Values()
		if !s.First || !base.Baseline || len(xs) < 2 {
			continue
		}
		mean, sd := gonum.MeanStdDev(xs, nil)
		cv := sd / mean
		if math.IsNaN(cv) || math.IsInf(cv, 0) {
			continue
		}
		if math.IsNaN(lo) {
			lo, hi = cv, cv
		}
		lo, hi = math.Min(lo, cv), math.Max(hi, cv)
	}
	return lo, hi
}

// Objects describes how object data was protected and verified. If this differs between targets, it names the targets.
// It returns "" if no trial records these facts.
func Objects(r *report.Report) string {
	said := map[string][]string{}
	facts := r.ObjectFacts()
	for _, f := range facts {
		words := format.Clean(f.Value)
		if f.Fact == iotax.FactVerified {
			words = "compared by " + words
			if f.Value == "no" {
				words = "not compared"
			}
		}
		if slices.ContainsFunc(facts, func(o report.ObjectFact) bool { return o.Fact == f.Fact && o.Value != f.Value }) {
			var names []string
			for _, t := range f.Targets {
				names = append(names, format.Clean(t))
			}
			words += " (" + format.Enumerate(names, format.Listed, "target") + ")"
		}
		said[f.Fact] = append(said[f.Fact], words)
	}
	var parts []string
	if s := said[iotax.FactPayload]; s != nil {
		parts = append(parts, "Payloads of objects: "+strings.Join(s, "; ")+".")
	}
	if s := said[iotax.FactVerified]; s != nil {
		parts = append(parts, "What was downloaded: "+strings.Join(s, "; ")+".")
	}
	return strings.Join(parts, " ")
}

// Heading returns the workload's name with the number of rounds and, where they apply, the load of an open loop, the
// state of the caches, and the number of discarded rounds.
func Heading(r *report.Report, s *report.Section) string {
	h := s.Workload + " · " + format.Plural(r.Protocol.Rounds[s.Workload], r.Counted())
	if s.Open != "" {
		h += " · " + s.Open
	}
	if r.Protocol.Cold && r.Protocol.Warm {
		if s.Cold {
			h += " · cold"
		} else {
			h += " · warm"
		}
	}
	if v := r.Protocol.Discarded[s.Workload]; v > 0 {
		h += fmt.Sprintf(" + %d discarded", v)
	}
	return h
}
