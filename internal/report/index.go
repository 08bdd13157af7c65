package report

import (
	"slices"

	"iotax"
	"iotax/internal/rules"
)

// An index looks up the parts of a report.
type index struct {
	targets   []iotax.TargetInfo // baseline first
	workloads []iotax.WorkloadInfo
	byCell    map[Cell][]*Trial
	discarded map[string]map[int]bool // discarded rounds by workload
	found     []*Note                 // in the order in which they were found
	refs      map[*Note]map[*Row]bool
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

// Found returns all notes about rows, both from Notes and from Common, in the order in which they were found.
func (x *index) Found() []*Note { return x.found }

// Concerns reports whether a note returned by Found is about a row.
func (x *index) Concerns(n *Note, r *Row) bool { return x.refs[n][r] }

// Invalid reports whether a check found that a row's number is invalid. It ignores notes about too many discarded
// trials.
func (x *index) Invalid(r *Row) bool {
	return slices.ContainsFunc(x.found, func(n *Note) bool {
		return n.Severity == iotax.Invalid && n.Rule != rules.TooManyDiscarded.ID && x.refs[n][r]
	})
}
