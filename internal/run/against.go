package run

import (
	"slices"

	"iotax"
)

// reference returns the name of the target that t is compared with in this lane, or "" if t is not compared.
func (e *engine) reference(ln *lane, t *iotax.Target) string {
	takesPart := func(name string) bool {
		return slices.ContainsFunc(ln.targets, func(x *iotax.Target) bool { return x.Name == name })
	}
	return e.testbed.infos[t.Name].Reference(e.run.BaselineOf(ln.plan.Name), takesPart)
}
