package leftover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"iotax/internal/agent"
	"iotax/internal/leftover/proctable"
)

// Kinds of items that any machine may have.
const (
	process   = "process"
	mount     = "mount"
	loop      = "loop device"
	nbd       = "NBD device"
	directory = "directory"
)

// A remnant is an Item as the agent on its machine reports it.
type remnant struct {
	Kind, Name, Detail string
	Label              string // label of a process; otherwise the first line of the marker of the directory
	Foreign            bool
	Start              uint64 // start time of a process
}

// ofRoot reports whether only root can remove the item.
func (r remnant) ofRoot() bool {
	switch r.Kind {
	case process:
		return false
	case directory:
		in := path.Dir(r.Name)
		return in == "/mnt" || in == "/run"
	}
	return true
}

// A listing contains the items of a machine, in the order of removal.
type listing struct {
	Items  []remnant
	Failed []string // errors of the kinds that could not be listed
}

// These functions run on the machine that has the items.
var (
	list = agent.New("leftover.list", listAll)
	end  = agent.New("leftover.end", endOne)
)

func listAll(ctx context.Context, dirs []string) (l listing, _ error) {
	all := marked(dirs)
	found := map[string]string{}
	for _, r := range all {
		found[r.Name] = r.Label
	}
	for _, find := range []func() ([]remnant, error){
		func() ([]remnant, error) { return processes(ctx) },
		func() ([]remnant, error) { return mounts(found) },
		func() ([]remnant, error) { return loops(found), nil },
		func() ([]remnant, error) { return nbds(all), nil },
	} {
		items, err := find()
		l.Items = append(l.Items, items...)
		if err != nil {
			l.Failed = append(l.Failed, err.Error())
		}
	}
	l.Items = append(l.Items, all...)
	return l, ctx.Err()
}

func endOne(ctx context.Context, r remnant) (_ struct{}, err error) {
	switch r.Kind {
	case process:
		pid, perr := strconv.Atoi(r.Name)
		if err = perr; err == nil {
			err = proctable.End(ctx, pid, r.Start, here.start)
		}
	case mount:
		if _, err = agent.Exec(ctx, "umount", r.Name); err != nil {
			_, err = agent.Exec(ctx, "umount", "-l", r.Name)
		}
		// Ending the process of a FUSE mount may have unmounted it.
		if all, merr := mountinfo.GetMounts(mountinfo.SingleEntryFilter(r.Name)); merr == nil && len(all) == 0 {
			err = nil
		}
	case loop:
		if file, ok := backing(r.Name); ok && file == r.Detail {
			_, err = agent.Exec(ctx, "losetup", "-d", r.Name)
		}
	case nbd:
		if device, ok := Attached(r.Detail); ok && device == r.Name {
			_, err = agent.Exec(ctx, "nbd-client", "-d", r.Name)
		}
	case directory:
		err = removeMarked(ctx, r)
	}
	return struct{}{}, err
}

func processes(ctx context.Context) (found []remnant, err error) {
	all, err := proctable.With(ctx, RunVariable, RunnerVariable)
	if err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	for _, p := range all {
		start, err := here.start(p.PID)
		if err != nil {
			continue // the process has ended, or End could not identify it later
		}
		detail := strings.ReplaceAll(p.Command, "\n", " ")
		found = append(found, remnant{Kind: process, Name: strconv.Itoa(p.PID), Detail: detail[:min(200, len(detail))], Start: start,
			Label: "run=" + p.Env[RunVariable] + " runner=" + p.Env[RunnerVariable]})
	}
	return found, nil
}

// marked lists the iotax-… directories in dirs and in this machine's directory for temporary files: the directories
// with a marker of this user, and all such directories of other users. The paths contain no symbolic links, like the
// kernel's paths of mounts and backing files.
func marked(dirs []string) (found []remnant) {
	seen := map[string]bool{}
	for _, dir := range append(slices.Clone(dirs), os.TempDir()) {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[dir] {
			continue
		}
		seen[dir] = true
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		names, _ := fs.Glob(root.FS(), "iotax-*") // the pattern is valid
		for _, name := range names {
			r := remnant{Kind: directory, Name: filepath.ToSlash(filepath.Join(dir, name))}
			info, err := root.Lstat(name)
			if err != nil || !info.IsDir() || strings.Contains(name, "\n") {
				continue
			}
			r.Foreign, r.Label = !Mine(info), markerOf(root, name)
			if r.Foreign || r.Label != "" {
				found = append(found, r)
			}
		}
		root.Close()
	}
	slices.SortFunc(found, func(a, b remnant) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// Others returns the labels of this user's live runs on this host, except `run` and earlier runs of this process. It finds
// them by their working directories, and so includes runs that use other stores. doctor has such a directory, too, but
// does not measure.
func Others(run string) (found []Label) {
	self := Self()
	for _, dir := range marked(nil) {
		l, ok := ParseLabel(dir.Label)
		if ok && l.Run != run && l.Run != "doctor" && l.Runner != self && l.Runner.State() == Alive && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}

// markerOf returns the first line of the marker in the directory `name` of root, up to 4 KiB. It returns "" unless this
// user owns the directory and the marker, and the marker is a regular file: any user can make such a directory in /tmp,
// and put any text or a FIFO there.
func markerOf(root *os.Root, name string) string {
	for _, at := range []string{name, name + "/" + Marker} {
		info, err := root.Lstat(at)
		if err != nil || !Mine(info) || info.IsDir() != (at == name) || at != name && !info.Mode().IsRegular() {
			return ""
		}
	}
	f, err := root.Open(name + "/" + Marker)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4096))
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// inside returns the label of the innermost marked directory that contains p.
func inside(found map[string]string, p string) (label string, ok bool) {
	in := ""
	for dir := range maps.Keys(found) {
		if len(dir) > len(in) && (p == dir || strings.HasPrefix(p, dir+"/")) {
			in = dir
		}
	}
	return found[in], in != ""
}

// mounts lists the mounts of this namespace that are in marked directories, latest first.
func mounts(found map[string]string) (all []remnant, err error) {
	mounted, err := mountinfo.GetMounts(nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	for _, m := range slices.Backward(mounted) {
		if label, ok := inside(found, m.Mountpoint); ok {
			all = append(all, remnant{Kind: mount, Name: m.Mountpoint, Label: label})
		}
	}
	return all, nil
}

// backing returns the backing file of a loop device.
func backing(device string) (file string, ok bool) {
	text, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/loop/backing_file")
	return strings.TrimSuffix(string(text), "\n"), err == nil
}

func loops(found map[string]string) (all []remnant) {
	files, _ := filepath.Glob("/sys/block/loop*/loop")
	for _, f := range files {
		device := "/dev/" + filepath.Base(filepath.Dir(f))
		if file, ok := backing(device); ok {
			if label, ok := inside(found, strings.TrimSuffix(file, " (deleted)")); ok {
				all = append(all, remnant{Kind: loop, Name: device, Detail: file, Label: label})
			}
		}
	}
	return all
}

// NBDFile is the name of a file in a marked directory. The file records an attached kernel NBD device: the device, the
// id that the kernel shows for the process that attached it, and the boot id.
const NBDFile = "nbd"

var nbdDevice = regexp.MustCompile(`^/dev/nbd[0-9]+$`)

// NBDNote returns the text of an NBDFile for a device, or "" while the kernel does not show the process that attached
// it.
func NBDNote(device string) string {
	pid, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/pid")
	boot, berr := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || berr != nil || len(pid) == 0 {
		return ""
	}
	return device + " " + strings.TrimSpace(string(pid)) + " " + strings.TrimSpace(string(boot)) + "\n"
}

// Attached returns the device that is recorded in dir. ok is true if the recorded process still has it attached.
func Attached(dir string) (device string, ok bool) {
	info, err := os.Lstat(dir + "/" + NBDFile)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	text, err := os.ReadFile(dir + "/" + NBDFile)
	if err != nil {
		return "", false
	}
	device, _, _ = strings.Cut(string(text), " ")
	return device, nbdDevice.MatchString(device) && strings.TrimSpace(NBDNote(device)) == strings.TrimSpace(string(text))
}

// nbds lists the attached devices that are recorded below /run, where only root can create directories.
func nbds(dirs []remnant) (all []remnant) {
	for _, d := range dirs {
		if device, ok := Attached(d.Name); ok && strings.HasPrefix(d.Name, "/run/iotax-") {
			all = append(all, remnant{Kind: nbd, Name: device, Detail: d.Name, Label: d.Label})
		}
	}
	return all
}

// Busy returns an error if the directory dir must not be removed: something is mounted in it, the device in its NBDFile
// is still attached, or Busy cannot list the mounts. If dir is a link, Busy ignores mounts in the linked directory.
func Busy(dir string) error {
	if device, ok := Attached(dir); ok {
		return fmt.Errorf("%s, which is noted in it, is still attached: nbd-client -d %s", device, device)
	}
	up, err := filepath.Abs(filepath.Dir(dir))
	if err == nil {
		up, err = filepath.EvalSymlinks(up)
	}
	if err != nil {
		return err
	}
	mounted, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(up, filepath.Base(dir))))
	if err != nil {
		return fmt.Errorf("cannot list mounts: %w", err)
	}
	if len(mounted) > 0 {
		return fmt.Errorf("%s is still mounted", mounted[0].Mountpoint)
	}
	return nil
}

// removeMarked removes a directory and ends the server that runs in it, if the marker is unchanged, the directory
// contains no notes, and Busy returns no error. It removes the directory relative to its parent, so that another user
// who owns a directory above cannot redirect the removal.
func removeMarked(ctx context.Context, r remnant) error {
	name := filepath.Base(r.Name)
	if !strings.HasPrefix(name, "iotax-") {
		return fmt.Errorf("%s is not a directory of iotax", r.Name)
	}
	root, err := os.OpenRoot(filepath.Dir(r.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s has become a symbolic link", r.Name)
	case markerOf(root, name) != r.Label:
		return fmt.Errorf("%s is not the directory that was listed", r.Name)
	}
	if notes, _ := fs.Glob(root.FS(), name+"/"+noteName+"*"); len(notes) > 0 {
		return fmt.Errorf("what is noted in %s has not been removed", filepath.Join(filepath.Dir(r.Name), notes[0]))
	}
	if err := Busy(r.Name); err != nil {
		return err
	}
	if err := endServer(ctx, root, name, r.Name); err != nil {
		return err
	}
	return RemoveIn(root, name)
}

// RemoveIn removes the directory `name` of root. It removes the marker last, so that clean finds what an error or a
// crash leaves.
func RemoveIn(root *os.Root, name string) error {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	opened, err := dir.Stat(".")
	if info, lerr := root.Lstat(name); err != nil || lerr != nil || !os.SameFile(opened, info) { // OpenRoot follows links
		return errors.Join(err, lerr, fmt.Errorf("%s was replaced during the removal", name))
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != Marker {
			errs = append(errs, dir.RemoveAll(e.Name()))
		}
	}
	if err := errors.Join(append(errs, dir.Close())...); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// endServer ends a server whose process id is in the file "pid" of a directory. The server may have no label: nginx,
// for example, overwrites its environment with its process title. endServer does not end a process of another user, or
// a process that has no path in the directory among its arguments.
func endServer(ctx context.Context, root *os.Root, name, dir string) error {
	if info, err := root.Lstat(name + "/pid"); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // no server was started there
	}
	text, err := root.ReadFile(name + "/pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil //nolint:nilerr // not written by a server
	}
	start, err := here.start(pid)
	if err != nil {
		return nil //nolint:nilerr // the process has ended
	}
	command, owner := proctable.Command(ctx, pid)
	in := func(word string) bool { return strings.HasPrefix(filepath.ToSlash(word), dir+"/") }
	if caller, ok := agent.Caller(); !slices.ContainsFunc(strings.Fields(command), in) || owner >= 0 && owner != os.Geteuid() && (!ok || owner != caller) {
		return nil
	}
	return proctable.End(ctx, pid, start, here.start)
}
