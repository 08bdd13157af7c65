//go:build !linux

package probe

import (
	"context"

	"iotax"
)

// Evict empties the caches of host, which is this one: there is no call here that takes a single file
// out of them.
func Evict(ctx context.Context, host iotax.Machine, _ string) error { return DropCaches(ctx, host) }
