//go:build !linux

package probe

import (
	"context"

	"iotax"
	"iotax/machine"
)

// Evict empties this host's caches: there is no call here that takes a single file out of them.
func Evict(ctx context.Context, _ string) error { return DropCaches(ctx, machine.Local()) }
