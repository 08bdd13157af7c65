// Package bind fills the specs of kinds, which are Go structs with tags, from the nodes of a plan, expands matrix
// axes, and writes specs as nodes.
package bind

import (
	"time"

	"iotax/internal/metric"
)

// A Kind is a kind of machine, volume or workload: the key of its spec in a plan. The packages machine, volume and
// workload list theirs.
type Kind struct {
	Name string
	Doc  string      // one sentence for the schema and for error messages
	New  func() Spec // a fresh spec that holds the defaults; see "Specs" below

	// On lists the kinds of machine that can have a volume of this kind (a guest's disk needs qemu). nil is any.
	On []string

	// Assumed is the duration of a trial of a workload that ends by itself, until one has been measured. It is 0
	// for workloads that fill a window.
	Assumed time.Duration

	// Spread may return a key and several values for it, as if the plan had a list, for example all nodes of a
	// cluster. fields are the fields with a word as their value. Without Spread, or with an empty key, the plan is
	// used as written. Its error may be a *FieldError with a hint.
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

// A Scalar is a spec, or a struct in one, that can also be written as one word (`dir: /var/tmp`). It is detected
// by its type, like encoding.TextUnmarshaler.
type Scalar interface {
	SetScalar(string) error
}

// FieldError is an error in a field of a spec. Field is the yaml key, "rounds.min" in a nested struct. Validate
// may join several with errors.Join.
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

// A Part is one of the workloads of a spec (Traits.Split). Split is called once on a valid spec. Relative paths
// are relative to dir. Its results must not split further, because the resolved plan contains them. A *FieldError
// points to the field.
type Part struct {
	Spec  Spec
	Label Option // distinguishes the part, in its name and its labels; zero for a single part
	Name  string // its name if the user gave none; "" keeps the word
}

// A Spec has the settings of a machine, target or workload: a pointer to a struct with fields (see above).
type Spec interface {
	// Validate finds errors that the types of fields cannot find. A *FieldError points to the field; errors.Join
	// combines several. It may set defaults that depend on other fields.
	Validate() error
	// Traits returns what the spec can do beyond being read and written, with its current values.
	Traits() Traits
}

// Plain is embedded in a spec without traits and without invalid values.
type Plain struct{}

// Validate returns nil.
func (Plain) Validate() error { return nil }

// Traits returns none.
func (Plain) Traits() Traits { return Traits{} }

// Traits are the properties of a spec that plan, run and the commands use. A zero field does not apply.
type Traits struct {
	// Of any spec.

	// Tools are programs that it runs and that may be missing. Those of a machine run on this host, those of a
	// volume on the machine that serves it (Served) or else on this host, and those of a workload on the machine
	// of the target.
	Tools []string
	// HostFiles are the fields with paths of files of this host. Fields with another word instead (the name of a
	// program, "none") are left out.
	HostFiles []*string
	// Directories are the fields of a volume or a workload with directories in which runs create their own, "" if
	// the plan names none. They are on the machine that serves the volume, or else on that of the target. iotax
	// searches them for leftovers of crashed runs.
	Directories []*string
	// Options are the keys that it takes beyond its fields.
	Options *Options

	// Of a machine.

	SetImage  func(image string) // sets the image that it boots
	Encloses  bool               // a container on another machine, around the place of one target
	Nests     bool               // a guest, which may be on another machine than this host
	EachTrial bool               // start it anew for each trial, so that its memory has nothing of earlier ones
	Stays     bool               // it is not on this host, existed before the run, and keeps leftovers of crashed runs

	// Of a volume.

	// Of is the field with the target on which the volume is ("share of host disk"). If it is empty, plan sets the
	// baseline.
	Of     *string
	Served *Served // the machines that serve it
	Gather *Gather // the targets that it is made of
	Device string  // path of its block device

	Choices   []Choice  // what iotax tune tries if the plan lists no values
	Elsewhere []Snippet // the options of the spec in the words of other programs

	// Of a workload.

	Metrics func() []metric.Metric           // lists what a trial of it can measure
	Scale   func(by float64)                 // multiplies its work
	Lasts   float64                          // factor from the plan's trial length to its own; 0 is 1
	Split   func(dir string) ([]Part, error) // makes several workloads of it, as of the sections of a job file; see Part
}

// A Choice is a key of a spec with values that are worth measuring.
type Choice struct {
	Key    string
	Values []string
}

// A Snippet is a part of the configuration of a program, as in a line of libvirt's XML.
type Snippet struct {
	For  string `json:"for"`
	Text string `json:"text"`
}

// Served names the machines that serve a volume, and their keys in the plan.
type Served struct {
	Key, Machine string   // "" is the target's own machine
	PeersKey     string   // of Peers
	Peers        []string // further machines, for example with copies
}

// Gather names the targets of a spec that is made of other targets: the work runs at several of them at the same
// time, with other work next to it if Doing is set.
type Gather struct {
	Together    []string                     // targets that do the measured work
	SetTogether func(targets []string) error // sets the resolved targets; a *FieldError refuses them
	Doing       string                       // workload that runs meanwhile; "" is none
	At          []string                     // targets that run it
	SetAt       func(targets []string)       // may be nil without Doing
}

// Options are the keys that a spec takes beyond its fields: a fio job takes every option of fio.
type Options struct {
	Names func() []string               // of all keys, for suggestions and the schema
	Set   func(key, value string) error // refuses a key or value that it does not know
	// List returns the set options and the defaults, in the order of display. If it is nil, the spec has the
	// options in a map[string]string field tagged `yaml:",inline"`.
	List func() []Option
	// Scaled is List with the sizes that a run uses, after Traits.Scale.
	Scaled func() []Option
}

// An Option is one of Options with its value.
type Option struct {
	Key, Value string
}

func TraitsOf(s Spec) Traits {
	if s == nil {
		return Traits{}
	}
	return s.Traits()
}
