// Package plan turns a plan file, or the words of a command line, into a Plan: which targets are
// compared, under which workloads, and how it is measured. It contains the grammar. What a machine, a
// volume or a workload needs comes from the Kinds that those packages list.
//
// Its layers, each importing those before it alone: plan/syntax is the text, with positions, carets and units; plan/bind fills the
// specs of kinds from it; plan is what both mean together; plan/schedule and plan/schema are what follows from a plan and the kinds.
package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// A Plan is what will be measured, with every default filled in and every matrix axis expanded.
type Plan struct {
	Name      string
	File      string // where it was read from; "" for the command line
	Baseline  string // name of the first target
	Machines  []Machine
	Targets   []Target // the baseline first
	Workloads []Workload
	Measure   Measure

	Expectations []Expectation // that the run decides
	// What the plan asks of the report. Nothing that is measured depends on it.
	Layers    [][]string // chains of targets, from the device up
	Layout    string     // a classic table
	Reference *Reference // published figures; nil when none are named

	measured *syntax.Node // what was written below measure:
}

// A Machine is one entry of `machines:`. The machine "host" is this host and need not be declared.
type Machine struct {
	Name   string
	On     string // name of the machine that it is on, "" for one that is on none or, if it could be on another, on this host
	Kind   string // key of the kind: "qemu"
	Spec   Spec   // what that kind's New returned, filled
	Labels map[string]string
	Pos    Pos

	fresh  Spec // spec as New made it: what is empty in both is not written by YAML
	origin origin
}

// A Target is one entry of `targets:`: a volume on a machine.
type Target struct {
	Name   string
	On     string   // name of a Machine that has the volume
	In     []string // names of the machines on it in which the work is done, the outermost first
	Kind   string   // key of the volume's kind: "dir"
	Spec   Spec
	Labels map[string]string // axis values this target stands for
	Pos    Pos

	// Against names the targets that this one is compared with in place of the baseline, the first of
	// them decisive; nil is the baseline.
	Against []string

	fresh  Spec
	origin origin
}

// Device is what run --destroy calls the target's block device, [MACHINE:]PATH as the plan writes both, or "" where it
// has none.
func (t Target) Device() string {
	device := t.Traits().Device
	if device == "" || t.On == Host {
		return device
	}
	return t.On + ":" + device
}

// A Workload is one entry of `workloads:`.
type Workload struct {
	Name    string
	Kind    string
	Spec    Spec
	Labels  map[string]string
	At      []string // targets that it is done at; nil is all
	Metrics []string // chosen headline values; the run continues until each is precise; nil is the kind's own
	Aside   bool     // it is only what others do beside the measured work (see Gather)
	Section string   // heading of the report under which it stands
	Pos     Pos

	// Assumed is Kind.Assumed of its kind.
	Assumed time.Duration

	fresh  Spec
	origin origin
}

// Measure says how the plan is measured. See docs/dev/method.md.
type Measure struct {
	Precision Percent  `yaml:"precision" doc:"stop when the interval of the ratio is this narrow (half width)"`
	Margin    Percent  `yaml:"margin" doc:"differences inside this margin count as equivalent"`
	Trial     Duration `yaml:"trial" doc:"length of the measured window of one trial"`
	Ramp      Duration `yaml:"ramp" doc:"time before the window that is not measured"`
	Settle    Duration `yaml:"settle" doc:"pause before each trial"`
	Overrun   Duration `yaml:"overrun" doc:"a trial that takes this much longer than its ramp and window counts as hung and fails"`
	Rounds    Rounds   `yaml:"rounds" doc:"minimum and maximum number of rounds"`
	Budget    Duration `yaml:"budget" doc:"time limit of the whole run: after the first round of a workload, a round starts only if it will end within the limit; 0 means no limit and is the default of a fixed protocol"`
	Protocol  string   `yaml:"protocol" doc:"\"adaptive\", or fixed:NxLENGTH as in fixed:5x60s"`
	Precisely bool     `yaml:"to_precision" doc:"measure until the precision is reached, even if all expectations are decided"`
	KeepGoing bool     `yaml:"keep_going" doc:"measure the other targets when one cannot be opened"`
	Cold      bool     `yaml:"cold" doc:"drop the caches of guest and host before each trial"`
	Seed      uint64   `yaml:"seed" doc:"seed for the order of trials and the I/O offsets; 0 picks one at random"`
	Prepare   string   `yaml:"prepare" doc:"shell command to run before each trial, in an empty directory; not measured"`
	PrepareOn string   `yaml:"prepare_on" enum:",both,host,target" doc:"where to run prepare: on this host, on the target's machine, or on both (the default)"`
	Governor  string   `yaml:"governor" enum:",performance" doc:"CPU frequency governor of this host during the run, restored afterwards; needs root"`
}

// Rounds bounds the number of rounds of a cell.
type Rounds struct {
	Min int `yaml:"min" doc:"minimum number of rounds of a cell; an interval needs 6"`
	Max int `yaml:"max" doc:"maximum number of rounds of a cell"`
}

// Defaults returns the measure of a plan that says nothing.
func Defaults() Measure {
	return Measure{
		Precision: 0.05, Margin: 0.05,
		Trial: Duration(10 * time.Second), Ramp: Duration(2 * time.Second),
		Overrun: Duration(90 * time.Second), // program start, and a final flush on a slow target
		Rounds:  Rounds{Min: 6, Max: 30}, Budget: Duration(20 * time.Minute),
		Protocol: "adaptive", Cold: true,
	}
}

// Kinds are the kinds a plan may use.
type Kinds struct {
	Machines, Volumes, Workloads []Kind

	// The layouts of a report and the published data sets that a plan may name; empty takes any name.
	Layouts, Published []string
}

// CheckTimes returns what is wrong with Traits.Lasts, as a *FieldError.
func CheckTimes(x float64) error {
	if x < 0 || x > 100 || math.IsNaN(x) {
		return &FieldError{Field: "times", Msg: fmt.Sprintf("%g is out of range", x), Hint: "write a factor up to 100, as in 2"}
	}
	return nil
}

// Length is how long the window of a trial of w is.
func (m Measure) Length(w Workload) time.Duration {
	if times := w.Traits().Lasts; times > 0 {
		return time.Duration(times * float64(m.Trial))
	}
	return time.Duration(m.Trial)
}

// Machine returns the machine of that name.
func (p *Plan) Machine(name string) (m Machine, ok bool) {
	i := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return m, false
	}
	return p.Machines[i], true
}

// Target returns the target of that name.
func (p *Plan) Target(name string) (t Target, ok bool) {
	i := slices.IndexFunc(p.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return p.Targets[i], true
}

// EachTrial reports whether the plan wants the machine of that name anew for each trial.
func (p *Plan) EachTrial(machine string) bool {
	m, _ := p.Machine(machine)
	return m.Traits().EachTrial
}

// Directories are Traits.Directories of all targets and workloads, by the name of the machine. Those of a workload are told of
// every machine.
func (p *Plan) Directories() map[string][]*string {
	all := map[string][]*string{}
	add := func(machine string, t Traits) {
		for _, d := range t.Directories {
			if *d != "" {
				all[machine] = append(all[machine], d)
			}
		}
	}
	for _, t := range p.Targets {
		add(t.servedBy(), t.Traits())
	}
	for _, w := range p.Workloads {
		add(Host, w.Traits())
		for _, m := range p.Machines {
			if m.Name != Host {
				add(m.Name, w.Traits())
			}
		}
	}
	return all
}

// servedBy is the machine that serves the target's volume: its own, unless the plan names another.
func (t Target) servedBy() string {
	if s := t.Traits().Served; s != nil && s.Machine != "" {
		return s.Machine
	}
	return t.On
}

// Traits returns those of the spec, none without one.
func (m Machine) Traits() Traits { return bind.TraitsOf(m.Spec) }

// Traits returns those of the spec, none without one.
func (t Target) Traits() Traits { return bind.TraitsOf(t.Spec) }

// Traits returns those of the spec, none without one.
func (w Workload) Traits() Traits { return bind.TraitsOf(w.Spec) }
