package compare

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
)

// A Difference is a fact that differs between two runs. An A or B of "" means that the run does not record the fact.
type Difference struct {
	Where []string `json:"where"` // names of targets; empty for the host or the whole run
	Key   string   `json:"key"`   // for example "kernel" or "queue.scheduler"
	A     string   `json:"a"`
	B     string   `json:"b"`
}

// passing lists facts that comparisons ignore, because they differ between any two runs or repeat another fact.
var passing = []string{"runner", "runners", iotax.FactCommand, iotax.FactSetupTime, iotax.FactResumed, iotax.FactMemoryBytes, "machine.memory.bytes", iotax.FactMachineHostname, iotax.FactAccelWhy, iotax.FactWatchDevice, iotax.FactKernelFile, iotax.FactDiskSize, iotax.FactDeviceSize,
	iotax.FactFilesystemMount}

// reported lists facts of trials that describe the target's environment. Other facts, such as iotax.FactJob, describe
// the work.
var reported = []string{"fio", "latency"}

// random matches values that differ in each run: names of generated directories, iotax's kernel parameters, and
// measured clock rates.
var random = regexp.MustCompile(`iotax-[0-9a-z]+|\biotax\.[a-z]+=\S+ ?|\btsc_early_khz=\d+ ?`)

// stable returns v without the parts that differ from run to run. Generated directory names become "iotax-…".
func stable(v string) string {
	return strings.TrimSpace(random.ReplaceAllStringFunc(v, func(s string) string {
		if strings.HasPrefix(s, "iotax-") {
			return "iotax-…"
		}
		return ""
	}))
}

func telling(key string) bool {
	return !slices.Contains(passing, key) && key != "boot" && !strings.HasPrefix(key, "boot.")
}

// added adds a difference to out. If out already contains the same difference on another target, added appends
// `where` to the targets of that difference. `where` is a target, or "" for the host or the whole run.
func added(out []Difference, where, key, a, b string) []Difference {
	a, b = stable(a), stable(b)
	if a == b {
		return out
	}
	i := slices.IndexFunc(out, func(d Difference) bool { return len(d.Where) > 0 && d.Key == key && d.A == a && d.B == b })
	if where == "" || i < 0 {
		out = append(out, Difference{Where: []string{}, Key: key, A: a, B: b})
		i = len(out) - 1
	}
	if where != "" {
		out[i].Where = append(out[i].Where, where)
	}
	return out
}

// Facts adds the differences between a and b to `out`. a and b are the facts of the target `where` in both runs, or of
// the host if `where` is "".
func Facts(out []Difference, where string, a, b map[string]string) []Difference {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if telling(key) {
			out = added(out, where, key, a[key], b[key])
		}
	}
	return out
}

// Differences returns the facts that differ between two runs: of the host, of the protocol, then of each target. Equal
// differences of several targets become one.
func Differences(a, b *report.Report) []Difference {
	var out []Difference
	add := func(where, key, va, vb string) { out = added(out, where, key, va, vb) }
	out = Facts(out, "", a.Run.Environment, b.Run.Environment)
	add("", "iotax", a.Run.Version, b.Run.Version)
	add("", "baseline", a.Baseline, b.Baseline)
	add("", "trial", span(a.Protocol.Trial), span(b.Protocol.Trial))
	add("", "ramp", span(a.Protocol.Ramp), span(b.Protocol.Ramp))
	for _, t := range a.Run.Targets {
		i := slices.IndexFunc(b.Run.Targets, func(u iotax.TargetInfo) bool { return u.Name == t.Name })
		if i < 0 {
			continue
		}
		u := b.Run.Targets[i]
		if t.Err != "" || u.Err != "" {
			continue // a target that could not be opened has no facts
		}
		add(t.Name, "machine", t.Machine, u.Machine)
		add(t.Name, "durability", string(t.Durability), string(u.Durability))
		out = Facts(out, t.Name, t.Facts, u.Facts)
	}
	for _, t := range a.Run.Targets {
		for _, key := range reported {
			x, y := trialFact(a, t.Name, key), trialFact(b, t.Name, key)
			known := slices.ContainsFunc(out, func(d Difference) bool { return d.Key == key && slices.Contains(d.Where, t.Name) })
			if x != "" && y != "" && !known {
				add(t.Name, key, x, y)
			}
		}
	}
	return out
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// trialFact returns a fact of a target's trials. If the value differs between trials, trialFact joins the values.
func trialFact(r *report.Report, target, key string) string {
	var values []string
	for _, t := range r.Trials {
		if v := t.Facts[key]; t.Target == target && t.Err == "" && v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return strings.Join(values, ", ")
}

// Place lists the targets with the difference: "guest disk, guest share". If there are more than limit, it returns
// their number: "4 targets". A limit of 0 means no limit. It returns "" for the host or the whole run.
func (d Difference) Place(limit int) string {
	switch n := len(d.Where); {
	case n == 0:
		return ""
	case limit > 0 && n > limit:
		return format.Plural(n, "target")
	}
	return strings.Join(d.Where, ", ")
}

// Step formats the difference: "6.1.0 → 6.8.2".
func (d Difference) Step() string {
	return cmp.Or(format.Clean(d.A), format.Dash) + " → " + cmp.Or(format.Clean(d.B), format.Dash)
}
