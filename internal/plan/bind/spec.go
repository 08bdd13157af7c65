// Package bind fills the specs of kinds, which are Go structs with tags, from nodes of a plan, expands the axes of a matrix, and
// writes specs as nodes again.
package bind

import (
	"time"

	"iotax/internal/metric"
)

// A Kind is one way to write a machine, a volume or a workload: the key under which its spec
// stands. The packages machine, volume and workload list theirs.
type Kind struct {
	Name string
	Doc  string      // one sentence for the schema and for error messages
	New  func() Spec // a fresh spec that holds the defaults; see "Specs" below

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

// A Scalar is a spec, or a struct in one, that can also be written as one word (`dir: /var/tmp`). As encoding.TextUnmarshaler,
// it is found by the type.
type Scalar interface {
	SetScalar(string) error
}

// FieldError says which field of a spec is wrong. Field is the yaml key; a field of a nested struct
// is "rounds.min". Validate may join several with errors.Join.
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

// A Part is one of the workloads that a spec stands for (Traits.Split). Split is called once on a valid spec; relative paths
// count from dir. What it returns must not split any further: the resolved plan is made of it. A *FieldError points at the
// field.
type Part struct {
	Spec  Spec
	Label Option // tells it from the other parts, in its name and in its labels; zero for the only one
	Name  string // names it where the user gave no name; "" keeps the word
}

// A Spec is what a plan says about one machine, target or workload: a pointer to a struct with fields (see field).
type Spec interface {
	// Validate finds what the types of the fields cannot. A *FieldError points at the field; errors.Join makes one error of
	// several. It may fill in a field whose default depends on others.
	Validate() error
	// Traits returns what the spec can do beyond being read and written, as it is filled at the moment of the call.
	Traits() Traits
}

// Plain is embedded in a spec that has no traits and in which nothing can be wrong.
type Plain struct{}

// Validate returns nil.
func (Plain) Validate() error { return nil }

// Traits returns none.
func (Plain) Traits() Traits { return Traits{} }

// Traits are what plan, run and the commands may ask of a spec. A zero field does not apply.
type Traits struct {
	// Of any spec.

	// Tools are the programs that it runs and that a system may lack. Those of a machine run on this host, those of a volume on
	// the machine that serves it (Served) or else on this host, and those of a workload on the machine of the target.
	Tools []string
	// HostFiles are the fields that hold paths of files of this host. A field that holds a word in their place (the name of a
	// program, "none") is left out.
	HostFiles []*string
	// Directories are the fields of a volume or a workload that name directories in which runs make their own, "" where the plan
	// names none. They are on the machine that serves the volume, or else on that of the target. Leftovers of crashed runs are
	// searched there.
	Directories []*string
	// Options are the keys that it takes beyond its fields.
	Options *Options

	// Of a machine.

	SetImage  func(image string) // sets the image that it boots
	Encloses  bool               // it is on another machine, around the place of one target: a container
	Nests     bool               // it may be on another machine, which need not be this host: a guest
	EachTrial bool               // start it anew for each trial, so that its memory holds nothing of an earlier one
	Stays     bool               // it existed before the run and stays after it, not on this host, with the leftovers of crashed runs

	// Of a volume.

	// Of is the field that names the target on which the volume is ("share of host disk"). plan fills in the baseline where it
	// is empty.
	Of     *string
	Served *Served // the machines that serve it
	Gather *Gather // the targets that it is made of
	Device string  // path of its block device

	// Of a workload.

	Metrics func() []metric.Metric           // lists what a trial of it can measure
	Scale   func(by float64)                 // multiplies its amount of work
	Lasts   float64                          // factor from the plan's trial length to its own; 0 is 1
	Split   func(dir string) ([]Part, error) // makes several workloads of it, as of the sections of a job file; see Part
}

// Served names the machines that serve a volume, with the keys under which the plan has them.
type Served struct {
	Key, Machine string   // "" is the target's own machine
	PeersKey     string   // of Peers
	Peers        []string // further machines that take part, as those that keep copies
}

// Gather names the targets of a spec that is made of other targets: the work is done at several of them at the same moment,
// with other work beside it where Doing is set.
type Gather struct {
	Together    []string                     // targets that do the measured work
	SetTogether func(targets []string) error // takes the targets that the names in the plan stand for; a *FieldError refuses them
	Doing       string                       // workload that is done meanwhile; "" is none
	At          []string                     // targets that do it
	SetAt       func(targets []string)       // may be nil without Doing
}

// Options are the keys that a spec takes beyond its fields: a fio job takes every option of fio.
type Options struct {
	Names func() []string               // of all keys, for suggestions and the schema
	Set   func(key, value string) error // refuses a key or value that it does not know
	// List returns what was set and the defaults of that sort, in the order in which they are shown. A nil List means that
	// the spec keeps them in a map[string]string field tagged `yaml:",inline"`.
	List func() []Option
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
