package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/rules"
)

// doMount mounts $2 of type $1 at $3, which is made, with the options $4.
const doMount = `
mkdir -p -- "$3" || exit 41
while read -r _ p _; do
	if [ "$p" = "$3" ]; then echo "something is mounted on $3 already" >&2; exit 42; fi
done </proc/mounts
if [ "$1" = 9p ]; then modprobe -q 9pnet_virtio 2>/dev/null; fi
if [ -n "$4" ]; then mount -t "$1" -o "$4" "$2" "$3"; else mount -t "$1" "$2" "$3"; fi || exit 43
[ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID" "$3" || exit 44
`

// rootDir makes a directory of iotax's own in base, which is root's, and pushes what removes it.
func rootDir(ctx context.Context, m iotax.Machine, base string, u *undo) (string, error) {
	name, word := "iotax-"+randomHex(3), strings.TrimSpace(randomHex(16)+" "+leftover.Current().String())
	at := base + "/" + name
	u.push(func(ctx context.Context) error {
		if _, err := root(ctx, m, slow, removeDir, at, marker, word); err != nil && exit(err) != 40 {
			return &iotax.Error{Op: "remove", On: fmt.Sprintf("%s on %v", at, m), Err: said(err), Hint: "look at it, and remove it by hand"}
		}
		return nil
	})
	if _, err := root(ctx, m, quick, strings.TrimSpace(makeDir)+` && { [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID" "$1/$2"; }`, base, name, marker, word); err != nil {
		e := &iotax.Error{Op: "make directory", On: fmt.Sprintf("%s on %v", at, m), Err: said(err)}
		if exit(err) == 40 {
			e.Hint = "let the user there be root, or give it sudo without a password"
		}
		return "", e
	}
	return at, nil
}

// mountPoint is where a file system of the run's own is mounted on m, and what it is called there: in the run's directory on this
// host, elsewhere in one that bears the run's label.
func mountPoint(ctx context.Context, m iotax.Machine, e Env, u *undo) (point, source string, err error) {
	source = "iotax-" + e.ID
	if iotax.IsLocal(m) && e.WorkDir != "" {
		return filepath.ToSlash(filepath.Join(e.WorkDir, "mnt-"+e.ID)), source, nil
	}
	dir, err := rootDir(ctx, m, "/mnt", u)
	return dir + "/" + e.ID, source, err
}

// unmount takes away the mount of $2 at $1 (with option $3, if any) and the mount point. A mount of
// something else there is not touched.
const unmount = `
there() {
	while read -r s p _; do
		if [ "$p" = "$1" ]; then [ "$s" = "$2" ]; return; fi
	done </proc/mounts
	return 1
}
if there "$1" "$2"; then umount $3 "$1" || exit 41; fi
rmdir -- "$1" 2>/dev/null
true
`

// unmountLater pushes what unmounts source from point. A mount that stays busy (a program that was
// killed and still ends, a writeback that hangs) is detached lazily in the end, with a finding.
func unmountLater(m iotax.Machine, u *undo, found *[]iotax.Finding, point, source string) {
	u.push(func(ctx context.Context) error {
		var err error
		for try := 0; try < 10; try++ {
			if _, err = root(ctx, m, slow, unmount, point, source, ""); err == nil {
				return nil
			}
			if exit(err) != 41 || !says(err, "busy") {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		on := fmt.Sprintf("%s on %v", point, m)
		if exit(err) == 41 {
			if _, lazy := root(ctx, m, slow, unmount, point, source, "-l"); lazy == nil {
				*found = append(*found, rules.LazyUnmount.With("PATH", iotax.Quote(point)).Found(iotax.Subject{}, "%s could only be unmounted lazily: %v", on, said(err)))
				return nil
			}
		}
		return &iotax.Error{Op: "unmount", On: on, Err: said(err), Hint: "find what still uses it: fuser -vm " + iotax.Quote(point)}
	})
}

// mountAt mounts source at point on m and pushes what undoes it.
func mountAt(ctx context.Context, m iotax.Machine, u *undo, found *[]iotax.Finding, point, kind, source, options string) error {
	unmountLater(m, u, found, point, source)
	_, err := root(ctx, m, slow, doMount, kind, source, point, options)
	if err == nil {
		return nil
	}
	e := &iotax.Error{Op: "mount " + kind, On: fmt.Sprintf("%s on %v", point, m), Err: said(err)}
	switch {
	case exit(err) == 40:
		e.Hint = "let the guest's user be root, or give it sudo without a password"
	case exit(err) == 42:
		e.Hint = "unmount it, or use another guest"
	case says(err, "unknown filesystem", "no such device"):
		e.Hint = "boot a kernel with the file system " + kind
		switch kind {
		case "9p":
			e.Hint += " (the cloud kernels of distributions have none; the generic ones do: Debian's linux-image-amd64)"
		case "virtiofs":
			e.Hint += " (CONFIG_VIRTIO_FS)"
		}
	}
	return e
}
