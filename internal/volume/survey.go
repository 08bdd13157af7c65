package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	gopsutil "github.com/shirou/gopsutil/v4/disk"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guard"
	"iotax/internal/probe"
)

// A dirQuery names the directory to survey. Path is absolute and clean, with slashes.
type dirQuery struct {
	Path  string
	Trust bool // refuse a directory that another user could replace
}

// A survey describes a directory.
type survey struct {
	Real       string   // real path of the deepest existing level
	Missing    []string // paths of the missing levels, outermost first
	Size, Free int64    // in bytes; if unknown, Size is 0 and Free is -1
	Mountinfo  string   // "" on systems without /proc
	System     string   // name as in uname
	Homes      []string // real paths of the users' home directories
	Roots      []string // targets of /home and /Users, if these are symbolic links
}

var surveyDir = agent.New("volume.survey", surveyHere)

// kernel contains the paths and functions through which iotax reads the state of this system. Tests replace them.
var kernel = struct {
	mountinfo, block, system string
	usage                    func(ctx context.Context, dir string) (size, free int64)
}{"/proc/self/mountinfo", "/sys/block", map[string]string{"linux": "Linux", "darwin": "Darwin"}[runtime.GOOS], usage}

func usage(ctx context.Context, dir string) (size, free int64) {
	if u, err := gopsutil.UsageWithContext(ctx, dir); err == nil && u.Total > 0 { // a ramfs has size 0 and no limit
		return int64(u.Total), int64(u.Free)
	}
	return 0, -1
}

func surveyHere(ctx context.Context, q dirQuery) (survey, error) {
	s := survey{System: kernel.system}
	fail := func(err error, hint string) (survey, error) {
		return s, &iotax.Error{Op: useDir, On: q.Path, Err: err, Hint: hint}
	}
	at := q.Path
	for {
		info, err := os.Stat(at)
		if err == nil && info.IsDir() {
			break
		}
		if _, lerr := os.Lstat(at); lerr == nil {
			return fail(fmt.Errorf("%s is not a directory", at), "name a directory")
		}
		up := filepath.ToSlash(filepath.Dir(at))
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || up == at {
			return fail(err, "run as a user who may enter it, or use another directory")
		}
		s.Missing, at = append([]string{at}, s.Missing...), up
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return fail(err, "run as a user who may enter it, or use another directory")
	}
	if s.Real = filepath.ToSlash(real); strings.Contains(real, "\n") {
		return fail(errors.New("its real path has a line break"), "use another directory")
	}
	if q.Trust {
		if err := guard.Distrust(s.Real); err != nil {
			return s, distrusted(useDir, q.Path, err)
		}
	}
	s.Size, s.Free = kernel.usage(ctx, real)
	text, _ := os.ReadFile(kernel.mountinfo) // only Linux has this file
	s.Mountinfo = string(text)
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err, "")
	}
	s.Homes = homes(string(passwd))
	for _, root := range []string{"/home", "/Users"} {
		if real, ok := behindLink(root); ok && real != "/" {
			s.Roots = append(s.Roots, real)
		}
	}
	return s, nil
}

// homes returns the real home directories of this user, and of root and the users with IDs from 1000 in passwd. It does
// not open other users' directories, because that would mount them on systems with automounted homes.
func homes(passwd string) (all []string) {
	add := func(dir string) {
		if dir = path.Clean(filepath.ToSlash(dir)); dir != "/" && dir != "." && dir != "/nonexistent" {
			all = append(all, dir)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		if real, err := filepath.EvalSymlinks(home); err == nil {
			add(real)
		}
	}
	above := map[string]string{}
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 6 {
			continue
		}
		if uid, err := strconv.Atoi(f[2]); err != nil || uid != 0 && uid < 1000 {
			continue
		}
		dir := f[5]
		up := path.Dir(dir)
		if up == "/" || !path.IsAbs(dir) {
			add(dir)
			continue
		}
		if above[up] == "" {
			above[up] = up
			if real, err := filepath.EvalSymlinks(up); err == nil {
				above[up] = real
			}
		}
		dir = path.Join(above[up], path.Base(dir))
		add(dir)
		if real, ok := behindLink(dir); ok {
			add(real)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// behindLink returns the target of a symbolic link. ok is false if `link` is not a symbolic link, or its target does
// not exist.
func behindLink(link string) (real string, ok bool) {
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false
	}
	real, err := filepath.EvalSymlinks(link)
	return real, err == nil
}

// homeRoots lists the parents of home directories, and root's home directory.
var homeRoots = []string{"/home", "/Users", "/root"}

// isHome reports whether the directory is a home directory, or a parent of home directories.
func (s survey) isHome() bool {
	roots, up := slices.Concat(homeRoots, s.Roots), path.Dir(s.Real)
	return slices.Contains(roots, s.Real) || slices.Contains(roots, up) && up != "/root" || slices.Contains(s.Homes, s.Real)
}

// enough returns an error with a hint if need bytes and the reserve do not fit.
func (s survey) enough(op, on string, need int64) error {
	reserve := iotax.Reserve(s.Size)
	switch {
	case s.Free < 0 || s.Free >= need+reserve && s.Free > 0:
		return nil
	case need == 0:
		return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("the file system is full: %s free, %s are kept in reserve", bytesText(s.Free), bytesText(reserve)),
			Hint: "free some space, or use another directory"}
	}
	return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("not enough space: the test needs %s and leaves %s in reserve, %s are free",
		bytesText(need), bytesText(reserve), bytesText(s.Free)), Hint: "free some space, use another directory, or a smaller --size"}
}

// bytesText formats a number of bytes with a binary unit.
func bytesText(n int64) string {
	v, unit := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for v >= 1024 && len(unit) > 1 {
		v, unit = v/1024, unit[1:]
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + unit[0]
}

// hereMounts returns the mounts in this process's namespace.
func hereMounts() ([]probe.Mount, error) {
	text, err := os.ReadFile(kernel.mountinfo)
	return probe.ParseMounts(string(text)), err
}

// mountOn returns the last mount at a mount point, or the zero value if nothing is mounted there.
func mountOn(point string) (found probe.Mount, err error) {
	all, err := hereMounts()
	if up, lerr := filepath.EvalSymlinks(filepath.Dir(point)); lerr == nil { // the list of mounts has no links
		point = filepath.Join(up, filepath.Base(point))
	}
	for _, m := range all {
		if m.Point == point {
			found = m
		}
	}
	return found, err
}
