package support

import (
	"context"
	"fmt"
	"path"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/workload/task"
)

// A NoRoomError reports that files do not fit into the available space.
type NoRoomError struct{ msg string }

func (e *NoRoomError) Error() string { return e.msg }

// Short returns a *NoRoomError if `need` bytes do not fit into the room with iotax.Reserve left free. It returns nil if
// they fit, or if the free space is unknown.
func Short(r task.Room, need int64, where string) error {
	if reserve := iotax.Reserve(r.Size); r.Free >= 0 && need > 0 && need+reserve > r.Free {
		return &NoRoomError{fmt.Sprintf("%s needed in %s, %s available, of which %s stay in reserve", plan.Size(need), where, approx(r.Free), approx(reserve))}
	}
	return nil
}

// Fits returns an error if `need` bytes do not fit at t, or on the file system of this host that backs t's place.
func Fits(ctx context.Context, env Env, t *iotax.Target, need int64) error {
	return Limited(ctx, GlanceTime, func(ctx context.Context) error {
		own, err := task.RoomOf.On(ctx, t.Machine, t.Place.Path)
		if err == nil {
			err = Short(own, need, t.Place.Path)
		}
		if err != nil || env.Host == nil || iotax.IsLocal(t.Machine) || t.Place.Backing == "" {
			return err
		}
		behind, err := task.Behind.On(ctx, env.Host, t.Place.Backing)
		if err != nil || behind == nil {
			return err
		}
		return Short(*behind, need, path.Dir(t.Place.Backing))
	})
}

// approx formats a size, rounded down to whole GiB, MiB or KiB.
func approx(n int64) string {
	for _, unit := range []int64{1 << 30, 1 << 20, 1 << 10} {
		if n >= unit {
			return plan.Size(n / unit * unit).String()
		}
	}
	return plan.Size(n).String()
}
