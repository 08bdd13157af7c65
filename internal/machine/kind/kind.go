// Package kind defines a kind of machine: its spec in a plan, and how it is opened. The packages of kinds import it; package machine lists
// them.
package kind

import (
	"context"
	"fmt"

	"iotax"
	"iotax/internal/plan"
)

// A Kind is a kind of machine.
type Kind struct {
	plan.Kind

	// Open opens the machine of spec, which New made and the plan filled. If it fails or ctx ends, it removes what it made.
	Open func(ctx context.Context, spec plan.Spec, o Options) (iotax.Machine, error)

	// Check returns why a machine of spec on this host cannot have a device. Open would fail with it, and with it all targets of the
	// machine. nil accepts any device.
	Check func(ctx context.Context, spec plan.Spec, d iotax.Device) error
}

// Options are the options of opening a machine.
type Options struct {
	Name     string                           // its name in the plan, or ""
	On       iotax.Machine                    // the machine that it is on; nil is this host
	Place    iotax.Place                      // there, of the target inside a machine whose Traits have Encloses
	Devices  []iotax.Device                   // that the volumes on it need at its start
	CacheDir string                           // kept between runs: kernels, images
	WorkDir  string                           // of this run, on this host; removed after it
	Existing bool                             // make nothing: a missing machine is iotax.ErrGone
	Log      func(format string, args ...any) // prints progress for the user; may be nil
	Init     string                           // program that built-in guests boot as /init; "" is the running one
}

// Logf prints progress for the user if Log is set.
func (o Options) Logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Of returns the kind of machine that an S describes. A plan starts from a copy of defaults. open gets a spec that passed Validate.
func Of[S any, P interface {
	*S
	plan.Spec
}](name, doc string, defaults S, open func(ctx context.Context, spec P, o Options) (iotax.Machine, error)) Kind {
	return Kind{
		Kind: plan.Kind{Name: name, Doc: doc, New: func() plan.Spec { s := defaults; return P(&s) }},
		Open: func(ctx context.Context, spec plan.Spec, o Options) (iotax.Machine, error) {
			s, ok := spec.(P)
			if !ok {
				return nil, &iotax.Error{Op: "open machine", On: "of kind " + name, Err: fmt.Errorf("its spec is a %T", spec)}
			}
			if err := s.Validate(); err != nil {
				return nil, &iotax.Error{Op: "open machine", On: o.Name, Err: err}
			}
			return open(ctx, s, o)
		},
	}
}

// WithCheck returns k with a Check.
func (k Kind) WithCheck(check func(ctx context.Context, spec plan.Spec, d iotax.Device) error) Kind {
	k.Check = check
	return k
}

// WithoutDevices returns k for machines that are not started for the run. They get no disks and no shares.
func (k Kind) WithoutDevices() Kind {
	open := k.Open
	k.Open = func(ctx context.Context, spec plan.Spec, o Options) (iotax.Machine, error) {
		if len(o.Devices) > 0 {
			return nil, &iotax.Error{Op: "open machine", On: o.Name, Err: fmt.Errorf("kind %s cannot be given disks or shares", k.Name),
				Hint: "put this target on a guest (kind qemu)"}
		}
		return open(ctx, spec, o)
	}
	return k
}
