package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/plan"
)

// DiskSpec is `disk: {…}`: a disk of a guest, which is an image file on a target of the host, or an NBD export.
type DiskSpec struct {
	Bus               string    `yaml:"bus" doc:"how the guest sees the disk" enum:"virtio-blk,virtio-scsi,nvme"`
	Format            string    `yaml:"format" doc:"format of the image file" enum:"raw,qcow2"`
	Cache             string    `yaml:"cache" doc:"use of the host's page cache, and what a flush does" enum:"none,writeback,writethrough,directsync,unsafe"`
	AIO               string    `yaml:"aio" doc:"how the host does the I/O" enum:"threads,native,io_uring"`
	NoFlush           bool      `yaml:"no_flush" doc:"acknowledge flushes without doing them, in any cache mode; cache: unsafe is writeback with this key"`
	IOThread          bool      `yaml:"iothread" doc:"use a separate I/O thread for the disk"`
	IOPS              int       `yaml:"iops" doc:"limit of I/Os per second, reads and writes together, enforced by QEMU; 0 means none"`
	Hot               bool      `yaml:"hot" doc:"plug the disk in as soon as the guest runs; virtio-blk only"`
	Size              plan.Size `yaml:"size" doc:"size of the disk; 0 fits the data of the workloads, or is the size of the export"`
	Discard           string    `yaml:"discard" doc:"what a discard of the guest does to the image: ignore (QEMU's default) or unmap" enum:"ignore,unmap"`
	DetectZeroes      string    `yaml:"detect_zeroes" doc:"detection of written zeroes: off (QEMU's default), on (written as an allocated range of zeroes) or unmap (discarded)" enum:"off,on,unmap"`
	NumQueues         int       `yaml:"num_queues" doc:"request queues of the disk; 0 is QEMU's default. A guest uses at most one for each CPU"`
	QueueSize         int       `yaml:"queue_size" doc:"entries of a request queue, virtio only; 0 is QEMU's default"`
	IOThreadVQMapping int       `yaml:"iothread_vq_mapping" doc:"number of I/O threads among which the queues of a virtio-blk disk are divided, by QEMU 9.0 or later; 0 means none"`
	ClusterSize       plan.Size `yaml:"cluster_size" doc:"qcow2 only: size of a cluster; 0 is the default of qemu-img"`
	ExtendedL2        bool      `yaml:"extended_l2" doc:"qcow2 only: allocate parts of clusters (subclusters)"`
	LazyRefcounts     bool      `yaml:"lazy_refcounts" doc:"qcow2 only: postpone updates of reference counts"`
	DriveArgs         string    `yaml:"drive_args" doc:"properties to add to QEMU's -drive, as in l2-cache-size=4M"`
	DeviceArgs        string    `yaml:"device_args" doc:"properties to add to QEMU's -device, as in packed=on"`
	Preallocation     string    `yaml:"preallocation" doc:"preallocation of the image: off (sparse), metadata (qcow2 only), falloc, full (written with zeroes)" enum:"off,metadata,falloc,full"`
	Filesystem        string    `yaml:"filesystem" doc:"ext4, xfs and btrfs are made in the guest; squashfs and erofs are read-only, made on the host with the files that the workloads read; none is the raw device, filled once with random data; root is the root file system of the micro-guest, written at each boot" enum:"ext4,xfs,btrfs,squashfs,erofs,none,root"`
	OfTarget          string    `yaml:"of" doc:"target on the machine that the guest is on: a directory that holds the image, or an NBD export in place of an image; empty means the baseline"`
}

func (s *DiskSpec) Traits() plan.Traits {
	can := plan.Traits{Of: &s.OfTarget, Choices: s.choices(), Elsewhere: s.elsewhere()}
	if s.Format == "qcow2" || s.Filesystem == "root" {
		can.Tools = append(can.Tools, "qemu-img")
	}
	if fs, ok := sealed[s.Filesystem]; ok {
		can.Tools = append(can.Tools, fs.tool)
	}
	return can
}

// diskDefaults makes a guest disk comparable with a directory of the host: the guest's I/O bypasses the host's page
// cache, and flushes reach the device. aio=threads is QEMU's default and works on every host.
var diskDefaults = DiskSpec{Bus: "virtio-blk", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "falloc", Filesystem: "ext4"}

// SetScalar sets only the bus, as in `disk: nvme`.
func (s *DiskSpec) SetScalar(v string) error { s.Bus = v; return nil }

// Validate returns an error for invalid values, and for keys that cannot be combined.
func (s *DiskSpec) Validate() error {
	var errs []error
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
	_, ro := sealed[s.Filesystem]
	if (ro || s.Filesystem == "none") && s.Preallocation != diskDefaults.Preallocation {
		refuse("preallocation", "with filesystem: "+s.Filesystem+" the image is written in full", "leave preallocation out, or use another filesystem")
	}
	if ro {
		if s.Format != "raw" {
			refuse("format", "a read-only file system is its own image", "leave format out")
		}
		if s.Size != 0 {
			refuse("size", "a read-only file system is as large as its files", "leave size out")
		}
	}
	s.checkOptions(refuse)
	if s.Hot && (s.Bus != "virtio-blk" || s.IOThread || s.Filesystem == "root") {
		refuse("hot", "only a virtio-blk disk without iothread, which is not the root, can be plugged in later", "leave hot out")
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

// diskSize returns the size in bytes of a disk for need bytes of files. It adds space for the file system and its
// journal, and rounds up to a multiple of 64 MiB. If need is 0 (unknown), it returns 1 GiB.
func diskSize(need int64) int64 {
	if need <= 0 {
		return 1 << 30
	}
	const step = 64 << 20
	return (need + need/4 + 256<<20 + step - 1) / step * step
}

// A disk is a guest disk whose image or NBD export exists.
type disk struct {
	life
	spec  DiskSpec
	id    string // serial number
	image string
	size  int64
}

// serveFrom returns the directory on the host for the files of a volume. It returns an error if the target `of` is not
// a writable directory of this host.
func serveFrom(op string, e Env, of string) (string, error) {
	if e.Host == nil || !iotax.IsLocal(e.Host) {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("only this host can serve it")}
	}
	if e.Of.Kind != iotax.PlaceDir || !strings.HasPrefix(e.Of.Path, "/") {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("the target below it is not a directory of the host"),
			Hint: "let of: name a target of the host with dir:"}
	}
	if e.Of.ReadOnly {
		return "", &iotax.Error{Op: op, On: of, Err: errors.New("the target below it is read-only"), Hint: "let of: name a directory that can be written"}
	}
	return strings.TrimSuffix(e.Of.Path, "/"), nil
}

// prepareDisk makes the image, unless the disk is an NBD export. It fills the image of a raw device (filesystem: none),
// because the first write to a sparse or unwritten block is slower than later writes. On a file system, iotax writes the
// test files once before the first trial.
func prepareDisk(ctx context.Context, s *DiskSpec, e Env) (_ iotax.Volume, err error) {
	if _, ro := sealed[s.Filesystem]; ro {
		return prepareSealed(ctx, s, e)
	}
	d := &disk{life: life{env: e}, spec: *s, id: "iotax-" + e.ID, size: int64(s.Size)}
	if e.Of.Kind == iotax.PlaceURL && e.Of.Facts[iotax.FactNBD] != "" {
		if err := d.onExport(); err != nil {
			return nil, err
		}
		return d, nil
	}
	dir, err := serveFrom("make disk", e, s.OfTarget)
	if err != nil {
		return nil, err
	}
	d.image = dir + "/disk-" + e.ID + "." + s.Format
	if d.size == 0 {
		d.size = diskSize(e.Need)
		if s.Filesystem == "none" && e.Need > 0 {
			const step = 1 << 20
			d.size = (max(e.Need, 16<<20) + step - 1) / step * step
		}
	}
	d.size = d.size / 512 * 512
	if d.size < e.Need {
		return nil, &iotax.Error{Op: "make disk", On: d.image, Err: fmt.Errorf("a size of %s is less than the %s that the workloads write", bytesText(d.size), bytesText(e.Need)),
			Hint: "leave size out, or give at least " + bytesText(diskSize(e.Need))}
	}
	if s.Preallocation != "off" && s.Preallocation != "metadata" || s.Filesystem == "none" {
		if err := hasSpace(ctx, "make disk", e, dir, d.size); err != nil {
			return nil, err
		}
	}

	i := image{Path: d.image, Format: s.Format, Fill: s.Preallocation, Size: d.size, Options: s.of(ofImage)}
	if s.Filesystem == "none" {
		i.Fill = random
	}
	if _, err := on(ctx, writing(d.size), makeImage.On, e.Host, i); err != nil {
		return nil, err
	}
	removeLater(&d.made, d.image)
	if err := d.tryDirect(); err != nil {
		return nil, errors.Join(err, d.made.run(ctx))
	}
	return d, nil
}

// onExport uses an NBD export, whose size is fixed, as the disk.
func (d *disk) onExport() error {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "make disk", On: d.env.Of.Path, Err: err, Hint: hint}
	}
	d.image = d.env.Of.Path
	size, err := strconv.ParseInt(d.env.Of.Facts["nbd.size"], 10, 64)
	switch {
	case d.env.Of.ReadOnly || err != nil:
		return fail(errors.New("the export is read-only"), "let of: name an export that iotax makes: {nbd: {size: 512MiB}}")
	case d.spec.Format != "raw":
		return fail(errors.New("an export is a raw disk"), "leave format out")
	case d.spec.Preallocation != diskDefaults.Preallocation:
		return fail(errors.New("preallocation does not apply to an export, which exists"), "leave preallocation out")
	case size < max(d.env.Need, d.size):
		return fail(fmt.Errorf("it has %s, less than the %s that the disk needs", bytesText(size), bytesText(max(d.env.Need, d.size))),
			"give it a size: {nbd: {size: "+bytesText(diskSize(d.env.Need))+"}}")
	}
	d.size = size
	return nil
}

// writing returns the time limit for writing n bytes: the constant `slow`, plus 1 s for every 10 MiB.
func writing(n int64) time.Duration { return slow + time.Duration(n/(10<<20))*time.Second }

// hasSpace returns an error if n bytes and the space reserve do not fit into a directory of the host.
func hasSpace(ctx context.Context, op string, e Env, dir string, n int64) error {
	s, err := on(ctx, quick, surveyDir.On, e.Host, dirQuery{Path: dir})
	if err != nil {
		return err
	}
	return s.enough(op, dir, n)
}

// tryDirect returns an error if the cache mode needs O_DIRECT and the image's file system refuses it, as tmpfs does
// before Linux 6.6. QEMU would report that only when the guest starts.
func (d *disk) tryDirect() error {
	if !d.spec.direct() || !refusesDirect(d.image) {
		return nil
	}
	return &iotax.Error{Op: "make disk", On: d.image, Err: fmt.Errorf("cache=%s needs O_DIRECT, which the file system there refuses", d.spec.Cache),
		Hint: "use cache: writeback (and aio: threads or io_uring), or a directory on a real disk"}
}

func (d *disk) Caps() iotax.VolumeCaps {
	root := int64(0)
	if d.spec.Filesystem == "root" {
		root = d.size
	}
	return iotax.VolumeCaps{Findings: d.findings, Devices: []iotax.Device{{ID: d.id, Disk: &iotax.Disk{
		Path: d.image, Format: d.spec.Format, Bus: d.spec.Bus, Cache: d.spec.Cache, AIO: d.spec.AIO, NoFlush: d.spec.NoFlush, IOThread: d.spec.IOThread, IOPS: d.spec.IOPS,
		ReadOnly: sealed[d.spec.Filesystem].tool != "", Hot: d.spec.Hot, Root: root,
		Drive: d.spec.of(ofDrive), Device: d.spec.of(ofDevice), IOThreads: d.spec.IOThreadVQMapping,
	}}}}
}

// appear limits the time until a running guest detects a disk. A hot-plugged disk takes up to 250 ms, and many times as
// long in an emulated guest on a busy host.
var appear = 15 * time.Second

// A diskQuery identifies a disk by its serial number, and limits the wait for the disk to Within.
type diskQuery struct {
	Serial string
	Within time.Duration
}

// findDisk waits until the disk with this serial has a size other than 0, and returns its kernel name, as in vda.
var findDisk = agent.New("volume.find disk", func(ctx context.Context, q diskQuery) (string, error) {
	for end := time.Now().Add(q.Within); ; {
		name, others := diskOf(q.Serial)
		if name != "" && trimmed(name+"/size") != "0" {
			return filepath.Base(name), nil
		}
		if time.Now().After(end) {
			if name != "" {
				return "", fmt.Errorf("its size is still 0 after %v", q.Within)
			}
			return "", fmt.Errorf("no disk has this serial after %v; the guest sees: %s", q.Within, strings.Join(others, " "))
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
})

func trimmed(file string) string {
	text, _ := os.ReadFile(file)
	return strings.Trim(string(text), " \n\x00")
}

// diskOf returns the /sys directory of the disk with this serial, or "" and the names of all disks. The serial is an
// attribute of the disk (virtio-blk) or of its controller (NVMe), or is in VPD page 0x80 after a four-byte header
// (SCSI).
func diskOf(serial string) (dir string, others []string) {
	all, _ := filepath.Glob(kernel.block + "/*")
	for _, b := range all {
		others = append(others, filepath.Base(b))
		vpd, _ := os.ReadFile(b + "/device/vpd_pg80")
		if serial == cmp.Or(trimmed(b+"/serial"), trimmed(b+"/device/serial"), strings.Trim(string(vpd[min(4, len(vpd)):]), " \n\x00")) {
			return b, nil
		}
	}
	return "", others
}

var drivers = map[string]string{"virtio-blk": "virtio_blk", "virtio-scsi": "virtio_scsi and sd_mod", "nvme": "nvme"}

// giveDevice makes the user who called sudo the owner of a device, because fio may run as that user.
var giveDevice = agent.New("volume.give device", func(_ context.Context, path string) (none, error) {
	const op = "use disk"
	if err := needRoot(op, path); err != nil {
		return none{}, err
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice {
		err = errors.New("it is not a block device")
	}
	if caller, ok := agent.Caller(); ok && err == nil {
		err = os.Lchown(path, caller, -1)
	}
	if err != nil {
		return none{}, failed(op, path, err)
	}
	return none{}, nil
})

// Attach makes the disk usable in the guest, and adds the facts of the disk; see place.
func (d *disk) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	p, err := d.place(ctx, m)
	if err != nil {
		return iotax.Place{}, err
	}
	p.Backing = d.image
	if d.env.Of.Kind == iotax.PlaceURL {
		p.Backing = d.env.Of.Backing
	}
	p.Durability = d.durability(p.Durability)
	maps.Copy(p.Facts, map[string]string{
		"of": d.spec.OfTarget, iotax.FactDiskSerial: d.id, iotax.FactDiskBus: d.spec.Bus, "disk.format": d.spec.Format, iotax.FactDiskCache: d.spec.Cache, "disk.aio": d.spec.AIO,
		"disk.no_flush": strconv.FormatBool(d.spec.NoFlush), "disk.iothread": strconv.FormatBool(d.spec.IOThread), iotax.FactDiskSize: strconv.FormatInt(d.size, 10),
		"disk.preallocation": d.spec.Preallocation,
	})
	maps.Copy(p.Facts, d.spec.optionFacts())
	return p, nil
}

// place returns a directory on the disk's file system, or the raw device with `filesystem: none`. It makes the file
// system unless the image already contains one.
func (d *disk) place(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	if d.spec.Filesystem == "root" {
		return d.dirOn(ctx, m, "/var/tmp")
	}
	name, err := on(ctx, appear+quick, findDisk.On, m, diskQuery{d.id, appear})
	var x *iotax.Error
	if err != nil && !errors.As(err, &x) {
		err = &iotax.Error{Op: "find disk", On: fmt.Sprintf("%s in %v", d.id, m), Err: err,
			Hint: "check that the guest's kernel has a driver for " + d.spec.Bus + " (" + drivers[d.spec.Bus] + ")"}
	}
	if err != nil {
		return none, err
	}
	dev := "/dev/" + name
	switch _, ro := sealed[d.spec.Filesystem]; {
	case ro:
		return d.attachSealed(ctx, m, dev)
	case d.spec.Filesystem == "none":
		if _, err := on(ctx, quick, giveDevice.AsRoot, m, dev); err != nil {
			return none, err
		}
		return iotax.Place{Kind: iotax.PlaceDevice, Path: dev, Facts: facts(ctx, m, dev)}, nil
	}
	if _, err := on(ctx, slow, makeFilesystem.AsRoot, m, newFilesystem{d.spec.Filesystem, dev}); err != nil {
		return none, err
	}
	point := "/mnt/" + d.id
	if err := d.mount(ctx, m, mounting{Type: d.spec.Filesystem, Source: dev, Point: point}); err != nil {
		return none, err
	}
	return d.dirOn(ctx, m, point)
}

// durability returns the weakest durability of the guest's file system, the disk, and the storage of the image.
func (d *disk) durability(guest iotax.Durability) iotax.Durability {
	if d.spec.Cache == "unsafe" || d.spec.NoFlush {
		return iotax.Weakest(iotax.FlushIgnored, d.env.Of.Durability)
	}
	return iotax.Weakest(guest, d.env.Of.Durability)
}
