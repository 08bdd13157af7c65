package leftover_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "iotax/internal/leftover"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover/proctable"
	"iotax/internal/machine/host"
)

// TestMain lets this program act as a runner or as the runner's child. A runner labels itself, makes a run's files and
// starts the child.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	if os.Getenv("LEFTOVER_TEST_TABLE") != "" {
		UseTable()
	}
	if os.Getenv("LEFTOVER_TEST_CHILD") != "" {
		time.Sleep(10 * time.Minute)
		return
	}
	if dir := os.Getenv("LEFTOVER_TEST_RUNNER"); dir != "" {
		if _, err := Begin("run-" + filepath.Base(dir)); err != nil {
			panic(err)
		}
		made, err := MkdirTemp(dir)
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(made, "data"), []byte("x"), 0o444); err != nil {
			panic(err)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "LEFTOVER_TEST_CHILD=1")
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Printf("%q %d\n", made, child.Process.Pid)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// runner starts a runner in dir. It returns the directory that the runner made, and the id of its child.
func runner(t *testing.T, dir string) (cmd *exec.Cmd, made, child string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEFTOVER_TEST_RUNNER="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := fmt.Fscanf(out, "%q %s\n", &made, &child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // kill the child if it still runs
		if pid, err := strconv.Atoi(child); err == nil && runs(t, child) {
			if p, err := os.FindProcess(pid); err == nil {
				p.Kill()
			}
		}
	})
	return cmd, made, child
}

func runs(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	_, err = proctable.Start(context.Background(), n)
	if err != nil && !errors.Is(err, proctable.ErrGone) {
		t.Fatal(err)
	}
	return err == nil
}

// endOther tries to end a process, but passes a wrong start time.
func endOther(t *testing.T, pid string) error {
	t.Helper()
	n, _ := strconv.Atoi(pid)
	return EndProcess(t.Context(), n, 1)
}

// systems runs a test twice: as on this host, and as on a host without /proc and without a POSIX shell, such as
// Windows.
func systems(t *testing.T, test func(t *testing.T, m iotax.Machine)) {
	t.Run("here", func(t *testing.T) { test(t, host.Local()) })
	t.Run("table", func(t *testing.T) {
		t.Setenv("LEFTOVER_TEST_TABLE", "1")
		t.Setenv("PATH", t.TempDir())
		defer UseTable()()
		test(t, host.Local())
	})
}

func TestFindAndRemove(t *testing.T) { systems(t, testFindAndRemove) }

func testFindAndRemove(t *testing.T, m iotax.Machine) {
	dir, err := filepath.EvalSymlinks(t.TempDir()) // Find returns paths without symbolic links
	if err != nil {
		t.Fatal(err)
	}
	place := Place{Machine: m, Dirs: []string{dir, dir + "/", filepath.Join(dir, "missing")}}
	cmd, made, child := runner(t, dir)
	mine := func() (items []Item) {
		t.Helper()
		all, err := Find(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			if i.Label.Run == "run-"+filepath.Base(dir) {
				items = append(items, i)
			}
		}
		return items
	}
	has := func(items []Item, kind, name string) bool {
		return slices.ContainsFunc(items, func(i Item) bool { return i.Kind == kind && i.Name == filepath.ToSlash(name) })
	}

	// While the runner is alive, its items are not leftovers and cannot be removed.
	alive := mine()
	if !has(alive, "process", child) || !has(alive, "directory", made) {
		t.Fatalf("found %+v, want process %s and directory %s", alive, child, made)
	}
	if left := Left(alive); len(left) != 0 {
		t.Fatalf("of a runner that lives: %+v", left)
	}
	for _, i := range alive {
		if err := i.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "still runs") {
			t.Fatalf("removing %s of a runner that lives: %v", i.Name, err)
		}
	}

	// These directories are similar but do not belong to the run.
	for name, text := range map[string]string{"iotax-nobodys": "", "iotax-other": "run=a runner=1.2.3@elsewhere\n", "iotax-garbled": "run=a runner=x\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name, Marker), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	cmd.Process.Kill()
	cmd.Wait()
	left := Left(mine())
	if len(left) != 2 || !has(left, "process", child) || !has(left, "directory", made) {
		t.Fatalf("left: %+v", left)
	}
	for _, i := range left {
		if err := i.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := mine(); len(left) != 0 {
		t.Errorf("after the removal: %+v", left)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("%v, want only what is not of that run", entries)
	}
	if runs(t, child) {
		t.Errorf("process %s lives", child)
	}
}

// Between listing and removal, the name of an item may come to refer to another object. Remove must not remove that
// object.
func TestRemoveIsNotFooled(t *testing.T) { systems(t, testRemoveIsNotFooled) }

func testRemoveIsNotFooled(t *testing.T, m iotax.Machine) {
	dir := t.TempDir()
	cmd, made, child := runner(t, dir)
	cmd.Process.Kill()
	cmd.Wait()
	items, err := Find(t.Context(), Place{Machine: m, Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range Left(items) {
		if i.Label.Run != "run-"+filepath.Base(dir) {
			continue
		}
		switch i.Kind {
		case "directory":
			if err := os.WriteFile(filepath.Join(made, Marker), []byte("run=b runner=1.1.1@x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := i.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "not the directory that was listed") {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(made, "data")); err != nil {
				t.Error(err)
			}
		case "process":
			if err := endOther(t, child); err != nil {
				t.Errorf("a process of another start: %v", err)
			}
			if !runs(t, child) {
				t.Error("a process of another start was ended")
			}
			if err := i.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMountsAndLoops(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	dir := t.TempDir()
	cmd, made, _ := runner(t, dir)
	sh := func(script string) string {
		t.Helper()
		out, err := exec.Command("sh", "-c", script, "sh", made).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sh(`mkdir "$1/a b" && mount -t tmpfs none "$1/a b" && truncate -s 1M "$1/image"`)
	t.Cleanup(func() { exec.Command("umount", made+"/a b").Run() })
	loop := sh(`losetup --show -f "$1/image"`)
	t.Cleanup(func() { exec.Command("losetup", "-d", loop).Run() })
	cmd.Process.Kill()
	cmd.Wait()

	items, err := Find(t.Context(), Place{Machine: host.Local(), Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, i := range Left(items) {
		if i.Label.Run != "run-"+filepath.Base(dir) {
			continue
		}
		kinds = append(kinds, i.Kind)
		if err := i.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"process", "mount", "loop device", "directory"}; !slices.Equal(kinds, want) {
		t.Errorf("left %v, want %v", kinds, want)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", made, err)
	}
	if out := sh("losetup -j " + made + "/image"); out != "" {
		t.Errorf("still attached: %s", out)
	}
}

// Find lists a directory only once, even if several paths lead to it. Remove does not remove a directory while
// something is mounted in it.
func TestMountedBehindLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	disk := t.TempDir()
	at, link := filepath.Join(disk, "a b"), filepath.Join(disk, "link")
	plain := filepath.Join(disk, "plain")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, made, _ := runner(t, plain)
	cmd.Process.Kill()
	cmd.Wait()
	if err := os.Rename(plain, at); err != nil {
		t.Fatal(err)
	}
	made = filepath.Join(at, filepath.Base(made))
	if err := os.Symlink(at, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", at+"/")
	point := made + "/mounted"
	if out, err := exec.Command("sh", "-c", `mkdir "$1" && mount -t tmpfs none "$1" && touch "$1/precious"`, "sh", point).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	t.Cleanup(func() { exec.Command("umount", point).Run() })
	items, err := Find(t.Context(), Place{Machine: host.Local(), Dirs: []string{link, at, at + "/"}})
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, i := range Left(items) {
		if i.Label.Run != "run-plain" {
			continue
		}
		n[i.Kind]++
		switch i.Kind {
		case "process":
			if err := i.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		case "directory": // its mount was not removed
			if err := i.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "is still mounted") {
				t.Errorf("got %v", err)
			}
		}
	}
	if n["directory"] != 1 || n["mount"] != 1 {
		t.Errorf("found %v, want one directory and one mount", n)
	}
	// Busy also detects the mount if the path contains a symbolic link.
	if err := Busy(link + "/" + filepath.Base(made)); err == nil {
		t.Error("a directory reached by a link passes as one in which nothing is mounted")
	}
	t.Chdir(filepath.Dir(made))
	if err := Busy(filepath.Base(made)); err == nil {
		t.Error("the relative path of a directory with a mount is not busy")
	}
	if err := Busy(disk + "/other"); err != nil {
		t.Errorf("a directory without mounts: %v", err)
	}
	if err := Remove(made); err == nil {
		t.Error("a working directory with a mount in it was removed")
	}
	if _, err := os.Stat(point + "/precious"); err != nil {
		t.Error(err)
	}
}

// While a working directory contains a note, Remove keeps the note and the marker. Without notes, it removes the
// directory.
func TestRemoveKeepsNotes(t *testing.T) {
	dir, err := MkdirTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/image", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	forget, err := Note(dir, "lima", "iotax-1")
	if err != nil {
		t.Fatal(err)
	}
	names := func() (names []string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if got := names(); !slices.Equal(got, []string{Marker, "made-lima-iotax-1"}) {
		t.Errorf("%q are left", got)
	}
	if err := forget(); err != nil {
		t.Error(err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%v: %q", err, names())
	}
	if err := Remove(dir); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// Root does not make a working directory where another user could replace it: Remove would remove the files of the
// replacement.
func TestMkdirTempOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a directory of another user")
	}
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(dir, link), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{dir, link} {
		made, err := MkdirTemp(in)
		if err == nil || !strings.Contains(err.Error(), dir+": user 65534 owns it") {
			t.Errorf("%s: made %q, %v", in, made, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	t.Setenv(iotax.AloneVariable, "1")
	if _, err := MkdirTemp(dir); err != nil {
		t.Error(err)
	}
}

// If a part of a directory cannot be removed, the marker stays, so that clean finds the rest.
func TestMarkerIsRemovedLast(t *testing.T) {
	dir := t.TempDir()
	cmd, made, _ := runner(t, dir)
	cmd.Process.Kill()
	cmd.Wait()
	items, err := Find(t.Context(), Place{Machine: host.Local(), Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(items, func(i Item) bool { return i.Name == filepath.ToSlash(made) })
	if at < 0 {
		t.Fatalf("%s was not found: %+v", made, items)
	}
	if out, err := exec.Command("chattr", "+i", made+"/data").CombinedOutput(); err != nil {
		t.Skipf("chattr: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("chattr", "-i", made+"/data").Run() })
	for name, remove := range map[string]func() error{"clean": func() error { return items[at].Remove(t.Context()) }, "the run": func() error { return Remove(made) }} {
		if err := remove(); err == nil {
			t.Errorf("%s: removing a file that cannot be removed succeeded", name)
		}
		if _, err := os.Stat(filepath.Join(made, Marker)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	exec.Command("chattr", "-i", made+"/data").Run()
	if err := items[at].Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("%s was not removed: %v", made, err)
	}
}

func TestRunner(t *testing.T) {
	systems(t, testRunner)
	for _, s := range []string{"", "1", "a.b.c@d", "1.2@x", "1.2.3"} {
		if r, err := ParseRunner(s); err == nil {
			t.Errorf("%q is %v", s, r)
		}
	}
}

func testRunner(t *testing.T, _ iotax.Machine) {
	self := Self()
	got, err := ParseRunner(self.String())
	if err != nil || got != self {
		t.Errorf("%v, %v, want %v", got, err, self)
	}
	if self.Boot == "" {
		t.Skip("needs /proc")
	}
	if self.State() != Alive && (self.Machine != "" || self.Boot != "epoch") {
		t.Errorf("this process is %s", self.State())
	}
	ended := exec.Command(os.Args[0], "-test.run", "^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	type cases map[string]struct {
		change func(r *Runner)
		want   State
	}
	old := func(r *Runner) { r.Space, r.Machine = "", "" }
	all := cases{
		"a process of this id that started later": {func(r *Runner) { r.Start++ }, Dead},
		"a process that has ended":                {func(r *Runner) { r.PID = ended.Process.Pid }, Dead},
		"one of another host":                     {func(r *Runner) { r.Host += "x" }, Unknown},
		"one of another host of this name":        {func(r *Runner) { r.Boot += "x"; r.Machine = "x" }, Unknown},
		"one that did not know its start":         {func(r *Runner) { r.Boot, r.Start = "", 0 }, Unknown},
	}
	if self.Boot == "epoch" {
		maps.Copy(all, cases{
			"one of a Linux with this host's name and id":             {func(r *Runner) { r.Boot, r.Space, r.Start = "0123456789abcdef", "4026531836", 1 }, Unknown},
			"one of a Linux with this host's name, of an older iotax": {func(r *Runner) { old(r); r.Boot, r.Start = "0123456789abcdef", 1 }, Unknown},
			"one of a host without an id":                             {func(r *Runner) { r.Machine = ""; r.PID = ended.Process.Pid }, Unknown},
		})
	} else {
		maps.Copy(all, cases{
			"one of another boot":                                  {func(r *Runner) { r.Boot += "x" }, Dead},
			"one of a container with this host's name":             {func(r *Runner) { r.Space += "1"; r.PID, r.Start = 1<<22+1, 1 }, Unknown},
			"one of a container of this host, before it was begun": {func(r *Runner) { r.Space += "1"; r.Boot += "x" }, Dead},
			"one of a host without an id":                          {func(r *Runner) { r.Boot += "x"; r.Machine = "" }, Unknown},
			"one of a Windows or macOS with this host's name":      {func(r *Runner) { old(r); r.Boot = "epoch" }, Unknown},
			"one from an older iotax":                              {old, Unknown},
			"one from an older iotax and another boot":             {func(r *Runner) { old(r); r.Boot += "x" }, Unknown},
		})
	}
	for name, c := range all {
		r := self
		r.Machine = cmp.Or(self.Machine, "0123456789abcdef")
		if c.change(&r); self.Machine == "" && r.Machine != "" && c.want != Unknown {
			continue // this host has no machine id
		}
		if got := r.State(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got, err := ParseRunner(r.String()); err != nil || got != r {
			t.Errorf("%s: %v is read as %v, %v", name, r, got, err)
		}
	}
}

// Any user may put a marker of any size, or a marker that is not a regular file, into a directory for temporary files.
// Find still returns the other items in that directory.
func TestMarkersOfAnySize(t *testing.T) {
	dir := t.TempDir()
	_, made, _ := runner(t, dir)
	for _, name := range []string{"iotax-huge", "iotax-endless", "iotax-link"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "iotax-huge", Marker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "iotax-huge", Marker), 50<<30); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"iotax-endless": "/dev/zero", "iotax-link": filepath.Join(made, Marker)} {
		if err := os.Symlink(to, filepath.Join(dir, name, Marker)); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	items, err := Find(t.Context(), Place{Machine: host.Local(), Dirs: []string{dir}})
	if err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if !slices.ContainsFunc(items, func(i Item) bool { return i.Name == made }) {
		t.Errorf("%s is not among %+v", made, items)
	}
	if i := slices.IndexFunc(items, func(i Item) bool { return i.Name == filepath.Join(dir, "iotax-link") }); i >= 0 {
		t.Errorf("a link to another directory's marker is taken for one: %+v", items[i])
	}
}

// The kernel lists mounts with absolute paths without links. If the path of a work directory had another form, the
// removal would not find the mounts in the directory, and would empty the mounted file systems.
func TestWorkDirectoryIsAbsolute(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := errors.Join(os.Mkdir("real", 0o700), os.Symlink("real", "link")); err != nil {
		t.Fatal(err)
	}
	for _, tmp := range []string{"real", "link", dir + "/link"} {
		t.Setenv("TMPDIR", tmp)
		if got, err := MkdirTemp(""); err != nil || filepath.Dir(got) != dir+"/real" {
			t.Errorf("TMPDIR=%s: %s, %v", tmp, got, err)
		}
	}
}
