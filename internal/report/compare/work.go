package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
)

// A work describes the work of a cell: the options of its job that differ from their defaults, as in iotax.FactJob,
// and the state of its caches. A verdict across different work would describe the job, not the storage.
type work struct {
	options map[string]string // different values in the trials are joined
	partly  bool              // some options are unknown
}

const notSet = "not set"

// works returns the work of each measured cell.
func works(trials []*report.Trial) map[report.Cell]work {
	jobs := map[string]map[string]string{} // parsed jobs by their text, which thousands of trials share
	distinct := map[report.Cell][]map[string]string{}
	seen := map[report.Cell]map[string]bool{}
	for _, t := range trials {
		if t.Err != "" {
			continue
		}
		text := cmp.Or(t.Facts[iotax.FactJob], factsJob(t.Facts))
		job := jobs[text]
		if job == nil {
			if err := json.Unmarshal([]byte(text), &job); err != nil {
				job = map[string]string{iotax.FactJob: text} // not written by iotax: compare the text as a whole
			}
			jobs[text] = job
		}
		caches := "warm"
		if t.Cold {
			caches = "cold"
		}
		c := report.Cell{Target: t.Target, Workload: t.Workload}
		if seen[c] == nil {
			seen[c] = map[string]bool{}
		}
		if key := text + caches; !seen[c][key] {
			seen[c][key] = true
			job = maps.Clone(job)
			job["caches"] = caches
			distinct[c] = append(distinct[c], job)
		}
	}
	out := map[report.Cell]work{}
	for c, jobs := range distinct {
		w := work{options: map[string]string{}}
		for _, k := range optionsOf(jobs...) {
			var values []string
			for _, job := range jobs {
				values = append(values, cmp.Or(job[k], notSet))
			}
			slices.Sort(values)
			w.options[k] = strings.Join(slices.Compact(values), ", ")
		}
		w.partly = w.options[iotax.PartlyKnown] != ""
		delete(w.options, iotax.PartlyKnown)
		out[c] = w
	}
	return out
}

// factsJob returns the job of a trial that lacks iotax.FactJob, derived from its other facts.
func factsJob(facts map[string]string) string {
	job := map[string]string{iotax.PartlyKnown: "yes"}
	for _, k := range []string{"bs", "direct", "iodepth", "ioengine", "numjobs", "rate", "rw", "size"} {
		if v := facts[k]; v != "" {
			job[k] = v
		}
	}
	return iotax.JobText(job)
}

func optionsOf(jobs ...map[string]string) []string {
	all := map[string]bool{}
	for _, job := range jobs {
		for k := range job {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// workDifferences returns the options that differ between two cells. A value of "" means that the results of that
// cell do not record the option.
func workDifferences(a, b work) []Difference {
	if len(a.options) == 0 || len(b.options) == 0 {
		return nil // nothing was measured
	}
	var out []Difference
	value := func(w work, k string) string {
		switch v := w.options[k]; {
		case v != "":
			return v
		case w.partly:
			return ""
		}
		return notSet
	}
	for _, k := range optionsOf(a.options, b.options) {
		if x, y := value(a, k), value(b, k); x != y {
			out = append(out, Difference{Key: k, A: x, B: y})
		}
	}
	return out
}

// unlike describes how the work of two cells differs or may differ. It returns "" if the work is the same.
func unlike(a, b work, letter string) string {
	var said []string
	for _, d := range workDifferences(a, b) {
		d.A, d.B = shown(d.Key, d.A), shown(d.Key, d.B)
		switch {
		case d.A == "":
			said = append(said, fmt.Sprintf("%s is %s and is not recorded in A", d.Key, d.B))
		case d.B == "":
			said = append(said, fmt.Sprintf("%s was %s and is not recorded in %s", d.Key, d.A, letter))
		default:
			said = append(said, fmt.Sprintf("%s was %s and is %s", d.Key, d.A, d.B))
		}
	}
	return strings.Join(said, ", ")
}

// shown adds the unit to a number of bytes.
func shown(key, v string) string {
	if n, err := strconv.ParseFloat(v, 64); err == nil && slices.Contains([]string{"bs", "ba", "size", "io_size", "filesize", "offset", "offset_increment"}, key) {
		return format.Value(format.Lone(n), "B")
	}
	return v
}

// counterparts maps each cell of a to the name of b's workload that does the same work on the same target. If b has no
// such workload, it uses the workload with the same name, if any.
func counterparts(a, b side) map[report.Cell]string {
	out := map[report.Cell]string{}
	taken := map[report.Cell]bool{}
	cells := func(s side) (out []report.Cell) {
		for _, k := range s.order {
			if c := (report.Cell{Target: k.Target, Workload: k.Workload}); len(out) == 0 || out[len(out)-1] != c {
				out = append(out, c)
			}
		}
		return out
	}
	at := map[string][]report.Cell{}
	for _, y := range cells(b) {
		at[y.Target] = append(at[y.Target], y)
	}
	first := cells(a)
	pair := func(fits func(x, y report.Cell) bool) {
		for _, x := range first {
			for _, y := range at[x.Target] {
				if out[x] == "" && !taken[y] && fits(x, y) {
					out[x], taken[y] = y.Workload, true
				}
			}
		}
	}
	alike := func(x, y report.Cell) bool {
		p, q := a.works[x], b.works[y]
		return len(p.options) > 0 && len(q.options) > 0 && !p.partly && !q.partly && len(workDifferences(p, q)) == 0
	}
	pair(func(x, y report.Cell) bool { return x == y && alike(x, y) })
	pair(func(x, y report.Cell) bool { return alike(x, y) })
	pair(func(x, y report.Cell) bool { return x == y })
	return out
}
