package report

import (
	"slices"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// An index looks up the parts of a report.
type index struct {
	targets   []iotax.TargetInfo // baseline first
	workloads []iotax.WorkloadInfo
	byCell    map[Cell][]*Trial
	discarded map[string]map[int]bool // discarded rounds by workload
	found     []*Note                 // in the order in which they were found
	refs      map[*Note]map[*Row]bool // whether a note that a row refers to is about that row, not about its reference
}

// Targets returns the targets of the run and of its trials, baseline first.
func (x *index) Targets() []iotax.TargetInfo { return x.targets }

// Workloads returns the workloads of the run and of its trials.
func (x *index) Workloads() []iotax.WorkloadInfo { return x.workloads }

// Target returns the target with the given name. An unknown target has only a name.
func (x *index) Target(name string) iotax.TargetInfo {
	for _, t := range x.targets {
		if t.Name == name {
			return t
		}
	}
	return iotax.TargetInfo{Name: name}
}

// Workload returns the workload with the given name. An unknown workload has only a name.
func (x *index) Workload(name string) iotax.WorkloadInfo {
	for _, w := range x.workloads {
		if w.Name == name {
			return w
		}
	}
	return iotax.WorkloadInfo{Name: name}
}

// TrialsOf returns all trials of a cell in the order in which they ran.
func (x *index) TrialsOf(c Cell) []*Trial { return x.byCell[c] }

// Counts reports whether a trial is valid: it did not fail, and its round is not discarded.
func (x *index) Counts(t *Trial) bool { return t.Err == "" && !x.discarded[t.Workload][t.Round] }

// Valid returns the valid trials of a cell in the order in which they ran.
func (x *index) Valid(c Cell) []*Trial {
	return slices.DeleteFunc(slices.Clone(x.byCell[c]), func(t *Trial) bool { return !x.Counts(t) })
}

// Found returns all notes about rows, both from Notes and from Common, in the order in which they were found.
func (x *index) Found() []*Note { return x.found }

// Concerns reports whether n, a note that Found returns, is about r or about the reference of r.
func (x *index) Concerns(n *Note, r *Row) bool {
	_, ok := x.refs[n][r]
	return ok
}

// InvalidBy returns the first note that makes a row's own number invalid, or nil. r must point to a row in the report's
// sections, not to a copy.
func (x *index) InvalidBy(r *Row) *Note {
	for _, n := range x.found {
		if n.Severity == iotax.Invalid && x.refs[n][r] {
			return n
		}
	}
	return nil
}

// Invalid reports whether a row's own number is invalid, because of a check or because too many trials are discarded.
func (x *index) Invalid(r *Row) bool { return x.InvalidBy(r) != nil }

// atCaches lists the rules about results that came from a cache.
var atCaches = []string{rules.CacheServed.ID, rules.WriteAbsorbed.ID, rules.LineRateExceeded.ID}

// Cached reports whether a row's own number is invalid because its data came from a cache.
func (x *index) Cached(r *Row) bool {
	n := x.InvalidBy(r)
	return n != nil && slices.Contains(atCaches, n.Rule) && r.Verdict != stat.NoResult
}

// Word returns the text of a row's verdict. If the row's own number is invalid, the text is "cached" or "invalid", even
// if the row has no verdict. If only the row's reference is invalid, the text is "not comparable".
func (x *index) Word(r *Row, short bool) string {
	switch {
	case r.Verdict == stat.NoResult:
	case x.Cached(r):
		return format.Cached
	case x.InvalidBy(r) != nil:
		return format.Verdict(stat.NotComparable, short)
	case r.Verdict == stat.NotComparable || r.Verdict == stat.TooManyDiscarded:
		return string(stat.NotComparable)
	}
	return format.Verdict(r.Verdict, short)
}
