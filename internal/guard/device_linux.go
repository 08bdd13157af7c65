package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/agent"
)

type system struct{ proc, sys string }

var kernel = system{proc: "/proc", sys: "/sys"}

// busyTries is the maximum number of checks of a device that a process has open. inspect checks repeatedly, because
// udev briefly opens a new device.
const busyTries = 4

func inspect(ctx context.Context, q Query) (*Facts, error) { return kernel.inspect(ctx, q) }

func (s system) inspect(ctx context.Context, q Query) (*Facts, error) {
	if os.Geteuid() != 0 {
		return nil, &iotax.Error{Op: opLook, On: q.Path, Err: ErrNotRoot, Hint: "run as root, or let sudo ask for no password"}
	}
	for try := 1; ; try++ {
		f, err := s.facts(ctx, q)
		if err != nil {
			return nil, err
		}
		v := f.Judge()
		if !v.Used() && (q.Read || !f.Looked) {
			return f, f.read()
		}
		if len(v.Busy) == 0 || len(v.InUse) > 0 || try == busyTries {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, &iotax.Error{Op: opLook, On: q.Path, Err: context.Cause(ctx)}
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// read searches the device for signatures without external tools.
func (f *Facts) read() error {
	device, err := os.Open(f.Path)
	if err == nil {
		err = errors.Join(f.readSignatures(device), device.Close())
	}
	if err != nil {
		return &iotax.Error{Op: "look for signatures on", On: f.Path, Err: err, Hint: "the device must be readable before it is overwritten"}
	}
	return nil
}

// facts collects the current facts. Only wipefs and blkid read the device.
func (s system) facts(ctx context.Context, q Query) (*Facts, error) {
	fail := func(hint, format string, args ...any) (*Facts, error) {
		return nil, &iotax.Error{Op: opLook, On: q.Path, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	real, number, err := find(q.Path)
	if err != nil {
		return nil, err
	}
	dir, ok := s.device(number)
	if !ok {
		return fail("block devices can be written on Linux, with /sys mounted", "cannot list what uses it: /sys/dev/block/%s does not exist", number)
	}
	sectors, err := strconv.ParseInt(firstLine(dir+"/size"), 10, 64)
	if err != nil {
		return fail("block devices can be written on Linux, with /sys mounted", "its size is not known (%q)", firstLine(dir+"/size"))
	}
	f := &Facts{Path: real, Number: number, Size: sectors * 512, ReadOnly: firstLine(dir+"/ro") == "1"}
	whole := dir
	if exists(dir + "/partition") {
		whole = filepath.Dir(dir)
	}
	f.Model = printable(whole + "/device/model")
	for _, name := range []string{"serial", "device/serial", "device/vpd_pg80", "wwid", "device/wwid", "loop/backing_file"} {
		if f.Serial = printable(whole + "/" + name); f.Serial != "" {
			break
		}
	}

	w := walk{system: s, facts: f, seen: map[string]bool{}}
	err = w.visit(Self, dir)
	if err == nil && whole != dir {
		err = w.visit(Whole, whole)
	}
	if err != nil {
		return fail("give the device up on the machine itself, and not in a container there", "%w", err)
	}
	for _, file := range glob(s.sys + "/block/loop*/loop/backing_file") {
		if path, err := line(file); err == nil {
			f.Loops = append(f.Loops, s.loopBacking(filepath.Dir(filepath.Dir(file)), path))
		}
	}
	for _, file := range append(glob(s.sys+"/kernel/config/nvmet/subsystems/*/namespaces/*/device_path"), glob(s.sys+"/kernel/config/target/core/*/*/udev_path")...) {
		if path, err := line(file); err == nil && strings.HasPrefix(path, "/") {
			f.Exports = append(f.Exports, Backing{ID: identify(path), Path: path})
		}
	}
	for _, member := range glob(s.sys + "/fs/btrfs/*/devices/*") {
		f.Btrfs = append(f.Btrfs, filepath.Base(member))
	}
	if f.Swaps, err = s.swaps(); err != nil {
		return fail("", "cannot list swap: %w", err)
	}
	if f.Exclusive, err = exclusive(real, q.Held); err != nil {
		return fail("", "cannot open it: %w", err)
	}
	if err := f.askTools(ctx); err != nil {
		return fail("see what wipefs reports, as root: wipefs --no-act "+iotax.Quote(real)+"; iotax overwrites no device whose content is not known", "%w", err)
	}
	if f.Mounts, err = s.mounts(); err != nil {
		return fail("", "cannot list mounts: %w", err)
	}
	if f.Open, f.Own, err = s.open(f); err != nil {
		return fail("check that /proc is mounted, and is that of the process's own PID namespace: ls -lL /proc/self/fd", "cannot list the processes that have it open: %w", err)
	}
	return f, nil
}

// find returns the real path and the number (major:minor) of a block device.
func find(path string) (real, number string, err error) {
	var st unix.Stat_t
	fail := func(err error, hint string) (string, string, error) {
		return "", "", &iotax.Error{Op: opLook, On: path, Err: err, Hint: hint}
	}
	if err = unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return fail(errors.New("it is not a block device"), "name a block device (lsblk -p), or write dir: for a directory")
	}
	if err == nil {
		real, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file")
	}
	if err != nil {
		return fail(err, "list the devices of that machine: lsblk -p")
	}
	return real, numberOf(uint64(st.Rdev)), nil
}

func survey(_ context.Context, q SurveyQuery) (d Device, err error) {
	real, number, err := find(q.Path)
	if err != nil {
		return d, err
	}
	d = Device{Path: real, Number: number}
	fail := func(err error, hint string) (Device, error) {
		return d, &iotax.Error{Op: opLook, On: q.Path, Err: err, Hint: hint}
	}
	const denied = "run as root, or as a member of the group that may read it (usually disk)"
	f, err := os.Open(real)
	if err != nil {
		return fail(err, denied)
	}
	defer f.Close()
	if d.Size, err = f.Seek(0, io.SeekEnd); err != nil {
		return fail(err, "")
	}
	if d.Size == 0 {
		// fio reports 0 IOPS and no error for a device of size 0.
		return fail(errors.New("its size is 0: nothing is connected to it"), "connect it first (nbd-client, losetup, insert the medium)")
	}
	if err := readAt(f, make([]byte, min(4096, d.Size)), 0); err != nil {
		return fail(err, denied)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fail(err, "")
	}
	for _, m := range mounts {
		if fmt.Sprintf("%d:%d", m.Major, m.Minor) == number {
			d.MountedOn = m.Mountpoint
		}
	}
	if q.Trust {
		if err := distrustLinks(q.Path); err != nil {
			return d, &iotax.Error{Op: "overwrite block device", On: q.Path, Err: fmt.Errorf("another user could redirect what root writes there: %w", err),
				Hint: "name the device itself, as in /dev/nvme0n1"}
		}
	}
	return d, nil
}

func numberOf(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }

// identify returns the ID of the file that path leads to, or "" if stat fails.
func identify(path string) string {
	st, err := status(path)
	if err != nil {
		return ""
	}
	return idOf(st)
}

// status returns the type and inode of a file. It does not query the server of a network file system, because the query
// may hang.
func status(path string) (*unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st)
	return &st, err
}

func idOf(st *unix.Statx_t) string {
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fmt.Sprintf("b%d:%d", st.Rdev_major, st.Rdev_minor)
	}
	return fmt.Sprintf("%d:%d:%d", st.Dev_major, st.Dev_minor, st.Ino)
}

// device returns the sysfs directory of a device. It also searches /sys/class/block, because Podman hides
// /sys/dev/block from its containers.
func (s system) device(number string) (dir string, ok bool) {
	if real, err := filepath.EvalSymlinks(s.sys + "/dev/block/" + number); err == nil && exists(real+"/dev") {
		return real, true
	}
	for _, dir := range glob(s.sys + "/class/block/*") {
		if firstLine(dir+"/dev") == number {
			real, err := filepath.EvalSymlinks(dir)
			return real, err == nil
		}
	}
	return "", false
}

// A walk adds a device, its related devices and their backing files to the facts.
type walk struct {
	system
	facts *Facts
	seen  map[string]bool
}

func (w *walk) visit(as Relation, dir string) error {
	number := firstLine(dir + "/dev")
	if w.seen[dir] || number == "" {
		return nil
	}
	w.seen[dir] = true
	n := Node{Relation: as, Number: number, Name: filepath.Base(dir), Kind: firstLine(dir + "/dm/name")}
	if level := firstLine(dir + "/md/level"); level != "" {
		n.Kind = "RAID " + level
	}
	w.facts.Nodes = append(w.facts.Nodes, n)
	follow := map[Relation][]string{Holder: glob(dir + "/holders/*"), Slave: glob(dir + "/slaves/*")}
	if as != Whole {
		for _, mark := range glob(dir + "/*/partition") {
			follow[Partition] = append(follow[Partition], filepath.Dir(mark))
		}
	}
	for _, as := range []Relation{Holder, Slave, Partition} {
		for _, link := range follow[as] {
			real, err := filepath.EvalSymlinks(link)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the device was removed in the meantime
			}
			if err == nil {
				err = w.visit(as, real)
			}
			if err != nil {
				return err
			}
		}
	}
	path, err := line(dir + "/loop/backing_file")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not a loop device
	} else if err != nil {
		return err
	}
	b := w.loopBacking(dir, path)
	w.facts.Files = append(w.facts.Files, b)
	st, err := os.Stat(path)
	under, isBlock := strings.CutPrefix(b.ID, "b")
	switch {
	case isBlock:
		below, ok := w.device(under)
		if !ok {
			return fmt.Errorf("cannot list what uses %s, which lies under %s: this system does not show it", path, n.Name)
		}
		return w.visit(Slave, below)
	case strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") && (err != nil || !st.Mode().IsRegular()):
		return fmt.Errorf("%s, which lies under %s, cannot be seen from here", path, n.Name)
	}
	return nil
}

// loopBacking identifies the backing file of the loop device whose sysfs directory is dir. Unless path leads to a block
// device, it queries the kernel, because path may no longer exist, or may lead to another file.
func (s system) loopBacking(dir, path string) Backing {
	name := filepath.Base(dir)
	b := Backing{User: name, ID: identify(path), Path: path}
	if strings.HasPrefix(b.ID, "b") {
		return b
	}
	f, err := os.OpenFile("/dev/"+name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return b
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK || numberOf(uint64(st.Rdev)) != firstLine(dir+"/dev") {
		return b // the file in /dev belongs to another device
	}
	if info, err := unix.IoctlLoopGetStatus64(int(f.Fd())); err == nil && info.Inode != 0 {
		b.ID = fmt.Sprintf("%s:%d", numberOf(info.Device), info.Inode)
	}
	return b
}

// octal replaces the escapes in /proc/swaps.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func (s system) swaps() (all []Backing, err error) {
	text, err := os.ReadFile(s.proc + "/swaps")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the kernel does not support swap
	}
	for line := range strings.Lines(string(text)) {
		if path, _, _ := strings.Cut(line, " "); strings.HasPrefix(path, "/") {
			path = octal.Replace(path)
			all = append(all, Backing{ID: identify(path), Path: path})
		}
	}
	return all, err
}

// exclusive reports whether another holder has the device open with O_EXCL. It returns false if this process holds the
// device.
func exclusive(path string, held bool) (bool, error) {
	if held {
		return false, nil
	}
	f, err := openAlone(path)
	if err == nil {
		err = f.Close()
	}
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	return false, err
}

func openAlone(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_EXCL, 0) }

// Hold opens a block device of this host exclusively. Until the file is closed, the kernel does not mount the device,
// swap to it, or build another device on it. fio can still use the device, because fio opens it without O_EXCL.
func Hold(path string) (*os.File, error) {
	f, err := openAlone(path)
	if errors.Is(err, unix.EBUSY) {
		err = errors.New(HeldText)
	}
	return f, err
}

// askTools searches for signatures with wipefs and blkid, if they are installed.
func (f *Facts) askTools(ctx context.Context) error {
	if wipefs, err := agent.Tool("wipefs"); err == nil && run(ctx, wipefs, "--version").err == nil { // busybox's wipefs has no --version
		r := run(ctx, wipefs, "--no-act", "--parsable", f.Path)
		if r.err != nil {
			return r.err
		}
		f.Looked = true
		for line := range strings.Lines(r.out) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				f.Signs = appendNew(f.Signs, strings.Trim(line[strings.LastIndexByte(line, ',')+1:], `"`)) // the fields of line are offset,uuid,label,type
			}
		}
	}
	blkid, err := agent.Tool("blkid")
	if err != nil {
		return nil //nolint:nilerr // Looked reports whether wipefs searched the device
	}
	r := run(ctx, blkid, "-p", "-o", "export", f.Path)
	switch r.status {
	case 0, 2: // 0: signatures found, 2: none found
		f.Looked = true
	case 8:
		f.Looked = true
		f.Signs = appendNew(f.Signs, "several signatures that contradict each other")
	default: // busybox's blkid
		r = run(ctx, blkid, f.Path)
	}
	for _, word := range strings.Fields(r.out) {
		key, name, _ := strings.Cut(word, "=")
		if name = strings.Trim(name, `"`); (key == "TYPE" || key == "PTTYPE") && name != "" {
			f.Signs = appendNew(f.Signs, name)
		}
	}
	return ctx.Err()
}

type result struct {
	out    string
	status int
	err    error
}

// toolTime limits wipefs and blkid, which read only a few sectors.
const toolTime = 30 * time.Second

func run(ctx context.Context, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	out, err := agent.Exec(ctx, args...)
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		status = -1
	}
	return result{out, status, err}
}

// mounts returns the mounts in the mount namespaces of all processes.
func (s system) mounts() (all []Mount, err error) {
	seen := map[string]bool{}
	var text strings.Builder
	for _, file := range glob(s.proc + "/[0-9]*/mountinfo") {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		for line := range strings.Lines(string(b)) {
			if !seen[line] {
				seen[line] = true
				text.WriteString(line)
			}
		}
	}
	if len(seen) == 0 {
		return nil, errors.New("no mountinfo of any process can be read")
	}
	found, err := mountinfo.GetMountsFromReader(strings.NewReader(text.String()), nil)
	for _, m := range found {
		all = append(all, Mount{fmt.Sprintf("%d:%d", m.Major, m.Minor), m.Source, m.Mountpoint})
	}
	return all, err
}

// open returns all block devices and those backing files of f that processes have open, and the id of this process. It
// compares device and inode numbers, because a file may have other names in other namespaces or as hard links. To
// verify that /proc shows open files, it opens /dev/null itself and searches for it.
func (s system) open(f *Facts) (all []Open, own int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, 0, err
	}
	defer null.Close()
	self, err := os.Readlink(s.proc + "/self")
	if err != nil {
		return nil, 0, err
	}
	if own, err = strconv.Atoi(self); err != nil {
		return nil, 0, err
	}
	proven := false
	for _, dir := range glob(s.proc + "/[0-9]*/fd") {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // the process has ended
		}
		for _, e := range entries {
			st, err := status(dir + "/" + e.Name())
			if err != nil {
				continue // the file was closed
			}
			if pid == own && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev_major == 1 && st.Rdev_minor == 3 { // null(4)
				proven = true
			}
			o := Open{pid, idOf(st)}
			if strings.HasPrefix(o.ID, "b") || slices.ContainsFunc(f.Files, func(b Backing) bool { return b.ID == o.ID }) {
				all = append(all, o)
			}
		}
	}
	if !proven {
		return nil, 0, errors.New("/proc does not even show what this process has open")
	}
	return all, own, nil
}

// glob returns the files that match pattern, which must be valid.
func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// line returns the first line of a file.
func line(file string) (string, error) {
	b, err := os.ReadFile(file)
	first, _, _ := strings.Cut(string(b), "\n")
	return first, err
}

// printable returns the printable ASCII characters of a file, without the header of a VPD page.
func printable(file string) string {
	b, _ := os.ReadFile(file)
	if strings.HasPrefix(filepath.Base(file), "vpd_") {
		b = b[min(4, len(b)):] // the last byte of the header is the length, which may be a printable character
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(b)))
}
