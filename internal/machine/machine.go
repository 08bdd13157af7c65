// Package machine opens the places where commands run. Each kind has a room below this one and is listed here; every
// kind passes the suite in machinetest.
//
// To add a kind, write a package with its spec and its Kind, add that to Kinds, and run the suite against it.
package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/machine/container"
	"iotax/internal/machine/fake"
	"iotax/internal/machine/host"
	"iotax/internal/machine/inside"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/node"
	"iotax/internal/machine/pod"
	"iotax/internal/machine/ssh"
	"iotax/internal/machine/tool"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
)

// What opens machines needs no room but this.
type (
	Kind    = kind.Kind
	Options = kind.Options
)

// Kinds lists every kind there is.
func Kinds() []Kind {
	return []Kind{
		host.Kind,
		ssh.Kind,
		vm.Kind,
		container.Docker,
		container.Podman,
		pod.Kind,
		inside.Kind,
		node.Kind,
		tool.LimaKind,
		tool.TartKind,
		tool.WSLKind,
		fake.Kind,
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
			opened, err := k.Open(ctx, m.Spec, o)
			if err != nil {
				return opened, err
			}
			if link := agent.LinkOf(opened); link != nil {
				link.Log = o.Log
			}
			return opened, nil
		}
		names = append(names, k.Name)
	}
	return nil, &iotax.Error{Op: "open machine", On: m.Name, Err: fmt.Errorf("there is no kind %q", m.Kind),
		Hint: "use one of " + strings.Join(names, ", ")}
}

// Check returns why m, which is on this host, cannot have a device.
func Check(ctx context.Context, m plan.Machine, d iotax.Device) error {
	for _, k := range Kinds() {
		if k.Name == m.Kind && k.Check != nil {
			return k.Check(ctx, m.Spec, d)
		}
	}
	return nil
}

// Leftovers finds what machines of crashed runs have left on this host outside of processes and directories: containers
// and volumes, at the engines that this user reaches and at those of the machines in plans, instances of Lima and Tart, and labs.
func Leftovers(plans []plan.Machine) []leftover.Finder {
	return slices.Concat(container.Leftovers(plans), tool.Leftovers(), node.Leftovers())
}
