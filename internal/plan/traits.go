package plan

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
	EachTrial bool               // start it anew for each trial, so that its memory holds nothing of an earlier one
	Stays     bool               // it existed before the run and stays after it, not on this host, with the leftovers of crashed runs

	// Of a volume.

	// Of is the field that names the target on which the volume is ("share of host disk"). plan fills in the baseline where it
	// is empty.
	Of *string
	// Encloses reports that the target has no place of its own: its work is done at the place of Of, in a container on the
	// machine of that target.
	Encloses bool
	Served   *Served // the machines that serve it
	Gather   *Gather // the targets that it is made of
	Device   string  // path of its block device

	// Of a workload.

	Scale func(by float64)                 // multiplies its amount of work
	Lasts float64                          // factor from the plan's trial length to its own; 0 is 1
	Split func(dir string) ([]Part, error) // makes several workloads of it, as of the sections of a job file; see Part
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

// Traits returns those of the spec, none without one.
func (m Machine) Traits() Traits { return traits(m.Spec) }

// Traits returns those of the spec, none without one.
func (t Target) Traits() Traits { return traits(t.Spec) }

// Traits returns those of the spec, none without one.
func (w Workload) Traits() Traits { return traits(w.Spec) }

func traits(s Spec) Traits {
	if s == nil {
		return Traits{}
	}
	return s.Traits()
}
