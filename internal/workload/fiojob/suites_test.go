package fiojob_test

import (
	"testing"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/plan"
	"iotax/internal/published"
	"iotax/internal/suite"
	"iotax/internal/volume"
	"iotax/internal/workload"
	"iotax/internal/workload/fiojob"
	"iotax/internal/workload/support"
)

// Even at small scales, each file of each suite contains several blocks, because fio cannot complete an I/O in a file
// smaller than one block.
func TestScaledSuites(t *testing.T) {
	kinds := plan.Kinds{Workloads: workload.PlanKinds(), Volumes: volume.PlanKinds(), Machines: machine.PlanKinds(), Layouts: iotax.Layouts, Published: published.Names()}
	seen := 0
	for _, name := range suite.Names() {
		for _, by := range []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1} {
			src, _ := suite.Source(name)
			p, err := plan.Parse(name, src, kinds)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range p.Workloads {
				if scale := w.Traits().Scale; scale != nil && by != 1 {
					scale(by)
				}
				if err := w.Spec.Validate(); err != nil {
					t.Errorf("%s, %s by %v: %v", name, w.Name, by, err)
				}
				if _, ok := w.Spec.(*fiojob.Fio); !ok {
					continue
				}
				opened, err := fiojob.Kind.New(w, support.Env{})
				if err != nil {
					t.Fatal(err)
				}
				jobs, small, err := fiojob.SmallFiles(opened)
				if seen += jobs; err != nil || len(small) > 0 {
					t.Errorf("%s, %s by %v: %v, %v", name, w.Name, by, small, err)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d jobs of suites", seen)
	}
}
