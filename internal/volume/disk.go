package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// DiskSpec is `disk: {…}`: a disk of a guest, made as an image file on a target of the host.
type DiskSpec struct {
	Bus           string    `yaml:"bus" doc:"how the guest sees the disk" enum:"virtio-blk,virtio-scsi,nvme"`
	Format        string    `yaml:"format" doc:"format of the image file" enum:"raw,qcow2"`
	Cache         string    `yaml:"cache" doc:"use of the host's page cache, and what a flush does" enum:"none,writeback,writethrough,directsync,unsafe"`
	AIO           string    `yaml:"aio" doc:"how the host does the I/O" enum:"threads,native,io_uring"`
	NoFlush       bool      `yaml:"no_flush" doc:"flushes are acknowledged and not done, whatever the cache; cache: unsafe is writeback with it"`
	IOThread      bool      `yaml:"iothread" doc:"a thread of its own for the disk"`
	IOPS          int       `yaml:"iops" doc:"limit of I/Os per second, reads and writes together, kept by QEMU; 0 is none"`
	Size          plan.Size `yaml:"size" doc:"size of the disk; 0 fits what the workloads put there"`
	Preallocation string    `yaml:"preallocation" doc:"space of the image taken beforehand: off (sparse), metadata (qcow2 only), falloc, full (written with zeroes)" enum:"off,metadata,falloc,full"`
	Filesystem    string    `yaml:"filesystem" doc:"ext4 is made in the guest; squashfs and erofs are read-only and made on the host, with the files that the workloads read; none is the bare device, whose image is written once with random data" enum:"ext4,squashfs,erofs,none"`
	OfTarget      string    `yaml:"of" doc:"target of the host that the image lies on; the baseline when empty"`
}

func (s *DiskSpec) Traits() plan.Traits {
	can := plan.Traits{Of: &s.OfTarget}
	if s.Format == "qcow2" {
		can.Tools = append(can.Tools, "qemu-img")
	}
	if fs, ok := sealed[s.Filesystem]; ok {
		can.Tools = append(can.Tools, fs.tool)
	}
	return can
}

// The defaults give the pair host directory and guest disk the same treatment: no page cache of the
// host below the guest's, and flushes that reach the device. aio=threads is QEMU's own default and
// the one that works everywhere.
func newDiskSpec() plan.Spec {
	return &DiskSpec{Bus: "virtio-blk", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "falloc", Filesystem: "ext4"}
}

// SetScalar takes the bus alone: `disk: nvme`.
func (s *DiskSpec) SetScalar(v string) error {
	if err := oneOf("bus", v, "virtio-blk", "virtio-scsi", "nvme"); err != nil {
		return err
	}
	s.Bus = v
	return nil
}

// Validate refuses values and combinations that QEMU would refuse later.
func (s *DiskSpec) Validate() error {
	errs := []error{
		oneOf("bus", s.Bus, "virtio-blk", "virtio-scsi", "nvme"),
		oneOf("format", s.Format, "raw", "qcow2"),
		oneOf("cache", s.Cache, "none", "writeback", "writethrough", "directsync", "unsafe"),
		oneOf("aio", s.AIO, "threads", "native", "io_uring"),
		oneOf("preallocation", s.Preallocation, "off", "metadata", "falloc", "full"),
		oneOf("filesystem", s.Filesystem, "ext4", "squashfs", "erofs", "none"),
	}
	refuse := func(field, msg, hint string) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
	}
	if s.AIO == "native" && !s.direct() {
		refuse("aio", "native needs O_DIRECT, which cache: "+s.Cache+" does not use", "use cache: none or directsync, or aio: threads or io_uring")
	}
	if s.IOThread && s.Bus == "nvme" {
		refuse("iothread", "QEMU's nvme has none", "leave iothread out, or use bus: virtio-blk or virtio-scsi")
	}
	if s.Preallocation == "metadata" && s.Format == "raw" {
		refuse("preallocation", "a raw image has no metadata", "use off, falloc or full, or format: qcow2")
	}
	if _, ro := sealed[s.Filesystem]; ro {
		if s.Format != "raw" {
			refuse("format", "a read-only file system is its own image", "leave format out")
		}
		if s.Size != 0 {
			refuse("size", "a read-only file system is as large as its files", "leave size out")
		}
	}
	if s.IOPS < 0 {
		refuse("iops", fmt.Sprintf("%d is negative", s.IOPS), "write a limit, or leave it out")
	}
	if s.Size < 0 || s.Size > 0 && s.Size < 16<<20 {
		refuse("size", fmt.Sprintf("%d bytes are too few for a disk", int64(s.Size)), "use 16MiB or more, or leave it out")
	}
	return errors.Join(errs...)
}

// direct reports whether the host opens the image with O_DIRECT.
func (s *DiskSpec) direct() bool { return s.Cache == "none" || s.Cache == "directsync" }

// diskSize is the size of a disk that need bytes of files fit on: a quarter more for the file system
// and its journal, and 256 MiB, in steps of 64 MiB. With need unknown it is 1 GiB.
func diskSize(need int64) int64 {
	if need <= 0 {
		return 1 << 30
	}
	const step = 64 << 20
	return (need + need/4 + 256<<20 + step - 1) / step * step
}

// disk is the image while it exists.
type disk struct {
	spec     DiskSpec
	env      Env
	id       string // serial
	image    string
	size     int64
	attached undo
	made     undo
	found    []iotax.Finding
}

// serveFrom says where on the host the files of a volume go, or why they cannot.
func serveFrom(op string, e Env, of string) (string, error) {
	if e.Host == nil {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("no machine serves it")}
	}
	if e.Of.Kind != iotax.PlaceDir || !strings.HasPrefix(e.Of.Path, "/") {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("what it stands on is not a directory of the host"),
			Hint: "let of: name a target of the host with dir:"}
	}
	if e.Of.ReadOnly {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("what it stands on is read-only"), Hint: "let of: name a directory that can be written"}
	}
	return strings.TrimSuffix(e.Of.Path, "/"), nil
}

// makeRaw makes the raw image $1 of $2 bytes with the preallocation $3. A file system without
// fallocate (NFS 3, ZFS) gets zeroes written instead.
const makeRaw = `
umask 077
(set -C; : >"$1") || exit 41
case $3 in
off) truncate -s "$2" -- "$1"; exit;;
falloc)
	e=$(fallocate -l "$2" -- "$1" 2>&1) && exit 0
	case $e in *"not supported"*|*"not found"*) ;; *) echo "$e" >&2; exit 42;; esac;;
esac
head -c "$2" /dev/zero >"$1" && sync -- "$1" 2>/dev/null || exit 42
`

// fillRandom makes the raw image $1 of $2 bytes that do not compress: what is read later then
// comes from the device, and not from unwritten extents.
const fillRandom = `
umask 077
(set -C; : >"$1") || exit 41
head -c "$2" /dev/urandom >"$1" && { sync -- "$1" 2>/dev/null || sync; }
`

// tryDirect reads the file $1 with O_DIRECT, in the way of QEMU's probe.
const tryDirect = `dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct`

// prepareDisk makes the image. It is not sparse by default: a first write that has to find space is
// slower than the later ones, and than the host's own file. fallocate leaves extents that are marked
// unwritten; the test file, which every workload writes once before it measures, turns those it
// covers into written ones. A bare device (filesystem: none) has no such file, so that its image is
// written in full here.
func prepareDisk(ctx context.Context, s *DiskSpec, e Env) (_ iotax.Volume, err error) {
	if _, ro := sealed[s.Filesystem]; ro {
		return prepareSealed(ctx, s, e)
	}
	dir, err := serveFrom("make disk", e, s.OfTarget)
	if err != nil {
		return nil, err
	}
	d := &disk{spec: *s, env: e, id: "iotax-" + e.ID, size: int64(s.Size)}
	d.image = dir + "/disk-" + e.ID + "." + s.Format
	if d.size == 0 {
		d.size = diskSize(e.Need)
		if s.Filesystem == "none" && e.Need > 0 {
			const step = 1 << 20
			d.size = (max(e.Need, 16<<20) + step - 1) / step * step
		}
	}
	d.size = d.size / 512 * 512
	on := d.image
	if d.size < e.Need {
		return nil, &iotax.Error{Op: "make disk", On: on, Err: fmt.Errorf("a size of %s is less than the %s that the workloads put there", bytesText(d.size), bytesText(e.Need)),
			Hint: "leave size out, or give at least " + bytesText(diskSize(e.Need))}
	}
	if s.Preallocation != "off" && s.Preallocation != "metadata" || s.Filesystem == "none" {
		out, err := sh(ctx, e.Host, quick, surveyDir, dir)
		if err != nil {
			return nil, &iotax.Error{Op: "make disk", On: on, Err: said(err)}
		}
		if err := parseSurvey(out).enough("make disk", on, d.size); err != nil {
			return nil, err
		}
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, d.made.run(ctx))
		}
	}()
	remove := func(path string) func(context.Context) error {
		return func(ctx context.Context) error {
			if _, err := sh(ctx, e.Host, slow, `rm -f -- "$1"`, path); err != nil {
				return &iotax.Error{Op: "remove disk", On: path, Err: said(err), Hint: "remove it by hand"}
			}
			return nil
		}
	}
	fail := func(err error) error {
		if exit(err) == 41 {
			d.made = undo{} // the file was there before
		}
		x := &iotax.Error{Op: "make disk", On: on, Err: said(err)}
		switch {
		case says(err, "no space", "quota"):
			x.Hint = "free some space, or give a smaller size"
		case exit(err) == 127:
			x.Hint = "install qemu-img (Debian: qemu-utils)"
		case exit(err) == 41:
			x.Hint = "another run uses this directory, or left the file: remove it"
		}
		return x
	}
	writing := slow + time.Duration(d.size/(10<<20))*time.Second // 10 MiB/s at the least

	raw := d.image
	if s.Format == "qcow2" {
		raw = d.image + ".raw" // used only on the way to a fully written image
	}
	d.made.push(remove(d.image))
	switch {
	case s.Filesystem == "none":
		if raw != d.image {
			d.made.push(remove(raw))
		}
		if _, err := sh(ctx, e.Host, writing, fillRandom, raw, strconv.FormatInt(d.size, 10)); err != nil {
			return nil, fail(err)
		}
		if raw != d.image {
			if _, err := sh(ctx, e.Host, writing, `umask 077; qemu-img convert -q -f raw -O qcow2 "$1" "$2" && rm -f -- "$1"`, raw, d.image); err != nil {
				return nil, fail(err)
			}
		}
	case s.Format == "qcow2":
		_, err := sh(ctx, e.Host, writing, `umask 077; [ ! -e "$1" ] || { echo "$1 exists" >&2; exit 41; }
qemu-img create -q -f qcow2 -o "preallocation=$3" "$1" "$2"`, d.image, strconv.FormatInt(d.size, 10), s.Preallocation)
		if err != nil {
			return nil, fail(err)
		}
	default:
		if _, err := sh(ctx, e.Host, writing, makeRaw, d.image, strconv.FormatInt(d.size, 10), s.Preallocation); err != nil {
			return nil, fail(err)
		}
	}
	if err := d.tryDirect(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// tryDirect finds a cache mode that the image's file system refuses. tmpfs before Linux 6.6, and some
// overlay and FUSE file systems, refuse O_DIRECT; QEMU would only say so when the guest starts. A dd
// without iflag (macOS, busybox) cannot tell.
func (d *disk) tryDirect(ctx context.Context) error {
	if !d.spec.direct() {
		return nil
	}
	if _, err := sh(ctx, d.env.Host, quick, tryDirect, d.image); says(err, "invalid argument") && !says(err, "iflag", "unknown operand") {
		return &iotax.Error{Op: "make disk", On: d.image, Err: fmt.Errorf("cache=%s needs O_DIRECT, which the file system there refuses", d.spec.Cache),
			Hint: "use cache: writeback (and aio: threads or io_uring), or a directory on a real disk"}
	}
	return nil
}

func (d *disk) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Findings: d.Findings, Devices: []iotax.Device{{ID: d.id, Disk: &iotax.Disk{
		Path: d.image, Format: d.spec.Format, Bus: d.spec.Bus, Cache: d.spec.Cache, AIO: d.spec.AIO, NoFlush: d.spec.NoFlush, IOThread: d.spec.IOThread, IOPS: d.spec.IOPS,
		ReadOnly: sealed[d.spec.Filesystem].tool != "",
	}}}}
}

// findDisk prints the name and the size in sectors of the disk whose serial is $1. The serial of
// virtio-blk is an attribute of the disk, that of nvme one of the controller, and a SCSI disk has it
// in page 0x80 of its vital product data, behind four bytes of header.
const findDisk = `
for b in /sys/block/*; do
	case ${b##*/} in loop*|ram*|zram*) continue;; esac
	s=
	if [ -r "$b/serial" ]; then read -r s <"$b/serial"
	elif [ -r "$b/device/serial" ]; then read -r s <"$b/device/serial"
	elif [ -r "$b/device/vpd_pg80" ]; then s=$(tr -dc 'a-z0-9-' <"$b/device/vpd_pg80")
	fi
	if [ "$s" = "$1" ]; then
		read -r z <"$b/size"
		echo "${b##*/} $z"
		exit 0
	fi
done
ls /sys/block >&2
exit 41
`

// appear is how long a disk may take to be seen by a guest that is up: hot-plugged ones take up to
// a quarter of a second, and emulation on a busy host multiplies it.
var appear = 15 * time.Second

// find waits until the guest sees the disk with a size.
func (d *disk) find(ctx context.Context, m iotax.Machine) (name string, err error) {
	op, on := "find disk", fmt.Sprintf("%s in %v", d.id, m)
	end := time.Now().Add(appear)
	for {
		out, err := sh(ctx, m, quick, findDisk, d.id)
		f := strings.Fields(out)
		if err == nil && len(f) == 2 && f[1] != "0" {
			return f[0], nil
		}
		if err != nil && exit(err) != 41 {
			return "", &iotax.Error{Op: op, On: on, Err: err}
		}
		if time.Now().After(end) {
			cause := fmt.Errorf("no disk has this serial after %v; the guest sees: %s", appear, strings.Join(strings.Fields(saidText(err)), " "))
			if err == nil {
				cause = fmt.Errorf("its size is still 0 after %v", appear)
			}
			return "", &iotax.Error{Op: op, On: on, Err: cause,
				Hint: "check that the guest's kernel has a driver for " + d.spec.Bus + " (" + drivers[d.spec.Bus] + ")"}
		}
		select {
		case <-ctx.Done():
			return "", &iotax.Error{Op: op, On: on, Err: ctx.Err()}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var drivers = map[string]string{"virtio-blk": "virtio_blk", "virtio-scsi": "virtio_scsi and sd_mod", "nvme": "nvme"}

func saidText(err error) string {
	if err == nil {
		return ""
	}
	return said(err).Error()
}

// makeExt4 makes a file system on $1 with everything written now: lazy initialisation would go on in
// the background of the first trials. On small disks mkfs would take blocks of 1 KiB, so that a file's
// 4 KiB straddle two blocks of the host's file system, which then reads both, and reads before it writes.
const makeExt4 = `
command -v mkfs.ext4 >/dev/null 2>&1 || { echo "mkfs.ext4 is not there" >&2; exit 41; }
mkfs.ext4 -q -F -b 4096 -m 0 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$1" || exit 42
`

// Attach finds the disk in the guest, makes the file system and mounts it.
func (d *disk) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	name, err := d.find(ctx, m)
	if err != nil {
		return none, err
	}
	dev := "/dev/" + name
	var p iotax.Place
	if _, ro := sealed[d.spec.Filesystem]; ro {
		if p, err = d.attachSealed(ctx, m, dev); err != nil {
			return none, err
		}
	} else if d.spec.Filesystem == "none" {
		// fio may run as a plain user there; the device is ours alone.
		if _, err := root(ctx, m, quick, `[ -b "$1" ] || { echo "there is no $1" >&2; exit 41; }; [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID" "$1"`, dev); err != nil {
			return none, &iotax.Error{Op: "use disk", On: fmt.Sprintf("%s in %v", dev, m), Err: said(err)}
		}
		p = iotax.Place{Kind: iotax.PlaceDevice, Path: dev, Facts: facts(ctx, m, dev)}
	} else {
		if _, err := root(ctx, m, slow, makeExt4, dev); err != nil {
			e := &iotax.Error{Op: "make ext4", On: fmt.Sprintf("%s in %v", dev, m), Err: said(err)}
			switch exit(err) {
			case 40:
				e.Hint = "let the guest's user be root, or give it sudo without a password"
			case 41:
				e.Hint = "install e2fsprogs in the guest's image, or use filesystem: none"
			}
			return none, e
		}
		point := "/mnt/" + d.id
		if err := mountAt(ctx, m, &d.attached, &d.found, point, "ext4", dev, ""); err != nil {
			return none, err
		}
		inner := &dir{want: point, need: d.env.Need}
		d.attached.push(inner.Detach)
		if p, err = inner.Attach(ctx, m); err != nil {
			return none, err
		}
	}
	p.Backing = d.image
	p.Durability = d.durability(p.Durability)
	maps.Copy(p.Facts, map[string]string{
		"of": d.spec.OfTarget, iotax.FactDiskSerial: d.id, iotax.FactDiskBus: d.spec.Bus, "disk.format": d.spec.Format, iotax.FactDiskCache: d.spec.Cache, "disk.aio": d.spec.AIO,
		"disk.no_flush": strconv.FormatBool(d.spec.NoFlush), "disk.iothread": strconv.FormatBool(d.spec.IOThread), iotax.FactDiskSize: strconv.FormatInt(d.size, 10),
		"disk.preallocation": d.spec.Preallocation,
	})
	return p, nil
}

// durability is the weakest promise on the way down: the guest's file system, the disk, and what the
// image lies on.
func (d *disk) durability(guest iotax.Durability) iotax.Durability {
	if d.spec.Cache == "unsafe" || d.spec.NoFlush {
		return iotax.Weakest(iotax.FlushIgnored, d.env.Of.Durability)
	}
	return iotax.Weakest(guest, d.env.Of.Durability)
}

func (d *disk) Detach(ctx context.Context) error { return d.attached.run(ctx) }
func (d *disk) Close(ctx context.Context) error  { return d.made.run(ctx) }

// Findings tells what was noticed while the disk was in use.
func (d *disk) Findings() []iotax.Finding { return d.found }
