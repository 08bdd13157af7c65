package probe

import (
	"context"
	"errors"
	"strings"

	"iotax"
)

// dropScript writes back what is dirty, because only clean pages can be dropped, and then drops the
// page cache, dentries and inodes.
const dropScript = `
sync
if [ "$(uname -s)" = Darwin ]; then
	purge 2>/dev/null || sudo -n purge
	exit
fi
f=/proc/sys/vm/drop_caches
if [ ! -e "$f" ]; then echo "there is no $f" >&2; exit 1; fi
if [ -w "$f" ] && (echo 3 >"$f") 2>/dev/null; then exit 0; fi
command -v sudo >/dev/null 2>&1 || { echo "not root, and there is no sudo" >&2; exit 1; }
sudo -n sh -c "echo 3 >$f"
`

// DropCaches empties the caches of m: page cache, dentries and inodes, after writing back what is
// dirty. It needs root there, or sudo without a password.
func DropCaches(ctx context.Context, m iotax.Machine) error {
	err := m.Run(ctx, iotax.Command("sh", "-c", dropScript))
	if err == nil || ctx.Err() != nil {
		return err
	}
	out := &iotax.Error{Op: "drop caches", On: "of " + m.String(), Err: err}
	if exit := (*iotax.ExitError)(nil); errors.As(err, &exit) {
		out.Hint = "run as root there, or allow `sudo -n` for its user; or measure with warm caches: --warm"
		if s := strings.TrimSpace(exit.Stderr); s != "" {
			out.Err = errors.New(s)
		}
	}
	return out
}
