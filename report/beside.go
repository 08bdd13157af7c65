package report

import (
	"iotax"
	"iotax/stat"
)

// A Beside holds a run against published figures. Machines differ, so that ratios stand beside ratios;
// values are given for the record.
type Beside struct {
	Name      string // of the data set: "lima-mounts"
	Source    string // where the figures are from
	Reference string // this run's target that the ratios on both sides are to
	Theirs    string // what the publication calls it
	Rows      []BesideRow
	Unmatched []string // cells of this run that the publication has nothing for
	Unused    []string // published cells that this run has nothing for
	Notes     []string // what cannot be said, and why
}

// A BesideRow is one cell with its published counterpart.
type BesideRow struct {
	Workload, Target, Metric string // of this run
	Label, Unit              string
	Better                   iotax.Better
	TheirWorkload            string
	TheirTarget              string
	Value, TheirValue        stat.Interval  // medians; theirs has bounds from six repetitions on
	Ratio, TheirRatio        *stat.Interval // to the reference, higher is better; nil for the reference itself
	Agree                    Agreement
}

// An Agreement says how a ratio and a published one lie to each other.
type Agreement string

const (
	Overlap   Agreement = "agrees"     // the published ratio, or its interval, meets this run's interval
	Above     Agreement = "loses less" // this run's ratio is surely the better one
	Below     Agreement = "loses more" // this run's ratio is surely the worse one
	Undecided Agreement = ""           // one of the two has no ratio, or no interval
)
