// Package plan builds a Plan from a plan file or from command-line words. The kinds of machines, volumes and workloads
// come from other packages (see Kinds).
//
// Package plan/syntax parses text and units and formats errors. Package plan/bind fills the specs of kinds. Package
// plan/schedule computes the order and duration of trials, and package plan/schema the JSON Schema of plan files.
package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// A Plan describes a measurement. It has all defaults filled in and all matrix axes expanded.
type Plan struct {
	Name      string
	File      string // the plan file; "" for the command line
	Baseline  string // name of the first target
	Machines  []Machine
	Targets   []Target // the baseline first
	Workloads []Workload
	Measure   Measure

	Expectations []Expectation // limits on metrics, which the run checks
	// Settings of the report. They do not affect measurements.
	Layers    [][]string // chains of targets, from the device up
	Layout    string     // name of a predefined table layout
	Reference *Reference // published figures; nil if not set

	measured *syntax.Node // the measure section
}

// A Machine is an entry of `machines:`. The machine "host" is this host, which a plan need not declare.
type Machine struct {
	Name   string
	On     string // name of the machine that contains this one; "" or "host" if no other machine of the plan does
	Kind   string // key of the kind: "qemu"
	Spec   Spec   // result of the kind's New, filled in
	Labels map[string]string
	Pos    Pos

	fresh  Spec // spec with defaults only: YAML omits a field that is empty in both specs
	origin origin
}

// A Target is an entry of `targets:`: a volume on a machine.
type Target struct {
	Name   string
	On     string   // name of the Machine that the volume is on
	In     []string // names of the nested containers on that machine, outermost first; the last one runs the workload
	Kind   string   // key of the volume's kind: "dir"
	Spec   Spec
	Labels map[string]string // labels in the plan, and axis values of this target
	Pos    Pos

	// Against names the targets that this one is compared with instead of the baseline. For each workload, the first
	// one at which the workload runs decides the verdict. nil means the baseline.
	Against []string

	fresh  Spec
	origin origin
}

// Device returns the target's block device as [MACHINE:]PATH, the form that run --destroy takes, or "" if it has none.
func (t Target) Device() string {
	device := t.Traits().Device
	if device == "" || t.On == Host {
		return device
	}
	return t.On + ":" + device
}

// A Workload is an entry of `workloads:`.
type Workload struct {
	Name    string
	Kind    string
	Spec    Spec
	Labels  map[string]string
	At      []string // names of the targets on which it runs; nil means all, or none with Aside
	Metrics []string // headline metrics, each of which must become precise; nil means the kind's default
	Aside   bool     // runs only as noise for other workloads (see Gather)
	Section string   // heading in the report
	Pos     Pos

	// Assumed is the assumed duration of a trial if the workload ends by itself, or 0. It comes from the Kind.
	Assumed time.Duration

	fresh  Spec
	origin origin
}

// Measure configures the measurement. See docs/dev/method.md.
type Measure struct {
	Precision Percent  `yaml:"precision" doc:"stop when the interval of the ratio is this narrow (half width)"`
	Margin    Percent  `yaml:"margin" doc:"differences inside this margin count as equivalent"`
	Trial     Duration `yaml:"trial" doc:"length of the measured window of one trial"`
	Ramp      Duration `yaml:"ramp" doc:"time before the window that is not measured"`
	Settle    Duration `yaml:"settle" doc:"pause before each trial"`
	Overrun   Duration `yaml:"overrun" doc:"a trial that takes this much longer than its ramp and window counts as hung and fails"`
	Rounds    Rounds   `yaml:"rounds" doc:"minimum and maximum number of rounds"`
	Restarts  int      `yaml:"restarts" doc:"divide the most rounds between this many starts, each of which opens machines, volumes and test files anew; as many as rounds: each round has a start of its own, and the run still ends at the precision; 1: one start; 0: one start, or a start for each round of a long run"`
	Budget    Duration `yaml:"budget" doc:"time limit of the whole run: after the first round of a workload, a round starts only if it will end within the limit; 0 means no limit and is the default of a fixed protocol"`
	Protocol  string   `yaml:"protocol" doc:"\"adaptive\", or fixed:NxLENGTH as in fixed:5x60s"`
	Precisely bool     `yaml:"to_precision" doc:"measure until the precision is reached, even if all expectations are decided"`
	Drop      string   `yaml:"drop" enum:",worst" doc:"worst stops measuring a target once it is surely not the best one: another target is better in all metrics that decide"`
	KeepGoing bool     `yaml:"keep_going" doc:"measure the other targets when one cannot be opened"`
	Explain   bool     `yaml:"explain" doc:"run an explained trial next to each trial of a workload with latencies; the report then shows in which stage, from the application to the device, an I/O spends its time"`
	Profile   bool     `yaml:"profile" doc:"run a profiled trial next to each trial; the report then shows which functions of the processes on this host use the CPU time"`
	Cold      bool     `yaml:"cold" doc:"drop the caches of guest and host before each trial"`
	Seed      uint64   `yaml:"seed" doc:"seed for the order of trials and the I/O offsets; 0 picks one at random"`
	Prepare   string   `yaml:"prepare" doc:"shell command to run before each trial, in an empty directory; not measured"`
	PrepareOn string   `yaml:"prepare_on" enum:",both,host,target" doc:"where to run prepare: on this host, on the target's machine, or on both (the default)"`
	Governor  string   `yaml:"governor" enum:",performance" doc:"CPU frequency governor of this host during the run, restored afterwards; needs root"`
}

// Rounds limits the number of rounds of a cell.
type Rounds struct {
	Min int `yaml:"min" doc:"minimum number of rounds of a cell; an interval needs 6"`
	Max int `yaml:"max" doc:"maximum number of rounds of a cell"`
}

// Defaults returns the defaults of the measure section.
func Defaults() Measure {
	return Measure{
		Precision: 0.05, Margin: 0.05,
		Trial: Duration(10 * time.Second), Ramp: Duration(2 * time.Second),
		Overrun: Duration(90 * time.Second), // time to start a program and to flush a slow target
		Rounds:  Rounds{Min: 6, Max: 30}, Budget: Duration(20 * time.Minute),
		Protocol: "adaptive", Cold: true,
	}
}

// Kinds lists the kinds that a plan may use.
type Kinds struct {
	Machines, Volumes, Workloads []Kind

	// Layouts and Published list the allowed report layouts and published data sets. An empty list allows any name.
	Layouts, Published []string
}

// CheckTimes returns a *FieldError if x is not a valid Traits.Lasts: a factor from 0 to 100.
func CheckTimes(x float64) error {
	if x < 0 || x > 100 || math.IsNaN(x) {
		return &FieldError{Field: "times", Msg: fmt.Sprintf("%g is out of range", x), Hint: "write a factor up to 100, as in 2"}
	}
	return nil
}

// Length returns the length of the measured window of a trial of w.
func (m Measure) Length(w Workload) time.Duration {
	if times := w.Traits().Lasts; times > 0 {
		return time.Duration(times * float64(m.Trial))
	}
	return time.Duration(m.Trial)
}

// Machine returns the machine with this name.
func (p *Plan) Machine(name string) (m Machine, ok bool) {
	i := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return m, false
	}
	return p.Machines[i], true
}

// Target returns the target with this name.
func (p *Plan) Target(name string) (t Target, ok bool) {
	i := slices.IndexFunc(p.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return p.Targets[i], true
}

// EachTrial reports whether the machine with this name is restarted for each trial.
func (p *Plan) EachTrial(machine string) bool {
	m, _ := p.Machine(machine)
	return m.Traits().EachTrial
}

// Directories returns the Traits.Directories of all targets and workloads, by machine name. It lists the directories of
// workloads for every machine.
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

// servedBy returns the name of the machine that serves the target's volume: the target's own unless the plan names
// another.
func (t Target) servedBy() string {
	if s := t.Traits().Served; s != nil && s.Machine != "" {
		return s.Machine
	}
	return t.On
}

// Traits returns the traits of the spec, or zero Traits without a spec.
func (m Machine) Traits() Traits { return bind.TraitsOf(m.Spec) }

// Traits returns the traits of the spec, or zero Traits without a spec.
func (t Target) Traits() Traits { return bind.TraitsOf(t.Spec) }

// Traits returns the traits of the spec, or zero Traits without a spec.
func (w Workload) Traits() Traits { return bind.TraitsOf(w.Spec) }
