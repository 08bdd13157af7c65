//go:build unix

package volume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/agent"
)

const other = 65534 // an unprivileged user

// usersDir makes a directory that belongs to another user. Its parent belongs to root, and others may enter it.
func usersDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to work in a directory of another user")
	}
	top, err := os.MkdirTemp("/var/tmp", "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	dir := filepath.Join(top, "theirs")
	for _, err := range []error{os.Chmod(top, 0o755), os.Mkdir(dir, 0o755), os.Chown(dir, other, other)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A meddler presents this host as another machine. After n calls, it calls `do`, which acts as another user.
type meddler struct {
	elsewhere
	n  int
	do func()
}

// Caps returns capabilities with an agent link that starts a new session for each call.
func (m *meddler) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &agent.Link{Start: func(ctx context.Context) (*agent.Session, error) {
		if m.n--; m.n < 0 {
			m.do()
			m.do = func() {}
		}
		return agent.InProcess(ctx)
	}}}
}

type lonely struct{ iotax.Machine }

func (lonely) Caps() iotax.MachineCaps { return iotax.MachineCaps{Alone: true} }

// Root does not make a directory where another user could replace it.
func TestDirOfOthers(t *testing.T) {
	dir := usersDir(t)
	top := filepath.Dir(dir)
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	in := func(name string, mode os.FileMode, uid int) string {
		d := filepath.Join(top, name)
		must(os.Mkdir(d, 0o700), os.Chmod(d, mode), os.Chown(d, uid, uid))
		return d
	}
	link := filepath.Join(dir, "link")
	must(os.Mkdir(filepath.Join(dir, "roots"), 0o755), os.Symlink(in("roots", 0o755, 0), link))
	attach := func(t *testing.T, m iotax.Machine, path string) error {
		v, err := prepare(t, "dir", &DirSpec{Path: path, Create: true}, Env{})
		if err != nil {
			return err
		}
		_, err = v.Attach(t.Context(), m)
		if derr := v.Detach(t.Context()); derr != nil {
			t.Errorf("after %v: %v", err, derr)
		}
		return err
	}
	planted := filepath.Join(in("sticky", 0o777|os.ModeSticky, 0), "planted")
	for _, c := range []struct {
		name, path, cause string
		m                 iotax.Machine
		sudo, alone       string
	}{
		{name: "of another user", path: dir, cause: "user 65534 owns it"},
		{name: "below one of another user", path: filepath.Join(dir, "roots"), cause: dir + ": user 65534 owns it"},
		{name: "missing below one of another user", path: filepath.Join(dir, "a/b"), cause: dir + ": user 65534 owns it"},
		{name: "a group's", path: in("group", 0o775, 0), cause: "its group may write to it"},
		{name: "everybody's", path: in("open", 0o777, 0) + "/a", cause: "other users may write to it"},
		{name: "another's sticky", path: in("theirs-sticky", 0o777|os.ModeSticky, other), cause: "user 65534 owns it"},
		{name: "a link there is made meanwhile", path: planted, cause: planted + ": it is not a directory",
			m: &meddler{elsewhere{here}, 1, func() { must(os.Symlink(filepath.Join(top, "roots"), planted)) }}},
		{name: "sticky", path: filepath.Join(top, "sticky") + "/b"},
		{name: "a link to one of root's", path: link},
		{name: "of the user of sudo", path: dir + "/mine", sudo: "65534"},
		{name: "of that user's private group too", path: in("mine", 0o775, other) + "/a", sudo: "65534"},
		{name: "of another user's private group", path: in("hers", 0o775, 1000), cause: "user 1000 owns it", sudo: "65534"},
		{name: "everybody's, on a machine of one user", path: in("ours", 0o777, other), alone: "1"},
		{name: "on a machine without other users", path: dir, m: lonely{here}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SUDO_UID", c.sudo)
			t.Setenv(iotax.AloneVariable, c.alone)
			m := c.m
			if m == nil {
				m = here
			}
			err := attach(t, m, c.path)
			if c.cause == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, c.cause, "/var/tmp/iotax")
		})
	}
	if left, _ := filepath.Glob(top + "/*/*"); len(left) != 3 { // theirs/link, theirs/roots, sticky/planted
		t.Errorf("left: %q", left)
	}
}

// If another user becomes the owner of the parent, Guard and Detach return errors, and the directory stays.
func TestDirGivenAway(t *testing.T) {
	dir := usersDir(t)
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	v, err := prepare(t, "dir", &DirSpec{Path: dir}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Guard(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Chown(dir, other, other); err != nil {
		t.Fatal(err)
	}
	wantError(t, p.Guard(t.Context()), dir+": user 65534 owns it", "/var/tmp/iotax")
	if err := v.Detach(t.Context()); err == nil || !strings.Contains(err.Error(), "user 65534 owns it") {
		t.Error(err)
	}
	if _, err := os.Stat(p.Path); err != nil {
		t.Error(err)
	}
}

// A line break in a real path is an error.
func TestLineBreakInRealPath(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"a\nb", "a\n"} {
		real, link := filepath.Join(base, name), filepath.Join(base, "link")
		os.Remove(link)
		if err := os.Mkdir(real, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, link); err != nil {
			t.Fatal(err)
		}
		v, err := prepare(t, "dir", &DirSpec{Path: link}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Attach(t.Context(), here)
		wantError(t, err, "its real path has a line break", "use another directory")
	}
}

// Root does not overwrite a device through a path that another user could redirect to another device.
func TestDeviceOfOthers(t *testing.T) {
	dir := usersDir(t)
	dev := loop(t, 8<<20)
	roots, theirs, chain, through := filepath.Join(filepath.Dir(dir), "link"), filepath.Join(dir, "link"), filepath.Join(filepath.Dir(dir), "chain"), filepath.Join(filepath.Dir(dir), "dev")
	for link, to := range map[string]string{roots: dev, theirs: dev, chain: "theirs/link", through: "/dev"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for path, cause := range map[string]string{dev: "", roots: "", theirs: dir + ": user 65534 owns it", chain: dir + ": user 65534 owns it", filepath.Join(through, filepath.Base(dev)): "it is not a directory"} {
		for _, destroy := range []bool{true, false} {
			e := Env{}
			if destroy {
				e.Destroy = []string{path}
			}
			v, err := prepare(t, "device", &DeviceSpec{Path: path}, e)
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Attach(t.Context(), here)
			if derr := v.Detach(t.Context()); derr != nil {
				t.Error(derr)
			}
			if cause == "" || !destroy {
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				continue
			}
			wantError(t, err, cause, "name the device itself")
		}
	}
}
