package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

var here = host.Local()

// prepare calls Prepare. The defaults of e are this host and the ID t0.
func prepare(t *testing.T, kind string, spec plan.Spec, e Env) (iotax.Volume, error) {
	t.Helper()
	if e.ID == "" {
		e.ID = "t0"
	}
	if e.Host == nil {
		e.Host = here
	}
	return Prepare(t.Context(), plan.Target{Name: "a target", Kind: kind, Spec: spec}, e)
}

// wantError checks that err is an *iotax.Error that contains the cause, the hint, and no other hint.
func wantError(t *testing.T, err error, cause, hint string) {
	t.Helper()
	var e *iotax.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *iotax.Error with %q", err, cause)
	}
	if !strings.Contains(e.Error(), cause) || strings.Count(e.Error(), "hint: ") != 1 || !strings.Contains(e.Error(), hint) {
		t.Errorf("got %q\nwant cause %q and hint %q", e.Error(), cause, hint)
	}
}

func tmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	d := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", d).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", d).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return d
}

func TestDir(t *testing.T) {
	base := t.TempDir()
	want := filepath.Join(base, "with a blank", "and'quote")
	v, err := prepare(t, "dir", &DirSpec{Path: want, Create: true}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(p.Path) != want || !strings.HasPrefix(filepath.Base(p.Path), "iotax-") {
		t.Errorf("path %s is not an iotax- directory in %s", p.Path, want)
	}
	if p.Kind != iotax.PlaceDir || p.Backing != p.Path || p.ReadOnly {
		t.Errorf("place %+v", p)
	}
	for _, k := range []string{"filesystem", "filesystem.source", "filesystem.options"} {
		if p.Facts[k] == "" {
			t.Errorf("no fact %s in %v", k, p.Facts)
		}
	}
	if err := os.MkdirAll(p.Path+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Path+"/a/b/file", []byte("x"), 0o444); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Detach(canceled); err != nil {
		t.Errorf("Detach after a cancel: %v", err)
	}
	if err := v.Close(canceled); err != nil {
		t.Errorf("Close: %v", err)
	}
	left, _ := os.ReadDir(base)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Detach does not remove the files of a file system that is mounted in the directory, even if the path of the directory
// contains a blank.
func TestDirWithMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	v, err := prepare(t, "dir", &DirSpec{Path: filepath.Join(t.TempDir(), "with a blank"), Create: true}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	point := p.Path + "/m"
	if out, err := exec.Command("sh", "-c", `mkdir "$1" && mount -t tmpfs tmpfs "$1" && touch "$1/precious"`, "sh", point).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", point).Run() })
	wantError(t, v.Detach(t.Context()), "is still mounted", "look at it")
	if _, err := os.Stat(point + "/precious"); err != nil {
		t.Error(err)
	}
}

func TestDirRemovesNothingElse(t *testing.T) {
	attach := func(t *testing.T) (iotax.Volume, iotax.Place) {
		v, err := prepare(t, "dir", &DirSpec{Path: t.TempDir()}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.Attach(t.Context(), here)
		if err != nil {
			t.Fatal(err)
		}
		return v, p
	}
	t.Run("neighbour and parent stay", func(t *testing.T) {
		v, p := attach(t)
		other := filepath.Dir(p.Path) + "/precious"
		if err := os.WriteFile(other, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := v.Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(p.Path); !os.IsNotExist(err) {
			t.Errorf("%s is still there", p.Path)
		}
	})
	t.Run("marker of another", func(t *testing.T) {
		v, p := attach(t)
		if err := os.WriteFile(p.Path+"/"+marker, []byte("another's\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		wantError(t, v.Detach(t.Context()), "is not this run's", "by hand")
		if _, err := os.Stat(p.Path); err != nil {
			t.Error("it was removed")
		}
	})
	t.Run("marker gone and files there", func(t *testing.T) {
		v, p := attach(t)
		if err := os.Rename(p.Path+"/"+marker, p.Path+"/precious"); err != nil {
			t.Fatal(err)
		}
		wantError(t, v.Detach(t.Context()), "not empty", "by hand")
		if _, err := os.Stat(p.Path + "/precious"); err != nil {
			t.Error("it was removed")
		}
	})
	t.Run("replaced by a link", func(t *testing.T) {
		v, p := attach(t)
		if err := os.Rename(p.Path, p.Path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p.Path+".moved", p.Path); err != nil {
			t.Fatal(err)
		}
		wantError(t, v.Detach(t.Context()), "symbolic link", "by hand")
	})
	t.Run("already gone", func(t *testing.T) {
		v, p := attach(t)
		if err := os.RemoveAll(p.Path); err != nil {
			t.Fatal(err)
		}
		if err := v.Detach(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("something mounted inside", func(t *testing.T) {
		v, p := attach(t)
		if os.Geteuid() != 0 {
			t.Skip("needs root to mount a tmpfs")
		}
		at := p.Path + "/mnt"
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", at).CombinedOutput(); err != nil {
			t.Skipf("needs the right to mount: %s", out)
		}
		err := v.Detach(t.Context())
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
		wantError(t, err, "still mounted", "by hand")
	})
}

func TestDirRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "to-root")
	if err := os.Symlink("/", root); err != nil {
		t.Fatal(err)
	}
	there := t.TempDir()
	dangling := filepath.Join(t.TempDir(), "dangling")
	if err := os.Symlink("/no/such/thing", dangling); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, cause, hint string
		need                    int64
	}{
		{"nothing", "", "no directory is given", "/var/tmp", 0},
		{"the root", "/", "never used", "/var/tmp", 0},
		{"the root, hidden", "/var/../", "never used", "/var/tmp", 0},
		{"the root, through a link", root, "never used", "/var/tmp", 0},
		{"a pattern", "/mnt/*", "pattern", "name one", 0},
		{"a tilde", "~/data", "~ is not expanded", "/home/me/data", 0},
		{"a variable", "$HOME/data", "variables", "in full", 0},
		{"a newline", "/tmp/a\nb", "control characters", "another", 0},
		{"a file", file, "is not a directory", "name a directory", 0},
		{"below a file", file + "/sub", "is not a directory", "name a directory", 0},
		{"a link to nothing", dangling, "is not a directory", "name a directory", 0},
		{"no files of users", "/proc/iotax", "does not store files of users", "another directory", 0},
		{"nothing there", there + "/missing", "it does not exist", "create=true", 0},
		{"no level of it", there + "/missing/iotax", there + "/missing does not exist", "create: true", 0},
		{"too little space", t.TempDir(), "not enough space", "--size", 1 << 55},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := prepare(t, "dir", &DirSpec{Path: c.path}, Env{Need: c.need})
			if err == nil {
				_, err = v.Attach(t.Context(), here)
				if derr := v.Detach(t.Context()); derr != nil {
					t.Error(derr)
				}
			}
			wantError(t, err, c.cause, c.hint)
		})
	}
}

// elsewhere presents this host as another machine. Its agent runs in this process, so that changes of the variable
// `kernel` affect the agent.
type elsewhere struct{ iotax.Machine }

// inProcess is elsewhere's link to its agent, which runs in this process.
var inProcess = agent.Link{Start: agent.InProcess}

func (elsewhere) Caps() iotax.MachineCaps { return iotax.MachineCaps{Agent: &inProcess} }

// ofKernel restores the variable `kernel` at the end of the test.
func ofKernel(t *testing.T) {
	was := kernel
	t.Cleanup(func() { kernel = was })
}

// onType makes all file systems on devices appear to have the type `kind`.
func onType(t *testing.T, kind string) {
	t.Helper()
	ofKernel(t)
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip("needs /proc")
	}
	kernel.mountinfo = filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(kernel.mountinfo, regexp.MustCompile(` - [a-z0-9]+ /dev`).ReplaceAll(text, []byte(" - "+kind+" /dev")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDirOnNetwork(t *testing.T) {
	base := "/var/tmp" // on a disk on the test machines, unlike /tmp
	for _, kind := range []string{"nfs4", "nfs", "cifs", "ceph", "fuse.sshfs", "lustre", "fuse.s3fs"} {
		t.Run(kind, func(t *testing.T) {
			onType(t, kind)
			m := elsewhere{here}
			v, err := prepare(t, "dir", &DirSpec{Path: base}, Env{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Attach(t.Context(), m)
			wantError(t, err, "("+kind+" on ", "network: true")
			if v, err = prepare(t, "dir", &DirSpec{Path: base, Network: true}, Env{}); err != nil {
				t.Fatal(err)
			}
			p, err := v.Attach(t.Context(), m)
			if err != nil || !strings.HasPrefix(p.Path, base+"/iotax-") {
				t.Errorf("%v, %+v", err, p)
			}
			if err := v.Detach(t.Context()); err != nil {
				t.Error(err)
			}

			// Attach accepts the mount point itself without `network: true`, but not a directory below it.
			point, err := os.MkdirTemp(base, "mount-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(point)
			mounts, err := os.OpenFile(kernel.mountinfo, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(mounts, "999 1 0:999 / %s rw - %s server:/x rw\n", point, kind); err != nil {
				t.Fatal(err)
			}
			mounts.Close()
			for path, allowed := range map[string]bool{point: true, point + "/below": false} {
				if v, err = prepare(t, "dir", &DirSpec{Path: path, Create: true}, Env{}); err != nil {
					t.Fatal(err)
				}
				if _, err = v.Attach(t.Context(), m); (err == nil) != allowed {
					t.Errorf("%s: %v", path, err)
				}
				if err := v.Detach(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestNetworked(t *testing.T) {
	for kind, want := range map[string]bool{
		"ext4": false, "xfs": false, "tmpfs": false, "overlay": false, "virtiofs": false, "fuse": false, "fuseblk": false, // fuse and fuseblk without a subtype can be on a block device, as with NTFS
		"fuse.fuse-overlayfs": false, "fuse.mergerfs": false, "fuse.bindfs": false, "fuse.gocryptfs": false, "fuse.encfs": false, "fuse.lxcfs": false, "fuse.ntfs-3g": false, "fuse.exfat": false, "fuse.grpcfuse": false,
		"nfs4": true, "cifs": true, "smb3": true, "beegfs": true, "fuse.sshfs": true, "fuse.rclone": true, "fuse.gvfsd-fuse": true, "fuse.seaweedfs": true, "fuse.moosefs": true, "fuse.curlftpfs": true,
	} {
		if networked(probe.Mount{Type: kind}) != want {
			t.Errorf("%s is on a network: %v", kind, !want)
		}
	}
}

// A user who may write to the parent directory could replace the directory that iotax made. Guard detects a replaced
// directory.
func TestDirSwapped(t *testing.T) {
	for _, name := range []string{"by inode", "by marker"} {
		t.Run(name, func(t *testing.T) {
			if name == "by marker" {
				onType(t, "fuse.bindfs")
			}
			for how, swap := range map[string]string{
				"another's":                           `mkdir "$1"; echo x >"$1/.iotax"`,
				"a link to it":                        `ln -s "$1-away" "$1"`,
				"another's with a link to its marker": `mkdir "$1"; ln -s "$1-away/.iotax" "$1/.iotax"`,
				"nothing":                             `:`,
			} {
				v, err := prepare(t, "dir", &DirSpec{Path: "/var/tmp/iotax-test-swapped", Create: true}, Env{}) // on a disk on the test machines, unlike /tmp
				if err != nil {
					t.Fatal(err)
				}
				p, err := v.Attach(t.Context(), elsewhere{here})
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Guard(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				do := func(script string) {
					if out, err := exec.Command("sh", "-ec", script, "sh", p.Path).CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				do(`mv "$1" "$1-away"; ` + swap)
				if err := p.Guard(t.Context()); err == nil || !strings.Contains(err.Error(), "no longer the directory") {
					t.Errorf("%s, %s in its place: %v", name, how, err)
				}
				do(`rm -rf "$1"; mv "$1-away" "$1"`)
				if err := v.Detach(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A home directory itself is refused, because it contains the user's files. A directory inside it is accepted.
func TestHomes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for path, refused := range map[string]bool{home: true, home + "/.": true, home + "/iotax": false} {
		v, err := prepare(t, "dir", &DirSpec{Path: path, Create: true}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Attach(t.Context(), here)
		if refused {
			wantError(t, err, "is a home directory", home+"/iotax")
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := v.Detach(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]bool{"/root": true, "/home": true, "/home/me": true, "/Users/me": true, "/home/me/iotax": false, "/root/iotax": false, "/srv": false, "/srv/people/me": true, "/data": false, "/data/home": true, "/data/home/me": true, "/data/home/me/iotax": false} {
		s := survey{Real: path, Homes: []string{"/srv/people/me"}, Roots: []string{"/data/home"}}
		if s.isHome() != want {
			t.Errorf("%s is a home: %v", path, !want)
		}
	}
}

func TestReserve(t *testing.T) {
	s := survey{Size: 1000 << 30, Free: 60 << 30}
	if err := s.enough("use", "x", 10<<30); err != nil {
		t.Error(err)
	}
	wantError(t, s.enough("use", "x", 11<<30), "the test needs 11 GiB and leaves 50 GiB in reserve, 60 GiB are free", "free some space")
}

// A directory that iotax makes in the default place needs no space reserve if no files are written to it. It can be
// made on a nearly full file system, but not on a full one.
func TestOwnDirOnNearlyFull(t *testing.T) {
	ofKernel(t)
	for _, c := range []struct {
		free int64 // free space in KiB, of 1000 KiB
		in   string
		need int64
		fits bool
	}{
		{4, "", 0, true},
		{4, "", 1, false},
		{4, t.TempDir(), 0, false},
		{0, "", 0, false},
	} {
		kernel.usage = func(context.Context, string) (size, free int64) { return 1000 << 10, c.free << 10 }
		_, remove, err := OwnDir(t.Context(), elsewhere{here}, c.in, c.need, true, true)
		if (err == nil) != c.fits {
			t.Errorf("%+v: %v", c, err)
		}
		if err := remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestDirOnTmpfs(t *testing.T) {
	attach := func(t *testing.T, path string) (iotax.Place, error) {
		v, err := prepare(t, "dir", &DirSpec{Path: path}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.Attach(t.Context(), here)
		if err := v.Detach(t.Context()); err != nil {
			t.Error(err)
		}
		return p, err
	}
	t.Run("volatile", func(t *testing.T) {
		p, err := attach(t, tmpfs(t, "size=1m"))
		if err != nil {
			t.Fatal(err)
		}
		if p.Durability != iotax.Volatile || p.Facts["filesystem"] != "tmpfs" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		d := tmpfs(t, "size=1m,ro")
		_, err := attach(t, d)
		wantError(t, err, "read-only", "mount -o remount,rw "+d)
	})
	t.Run("full", func(t *testing.T) {
		d := tmpfs(t, "size=64k")
		if out, err := exec.Command("sh", "-c", "cat /dev/zero >"+d+"/fill; true").CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
		_, err := attach(t, d)
		wantError(t, err, "full", "free some space")
	})
	t.Run("no inodes left", func(t *testing.T) {
		d := tmpfs(t, "size=1m,nr_inodes=2")
		if err := os.WriteFile(d+"/one", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := attach(t, d)
		wantError(t, err, "no space left", "free some space")
	})
}

func loop(t *testing.T, size int64) string {
	t.Helper()
	return loopIn(t, t.TempDir(), size)
}

func loopIn(t *testing.T, dir string, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for loop devices")
	}
	file := filepath.Join(dir, "image")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup -d: %s", out)
		}
	})
	return dev
}

// emptyLoop returns a loop device without a backing file.
func emptyLoop(t *testing.T) string {
	t.Helper()
	sizes, _ := filepath.Glob("/sys/block/loop*/size")
	for _, s := range slices.Backward(sizes) { // another test may take the first devices at any time
		if b, err := os.ReadFile(s); err == nil && strings.TrimSpace(string(b)) == "0" {
			return "/dev/" + filepath.Base(filepath.Dir(s))
		}
	}
	t.Skip("needs loop devices")
	return ""
}

func TestDevice(t *testing.T) {
	dev := loop(t, 8<<20)
	link := filepath.Join(t.TempDir(), "by-name")
	if err := os.Symlink(dev, link); err != nil {
		t.Fatal(err)
	}
	v, err := prepare(t, "device", &DeviceSpec{Path: link}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	if p.Path != dev || p.Backing != dev || !p.ReadOnly || p.Kind != iotax.PlaceDevice {
		t.Errorf("%+v", p)
	}
	if p.Facts["device.size"] != fmt.Sprint(8<<20) || p.Facts["queue.logical_block_size"] == "" || strings.ContainsAny(p.Facts["queue.scheduler"], "[] ") {
		t.Errorf("facts %v", p.Facts)
	}
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// A loop device is as durable as its file.
func TestDeviceInMemory(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "memory")
	if err := os.Mkdir(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", memory).CombinedOutput(); err != nil {
		t.Skipf("needs root to mount: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", memory).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	for dir, want := range map[string]iotax.Durability{memory: iotax.Volatile, "/var/tmp": iotax.Durable} {
		in, err := os.MkdirTemp(dir, "image-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(in) })
		dev, mounted := loopIn(t, in, 8<<20), t.TempDir()
		if out, err := exec.Command("sh", "-c", `mkfs.ext4 -q "$1" && mount "$1" "$2"`, "sh", dev, mounted).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", mounted).CombinedOutput(); err != nil {
				t.Errorf("umount: %s", out)
			}
		})
		for kind, spec := range map[string]plan.Spec{"device": &DeviceSpec{Path: dev}, "dir": &DirSpec{Path: mounted}} {
			v, err := prepare(t, kind, spec, Env{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := v.Attach(t.Context(), here)
			if err != nil || p.Durability != want {
				t.Errorf("%s in %s: %s, want %s (%v)", kind, dir, p.Durability, want, err)
			}
			if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDeviceRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, cause, hint string }{
		{"missing", "/dev/no-such-disk", "no such file", "lsblk"},
		{"a file", file, "not a block device", "dir:"},
		{"a character device", "/dev/null", "not a block device", "lsblk"},
		{"relative", "sda", "relative", "/dev/"},
		{"size 0", emptyLoop(t), "size is 0", "connect it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := prepare(t, "device", &DeviceSpec{Path: c.path}, Env{})
			if err == nil {
				_, err = v.Attach(t.Context(), here)
			}
			wantError(t, err, c.cause, c.hint)
		})
	}
}

func TestDurability(t *testing.T) {
	for line, want := range map[string]iotax.Durability{
		"rw,relatime - ext4 /dev/vda1 rw,errors=remount-ro":       iotax.Durable,
		"rw - ext4 /dev/vda1 rw,nobarrier":                        iotax.FlushIgnored,
		"rw - ext4 /dev/vda1 rw,barrier=0":                        iotax.FlushIgnored,
		"rw - ext4 /dev/vda1 rw,barrier=1":                        iotax.Durable,
		"rw - overlay overlay rw,upperdir=/u,workdir=/w,volatile": iotax.FlushIgnored,
		"rw - tmpfs tmpfs rw,size=10k":                            iotax.Volatile,
		"rw - rootfs rootfs rw":                                   iotax.Volatile,
		"rw - nfs4 server:/export rw,vers=4.2":                    iotax.Durable,
		"rw - ext4 /dev/zram0 rw":                                 iotax.Volatile,
		"rw - ext4 /dev/ram1 rw":                                  iotax.Volatile,
		"rw - 9p rams rw,trans=virtio":                            iotax.Durable,
		"rw - virtiofs share rw":                                  iotax.Durable,
		"rw - fuseblk /dev/sda1 rw,user_id=0":                     iotax.Durable, // ntfs-3g
		"rw - fuse.sshfs me@h:/x rw,user_id=0":                    iotax.Durable,
		"rw - fuse /src rw,user_id=0":                             "unknown: fuse", // bindfs 1.14
		"rw - fuse.mergerfs a:b rw,user_id=0":                     "unknown: fuse.mergerfs",
		"rw - fuse.rclone remote: rw,user_id=0":                   "unknown: fuse.rclone",
		"rw - overlay overlay rw,upperdir=/memory/u":              iotax.Volatile,
		"rw - overlay overlay rw,upperdir=/fuse/u":                "unknown: fuse",
		"rw - overlay overlay rw,upperdir=/u,volatile":            iotax.FlushIgnored,
		"rw - overlay overlay rw,upperdir=/x/u":                   iotax.Durable, // a path of a container's host
		"rw - overlay overlay ro,lowerdir=/memory/l":              iotax.Durable, // nothing is written
	} {
		ms := probe.ParseMounts("20 1 0:20 / /memory rw - tmpfs tmpfs rw\n21 1 0:21 / /fuse rw - fuse /src rw\n22 1 254:1 / /x " + line + "\n")
		m, ok := probe.MountOf(ms, "/x/dir")
		if !ok || m.Durability() != want {
			t.Errorf("%s: %s, want %s", line, m.Durability(), want)
		}
	}
}

// A weak is a machine whose disk has the durability `disk`.
type weak struct {
	elsewhere
	disk iotax.Durability
}

func (w weak) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &inProcess, Weakens: func(string, string) iotax.Durability { return w.disk }}
}

// A place on a local file system is not more durable than its machine's disk, and on macOS not more durable than the
// drive's cache. Neither limit applies to a directory on a volume that iotax attached.
func TestWeakMachine(t *testing.T) {
	base := "/var/tmp"
	on := elsewhere{here}
	for _, c := range []struct {
		m            iotax.Machine
		system, kind string
		want         iotax.Durability
	}{
		{here, "Linux", "ext4", iotax.Durable}, {weak{on, iotax.Durable}, "Linux", "ext4", iotax.Durable}, {weak{on, iotax.FlushIgnored}, "Linux", "ext4", iotax.FlushIgnored},
		{weak{on, iotax.Volatile}, "Darwin", "ext4", iotax.Volatile}, {weak{on, iotax.Durable}, "Darwin", "ext4", iotax.DriveCache}, {weak{on, iotax.Volatile}, "Linux", "nfs4", iotax.Durable},
	} {
		t.Run(fmt.Sprint(c.m, c.system, c.kind, c.want), func(t *testing.T) {
			onType(t, c.kind)
			kernel.system = c.system
			v, err := prepare(t, "dir", &DirSpec{Path: base, Network: true}, Env{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := v.Attach(t.Context(), c.m)
			if err != nil || p.Durability != c.want {
				t.Errorf("%+v: %s, %v, want %s", c.m, p.Durability, err, c.want)
			}
			if err := v.Detach(t.Context()); err != nil {
				t.Error(err)
			}
			inner := &dir{want: base}
			if p, err = inner.Attach(t.Context(), c.m); err != nil || p.Durability != iotax.Durable {
				t.Errorf("what is attached to %+v: %s, %v", c.m, p.Durability, err)
			}
			if err := inner.Detach(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if got := ownDurability(weak{on, iotax.FlushIgnored}, "/dev/vdb", probe.Mount{Source: "/dev/vdb"}, "Linux"); got != iotax.FlushIgnored {
		t.Errorf("a device: %s", got)
	}
	// A guest's disk in a directory of a Mac: QEMU calls fsync(2), which does not flush the drive's cache.
	if got := (&disk{life: life{env: Env{Of: iotax.Place{Durability: iotax.DriveCache}}}}).durability(iotax.Durable); got != iotax.DriveCache {
		t.Errorf("a disk on a Mac: %s", got)
	}
}

// If a part of a directory cannot be removed, its marker stays.
func TestDirRemovesMarkerLast(t *testing.T) {
	d := &dir{want: t.TempDir()}
	p, err := d.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	file := p.Path + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chattr", "+i", file).CombinedOutput(); err != nil {
		t.Skipf("chattr: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("chattr", "-i", file).Run() })
	if err := d.Detach(t.Context()); err == nil {
		t.Error("removing a file that cannot be removed succeeded")
	}
	if _, err := os.Stat(p.Path + "/" + marker); err != nil {
		t.Error(err)
	}
}

func TestUndo(t *testing.T) {
	var log []string
	var u undo
	for _, s := range []string{"first", "second", "third"} {
		u.push(func(ctx context.Context) error {
			log = append(log, s)
			if ctx.Err() != nil {
				t.Error("a step sees the cancel")
			}
			if s == "second" {
				return errors.New("second failed")
			}
			return nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.run(ctx); err == nil || err.Error() != "second failed" {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(log, " "); got != "third second first" {
		t.Errorf("order %s", got)
	}
	if err := u.run(ctx); err != nil || len(log) != 3 {
		t.Errorf("a second run did something: %v %v", err, log)
	}
}

// A second attempt to start a server ignores the process ID that the first attempt left in the file.
func TestServerIgnoresOldPID(t *testing.T) {
	at := t.TempDir() + "/pid"
	if err := os.WriteFile(at, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), here, at, nil, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if s.pid == 1 {
		t.Error("the process ID is that of the first try")
	}
	if err := s.stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// If a step takes until the deadline, the remaining steps still run.
func TestUndoAfterSlowStep(t *testing.T) {
	var u undo
	u.push(func(ctx context.Context) error { return ctx.Err() })
	u.push(func(ctx context.Context) error { <-ctx.Done(); return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := u.run(ctx); err != nil {
		t.Errorf("the step after a slow one: %v", err)
	}
}

var silent = agent.New("test silent", func(ctx context.Context, _ none) (none, error) { <-ctx.Done(); return none{}, ctx.Err() })

func TestDeadline(t *testing.T) {
	for _, m := range []iotax.Machine{here, elsewhere{here}} {
		_, err := on(t.Context(), 20*time.Millisecond, silent.On, m, none{})
		if err == nil || !strings.Contains(err.Error(), "no answer from host within 20ms") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
}
