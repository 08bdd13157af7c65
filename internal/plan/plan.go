// Package plan turns a plan file, or the words of a command line, into a Plan: which targets are
// compared, under which workloads, and how it is measured. It knows the grammar; what a machine, a
// volume or a workload needs is told by the Kinds that those packages list.
package plan

import (
	"fmt"
	"math"
	"time"
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

	// What the plan asks of the report. Nothing that is measured depends on it.
	Layers [][]string // chains of targets, from the device up
	Layout string     // a classic table
	Beside *Beside    // published figures; nil when none are named

	measured *node // what was written below measure:
}

// A Machine is one entry of `machines:`. The machine "host" is this host and need not be declared.
type Machine struct {
	Name   string
	Kind   string // key of the kind: "qemu"
	Spec   any    // what that kind's New returned, filled
	Labels map[string]string
	Pos    Pos

	fresh  any // spec as New made it: what is empty in both is not written by YAML
	origin origin
}

// A Target is one entry of `targets:`: a volume on a machine.
type Target struct {
	Name   string
	On     string // name of a Machine
	Kind   string // key of the volume's kind: "dir"
	Spec   any
	Labels map[string]string // axis values this target stands for
	Pos    Pos

	// Against names the targets that this one is compared with in place of the baseline, the first of
	// them decisive; nil is the baseline.
	Against []string

	fresh  any
	origin origin
}

// Device is what run --destroy calls the target's block device, [MACHINE:]PATH as the plan writes both, or "" where it
// has none.
func (t Target) Device() string {
	d, ok := t.Spec.(interface{ Device() string })
	switch {
	case !ok || d.Device() == "":
		return ""
	case t.On == Host:
		return d.Device()
	}
	return t.On + ":" + d.Device()
}

// A Workload is one entry of `workloads:`.
type Workload struct {
	Name    string
	Kind    string
	Spec    any
	Labels  map[string]string
	At      []string // targets that it is done at; nil is all
	Aside   bool     // it is only what others do beside the measured work (see Gatherer)
	Section string   // heading of the report under which it stands
	Pos     Pos

	// Assumed is Kind.Assumed of its kind.
	Assumed time.Duration

	fresh  any
	origin origin
}

// Measure says how the plan is measured. See docs/method.md.
type Measure struct {
	Precision Percent  `yaml:"precision" doc:"stop when the interval of the ratio is this narrow (half width)"`
	Margin    Percent  `yaml:"margin" doc:"differences inside this margin count as equivalent"`
	Trial     Duration `yaml:"trial" doc:"length of the measured window of one trial"`
	Ramp      Duration `yaml:"ramp" doc:"time before the window that is not measured"`
	Settle    Duration `yaml:"settle" doc:"pause before each trial"`
	Overrun   Duration `yaml:"overrun" doc:"a trial that takes so much longer than ramp and window counts as hung, and fails"`
	Blocks    Blocks   `yaml:"blocks" doc:"least and most blocks"`
	Budget    Duration `yaml:"budget" doc:"time of the whole run: no block but the first of each workload starts that would end after it; 0 is no limit, and the default of a fixed protocol"`
	Protocol  string   `yaml:"protocol" doc:"\"adaptive\", or fixed:NxLENGTH as in fixed:5x60s"`
	KeepGoing bool     `yaml:"keep_going" doc:"measure what can be measured when a target cannot be opened"`
	Cold      bool     `yaml:"cold" doc:"drop the caches of guest and host before each trial"`
	Seed      uint64   `yaml:"seed" doc:"orders and offsets derive from it; 0 draws one"`
	Prepare   string   `yaml:"prepare" doc:"shell command that is run before each trial, in an empty directory and outside of what is measured"`
	PrepareOn string   `yaml:"prepare_on" enum:",both,host,target" doc:"where prepare is run: on this host and on the target's machine (both, the default), or on one of them"`
	Governor  string   `yaml:"governor" enum:",performance" doc:"set the CPU frequency governor of this host for the run, and restore it; needs root"`
}

// Blocks bounds the number of blocks of a cell.
type Blocks struct {
	Min int `yaml:"min" doc:"least blocks of a cell; an interval needs 6"`
	Max int `yaml:"max" doc:"most blocks of a cell"`
}

// Defaults returns the measure of a plan that says nothing.
func Defaults() Measure {
	return Measure{
		Precision: 0.05, Margin: 0.05,
		Trial: Duration(10 * time.Second), Ramp: Duration(2 * time.Second),
		Overrun: Duration(90 * time.Second), // program start, and a final flush on a slow target
		Blocks:  Blocks{Min: 6, Max: 30}, Budget: Duration(20 * time.Minute),
		Protocol: "adaptive", Cold: true,
	}
}

// Pos is a place in a plan file; the zero Pos is a command line.
type Pos struct {
	File         string
	Line, Column int // from 1
}

// A Kind is one way to write a machine, a volume or a workload: the key under which its spec
// stands. The packages machine, volume and workload list theirs.
type Kind struct {
	Name string
	Doc  string     // one sentence for the schema and for error messages
	New  func() any // pointer to a fresh spec struct that holds the defaults; see "Specs" below

	// On lists the kinds of machine that can have a volume of this kind (a guest's disk needs
	// qemu). Nil is any.
	On []string

	// Assumed is how long a trial of a workload of this kind is assumed to take until one has been
	// measured, where that is a piece of work that ends by itself. 0 is one that fills a window.
	Assumed time.Duration

	// Spread may name a field for which several values are meant, as if they had been written as a list: all
	// nodes of a cluster. It is given the fields that are written as words. A nil Spread, or an empty key,
	// means what is written. A *FieldError tells a hint, too.
	Spread func(fields map[string]string) (key string, values []string, err error)
}

// Specs are structs. A field that can be written in a plan has the tags
//
//	yaml:"iodepth"          its key
//	doc:"requests in flight" one phrase for the schema and for docs
//	enum:"none,writeback"    the words it takes, if they are few (strings only)
//
// and is a string, bool, integer, float, Size, Duration, Percent or another type that reads and
// writes text (encoding.TextUnmarshaler and TextMarshaler), a pointer to one of these (nil when not
// written), a slice of them, a map[string]string, or a struct of such fields. Embedded structs are
// flattened. A list where the field is no slice is a matrix axis; plan expands it and the spec
// never sees it.

// A Scalar is a spec that can also be written as one word (`dir: /var/tmp`).
type Scalar interface {
	SetScalar(string) error
}

// Kinds are the kinds a plan may use.
type Kinds struct {
	Machines, Volumes, Workloads []Kind

	// The layouts of a report and the published data sets that a plan may name; empty takes any name.
	Layouts, Published []string
}

// A Validator is a spec that can say more than its types do. A *FieldError points at the field.
type Validator interface {
	Validate() error
}

// A Laster is the spec of a workload whose trials may be longer or shorter than the plan's, by a factor; 0 is 1.
type Laster interface {
	Lasts() float64
}

// CheckTimes says what is wrong with such a factor, as a *FieldError.
func CheckTimes(x float64) error {
	if x < 0 || x > 100 || math.IsNaN(x) {
		return &FieldError{Field: "times", Msg: fmt.Sprintf("%g is out of range", x), Hint: "write a factor up to 100, as in 2"}
	}
	return nil
}

// Length is how long the window of a trial of w is.
func (m Measure) Length(w Workload) time.Duration {
	if l, ok := w.Spec.(Laster); ok && l.Lasts() > 0 {
		return time.Duration(l.Lasts() * float64(m.Trial))
	}
	return time.Duration(m.Trial)
}

// A Renewer is the spec of a machine that may be wanted anew for each trial: nothing that an earlier one left
// in its memory is there then.
type Renewer interface {
	EachTrial() bool
}

// EachTrial reports whether the plan wants the machine of that name anew for each trial.
func (p *Plan) EachTrial(machine string) bool {
	for _, m := range p.Machines {
		if r, ok := m.Spec.(Renewer); ok && m.Name == machine {
			return r.EachTrial()
		}
	}
	return false
}

// A Scaler is the spec of a workload whose amount of work can be made a share of itself.
type Scaler interface {
	Scale(by float64)
}

// An Imaged is the spec of a machine that boots an image, which can be named on the command line.
type Imaged interface {
	SetImage(image string)
}

// A Referrer is a volume spec that stands on another target ("share of host disk"). An empty
// reference means the baseline; plan fills it in through SetOf.
type Referrer interface {
	Of() string
	SetOf(target string)
}

// An Encloser is a Referrer whose target has no place of its own: its work is done at the place of the one that it refers to,
// in a container on that one's machine.
type Encloser interface {
	Referrer
	Encloses()
}

// A Stander is a Referrer that, as it is written, may stand on no target at all (a tmpfs among the mounts).
type Stander interface {
	Stands() bool
}

// A Lodger is the spec of a volume or a workload for which runs make directories of their own in those that the plan names.
// Directories are the fields that name them, "" where the plan does not, on the machine that serves the volume or else on
// that of the target. What died runs left is looked for there.
type Lodger interface {
	Directories() []*string
}

// Directories are those fields of all targets and workloads, by the name of the machine. Those of a workload are told of
// every machine.
func (p *Plan) Directories() map[string][]*string {
	all := map[string][]*string{}
	add := func(machine string, spec any) {
		for _, d := range directories(spec) {
			if *d != "" {
				all[machine] = append(all[machine], d)
			}
		}
	}
	for _, t := range p.Targets {
		add(t.servedBy(), t.Spec)
	}
	for _, w := range p.Workloads {
		add(Host, w.Spec)
		for _, m := range p.Machines {
			if m.Name != Host {
				add(m.Name, w.Spec)
			}
		}
	}
	return all
}

func directories(spec any) []*string {
	if l, ok := spec.(Lodger); ok {
		return l.Directories()
	}
	return nil
}

// servedBy is the machine that serves the target's volume: its own, unless the plan names another.
func (t Target) servedBy() string {
	if s, ok := t.Spec.(Served); ok {
		if _, by := s.ServedBy(); by != "" {
			return by
		}
	}
	return t.On
}

// A Stayer is the spec of a machine that was there before a run and stays after it, away from this host: what a died run has
// left on it goes with nothing. Stays reports whether this one does.
type Stayer interface {
	Stays() bool
}

// Stays reports whether m is such a machine.
func (m Machine) Stays() bool {
	s, ok := m.Spec.(Stayer)
	return ok && s.Stays()
}

// An Optioner is a spec that takes keys beyond its fields (a fio job takes every fio option).
// SetOption answers an error for a key or value it does not know; OptionNames lists the keys, for
// suggestions.
//
// What was set must come back: either the spec is an OptionLister too, or it keeps the options in a
// map[string]string field tagged `yaml:",inline"`.
type Optioner interface {
	SetOption(key, value string) error
	OptionNames() []string
}

// An OptionLister tells what was set through SetOption, and the defaults of that sort, in the order
// in which they should be shown.
type OptionLister interface {
	Options() []Option
}

// An Option is one key of an Optioner with its value.
type Option struct {
	Key, Value string
}

// FieldError says which field of a spec is wrong. Field is the yaml key; a field of a nested struct
// is "blocks.min". Validate may join several with errors.Join.
type FieldError struct {
	Field string
	Msg   string
	Hint  string

	// Column is the character of the field's value, from 1, that the message is about; 0 is all of it.
	Column int
}

func (e *FieldError) Error() string {
	s := e.Field + ": " + e.Msg
	if e.Hint != "" {
		s += "\n  hint: " + e.Hint
	}
	return s
}
