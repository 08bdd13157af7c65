package volume

import (
	"context"
	"errors"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// OwnSpec is `own: {}`: the storage inside the image of a guest without a shell. iotax adds no storage.
type OwnSpec struct{ plan.Plain }

type own struct{}

func prepareOwn(context.Context, *OwnSpec, Env) (iotax.Volume, error) {
	return own{}, nil
}

func (own) Caps() iotax.VolumeCaps { return iotax.VolumeCaps{} }

// Attach refuses machines with a shell, because a workload could write anywhere there.
func (own) Attach(_ context.Context, m iotax.Machine) (iotax.Place, error) {
	if m.Caps().RunOnConsole == nil {
		return iotax.Place{}, &iotax.Error{Op: "use what is there", On: m.String(), Err: errors.New("own: is for guests without a shell"), Hint: "name a directory: {dir: /var/tmp}"}
	}
	return iotax.Place{Kind: iotax.PlaceDir, Path: "/", Durability: ownDurability(m, "/", probe.Mount{}, ""), Facts: map[string]string{}}, nil
}

func (own) Detach(context.Context) error { return nil }
func (own) Close(context.Context) error  { return nil }
