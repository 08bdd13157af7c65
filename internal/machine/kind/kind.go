// Package kind says what a kind of machine is: how a plan writes it, and how it is opened. Every room
// that holds kinds stands on it; package machine lists them.
package kind

import (
	"context"
	"fmt"

	"iotax"
	"iotax/internal/plan"
)

// A Kind is one way to have a machine.
type Kind struct {
	plan.Kind

	// Open opens the machine that spec, made by New and filled by the plan, describes. What it
	// made, it removes again when it fails or ctx ends half way.
	Open func(ctx context.Context, spec plan.Spec, o Options) (iotax.Machine, error)
}

// Options is what a machine is opened with besides its spec.
type Options struct {
	Name     string                           // the plan's name for it; "" when it has none
	On       iotax.Machine                    // the machine that it is on; nil is this host
	Place    iotax.Place                      // there, of the target that a machine whose Traits have Encloses is around
	Devices  []iotax.Device                   // what the volumes on it need it to be started with
	CacheDir string                           // kept between runs: kernels, images
	WorkDir  string                           // of this run, on this host; removed after it
	Existing bool                             // make nothing: what is not there is iotax.ErrGone
	Log      func(format string, args ...any) // what happens, for the user; nil is silence
	Init     string                           // program that built-in guests boot as /init; "" is the running one
}

// Logf tells the user what happens, if anyone listens.
func (o Options) Logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Of is the kind of the machines that an S describes. A plan starts from defaults, of which every spec is a
// copy; open is handed one in which its Validate finds nothing wrong.
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

// WithoutDevices is k for machines that are not started for the run: they are given no disks and no shares.
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
