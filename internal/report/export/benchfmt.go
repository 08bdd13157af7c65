package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
)

// Benchfmt writes the valid trials in the Go benchmark format, which benchstat reads. Each trial has one line for
// headline values without a direction, and one for each direction of I/O:
//
//	BenchmarkIO/workload=4k_random_read/target=host_disk/io=read 48213 48213 IOPS 1.97e+08 B/s 0.00066 sec/op
//
// The intervals of benchstat differ from the report's, because benchstat does not pair by round.
//
// The run and its environment are written as comments, because benchstat puts results with different configurations
// into separate tables. Comments also list the cells whose numbers are invalid.
func Benchfmt(w io.Writer, r *report.Report) error {
	var b strings.Builder
	comment := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	comment("iotax %s, run %s %s", format.Clean(r.Run.Version), format.Clean(r.Run.ID), format.Clean(r.Run.Name))
	if env := assess.Environment(r); env != "" {
		comment("%s", env)
	}
	if banner := r.Banner(); banner != "" {
		comment("%s", banner)
	}
	comment("baseline: %s", format.Clean(r.Baseline))
	for _, t := range r.Targets() {
		if on := t.Storage(); on != "" {
			comment("target %s: %s", format.Clean(t.Name), format.Clean(on))
		}
	}
	marked := map[report.Cell]bool{}
	for s, row := range r.Rows() {
		if n, c := r.InvalidBy(row), (report.Cell{Target: row.Target, Workload: s.Workload}); n != nil && !marked[c] {
			marked[c] = true
			comment("invalid: %s / %s: %s", format.Clean(c.Target), format.Clean(c.Workload), n.Rule)
		}
	}
	out := benchfmt.NewWriter(&b)
	known := map[string]bool{}
	names := namer{}
	var results []*benchfmt.Result
	for _, t := range inRowOrder(r) {
		if !r.Counts(t) {
			continue
		}
		for _, res := range linesOf(r, t, names) {
			results = append(results, res)
			for _, v := range res.Values {
				if known[v.Unit] {
					continue
				}
				known[v.Unit] = true
				if better := direction(t, v.Unit); better != "" {
					if err := out.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: v.Unit, Key: "better"}, OrigUnit: v.Unit, Value: better}); err != nil {
						return err
					}
				}
			}
		}
	}
	for _, res := range results {
		if err := out.Write(res); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inRowOrder returns the trials in the order of the report's rows. The baseline must come first, because benchstat
// compares the other targets with the first one.
func inRowOrder(r *report.Report) []*report.Trial {
	rank := map[report.Cell]int{}
	for s, row := range r.Rows() {
		if c := (report.Cell{Target: row.Target, Workload: s.Workload}); rank[c] == 0 {
			rank[c] = len(rank) + 1
		}
	}
	out := slices.Clone(r.Trials)
	slices.SortStableFunc(out, func(x, y *report.Trial) int {
		return rank[report.Cell{Target: x.Target, Workload: x.Workload}] - rank[report.Cell{Target: y.Target, Workload: y.Workload}]
	})
	return out
}

// linesOf returns the lines for a trial: one for each direction of I/O, and one for headline values without a
// direction.
func linesOf(r *report.Report, t *report.Trial, names namer) []*benchfmt.Result {
	base := "IO/workload=" + names.of("workload", t.Workload) + "/target=" + names.of("target", t.Target)
	lines := map[string]*benchfmt.Result{}
	var order []*benchfmt.Result
	for v := range t.All() {
		op, unit := benchUnit(v)
		if unit == "" || op == "" && !headline(r, t.Workload, v.Name) {
			continue
		}
		res := lines[op]
		if res == nil {
			name := base
			if op != "" {
				name += "/io=" + op
			}
			res = &benchfmt.Result{Name: benchfmt.Name(name), Iters: 1}
			if n, ok := t.Value(op + ".ios"); ok && n.Value >= 1 && n.Value < 1e15 {
				res.Iters = int(n.Value)
			}
			lines[op] = res
			order = append(order, res)
		}
		if !slices.ContainsFunc(res.Values, func(x benchfmt.Value) bool { return x.Unit == unit }) {
			res.Values = append(res.Values, benchfmt.Value{Value: v.Value, Unit: unit})
		}
	}
	return order
}

func headline(r *report.Report, workload, metric string) bool {
	return slices.ContainsFunc(r.Sections, func(s report.Section) bool { return s.Workload == workload && s.Metric == metric })
}

// benchUnit returns the direction and the benchmark unit of a value: read.iops has unit IOPS and direction read,
// read.latency.mean has sec/op, read.latency.p99 has p99-sec/op. If a value has no direction, its unit contains its
// name. If the unit is "", Benchfmt omits the value.
func benchUnit(v iotax.Value) (op, unit string) {
	op, rest, _ := strings.Cut(v.Name, ".")
	switch op {
	case "read", "write", "trim", "sync", "mixed":
	default:
		if v.Better == iotax.Neither {
			return "", ""
		}
		return "", word(v.Name) + "-" + baseUnit(v.Unit)
	}
	switch rest {
	case "iops":
		return op, "IOPS"
	case "bandwidth":
		return op, "B/s"
	case "latency.mean":
		return op, "sec/op"
	}
	if q, ok := strings.CutPrefix(rest, "latency.p"); ok && format.Digits(strings.ReplaceAll(q, ".", "")) {
		return op, "p" + q + "-sec/op"
	}
	return op, ""
}

func baseUnit(unit string) string {
	switch unit {
	case iotax.Seconds:
		return "sec"
	case iotax.PerSecond:
		return "ops/s"
	case iotax.Count, "":
		return "count"
	}
	return word(unit)
}

// direction returns "higher" or "lower", whichever is better for the value of t with the given unit, or "".
func direction(t *report.Trial, unit string) string {
	for v := range t.All() {
		if _, u := benchUnit(v); u == unit {
			switch v.Better {
			case iotax.Up:
				return "higher"
			case iotax.Down:
				return "lower"
			}
		}
	}
	return ""
}

// word adapts a name to the format: it replaces white space, unprintable characters, and slashes, which separate the
// parts of a name, with "_".
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, format.Clean(s))
	if s == "" {
		return "_"
	}
	return s
}

// A namer keeps names unique if the function `word` maps several names to the same text.
type namer map[[2]string]string

func (n namer) of(kind, name string) string {
	w := word(name)
	for i := 2; ; i++ {
		if have, taken := n[[2]string{kind, w}]; !taken || have == name {
			n[[2]string{kind, w}] = name
			return w
		}
		w = fmt.Sprintf("%s#%d", word(name), i)
	}
}
