package probe

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/agent"
)

// A Mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)) of this host or another machine.
type Mount struct {
	Device  string // "major:minor"; major is 0 if the file system is not on a single block device, as for tmpfs, overlay and btrfs
	Point   string
	Type    string // type of the file system
	Source  string
	Options []string // options of the mount point, then further options of the file system

	upper *Mount // mount of an overlay's upper directory, if it is visible
}

// ParseMounts parses a mountinfo. It skips lines that it cannot parse.
func ParseMounts(text string) []Mount {
	var ms []Mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Split(left, " "), strings.Split(right, " ") // the source may be empty
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := Mount{Device: l[2], Point: unescape(l[4]), Type: r[0], Source: unescape(r[1])}
		options := l[5]
		if len(r) > 2 {
			options += "," + r[2]
		}
		seen := map[string]bool{}
		for o := range strings.SplitSeq(options, ",") {
			if !seen[o] {
				seen[o] = true
				m.Options = append(m.Options, o)
			}
		}
		ms = append(ms, m)
	}
	return ms
}

// Option returns the value of the option "name=value". It returns true if there is an option with this name, even
// without a value.
func (m Mount) Option(name string) (string, bool) {
	for _, o := range m.Options {
		if k, v, _ := strings.Cut(o, "="); k == name {
			return unescape(v), true
		}
	}
	return "", false
}

// ReadOnly reports whether the mount point or its file system is read-only.
func (m Mount) ReadOnly() bool {
	_, ro := m.Option("ro")
	return ro
}

// number returns the number of the device that the mount names, or "" if it names none. A container may show the device
// under the name of another.
func (m Mount) number() string {
	switch {
	case !strings.HasPrefix(m.Device, "0:"):
		return m.Device
	case filepath.IsAbs(m.Source): // btrfs has an anonymous device number
		return deviceNumber(m.Source)
	}
	return ""
}

// MountOf returns the mount of an absolute path: the one with the longest mount point at or above the path. If several
// mounts have this mount point, it returns the last one, which hides the others.
func MountOf(ms []Mount, p string) (Mount, bool) {
	m, found := mountOf(ms, p)
	if m.Type == "overlay" {
		if u, ok := upper(ms, m); ok {
			m.upper = &u
		}
	}
	return m, found
}

func mountOf(ms []Mount, p string) (Mount, bool) {
	var best Mount
	found := false
	for _, m := range ms {
		if within(p, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// flushingFUSE lists the types of FUSE file systems whose flushes reach the server. Others may not implement fsync(2), may
// have an option that ignores it, or pass it on to a file system that the mount does not show. The type fuseblk is not
// in doubt: ntfs-3g and exfat-fuse flush their block device.
var flushingFUSE = []string{
	"fuse.sshfs",                                    // sends fsync@openssh.com, which OpenSSH implements since version 6.5
	"fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", // as the clients in the kernel do
}

// Durability returns the guarantee of an acknowledged flush on the file system. For an overlay, it is that of the file
// system of the upper directory.
func (m Mount) Durability() iotax.Durability {
	switch m.Type {
	case "tmpfs", "ramfs", "rootfs":
		return iotax.Volatile
	}
	if device, ok := strings.CutPrefix(m.Source, "/dev/"); ok && memoryDisk.MatchString(device) {
		return iotax.Volatile
	}
	barrier, _ := m.Option("barrier")
	_, none := m.Option("nobarrier")
	_, volatile := m.Option("volatile")
	switch {
	case none, barrier == "0": // the file system then sends no flush to the device
		return iotax.FlushIgnored
	case m.Type == "overlay" && volatile: // the kernel then ignores every sync
		return iotax.FlushIgnored
	case m.upper != nil:
		return m.upper.Durability()
	case (m.Type == "fuse" || strings.HasPrefix(m.Type, "fuse.")) && !slices.Contains(flushingFUSE, m.Type):
		return iotax.UnknownDurability(m.Type)
	}
	return iotax.Durable
}

// SystemDurability returns the strongest guarantee of fsync(2) on the system with this name (from uname). On macOS,
// fsync leaves data in the drive's cache.
func SystemDurability(name string) iotax.Durability {
	if name == "Darwin" {
		return iotax.DriveCache
	}
	return iotax.Durable
}

// Durability returns the guarantee of an acknowledged flush of a file on this host, or iotax.Durable if it cannot read
// the mounts.
func Durability(file string) iotax.Durability {
	if runtime.GOOS == "darwin" {
		return SystemDurability("Darwin")
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return iotax.Durable
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	m, _ := MountOf(ParseMounts(string(text)), file)
	return m.Durability()
}

func within(p, dir string) bool {
	return dir == "/" && path.IsAbs(p) || p == dir || strings.HasPrefix(p, dir+"/")
}

// unescape decodes octal escapes, such as those of blanks and newlines.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Place returns facts about the path p on m: a file, a directory or a block device. The facts of a file system are
// filesystem, filesystem.source, filesystem.mount, filesystem.options, filesystem.upper (type of the file system of an
// overlay's upper directory), and filesystem.unmounted (a mount point in /etc/fstab, at or above the path, at which
// nothing is mounted).
//
// If the path is a block device or is stored on one, the facts also include device.name, device.disk (for a partition,
// its disk), device.size (bytes), device.model, device.mapped (name of a device-mapper device, or level of a RAID),
// device.on (the devices or the file that it consists of), queue.scheduler, queue.rotational, queue.write_cache,
// queue.nr_requests, queue.logical_block_size and further limits of the queue. For an overlay, the device is that of
// its upper directory, if that directory is visible.
func Place(ctx context.Context, m iotax.Machine, p string) (map[string]string, error) {
	facts, err := lookAt.On(ctx, m, p)
	if errors.Is(err, fs.ErrNotExist) {
		err = &iotax.Error{Op: "look at", On: p + " on " + m.String(), Err: errors.New("no such file or directory")}
	}
	return facts, err
}

var lookAt = agent.New("look at a place", func(_ context.Context, p string) (map[string]string, error) { return thisHost.place(p) })

func (fs system) place(p string) (map[string]string, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return nil, err
	}
	if p, err = filepath.EvalSymlinks(p); err != nil {
		return nil, err
	}
	if _, err := os.Stat(p); err != nil {
		return nil, err
	}
	facts := map[string]string{}
	if number := deviceNumber(p); number != "" {
		fs.device(facts, fs.byNumber(number))
		return facts, nil
	}
	ms := ParseMounts(fs.read(fs.proc, "self/mountinfo"))
	mount, ok := MountOf(ms, p)
	if !ok {
		return facts, nil // not Linux
	}
	set(facts, "filesystem", mount.Type)
	set(facts, iotax.FactFilesystemSource, mount.Source)
	set(facts, iotax.FactFilesystemMount, mount.Point)
	set(facts, iotax.FactFilesystemOptions, strings.Join(mount.Options, ","))
	set(facts, iotax.FactFilesystemUnmounted, unmounted(fs.read("/etc/fstab"), p, mount.Point))
	if mount.upper != nil {
		mount = *mount.upper
		set(facts, "filesystem.upper", mount.Type)
	}
	fs.device(facts, fs.byNumber(mount.number()))
	return facts, nil
}

// read returns the text of a file, or "" if it cannot be read.
func (system) read(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(path...))
	return string(text)
}

// byNumber returns the name of the device with a number such as "8:1", or "" if it is unknown.
func (fs system) byNumber(number string) string {
	if number == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(filepath.Join(fs.sys, "dev/block", number)); err == nil {
		return filepath.Base(real)
	}
	// Podman hides /sys/dev/block from its containers.
	all, _ := filepath.Glob(filepath.Join(fs.sys, "class/block/*/dev"))
	for _, dev := range all {
		if strings.TrimSpace(fs.read(dev)) == number {
			return filepath.Base(filepath.Dir(dev))
		}
	}
	return ""
}

// unmounted returns the longest mount point at or above p that fstab lists but that is not mounted, or "". p is on the
// file system that is mounted at `mounted`.
func unmounted(fstab, p, mounted string) (point string) {
	for line := range strings.Lines(fstab) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || !path.IsAbs(f[1]) {
			continue
		}
		if at := path.Clean(unescape(f[1])); within(p, at) && at != mounted && within(at, mounted) && len(at) > len(point) {
			point = at
		}
	}
	return point
}

// upper returns the mount of an overlay's upper directory. In a container, that directory is a path of the host that
// does not exist here. It therefore seems to be on the overlay itself, and upper returns false.
func upper(ms []Mount, overlay Mount) (Mount, bool) {
	dir, _ := overlay.Option("upperdir")
	if !path.IsAbs(dir) {
		return Mount{}, false
	}
	m, ok := mountOf(ms, dir)
	return m, ok && m.Type != "overlay"
}

// queueFacts lists the files of a disk's queue directory that become facts.
var queueFacts = []string{"scheduler", "rotational", "write_cache", "nr_requests", "logical_block_size", "physical_block_size", "max_sectors_kb", "read_ahead_kb"}

// device adds the facts of a block device, if name is not empty. A partition has the queue and the model of its disk.
func (fs system) device(facts map[string]string, name string) {
	dir, err := filepath.EvalSymlinks(filepath.Join(fs.sys, "class/block", name))
	if name == "" || err != nil {
		return
	}
	disk := dir
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		disk = filepath.Dir(dir)
	}
	set(facts, iotax.FactDeviceName, filepath.Base(dir))
	set(facts, iotax.FactDeviceDisk, filepath.Base(disk))
	for _, k := range queueFacts {
		set(facts, "queue."+k, fs.read(disk, "queue", k))
	}
	if s, ok := facts[iotax.FactQueueScheduler]; ok { // "none [mq-deadline] kyber": the scheduler in brackets is active
		if _, rest, ok := strings.Cut(s, "["); ok {
			facts[iotax.FactQueueScheduler], _, _ = strings.Cut(rest, "]")
		}
	}
	// sysfs counts sectors of 512 bytes, whatever the block size of the device.
	if n, err := strconv.ParseUint(strings.TrimSpace(fs.read(dir, "size")), 10, 54); err == nil {
		facts[iotax.FactDeviceSize] = strconv.FormatUint(n*512, 10)
	}
	vendor := strings.TrimSpace(fs.read(disk, "device/vendor"))
	if strings.HasPrefix(vendor, "0x") { // a PCI or virtio id, not a name
		vendor = ""
	}
	set(facts, iotax.FactDeviceModel, vendor+" "+fs.read(disk, "device/model"))
	set(facts, "device.mapped", fs.read(disk, "dm/name"))
	set(facts, "device.mapped", fs.read(disk, "md/level"))
	slaves, _ := filepath.Glob(filepath.Join(disk, "slaves/*"))
	for i := range slaves {
		slaves[i] = filepath.Base(slaves[i])
	}
	set(facts, "device.on", strings.Join(slaves, " "))
	file := strings.TrimSuffix(fs.read(disk, "loop/backing_file"), "\n")
	set(facts, "device.on", file)
	if memoryDisk.MatchString(filepath.Base(disk)) || fs.inMemory(file) {
		facts[iotax.FactDeviceVolatile] = "yes"
	}
}

// memoryDisk matches the disks of brd, zram and null_blk, and their partitions.
var memoryDisk = regexp.MustCompile(`^(?:ram|zram|nullb)[0-9]`)

// inMemory reports whether a file exists and is in memory. In a container, the file of a loop device may not exist.
func (fs system) inMemory(file string) bool {
	if _, err := os.Stat(file); err != nil {
		return false
	}
	m, _ := MountOf(ParseMounts(fs.read(fs.proc, "self/mountinfo")), file)
	return m.Durability() == iotax.Volatile
}
