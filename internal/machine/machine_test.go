package machine_test

import (
	"errors"
	"testing"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, k := range machine.Kinds() {
		if k.Name == "" || k.Doc == "" || k.New == nil || k.Open == nil {
			t.Errorf("kind %q is not whole", k.Name)
		}
		if k.New() == nil {
			t.Errorf("kind %q has no spec", k.Name)
		}
	}
	if len(machine.PlanKinds()) != len(machine.Kinds()) {
		t.Error("the plan does not know every kind")
	}
	disk := machine.Options{Devices: []iotax.Device{{ID: "d", Disk: &iotax.Disk{Path: "/x"}}}}
	for name, m := range map[string]struct {
		plan.Machine
		machine.Options
	}{
		"unknown kind":     {Machine: plan.Machine{Name: "x", Kind: "teapot"}},
		"another's spec":   {Machine: plan.Machine{Name: "x", Kind: "ssh", Spec: &host.Spec{}}},
		"disk for a host":  {Machine: plan.Machine{Name: "x", Kind: "host", Spec: &host.Spec{}}, Options: disk},
		"ssh without host": {Machine: plan.Machine{Name: "x", Kind: "ssh", Spec: &ssh.Spec{}}},
	} {
		_, err := machine.Open(t.Context(), m.Machine, m.Options)
		var e *iotax.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v, want an *iotax.Error", name, err)
		}
	}
	m, err := machine.Open(t.Context(), plan.Machine{Name: "host", Kind: "host", Spec: &host.Spec{}}, machine.Options{})
	if err != nil || m.String() != "host" {
		t.Errorf("host: %v, %v", m, err)
	}
}
