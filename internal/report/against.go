package report

import (
	"strings"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// A Share is the ratio of a row to a target other than Row.Against. The other target may do different work, for
// example a network test. In that case, Ratio may compare bandwidths instead of the row's metric.
type Share struct {
	Against  string
	Workload string        // workload of the other target; if both targets do the same work, the row's workload
	Metric   string        // metric of the other target
	Ratio    stat.Interval // higher is better; paired by round if both targets do the same work, otherwise from two independent samples
}

// Row returns the row of a target, or nil if the section has none.
func (s *Section) Row(target string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Target == target && target != "" {
			return &s.Rows[i]
		}
	}
	return nil
}

// reference sets r.Against and returns the row that r is compared with, or nil if the section has no such row. If the
// returned row is not the baseline's, reference adds a note to r.
func (b *builder) reference(s *Section, r *Row) *Row {
	r.Against = b.Target(r.Target).Reference(b.Run.BaselineOf(s.Workload), func(name string) bool { return len(b.byCell[Cell{name, s.Workload}]) > 0 })
	base := s.Row(r.Against)
	if base == nil {
		r.Against = ""
	} else if r.Against != b.Baseline {
		b.note(r, rules.ComparedWithAnother.Hinting("").Found(iotax.AboutTarget(r.Target), ""),
			Item{Lead: "compared, by the plan,", Detail: "with " + r.Against + " instead of the baseline", Cells: []Cell{{Target: r.Target}}})
	}
	return base
}

// unrelated sets the verdict of a row that has neither a reference nor a verdict. A row with values gets no verdict if
// the plan names the targets to compare it with, or if the baseline does not run the workload.
func (b *builder) unrelated(s *Section, r *Row) {
	switch {
	case r.Verdict != "":
	case len(r.Values()) == 0:
		r.Verdict = stat.NoResult
	case len(b.Target(r.Target).Against) > 0: // no verdict, but b.shares computes ratios to these targets
	case s.Row(b.Baseline) != nil:
		r.Verdict = stat.Inconclusive
	}
}

// shares computes the ratios of rows to the targets that the plan compares them with, except Row.Against. If the plan
// names targets for a row with values, but the row has neither a reference nor such a ratio, shares adds a note to the
// row.
func (b *builder) shares() {
	for s, r := range b.Rows() {
		for _, name := range b.Target(r.Target).Against {
			if name == r.Against || len(r.Values()) == 0 || b.Invalid(r) {
				continue
			}
			if sh, ok := b.share(s, r, name); ok {
				r.Shares = append(r.Shares, sh)
			}
		}
		if len(b.Target(r.Target).Against) > 0 && r.Against == "" && len(r.Shares) == 0 && len(r.Values()) > 0 {
			b.note(r, rules.ComparedWithAnother.Hinting("").Found(iotax.AboutCell(r.Target, s.Workload), "no verdict, because the plan compares it with a target that does other work"),
				Item{Cells: []Cell{{r.Target, s.Workload}}})
		}
	}
}

func (b *builder) share(s *Section, r *Row, name string) (Share, bool) {
	if base := s.Row(name); base != nil && len(base.Values()) > 0 {
		if b.Invalid(base) {
			return Share{}, false
		}
		i, err := s.RatioOf(base.Dots, r.Dots, b.Options())
		return Share{name, s.Workload, s.Metric, i}, err == nil
	}
	// The other target does different work, or has no values in this section. In the other sections, compare the same
	// metric of both targets, or the row's bandwidth with the bandwidth of a network test.
	for o, base := range b.Rows() {
		if base.Target != name || len(base.Values()) == 0 || b.Invalid(base) {
			continue
		}
		mine := r.Values()
		switch {
		case o.Metric == strings.TrimPrefix(s.Metric, SteadyReads) && o.Unit == s.Unit:
		case b.Workload(o.Workload).Kind == "network" && o.Unit == iotax.BytesPerSecond && !strings.HasPrefix(s.Metric, SteadyReads):
			mine = b.bandwidths(r.Target, s.Workload, BandwidthOf(s.Metric))
		default:
			continue
		}
		if len(mine) == 0 {
			continue
		}
		c, err := stat.Unpaired(base.Values(), mine, o.Better, stat.Options{Alpha: b.Alpha, Hidden: BinError(o.Metric)})
		return Share{name, o.Workload, o.Metric, c.Interval}, err == nil
	}
	return Share{}, false
}

// SteadyReads is the prefix of metrics for reads from a volume after it was copied to the node over a network. These
// reads do not use the network.
const SteadyReads = "steady."

// BandwidthOf returns the bandwidth metric that corresponds to metric: "read.bandwidth" for "read.iops".
func BandwidthOf(metric string) string {
	of, what, ok := strings.Cut(metric, ".")
	if !ok {
		return "bandwidth"
	}
	if what == "bandwidth" {
		return metric
	}
	return of + ".bandwidth"
}

// bandwidths returns the bandwidths of a cell's valid trials in B/s.
func (b *builder) bandwidths(target, workload, metric string) []float64 {
	var out []float64
	for _, t := range b.Valid(Cell{target, workload}) {
		if v, ok := t.Value(metric); ok && v.Unit == iotax.BytesPerSecond && v.Value > 0 {
			out = append(out, v.Value)
		}
	}
	return out
}
