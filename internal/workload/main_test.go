package workload

import (
	"os"
	"slices"
	"testing"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
)

func TestMain(m *testing.M) { os.Exit(worktest.RunTests(m)) }

// made returns a workload of the named kind with this spec.
func made(t testing.TB, kind string, spec plan.Spec) iotax.Workload {
	t.Helper()
	kinds := Kinds()
	return worktest.Made(t, kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == kind })], spec)
}
