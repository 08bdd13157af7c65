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

func evictHere(ctx context.Context, _ string) (extents int, err error) {
	fail := &iotax.Error{Op: "drop caches", On: "of this machine", Hint: "measure with warm caches: --warm"}
	if runtime.GOOS != "darwin" {
		fail.Err = errors.New("iotax cannot drop caches on " + runtime.GOOS)
		return 0, fail
	}
	limit, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	if _, err := iotax.ExecOutput(exec.CommandContext(limit, "purge")); err == nil {
		return 0, nil
	}
	out, err := iotax.ExecOutput(exec.CommandContext(limit, "sudo", "-n", "purge"))
	if err != nil && ctx.Err() == nil {
		fail.Err, fail.Hint = errors.New(cmp.Or(strings.TrimSpace(string(out)), err.Error())), "run as root, or allow `sudo -n` for its user; or "+fail.Hint
		return 0, fail
	}
	return 0, context.Cause(ctx)
}

// purgeTime limits purge, which first writes dirty pages back.
const purgeTime = 5 * time.Minute
