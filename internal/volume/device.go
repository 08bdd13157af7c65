package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/probe"
)

// DeviceSpec is `device: PATH`: a block device that exists on its machine. It is only read, unless the
// command line gives it up by name: nothing that stands in a plan can.
type DeviceSpec struct {
	Path string `yaml:"path" doc:"block device, as in /dev/nvme0n1; it is only read, unless run --destroy names it"`
}

func newDeviceSpec() any { return &DeviceSpec{} }

// SetScalar fills the spec from `device: PATH`.
func (s *DeviceSpec) SetScalar(v string) error { s.Path = v; return nil }

// Device is the path of the device.
func (s *DeviceSpec) Device() string { return s.Path }

// Validate refuses paths that a shell would have expanded.
func (s *DeviceSpec) Validate() error { return checkPath("block device", s.Path) }

func prepareDevice(_ context.Context, s *DeviceSpec, e Env) (iotax.Volume, error) {
	return &device{path: s.Path, destroy: slices.Contains(e.Destroy, s.Path), note: e.Note}, nil
}

type device struct {
	path    string
	destroy bool
	note    func(format string, args ...any)
	held    string // the path that is held
}

// holds are the devices of this host that this process holds exclusively, with how many volumes do: the
// kernel would refuse a second one of the same process as it does those of others.
var holds = struct {
	mu    sync.Mutex
	files map[string]*os.File
	users map[string]int
}{files: map[string]*os.File{}, users: map[string]int{}}

func isHeld(path string) bool {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	return holds.users[path] > 0
}

func hold(path string) error {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	if holds.users[path] == 0 {
		f, err := openAlone(path)
		if err != nil {
			return err
		}
		holds.files[path] = f
	}
	holds.users[path]++
	return nil
}

func letGo(path string) error {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	if holds.users[path]--; holds.users[path] > 0 {
		return nil
	}
	err := holds.files[path].Close()
	delete(holds.files, path)
	delete(holds.users, path)
	return err
}

func (d *device) Devices() []iotax.Device { return nil }

// surveyDevice tells the real path, number and size in bytes of the block device $1. It reads one
// sector, because a device may be there, have a size, and be refused to this user.
const surveyDevice = `
[ -e "$1" ] || { echo "there is no such file" >&2; exit 41; }
[ -b "$1" ] || { echo "it is not a block device" >&2; exit 42; }
p=$(readlink -f -- "$1") || exit 43
n=${p##*/}
size=
if [ -r "/sys/class/block/$n/size" ]; then size=$(($(cat "/sys/class/block/$n/size") * 512))
else size=$(blockdev --getsize64 "$p") || exit 43; fi
echo "path $p"
echo "size $size"
if [ -r "/sys/class/block/$n/dev" ]; then echo "number $(cat "/sys/class/block/$n/dev")"; fi
[ "$size" -gt 0 ] || exit 0
dd if="$p" of=/dev/null bs=4096 count=1 2>/dev/null || dd if="$p" of=/dev/null bs=4096 count=1 || exit 44
echo "system $(uname -s 2>/dev/null)"
echo mounts
cat /proc/self/mountinfo 2>/dev/null || true
`

// trustLinks asks for trust in the way to the device $1, and to where the symbolic links lead that it may be.
const trustLinks = trusted + `
at=$1
while link=$at; trusted "${link%/*}"; [ -L "$link" ]; do
	at=$(readlink -- "$link")
	case $at in /*) ;; *) at=${link%/*}/$at;; esac
done
`

// Attach checks the device and changes nothing on it.
func (d *device) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	op, on := "use block device", d.path
	var none iotax.Place
	if !filepath.IsAbs(d.path) && !strings.HasPrefix(d.path, "/") {
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("the path is relative"), Hint: "write it in full, as in /dev/nvme0n1"}
	}
	script := surveyDevice
	if d.destroy && !alone(m) {
		script += trustLinks
	}
	out, err := sh(ctx, m, quick, script, d.path)
	if exit(err) == 45 {
		e := distrusted("overwrite block device", on, err)
		e.Hint = "name the device itself, as in /dev/nvme0n1"
		return none, e
	}
	if err != nil {
		e := &iotax.Error{Op: op, On: on, Err: said(err)}
		switch exit(err) {
		case 41:
			e.Hint = "list the devices of that machine: lsblk -p"
		case 42:
			e.Hint = "name a block device (lsblk -p), or write dir: for a directory"
		case 44:
			e.Hint = "run as root, or as a member of the group that may read it (usually disk)"
		}
		return none, e
	}
	head, mountText, _ := strings.Cut(out, "mounts\n")
	found := map[string]string{}
	for _, line := range strings.Split(head, "\n") {
		if k, v, ok := strings.Cut(line, " "); ok {
			found[k] = v
		}
	}
	size, err := strconv.ParseInt(found["size"], 10, 64)
	if err != nil {
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("its size is not known (%q)", found["size"])}
	}
	if size <= 0 {
		// fio reads such a device with 0 IOPS and no error.
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("its size is 0: nothing is connected to it"), Hint: "connect it first (nbd-client, losetup, insert the medium)"}
	}
	p := iotax.Place{Kind: iotax.PlaceDevice, Path: found["path"], ReadOnly: true,
		Facts: facts(ctx, m, found["path"])}
	p.Facts["device.size"] = strconv.FormatInt(size, 10)
	for _, mt := range probe.ParseMounts(mountText) {
		if mt.Device == found["number"] {
			p.Facts["device.mounted"] = mt.Point
		}
	}
	p.Durability = ownDurability(m, p.Path, probe.Mount{Source: p.Path}, found["system"])
	if iotax.IsLocal(m) {
		p.Backing = found["path"]
	}
	if d.destroy {
		if err := d.giveUp(ctx, m, &p); err != nil {
			return none, err
		}
	}
	return p, nil
}

// giveUp makes p writable, if writing there can hurt nobody.
func (d *device) giveUp(ctx context.Context, m iotax.Machine, p *iotax.Place) error {
	local := iotax.IsLocal(m)
	b, err := inspect(ctx, m, p.Path, local && isHeld(p.Path))
	if err == nil && b.path != p.Path { // the name was turned to another while it was looked at
		err = &iotax.Error{Op: "overwrite block device", On: p.Path, Err: fmt.Errorf("it has become another: %s", b), Hint: "look at what happened to it, and begin anew"}
	}
	if err == nil && len(b.inUse)+len(b.busy) == 0 { // else it is refused without reading it
		err = b.ownLook(ctx, m)
	}
	if err == nil {
		err = b.refusal()
	}
	if err != nil {
		return err
	}
	if local {
		if err := hold(b.path); err != nil {
			return &iotax.Error{Op: "overwrite block device", On: b.path, Err: err, Hint: "name a device that nothing uses; iotax takes nothing out of use"}
		}
		d.held = b.path
	}
	if d.note != nil {
		d.note("everything on %s of %v will be overwritten, as --destroy says", b, m)
	}
	p.ReadOnly = false
	p.Facts["device.destroyed"] = b.String()
	p.Guard = func(ctx context.Context) error {
		now, err := inspect(ctx, m, b.path, local)
		switch {
		case err != nil:
			return err
		case now.number != b.number || now.size != b.size || now.serial != b.serial:
			return &iotax.Error{Op: "overwrite block device", On: b.path, Err: fmt.Errorf("it has become another: %s, and it was %s", now, b), Hint: "look at what happened to it, and begin anew"}
		case !now.looked:
			err = now.ownLook(ctx, m)
		}
		return errors.Join(err, now.refusal())
	}
	return nil
}

func (d *device) Detach(context.Context) error {
	if d.held == "" {
		return nil
	}
	err := letGo(d.held)
	d.held = ""
	return err
}

func (d *device) Close(ctx context.Context) error { return d.Detach(ctx) }
