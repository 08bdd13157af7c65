// Package bind fills the specs of kinds from the nodes of a plan, expands matrix axes, and writes specs as
// nodes. Specs are Go structs with tags.
package bind

import (
	"time"

	"iotax/internal/metric"
)

// A Kind is a kind of machine, volume or workload. Its name is the key of its spec in a plan. The packages
// machine, volume and workload list their kinds.
type Kind struct {
	Name string
	Doc  string      // one sentence for the schema and error messages
	New  func() Spec // returns a new spec with the defaults; see "Specs" below

	// On lists the kinds of machine that support this kind of volume (a guest's disk needs qemu). nil means any.
	On []string

	// Assumed is the assumed duration of a trial of a workload that ends by itself, until a trial has been
	// measured. It is 0 for workloads that run for a fixed time.
	Assumed time.Duration

	// Spread may return a key and several values, for example all nodes of a cluster. The binder then binds the spec as
	// if the plan gave the key this list of values. `fields` contains the keys of the spec whose value is a single
	// word. Spread may be nil, or return an empty key to change nothing. The error may be a *FieldError with a hint.
	Spread func(fields map[string]string) (key string, values []string, err error)
}

// Specs are structs. A field that a plan can set has the tags
//
//	yaml:"iodepth"          its key
//	doc:"requests in flight" one phrase for the schema and for docs
//	enum:"none,writeback"    the allowed words, if there are few (strings only)
//
// and one of these types: string, bool, integer, float, Size, Duration, Percent, another type that implements
// encoding.TextUnmarshaler and TextMarshaler, a pointer to one of these (nil if not set), a slice of them, a
// map[string]string, or a struct of such fields. Embedded structs are flattened. A list for a field that is not a slice
// is a matrix axis: each spec gets one of its values.

// A Scalar is a spec, or a struct in a spec, that can also be written as one word (`dir: /var/tmp`).
type Scalar interface {
	SetScalar(string) error
}

// FieldError is an error in a field of a spec. Field is the YAML key, such as "rounds.min" in a nested
// struct. Validate may join several with errors.Join.
type FieldError struct {
	Field string
	Msg   string
	Hint  string

	// Column is the position of the error in the field's value, in characters from 1. 0 means the whole value.
	Column int
}

func (e *FieldError) Error() string {
	s := e.Field + ": " + e.Msg
	if e.Hint != "" {
		s += "\n  hint: " + e.Hint
	}
	return s
}

// A Part is one of the workloads that Traits.Split returns for a valid spec. The argument dir of Split is the directory
// that relative paths in the spec refer to. A part must not split again, because the resolved plan contains the parts.
// If Split returns a *FieldError, the error points to that field of the plan.
type Part struct {
	Spec  Spec
	Label Option // distinguishes the part in its name and labels; zero for a single part
	Name  string // name of the part if the command line gives the workload; "" keeps the name of the workload
}

// A Spec contains the settings of a machine, volume or workload. It is a pointer to a struct (see above).
type Spec interface {
	// Validate reports errors that the types of fields cannot express. A *FieldError points to the field, and
	// errors.Join combines several. Validate may set defaults that depend on other fields.
	Validate() error
	// Traits returns the optional properties of the spec, for its current values.
	Traits() Traits
}

// Plain is embedded in a spec without traits and without invalid values.
type Plain struct{}

func (Plain) Validate() error { return nil }

func (Plain) Traits() Traits { return Traits{} }

// Traits describes optional properties of a spec. A zero field does not apply.
type Traits struct {
	// For any spec:

	// Tools lists programs that the spec needs and that may not be installed. The programs of a machine run on
	// this host. Those of a volume run on the machine that serves it (Served), or else on this host. Those of a
	// workload run on the machine of the target.
	Tools []string
	// HostFiles points to the fields that contain paths of files on this host. It omits fields whose value is not
	// a path (the name of a program, "none").
	HostFiles []*string
	// Directories points to the fields of a volume or workload that name the directory in which runs create their own
	// directories. A field is "" if the plan names no directory. The directories are on the machine that serves the
	// volume, or else on the target's machine. iotax searches them for leftovers of crashed runs.
	Directories []*string
	// Options describes the keys that the spec accepts in addition to its fields.
	Options *Options

	// For a machine:

	SetImage  func(image string) // sets the image to boot
	Encloses  bool               // a container that runs on another machine and contains one target
	Nests     bool               // a guest that can run on a machine other than this host
	EachTrial bool               // restart it for each trial, so that its memory contains nothing from earlier trials
	Stays     bool               // not on this host, exists before the run, and keeps leftovers of crashed runs

	// For a volume:

	// Of points to the field for the name of the underlying target, as in "of: disk". If the field is empty, package
	// plan sets it to the baseline.
	Of     *string
	Served *Served // the machines that serve it
	Gather *Gather // the targets that it consists of
	Device string  // path of its block device

	Choices   []Choice  // values that iotax tune tries if the plan lists none
	Elsewhere []Snippet // the spec's options in the syntax of other programs

	// For a workload:

	Metrics func() []metric.Metric           // returns the metrics that a trial can measure
	Scale   func(by float64)                 // multiplies the amount of work
	Lasts   float64                          // its window in multiples of the plan's trial length; 0 means 1
	Cold    bool                             // a trial with a warm cache fails
	Split   func(dir string) ([]Part, error) // splits it into several workloads, such as the sections of a job file; see Part
}

// A Choice is a key of a spec with values that are worth measuring.
type Choice struct {
	Key    string
	Values []string
}

// A Snippet is a part of another program's configuration, such as a line of libvirt's XML.
type Snippet struct {
	For  string `json:"for"`
	Text string `json:"text"`
}

// Served names the machines that serve a volume, and their keys in the plan.
type Served struct {
	Key, Machine string   // "" means the target's own machine
	PeersKey     string   // key under which the plan lists Peers
	Peers        []string // other machines, for example those with replicas
}

// Gather names the targets that a volume consists of. The workload runs on several of them at the same time. If Doing
// is set, another workload runs as noise.
type Gather struct {
	Together    []string                     // targets that run the measured workload
	SetTogether func(targets []string) error // sets the resolved targets; may reject them with a *FieldError
	Doing       string                       // workload that runs as noise; "" means none
	At          []string                     // targets that run Doing
	SetAt       func(targets []string)       // may be nil if Doing is ""
}

// Options describes the keys that a spec accepts in addition to its fields, such as fio's options in a fio job.
type Options struct {
	Names func() []string               // returns all keys, for suggestions and the schema
	Set   func(key, value string) error // rejects unknown keys and values
	// List returns the options that are set and the defaults, in display order. If List is nil, the spec
	// stores its options in a map[string]string field tagged `yaml:",inline"`.
	List func() []Option
	// Scaled returns List with the sizes that a run uses, after Traits.Scale.
	Scaled func() []Option
}

// An Option is a key of Options with its value.
type Option struct {
	Key, Value string
}

func TraitsOf(s Spec) Traits {
	if s == nil {
		return Traits{}
	}
	return s.Traits()
}
