package report

import (
	"slices"

	"iotax"
	"iotax/internal/rules"
)

// An index is what the parts of a report are found by.
type index struct {
	targets   []iotax.TargetInfo // the baseline first
	workloads []iotax.WorkloadInfo
	byCell    map[Cell][]*Trial
	discarded map[string]map[int]bool // discarded rounds by workload
	found     []*Note                 // in the order in which they were found
	refs      map[*Note]map[*Row]bool
}

// Targets are those of the run and those that only trials know, the baseline first.
func (x *index) Targets() []iotax.TargetInfo { return x.targets }

// Workloads are those of the run and those that only trials know.
func (x *index) Workloads() []iotax.WorkloadInfo { return x.workloads }

// Target is what is known of a target; its name alone where that is all.
func (x *index) Target(name string) iotax.TargetInfo {
	for _, t := range x.targets {
		if t.Name == name {
			return t
		}
	}
	return iotax.TargetInfo{Name: name}
}

// Workload is what is known of a workload; its name alone where that is all.
func (x *index) Workload(name string) iotax.WorkloadInfo {
	for _, w := range x.workloads {
		if w.Name == name {
			return w
		}
	}
	return iotax.WorkloadInfo{Name: name}
}

// TrialsOf are the trials of a cell in the order in which they ran, those that do not count among them.
func (x *index) TrialsOf(c Cell) []*Trial { return x.byCell[c] }

// Counts reports whether a trial's values count: it did not fail, and its round is not discarded.
func (x *index) Counts(t *Trial) bool { return t.Err == "" && !x.discarded[t.Workload][t.Round] }

// Found are all notes about rows in the order in which they were found, those of Notes and of Common.
func (x *index) Found() []*Note { return x.found }

// Concerns reports whether a note, one of Found, is about a row of the report's sections.
func (x *index) Concerns(n *Note, r *Row) bool { return x.refs[n][r] }

// Condemned reports whether a check said that the number of a row of the report's sections must not be quoted.
func (x *index) Condemned(r *Row) bool {
	return slices.ContainsFunc(x.found, func(n *Note) bool {
		return n.Severity == iotax.Invalid && n.Rule != rules.TooManyDiscarded.ID && x.refs[n][r]
	})
}
