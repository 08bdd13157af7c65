// Package machine opens the places where commands run: this host, a host over SSH, a guest that is
// started for the run, and a fake for tests. Every kind passes the suite in machinetest.
//
// To add a kind, write a file with its spec, its Open and a variable of type Kind, add that
// variable to Kinds, and run the suite against it.
package machine

import (
	"context"
	"fmt"
	"strings"

	"iotax"
	"iotax/plan"
)

// A Kind is one way to have a machine: how a plan writes it, and how it is opened.
type Kind struct {
	plan.Kind

	// Open opens the machine that spec, made by New and filled by the plan, describes. What it
	// made, it removes again when it fails or ctx ends half way.
	Open func(ctx context.Context, spec any, o Options) (iotax.Machine, error)
}

// Options is what a machine is opened with besides its spec.
type Options struct {
	Name     string                           // the plan's name for it; "" when it has none
	Devices  []iotax.Device                   // what the volumes on it need it to be started with
	CacheDir string                           // kept between runs: kernels, images
	WorkDir  string                           // of this run, on this host; removed after it
	Log      func(format string, args ...any) // what happens, for the user; nil is silence
	Init     string                           // program that built-in guests boot as /init; "" is the running one
	RootDisk *iotax.Disk                      // what guest.RootDisk wrote: the built-in guest's root file system; nil keeps that in memory
}

func (o Options) logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Kinds lists every kind there is.
func Kinds() []Kind {
	return []Kind{
		hostKind,
		sshKind,
		qemuKind,
		dockerKind,
		podmanKind,
		podKind,
		nodeKind,
		limaKind,
		tartKind,
		wslKind,
		fakeKind,
	}
}

// PlanKinds is what the package plan needs to know of Kinds.
func PlanKinds() []plan.Kind {
	var ks []plan.Kind
	for _, k := range Kinds() {
		ks = append(ks, k.Kind)
	}
	return ks
}

// Open opens m, a machine of a plan.
func Open(ctx context.Context, m plan.Machine, o Options) (iotax.Machine, error) {
	var names []string
	for _, k := range Kinds() {
		if k.Name == m.Kind {
			if o.Name == "" {
				o.Name = m.Name
			}
			return k.Open(ctx, m.Spec, o)
		}
		names = append(names, k.Name)
	}
	return nil, &iotax.Error{Op: "open machine", On: m.Name, Err: fmt.Errorf("there is no kind %q", m.Kind),
		Mend: "use one of " + strings.Join(names, ", ")}
}

// noDevices refuses what only a guest that is started for the run can have.
func noDevices(kind string, o Options) error {
	if len(o.Devices) == 0 {
		return nil
	}
	return &iotax.Error{Op: "open machine", On: o.Name, Err: fmt.Errorf("kind %s cannot be given disks or shares", kind),
		Mend: "put this target on a guest (kind qemu)"}
}

// specError answers an Open that was handed another kind's spec.
func specError(kind string, spec any) error {
	return &iotax.Error{Op: "open machine", On: "of kind " + kind, Err: fmt.Errorf("its spec is a %T", spec)}
}

// Host is the spec of kind host; there is nothing to choose.
type Host struct{}

var hostKind = Kind{
	Kind: plan.Kind{Name: "host", Doc: "this host", New: func() any { return new(Host) }},
	Open: func(_ context.Context, _ any, o Options) (iotax.Machine, error) {
		if err := noDevices("host", o); err != nil {
			return nil, err
		}
		return Local(), nil
	},
}
