package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"iotax"
	"iotax/probe"
)

// DeviceSpec is `device: PATH`: a block device that exists on its machine. It is only read.
type DeviceSpec struct {
	Path string `yaml:"path" doc:"block device, as in /dev/nvme0n1; it is only read"`
}

func newDeviceSpec() any { return &DeviceSpec{} }

// SetScalar fills the spec from `device: PATH`.
func (s *DeviceSpec) SetScalar(v string) error { s.Path = v; return nil }

// Validate refuses paths that a shell would have expanded.
func (s *DeviceSpec) Validate() error { return checkPath("block device", s.Path) }

func prepareDevice(_ context.Context, spec any, e Env) (iotax.Volume, error) {
	s, ok := spec.(*DeviceSpec)
	if !ok {
		return nil, specError("device", spec)
	}
	return &device{path: s.Path}, nil
}

type device struct{ path string }

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
echo mounts
cat /proc/self/mountinfo 2>/dev/null || true
`

// Attach checks the device and changes nothing.
func (d *device) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	op, on := "use block device", d.path
	var none iotax.Place
	if !filepath.IsAbs(d.path) && !strings.HasPrefix(d.path, "/") {
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("the path is relative"), Mend: "write it in full, as in /dev/nvme0n1"}
	}
	out, err := sh(ctx, m, quick, surveyDevice, d.path)
	if err != nil {
		e := &iotax.Error{Op: op, On: on, Err: said(err)}
		switch exit(err) {
		case 41:
			e.Mend = "list the devices of that machine: lsblk -p"
		case 42:
			e.Mend = "name a block device (lsblk -p), or write dir: for a directory"
		case 44:
			e.Mend = "run as root, or as a member of the group that may read it (usually disk)"
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
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("its size is 0: nothing is connected to it"), Mend: "connect it first (nbd-client, losetup, insert the medium)"}
	}
	p := iotax.Place{Kind: iotax.PlaceDevice, Path: found["path"], ReadOnly: true, Durability: iotax.Durable,
		Facts: facts(ctx, m, found["path"])}
	p.Facts["device.size"] = strconv.FormatInt(size, 10)
	for _, mt := range probe.ParseMounts(mountText) {
		if mt.Device == found["number"] {
			p.Facts["device.mounted"] = mt.Point
		}
	}
	for _, memory := range []string{"ram", "zram", "nullb"} {
		if strings.HasPrefix(filepath.Base(found["path"]), memory) {
			p.Durability = iotax.Volatile
		}
	}
	if iotax.IsLocal(m) {
		p.Backing = found["path"]
	}
	return p, nil
}

func (d *device) Detach(context.Context) error { return nil }
func (d *device) Close(context.Context) error  { return nil }
