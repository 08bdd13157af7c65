// Package kinds lists all kinds of machines, volumes and workloads, and provides the environment for workloads on this
// host.
package kinds

import (
	"context"
	"path/filepath"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/machine"
	"iotax/internal/plan"
	"iotax/internal/published"
	"iotax/internal/volume"
	"iotax/internal/workload"
)

// All returns the kinds that a plan may name.
func All() plan.Kinds {
	return plan.Kinds{Machines: machine.PlanKinds(), Volumes: volume.PlanKinds(), Workloads: workload.PlanKinds(),
		Layouts: iotax.Layouts, Published: published.Names()}
}

// Saved parses the plan of a saved run. It returns an error if another version of iotax wrote a plan that this version
// cannot parse.
func Saved(r *iotax.Run) (*plan.Plan, error) { return SavedIn("", r) }

// SavedIn is like Saved, but relative paths in the plan start from folder. The plan of a divided run may have such
// paths.
func SavedIn(folder string, r *iotax.Run) (*plan.Plan, error) {
	return plan.Parse(filepath.Join(folder, "plan of run "+r.ID), r.Plan, All())
}

// Env returns the environment for creating workloads on this host.
func Env() workload.Env {
	cache := iotax.CacheDir()
	return workload.Env{CacheDir: cache,
		Python: func(ctx context.Context) (string, string, error) {
			dir, err := guest.Python(ctx, cache)
			return dir, guest.PythonApp, err
		},
		Lodge: func(ctx context.Context, m iotax.Machine, l workload.Lodging) (string, func(context.Context) error, error) {
			return volume.OwnDir(ctx, m, l.In, l.Need, l.Network, l.Create)
		},
	}
}
