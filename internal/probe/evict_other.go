//go:build !linux

package probe

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"iotax"
)

// Evict drops all caches of this host on macOS, which cannot evict a single file. On other systems, it returns an
// error.
func Evict(ctx context.Context, _ string) error {
	fail := func(err error) error {
		return &iotax.Error{Op: "drop caches", On: "of this host", Err: err, Hint: "run as root, or allow `sudo -n` for its user; or measure with warm caches: --warm"}
	}
	if runtime.GOOS != "darwin" {
		return fail(errors.New("iotax cannot drop caches on " + runtime.GOOS))
	}
	limit, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	if _, err := iotax.ExecOutput(exec.CommandContext(limit, "purge")); err == nil {
		return nil
	}
	out, err := iotax.ExecOutput(exec.CommandContext(limit, "sudo", "-n", "purge"))
	if err != nil && ctx.Err() == nil {
		return fail(errors.New(cmp.Or(strings.TrimSpace(string(out)), err.Error())))
	}
	return context.Cause(ctx)
}

// purgeTime limits purge, which first writes dirty pages back.
const purgeTime = 5 * time.Minute
