package report

import (
	"strings"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// A Share is the ratio of a row to another target than the one of Row.Ratio. That target may do other work, as a network does.
// Then bandwidth is compared with bandwidth.
type Share struct {
	Against  string
	Workload string        // of Against, the row's own if both do the same work
	Metric   string        // of Against
	Ratio    stat.Interval // higher is better; paired by round where both do the same work, else of two samples
}

// Row returns the row of a target, nil if it has none.
func (s *Section) Row(target string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Target == target && target != "" {
			return &s.Rows[i]
		}
	}
	return nil
}

// reference returns the row that r is compared with. If that is not the baseline's, it adds a note.
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

// unrelated sets the verdict of a row that is compared with nothing. It has no verdict, unless the workload has a baseline.
func (b *builder) unrelated(s *Section, r *Row) {
	switch {
	case r.Verdict != "":
	case len(r.Values()) == 0:
		r.Verdict = stat.NoResult
	case len(b.Target(r.Target).Against) > 0: // see shares
	case s.Row(b.Baseline) != nil:
		r.Verdict = stat.Inconclusive
	}
}

// shares computes the ratios to the other targets that the plan compares a row with, and notes rows for which none can be
// computed.
func (b *builder) shares() {
	for i := range b.Sections {
		s := &b.Sections[i]
		for j := range s.Rows {
			r := &s.Rows[j]
			for _, name := range b.Target(r.Target).Against {
				if name == r.Against || len(r.Values()) == 0 || b.Invalid(r) {
					continue
				}
				if sh, ok := b.share(s, r, name); ok {
					r.Shares = append(r.Shares, sh)
				}
			}
			if len(b.Target(r.Target).Against) > 0 && r.Against == "" && len(r.Shares) == 0 && len(r.Values()) > 0 {
				b.note(r, rules.ComparedWithAnother.Hinting("").Found(iotax.AboutCell(r.Target, s.Workload), "no verdict, for what the plan holds it against does other work"),
					Item{Cells: []Cell{{r.Target, s.Workload}}})
			}
		}
	}
}

func (b *builder) share(s *Section, r *Row, name string) (Share, bool) {
	if base := s.Row(name); base != nil && len(base.Values()) > 0 {
		if b.Invalid(base) {
			return Share{}, false
		}
		i, err := RatioOf(base.Dots, r.Dots, s.Better, stat.Options{Alpha: b.Alpha})
		return Share{name, s.Workload, s.Metric, i}, err == nil
	}
	// Other work: compare the same metric, or the bandwidth of a network with that of the work that used it.
	for i := range b.Sections {
		o := &b.Sections[i]
		base := o.Row(name)
		if base == nil || len(base.Values()) == 0 || b.Invalid(base) {
			continue
		}
		mine := r.Values()
		switch {
		case o.Metric == direct(s.Metric) && o.Unit == s.Unit:
		case b.Workload(o.Workload).Kind == "network" && o.Unit == iotax.BytesPerSecond && !strings.HasPrefix(s.Metric, SteadyReads):
			mine = b.bandwidths(r.Target, s.Workload, BandwidthOf(s.Metric))
		default:
			continue
		}
		if len(mine) == 0 {
			continue
		}
		c, err := stat.Unpaired(base.Values(), mine, o.Better, stat.Options{Alpha: b.Alpha})
		return Share{name, o.Workload, o.Metric, c.Interval}, err == nil
	}
	return Share{}, false
}

// SteadyReads is the prefix of the metrics of a volume that was copied over a network. The network takes no part in them.
const SteadyReads = "steady."

// direct returns the metric of a plain job that corresponds to a metric: "read.bandwidth" for "steady.read.bandwidth".
func direct(metric string) string {
	if parts := strings.Split(metric, "."); len(parts) > 2 {
		return strings.Join(parts[len(parts)-2:], ".")
	}
	return metric
}

// BandwidthOf returns the bandwidth that corresponds to a metric: "read.bandwidth" for "read.iops".
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

// bandwidths returns the bandwidths of a cell's valid trials, in B/s.
func (b *builder) bandwidths(target, workload, metric string) []float64 {
	var out []float64
	for _, t := range b.byCell[Cell{target, workload}] {
		if !b.Counts(t) {
			continue
		}
		if v, ok := t.Value(metric); ok && v.Unit == iotax.BytesPerSecond && v.Value > 0 {
			out = append(out, v.Value)
		}
	}
	return out
}
