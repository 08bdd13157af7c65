package leftover

import (
	"context"
	"strings"
)

// NBDFile is the file in a marked directory that names a device of the kernel which an export was attached to: the device,
// the number of the process that attached it, as the kernel tells it, and the boot that this counts from.
const NBDFile = "nbd"

// listNBDs prints the directory, the device, its process and the boot, for each device that is still attached as it is written in
// one of the directories $1, $2….
const listNBDs = `
read -r now </proc/sys/kernel/random/boot_id || exit 0
for d; do
	case $d in /run/iotax-*) ;; *) continue;; esac # where only root makes one
	[ -f "$d/nbd" ] && read -r dev pid boot <"$d/nbd" || continue
	case $dev in /dev/nbd*[!0-9]* | /dev/nbd) continue;; /dev/nbd*) ;; *) continue;; esac
	[ "$boot" = "$now" ] && read -r is <"/sys/block/${dev#/dev/}/pid" && [ "$is" = "$pid" ] || continue
	printf '%s %s %s %s\n' "$d" "$dev" "$pid" "$boot"
done 2>/dev/null
true
`

// detachNBD detaches the device $1 if it still is what process $2 of the boot $3 attached.
const detachNBD = `
read -r now </proc/sys/kernel/random/boot_id
[ "$now" = "$3" ] && read -r is <"/sys/block/${1#/dev/}/pid" && [ "$is" = "$2" ] || exit 0
nbd-client -d "$1" >&2
`

func nbds(ctx context.Context, pl Place) ([]Item, error) {
	found, err := marked(ctx, pl)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var dirs []string
	for dir := range found {
		dirs = append(dirs, dir)
	}
	out, err := run(ctx, pl.Machine, lookTime, listNBDs, dirs...)
	var items []Item
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		l, ok := ParseLabel(found[f[0]])
		if !ok {
			continue
		}
		items = append(items, Item{Name: f[1], Detail: f[0], Label: l, End: func(ctx context.Context) error {
			_, err := root(ctx, pl.Machine, lookTime, detachNBD, f[1:]...)
			return err
		}})
	}
	return items, err
}
