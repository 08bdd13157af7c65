// Package machine opens the machines on which commands run. Subpackages implement the kinds of machines. Kinds lists
// all kinds, and each must pass the suite in machinetest.
//
// To add a kind, write a package with its Spec and its Kind, add the Kind to Kinds, and run the suite against it.
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

// These aliases spare callers an import.
type (
	Kind    = kind.Kind
	Options = kind.Options
)

// Kinds returns all kinds of machines.
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

// PlanKinds returns the plan.Kind of each kind.
func PlanKinds() []plan.Kind {
	var ks []plan.Kind
	for _, k := range Kinds() {
		ks = append(ks, k.Kind)
	}
	return ks
}

// Open opens m. If o.Name is empty, it sets the name to m.Name.
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

// Check returns an error if m, a machine on this host, cannot use d.
func Check(ctx context.Context, m plan.Machine, d iotax.Device) error {
	for _, k := range Kinds() {
		if k.Name == m.Kind && k.Check != nil {
			return k.Check(ctx, m.Spec, d)
		}
	}
	return nil
}

// Leftovers returns finders for the containers, volumes, Lima and Tart instances, and labs of crashed runs. The finders
// search the default container engines and the engines that plans name.
func Leftovers(plans []plan.Machine) []leftover.Finder {
	return slices.Concat(container.Leftovers(plans), tool.Leftovers(), node.Leftovers())
}
