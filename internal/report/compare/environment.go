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

// A Difference is a fact that is not the same in both runs; "" is a run that does not tell it.
type Difference struct {
	Where []string `json:"where"` // names of targets; none is the host, or the run as a whole
	Key   string   `json:"key"`   // "kernel", "queue.scheduler"
	A     string   `json:"a"`
	B     string   `json:"b"`
}

// passing are facts that differ between any two runs, or repeat another fact.
var passing = []string{"runner", "runners", iotax.FactSetupTime, iotax.FactMemoryBytes, "machine.memory.bytes", iotax.FactMachineHostname, iotax.FactAccelWhy, iotax.FactWatchDevice, iotax.FactKernelFile, iotax.FactDiskSize, iotax.FactDeviceSize,
	iotax.FactFilesystemMount}

// told are the facts of trials that are the target's surroundings; what was done there is iotax.FactJob.
var told = []string{"fio", "latency"}

// random is what iotax makes up for each run: names of directories, keys, measured clock rates.
var random = regexp.MustCompile(`iotax-[0-9a-z]+|\biotax\.[a-z]+=\S+ ?|\btsc_early_khz=\d+ ?`)

// stable is a fact without what a run makes up.
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

// differencesOf compares what two runs know of their surroundings: the host's first, then the way of
// measuring, then each target's, with equal differences of several targets put together.
func differencesOf(a, b *report.Report) []Difference {
	var out []Difference
	add := func(where, key, va, vb string) {
		va, vb = stable(va), stable(vb)
		if va == vb {
			return
		}
		if where == "" {
			out = append(out, Difference{Where: []string{}, Key: key, A: va, B: vb})
			return
		}
		i := slices.IndexFunc(out, func(d Difference) bool { return len(d.Where) > 0 && d.Key == key && d.A == va && d.B == vb })
		if i < 0 {
			out = append(out, Difference{Where: []string{}, Key: key, A: va, B: vb})
			i = len(out) - 1
		}
		out[i].Where = append(out[i].Where, where)
	}
	compare := func(where, prefix string, x, y map[string]string) {
		keys := slices.Collect(maps.Keys(x))
		for k := range y {
			if _, both := x[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if telling(k) {
				add(where, prefix+k, x[k], y[k])
			}
		}
	}
	compare("", "", a.Run.Environment, b.Run.Environment)
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
			continue // a target that did not open has no facts, and is told as such
		}
		add(t.Name, "machine", t.Machine, u.Machine)
		add(t.Name, "durability", string(t.Durability), string(u.Durability))
		compare(t.Name, "", t.Facts, u.Facts)
	}
	for _, t := range a.Run.Targets {
		for _, key := range told {
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

// trialFact is a fact that the trials of a target have; several values are joined.
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

// Place names where a difference is: "guest disk, guest share", or "4 targets" where there are more than limit (0 is no
// limit); "" is the host or the run.
func (d Difference) Place(limit int) string {
	switch n := len(d.Where); {
	case n == 0:
		return ""
	case limit > 0 && n > limit:
		return format.Plural(n, "target")
	}
	return strings.Join(d.Where, ", ")
}

// Step prints what a difference is: "6.1.0 → 6.8.2".
func (d Difference) Step() string {
	return cmp.Or(format.Clean(d.A), format.Dash) + " → " + cmp.Or(format.Clean(d.B), format.Dash)
}
