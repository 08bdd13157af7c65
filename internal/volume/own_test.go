package volume

import (
	"context"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
)

// mute is a machine without a shell.
type mute struct{ iotax.Machine }

func (mute) String() string { return "mute" }
func (mute) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{RunOnConsole: func(context.Context, []string) (iotax.ConsoleRun, error) { return iotax.ConsoleRun{}, nil }}
}

// `own:` is only accepted on a machine without a shell.
func TestOwn(t *testing.T) {
	v, err := Prepare(t.Context(), plan.Target{Name: "t", Kind: "own", Spec: &OwnSpec{}}, Env{Host: host.Local(), ID: "t0"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := v.Attach(t.Context(), mute{}); err != nil || p.Kind != iotax.PlaceDir || p.Path != "/" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := v.Attach(t.Context(), host.Local()); err == nil || !strings.Contains(err.Error(), "dir:") {
		t.Errorf("this host: %+v, %v", p, err)
	}
}
