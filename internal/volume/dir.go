package volume

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guard"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// DirSpec is `dir: PATH`: a directory on any machine.
type DirSpec struct {
	Path    string `yaml:"path" doc:"existing directory; iotax works only in a new iotax-… directory inside it"`
	Create  bool   `yaml:"create" doc:"make the directory if it does not exist, and remove it at the end; without this key a missing directory is an error"`
	Network bool   `yaml:"network" doc:"allow a directory inside a network file system, whose server others use too; without this key only its mount point is accepted"`
}

// SetScalar fills the spec from `dir: PATH`.
func (s *DirSpec) SetScalar(v string) error { s.Path = v; return nil }

// Validate returns an error for a path that cannot be used; see checkPath.
func (s *DirSpec) Validate() error { return checkPath("directory", s.Path) }

// checkPath returns an error if `path` is empty, is a root directory, or contains control characters or characters
// that a shell should have expanded. `what` names the kind of path.
func checkPath(what, path string) error {
	fail := func(msg, hint string) error { return &plan.FieldError{Field: "path", Msg: msg, Hint: hint} }
	switch {
	case path == "":
		return fail("no "+what+" is given", "name one, as in /var/tmp")
	case strings.IndexFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return fail(fmt.Sprintf("%q has control characters", path), "use another "+what)
	case strings.HasPrefix(path, "~"):
		return fail(fmt.Sprintf("%q: ~ is not expanded here", path), "write the path in full, as in /home/me/"+strings.TrimLeft(path, "~/"))
	case strings.ContainsAny(path, "*?["):
		return fail(fmt.Sprintf("%q looks like a pattern that no shell has expanded", path), "name one "+what)
	case strings.Contains(path, "$"):
		return fail(fmt.Sprintf("%q: variables are not expanded here", path), "write the path in full")
	case onDrive(path) && len(path) == 3:
		return fail("the root of a drive itself is never used", "name a directory for the test, as in "+path[:2]+"/iotax")
	case filepath.Clean(path) == "/":
		return fail("/ itself is never used", "name a directory for the test, as in /var/tmp")
	}
	return nil
}

// onDrive reports whether a path starts with a Windows drive: C:\bench, C:/bench.
func onDrive(path string) bool {
	return len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\') && ('a' <= path[0]|0x20 && path[0]|0x20 <= 'z')
}

func (s *DirSpec) Traits() plan.Traits { return plan.Traits{Directories: []*string{&s.Path}} }

func prepareDir(_ context.Context, s *DirSpec, e Env) (iotax.Volume, error) {
	return &dir{want: s.Path, need: e.Need, users: true, own: true, network: s.Network, create: s.Create}, nil
}

// OwnDir makes a new directory on m for need bytes of files, inside the directory `in`, with the checks of a `dir:`
// target. network and create are as in DirSpec. If `in` is empty, OwnDir uses the machine's default directory without
// the checks for directories that a user names. If need is also 0, the file system may be nearly full. The caller must
// call remove, even after an error.
func OwnDir(ctx context.Context, m iotax.Machine, in string, need int64, network, create bool) (path string, remove func(context.Context) error, err error) {
	d := guardedDir(m, in, need, network, create)
	d.empty = need == 0 && !d.users
	p, err := d.Attach(ctx, m)
	return p.Path, d.Detach, err
}

// guardedDir returns a dir for files on m. `in` is the directory that the plan names; "" means the default directory of
// m.
func guardedDir(m iotax.Machine, in string, need int64, network, create bool) *dir {
	if in == "" {
		return &dir{want: homeOf(m), need: need, own: true}
	}
	return &dir{want: in, need: need, users: true, own: true, network: network, create: create}
}

// A dir makes one new directory inside the path `want`, and the missing levels of that path.
type dir struct {
	life
	want string
	need int64

	own     bool // `want` is on the machine's own storage, not on a volume that iotax attached
	users   bool // the user named the directory, so it must be checked
	network bool // a network file system is permitted
	create  bool // make the directory that the user named
	empty   bool // no files are written, so the file system may be nearly full
}

// marker is the name of a file that makeOwn writes into its directory. The file contains a random token and the label
// of the run. removeOwn does not remove a nonempty directory whose marker contains another text or is missing.
const marker = leftover.Marker

const useDir = "use directory"

// distrusted returns the error for a directory that another user could replace.
func distrusted(op, on string, err error) *iotax.Error {
	return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("another user could redirect what root writes there: %w", err),
		Hint: "use a directory that only root may write, as in /var/tmp/iotax,create=true, or run iotax as the owner; if no other user works on this machine, set " + iotax.AloneVariable + "=1"}
}

// An ownDir describes a directory that iotax makes.
type ownDir struct {
	Path  string
	Above []string // parents that iotax makes, and removes if they are empty, innermost first
	Word  string   // contents of the marker file
	ID    string   // device:inode; "" means compare the marker
	Trust bool     // refuse a directory that another user could replace
	Root  bool     // root makes the directory, and gives it to the user who called sudo
}

var (
	makeDir   = agent.New("volume.make directory", makeOwn)
	checkDir  = agent.New("volume.check directory", checkOwn)
	removeDir = agent.New("volume.remove directory", removeOwn)
)

// newOwnDir describes a new directory in base, and chooses its name. Because the name is chosen before makeDir is
// called, iotax can remove the directory even if the answer of makeDir is lost.
func newOwnDir(base string) ownDir {
	return ownDir{Path: strings.TrimSuffix(base, "/") + "/iotax-" + randomHex(3), Word: strings.TrimSpace(randomHex(16) + " " + leftover.Current().String())}
}

// makeOwn makes the directory and returns its device:inode, or "" if that is unknown.
func makeOwn(_ context.Context, o ownDir) (id string, err error) {
	if o.Root {
		if err := needRoot("make directory", o.Path); err != nil {
			return "", err
		}
	}
	base, mode := path.Dir(o.Path), os.FileMode(0o777)
	if o.Trust {
		mode = 0o755 // not writable for others, whatever the umask is
	}
	if err := os.MkdirAll(base, mode); err != nil {
		return "", failed(useDir, base, err)
	}
	if o.Trust {
		if err := guard.Distrust(base); err != nil {
			return "", distrusted(useDir, base, err)
		}
	}
	root, err := o.parent() // fails if removeOwn could not open base
	if err != nil {
		return "", failed(useDir, base, err)
	}
	defer root.Close()
	if err := os.Mkdir(o.Path, 0o700); err != nil {
		return "", failed(useDir, base, err)
	}
	f, err := os.OpenFile(o.Path+"/"+marker, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(o.Word + "\n")
		err = errors.Join(err, f.Close())
	}
	if caller, ok := agent.Caller(); ok && o.Root && err == nil {
		err = errors.Join(os.Lchown(f.Name(), caller, -1), os.Lchown(o.Path, caller, -1))
	}
	if err != nil {
		return "", failed(useDir, base, err)
	}
	return dirID(o.Path), nil
}

// marked reports whether the directory `name` in root contains the marker file of o.
func (o ownDir) marked(root *os.Root, name string) (bool, error) {
	info, err := root.Lstat(name + "/" + marker)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	text, err := root.ReadFile(name + "/" + marker)
	return err == nil && strings.TrimRight(string(text), "\n") == o.Word, err
}

// parent opens the directory that contains o.Path. If Trust is set and o.Path exists, it first calls guard.Distrust.
func (o ownDir) parent() (*os.Root, error) {
	if o.Trust {
		if _, err := os.Lstat(o.Path); err == nil {
			if err := guard.Distrust(path.Dir(o.Path)); err != nil {
				return nil, err
			}
		}
	}
	return os.OpenRoot(path.Dir(o.Path))
}

// checkOwn returns an error if o.Path no longer leads to the directory that iotax made.
func checkOwn(_ context.Context, o ownDir) (none, error) {
	const op = "write in"
	root, err := o.parent()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none{}, distrusted(op, o.Path, err)
	}
	same := false
	if err == nil {
		defer root.Close()
		info, err := root.Lstat(path.Base(o.Path))
		if same = err == nil && info.IsDir(); same && o.ID != "" {
			same = dirID(o.Path) == o.ID
		} else if same {
			same, _ = o.marked(root, path.Base(o.Path))
		}
	}
	if !same {
		return none{}, &iotax.Error{Op: op, On: o.Path, Err: errors.New("it is no longer the directory that was made there"),
			Hint: "find out who replaced it, and name a directory in which no other user may write"}
	}
	return none{}, nil
}

// removeOwn removes the directory with its contents, and the empty directories of Above. A missing directory is not an
// error.
func removeOwn(_ context.Context, o ownDir) (none, error) {
	if err := o.remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none{}, &iotax.Error{Op: "remove", On: o.Path, Err: err, Hint: "look at it, and remove it by hand"}
	}
	for _, dir := range o.Above {
		_ = syscall.Rmdir(dir) // fails if another program has put a file in it
	}
	return none{}, nil
}

func (o ownDir) remove() error {
	name := path.Base(o.Path)
	if !strings.HasPrefix(name, "iotax-") {
		return fmt.Errorf("%s is not a directory of iotax", o.Path)
	}
	root, err := o.parent()
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s has become a symbolic link", o.Path)
	case !info.IsDir():
		return nil
	}
	ours, err := o.marked(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root.Remove(name)
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("%s/%s is not this run's", o.Path, marker)
	}
	if err := leftover.Busy(o.Path); err != nil {
		return err
	}
	return leftover.RemoveIn(root, name)
}

// CheckDirs returns the error with which a run would refuse the first unusable `dir:` target of p on m, this host.
func CheckDirs(ctx context.Context, p *plan.Plan, m iotax.Machine) error {
	for _, t := range p.Targets {
		s, ok := t.Spec.(*DirSpec)
		if !ok || t.On != plan.Host || len(t.In) > 0 {
			continue
		}
		if _, _, _, err := guardedDir(m, s.Path, 0, s.Network, s.Create).look(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// look surveys the directory on m without changes. It returns an error if the directory cannot be used. `known` reports
// whether fs, the mount that holds the directory, was found.
func (d *dir) look(ctx context.Context, m iotax.Machine) (s survey, fs probe.Mount, known bool, err error) {
	want, at := d.want, d.want
	fail := func(err error, hint string) (survey, probe.Mount, bool, error) {
		return s, fs, known, &iotax.Error{Op: useDir, On: at, Err: err, Hint: hint}
	}
	if onDrive(want) {
		want = strings.ReplaceAll(want, `\`, "/")
	} else if !filepath.IsAbs(want) && !strings.HasPrefix(want, "/") {
		if !iotax.IsLocal(m) {
			return fail(fmt.Errorf("a relative path means nothing on %v", m), "write the path in full, from /")
		}
		abs, err := filepath.Abs(want)
		if err != nil {
			return fail(err, "")
		}
		want = abs
	}
	s, err = on(ctx, quick, surveyDir.On, m, dirQuery{filepath.ToSlash(filepath.Clean(want)), d.users && !alone(m)})
	if err != nil {
		return s, fs, known, err
	}
	if s.Real == "/" && len(s.Missing) == 0 {
		return fail(errors.New("this is /, which is never used"), "name a directory for the test, as in /var/tmp")
	}
	if d.users && len(s.Missing) == 0 && s.isHome() {
		return fail(fmt.Errorf("%s is a home directory, which is not used itself", s.Real), "name a directory inside it, as in "+iotax.Quote(s.Real+"/iotax,create=true"))
	}
	fs, known = probe.MountOf(probe.ParseMounts(s.Mountinfo), s.Real)
	if known {
		at = fmt.Sprintf("%s (%s on %s)", d.want, fs.Type, fs.Point)
	}
	switch {
	case known && pseudo(fs):
		return fail(errors.New("this file system does not store files of users"), "use another directory, as in /var/tmp")
	case d.users && !d.create && len(s.Missing) > 0:
		why := errors.New("it does not exist")
		if len(s.Missing) > 1 {
			why = fmt.Errorf("%s does not exist", s.Missing[0])
		}
		return fail(why, "check the path, or let iotax create it: dir:PATH,create=true on the command line, create: true in the plan")
	case known && d.users && !d.network && networked(fs) && (s.Real != fs.Point || len(s.Missing) > 0): // naming the mount point itself permits a network file system, too
		return fail(errors.New("it lies on a network file system, whose server others may use too"),
			"to measure it: dir:"+d.want+",network=true on the command line, network: true in the plan; else name a directory on a disk")
	case known && fs.ReadOnly():
		return fail(errors.New("the file system is mounted read-only"), "use another directory, or make it writable: mount -o remount,rw "+iotax.Quote(fs.Point))
	}
	if err := s.enough(useDir, at, d.need); err != nil && (!d.empty || s.Free == 0) {
		return s, fs, known, err
	}
	return s, fs, known, nil
}

func (d *dir) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	s, fs, known, err := d.look(ctx, m)
	if err != nil {
		return none, err
	}

	// The missing levels keep their names from the plan, below the real path of the existing levels.
	base := s.Real
	var made []string // innermost first
	for _, p := range s.Missing {
		base = strings.TrimSuffix(base, "/") + "/" + path.Base(p)
		made = append([]string{base}, made...)
	}
	o := newOwnDir(base)
	o.Above, o.Trust = made, d.users && !alone(m)
	id, err := d.ownDir(ctx, m, o)
	if err != nil {
		return none, err
	}
	p := iotax.Place{Kind: iotax.PlaceDir, Path: o.Path, Facts: facts(ctx, m, o.Path), Durability: fs.Durability()}
	if d.users {
		check := o
		if known && lastingInodes(fs) {
			check.ID = id
		}
		p.Guard = func(ctx context.Context) error {
			_, err := on(ctx, quick, checkDir.On, m, check)
			return err
		}
	}
	if d.own {
		p.Durability = ownDurability(m, o.Path, fs, s.System)
	}
	p.Durability = iotax.Weakest(p.Durability, deviceDurability(p.Facts))
	if caps := m.Caps(); caps.Local {
		p.Backing = o.Path
	} else if caps.HostPath != nil {
		p.Backing = caps.HostPath(o.Path)
	}
	return p, nil
}

// facts returns the facts of the path, or an empty map if the machine cannot read them.
func facts(ctx context.Context, m iotax.Machine, path string) map[string]string {
	f, err := probe.Place(ctx, m, path)
	if err != nil || f == nil {
		return map[string]string{}
	}
	return f
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
