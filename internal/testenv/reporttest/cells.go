package reporttest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// A CellSpec describes the trials of a cell. Each trial has the values in Values, with noise that all cells of a round
// share, and with its own noise.
type CellSpec struct {
	Target, Workload string
	Values           map[string]float64 // by name, which also determines the unit
	Facts            map[string]string
	Findings         []iotax.Finding
	Noise            float64 // approximate size of a trial's own noise in the logarithm of a value; 0 means 0.01
}

// wobble returns deterministic noise between -1 and 1.
func wobble(i, j int) float64 { return math.Sin(float64(7*i+3*j) + math.Sqrt2*float64(i*j%5)) }

// RunOf makes a run of n rounds from cells. The first target is the baseline. The default metric of a workload is the
// value with the shortest name.
func RunOf(n int, metrics map[string][]string, cells ...CellSpec) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Name: "made", Baseline: cells[0].Target, Precision: .05, Margin: .05, Alpha: stat.AlphaFixed}
	var trials []*iotax.Trial
	for j, c := range cells {
		if !slices.ContainsFunc(run.Targets, func(t iotax.TargetInfo) bool { return t.Name == c.Target }) {
			run.Targets = append(run.Targets, iotax.TargetInfo{Name: c.Target, Machine: "host", Durability: iotax.Durable})
		}
		if !slices.ContainsFunc(run.Workloads, func(w iotax.WorkloadInfo) bool { return w.Name == c.Workload }) {
			w := iotax.WorkloadInfo{Name: c.Workload, Kind: "fio", Metrics: metrics[c.Workload]}
			if w.Metrics == nil {
				w.Metrics = slices.SortedFunc(maps.Keys(c.Values), shorter)
				w.Metrics = w.Metrics[:min(1, len(w.Metrics))]
			}
			run.Workloads = append(run.Workloads, w)
		}
		for i := range n {
			t := &iotax.Trial{Run: "r", Target: c.Target, Workload: c.Workload, Round: i, Seq: i*len(cells) + j, Facts: c.Facts, Findings: c.Findings}
			noise := c.Noise
			if noise == 0 {
				noise = .01
			}
			for name, v := range c.Values {
				unit, better := unitOf(name)
				t.Values = append(t.Values, iotax.Value{Name: name, Value: v * math.Exp(.03*wobble(i, 0)+noise*wobble(i, j+1)), Unit: unit, Better: better})
			}
			slices.SortFunc(t.Values, func(a, b iotax.Value) int { return shorter(a.Name, b.Name) })
			trials = append(trials, t)
		}
	}
	return run, trials
}

// shorter compares names by length, so that read.iops precedes the latencies.
func shorter(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }

func unitOf(name string) (string, iotax.Better) {
	switch {
	case name == "bandwidth" || name[max(0, len(name)-10):] == ".bandwidth":
		return iotax.BytesPerSecond, iotax.Up
	case name[max(0, len(name)-5):] == ".iops":
		return iotax.PerSecond, iotax.Up
	case name == "retransmits":
		return iotax.Count, iotax.Neither
	}
	return iotax.Seconds, iotax.Down
}

// Against sets the targets with which a target of the run is compared.
func Against(run *iotax.Run, target string, names ...string) {
	for i := range run.Targets {
		if run.Targets[i].Name == target {
			run.Targets[i].Against = names
		}
	}
}

// Warn returns a finding of the rule r with severity Warning and an empty subject.
func Warn(r rules.Rule) iotax.Finding {
	return r.As(iotax.Warning).Found(iotax.Subject{}, "seen")
}

// Reads returns a cell of small reads. If `more` is not nil, it modifies the cell.
func Reads(target string, iops float64, more func(*CellSpec)) CellSpec {
	c := CellSpec{Target: target, Workload: "4k read", Values: map[string]float64{"read.iops": iops, "read.bandwidth": iops * 4096}}
	if more != nil {
		more(&c)
	}
	return c
}

// ReadMetrics are the headline metrics of Reads and of network workloads.
var ReadMetrics = map[string][]string{"4k read": {"read.iops"}, "network": {"bandwidth"}}

// Small makes a run of one workload and two targets from their values by round.
func Small(better iotax.Better, base, target []float64) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Baseline: "a", Margin: .05, Precision: .05,
		Targets:   []iotax.TargetInfo{{Name: "a", Durability: iotax.Durable}, {Name: "b", Durability: iotax.Durable}},
		Workloads: []iotax.WorkloadInfo{{Name: "w", Metrics: []string{"m"}}}}
	var trials []*iotax.Trial
	for name, xs := range map[string][]float64{"a": base, "b": target} {
		for i, x := range xs {
			trials = append(trials, &iotax.Trial{Target: name, Workload: "w", Round: i, Seq: 2 * i, Values: []iotax.Value{{Name: "m", Value: x, Unit: iotax.PerSecond, Better: better}}})
		}
	}
	slices.SortFunc(trials, func(x, y *iotax.Trial) int { return strings.Compare(x.Target, y.Target)*1000 + x.Round - y.Round })
	return run, trials
}

var (
	Flat100 = []float64{100, 101, 99, 100, 102, 98}
	Flat50  = []float64{50, 50.4, 49.6, 50.1, 50.9, 49.1}
)

// Condemn replaces the findings of each trial with f.
func Condemn(f iotax.Finding, trials []*iotax.Trial) {
	for _, t := range trials {
		t.Findings = []iotax.Finding{f}
	}
}
