package report

import (
	"slices"
	"strings"

	"iotax"
	"iotax/report/format"
	"iotax/stat"
)

// A Share is what a row reaches of a target that it is held against beside the one of its ratio. That
// target may do other work, as a network does: then bandwidth is held against bandwidth.
type Share struct {
	Against  string
	Workload string        // of Against; the row's own where both do the same
	Metric   string        // of Against
	Ratio    stat.Interval // higher is better; paired by block where both do the same work, else of two samples
}

// row finds the row of a target, nil where there is none.
func (s *Section) row(target string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Target == target && target != "" {
			return &s.Rows[i]
		}
	}
	return nil
}

func (b *builder) info(target string) iotax.TargetInfo {
	for _, t := range b.targets {
		if t.Name == target {
			return t
		}
	}
	return iotax.TargetInfo{Name: target}
}

// reference finds the row that r is compared with, and tells where that is not the baseline's.
func (b *builder) reference(s *Section, r *Row) *Row {
	r.Against = b.info(r.Target).Reference(b.Run.BaselineOf(s.Workload), func(name string) bool { return len(b.byCell[Cell{name, s.Workload}]) > 0 })
	base := s.row(r.Against)
	if base == nil {
		r.Against = ""
	} else if r.Against != b.Baseline {
		b.note(r, iotax.Finding{Rule: "compared-with-another", Severity: iotax.Info},
			Item{Lead: "as the plan says, not compared with the baseline", Detail: "but with " + r.Against, Cells: []Cell{{Target: r.Target}}})
	}
	return base
}

// others are the targets that ratios are to and that are not the baseline: "node-local export or guest ext4".
func (r *Report) others() string {
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

// unrelated gives a verdict to a row that is compared with nothing under its workload: none, unless there
// should be something.
func (b *builder) unrelated(s *Section, r *Row) {
	switch {
	case r.Verdict != "":
	case len(r.values()) == 0:
		r.Verdict = stat.NoResult
	case len(b.info(r.Target).Against) > 0: // see shares
	case s.row(b.Baseline) != nil:
		r.Verdict = stat.Inconclusive
	}
}

// shares fills in what rows reach of the other targets that they are held against, and tells of those that have nothing
// to be held against.
func (b *builder) shares() {
	for i := range b.Sections {
		s := &b.Sections[i]
		for j := range s.Rows {
			r := &s.Rows[j]
			for _, name := range b.info(r.Target).Against {
				if name == r.Against || len(r.values()) == 0 || b.condemned(r) {
					continue
				}
				if sh, ok := b.share(s, r, name); ok {
					r.Shares = append(r.Shares, sh)
				}
			}
			if len(b.info(r.Target).Against) > 0 && r.Against == "" && len(r.Shares) == 0 && len(r.values()) > 0 {
				b.note(r, iotax.Finding{Rule: "compared-with-another", Severity: iotax.Info,
					Evidence: "no verdict, for what the plan holds it against does other work"},
					Item{Cells: []Cell{{r.Target, s.Workload}}})
			}
		}
	}
}

func (b *builder) share(s *Section, r *Row, name string) (Share, bool) {
	if base := s.row(name); base != nil && len(base.values()) > 0 {
		if b.condemned(base) {
			return Share{}, false
		}
		bs, xs := pairDots(base.Dots, r.Dots, false)
		i, err := stat.Ratio(bs, xs, s.Better, b.Alpha)
		return Share{name, s.Workload, s.Metric, i}, err == nil
	}
	// Other work: the same figure of it, or the bandwidth of a network for what came over that.
	for i := range b.Sections {
		o := &b.Sections[i]
		base := o.row(name)
		if base == nil || len(base.values()) == 0 || b.condemned(base) {
			continue
		}
		mine := r.values()
		switch {
		case o.Metric == direct(s.Metric) && o.Unit == s.Unit:
		case b.kindOf(o.Workload) == "network" && o.Unit == iotax.BytesPerSecond && !strings.HasPrefix(s.Metric, steadyReads):
			mine = b.bandwidths(r.Target, s.Workload, bandwidthOf(s.Metric))
		default:
			continue
		}
		if len(mine) == 0 {
			continue
		}
		c, err := stat.Unpaired(base.values(), mine, o.Better, stat.Options{Alpha: b.Alpha})
		return Share{name, o.Workload, o.Metric, c.Interval}, err == nil
	}
	return Share{}, false
}

// steadyReads begins the figures of a volume that has come over a network: no line is in them any more.
const steadyReads = "steady."

// direct is the figure that a plain job would have for a metric: "read.bandwidth" for "root.read.bandwidth".
func direct(metric string) string {
	if parts := strings.Split(metric, "."); len(parts) > 2 {
		return strings.Join(parts[len(parts)-2:], ".")
	}
	return metric
}

// bandwidthOf is the name of the bandwidth of what a metric is about: "read.bandwidth" for "read.iops".
func bandwidthOf(metric string) string {
	of, what, ok := strings.Cut(metric, ".")
	if !ok {
		return "bandwidth"
	}
	if what == "bandwidth" {
		return metric
	}
	return of + ".bandwidth"
}

func (b *builder) workloadInfo(name string) iotax.WorkloadInfo {
	for _, w := range b.workloads {
		if w.Name == name {
			return w
		}
	}
	return iotax.WorkloadInfo{Name: name}
}

// kindOf is the kind of a workload.
func (b *builder) kindOf(workload string) string { return b.workloadInfo(workload).Kind }

// bandwidths are those of the trials of a cell that count, in B/s.
func (b *builder) bandwidths(target, workload, metric string) []float64 {
	var out []float64
	for _, t := range b.byCell[Cell{target, workload}] {
		if t.Err != "" || b.void[workload][t.Block] {
			continue
		}
		if v, ok := t.Value(metric); ok && v.Unit == iotax.BytesPerSecond && v.Value > 0 {
			out = append(out, v.Value)
		}
	}
	return out
}
