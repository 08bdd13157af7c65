// Package kind defines the type of a machine kind: its spec in a plan, and the function that opens a machine. The
// package of each kind imports this package. Package machine lists the kinds.
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

	// Open opens the machine that spec describes. spec comes from New, and the plan has set its fields. If Open fails
	// or ctx ends, it removes everything that it created.
	Open func(ctx context.Context, spec plan.Spec, o Options) (iotax.Machine, error)

	// Check returns an error if a machine of spec on this host cannot use a device. An early check keeps Open from
	// failing, which would affect all targets on the machine. If Check is nil, the kind accepts any device.
	Check func(ctx context.Context, spec plan.Spec, d iotax.Device) error
}

// Options are the options for opening a machine.
type Options struct {
	Name     string                           // the machine's name in the plan, or ""
	On       iotax.Machine                    // the machine that the new machine is on; nil means this host
	Place    iotax.Place                      // place of the target on On, for a kind whose Traits.Encloses is true
	Devices  []iotax.Device                   // devices that the volumes on the machine need when it starts
	CacheDir string                           // directory that is kept between runs, for kernels and images
	WorkDir  string                           // working directory of the run on this host; removed after the run
	Existing bool                             // make nothing: if the machine does not exist, Open returns iotax.ErrGone
	Log      func(format string, args ...any) // prints progress for the user; may be nil
	Init     string                           // program that built-in guests boot as /init; "" means the agent
}

// Logf prints progress for the user if Log is set.
func (o Options) Logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Of returns a kind whose spec is a *S. The spec of each machine in a plan starts as a copy of defaults. open receives
// only specs that pass Validate.
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

// WithoutDevices returns k with an Open that refuses disks and shares. It is for kinds that cannot attach devices.
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
