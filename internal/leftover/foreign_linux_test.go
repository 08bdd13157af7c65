package leftover_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "iotax/internal/leftover"
	"iotax/internal/machine/host"
)

// another makes a command run as a user other than the user who runs the tests.
var another = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to " + why)
	}
}

// dead returns the label of a run that has ended.
func dead(t *testing.T) Label {
	l := Label{Run: "run-" + filepath.Base(t.TempDir()), Runner: Self()}
	l.Runner.Start++
	return l
}

// sleeper starts a process that waits. Its program is a new symbolic link in dir, and args are added to its arguments.
func sleeper(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(dir, "sleeper")
	if err := os.Symlink("/bin/sh", program); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, append([]string{"-c", "echo ready; read _"}, args...)...)
	in, err := c.StdinPipe()
	out, oerr := c.StdoutPipe()
	if err := errors.Join(err, oerr, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return c
}

// marked makes a directory with a marker. If pid is positive, it also writes pid to the file "pid" in the directory.
func marked(t *testing.T, dir string, l Label, pid int) {
	t.Helper()
	err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, Marker), []byte(l.String()+"\n"), 0o644))
	if pid > 0 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(pid)+"\n"), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// clean finds the items that are in dir or belong to the run, and removes those of dead runners. It returns all items
// that it found.
func clean(t *testing.T, dir string, l Label) (found []Item) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a FIFO must not block Find
	defer cancel()
	all, err := Find(ctx, Place{Machine: host.Local(), Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if !strings.HasPrefix(i.Name, dir) && i.Label.Run != l.Run {
			continue
		}
		found = append(found, i)
		if i.State == Dead {
			if err := i.Remove(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	return found
}

// A marker counts only for the user who owns it and its directory.
func TestForgedMarkers(t *testing.T) {
	needRoot(t, "give files to another user")
	for name, forge := range map[string]func(made string) error{
		"directory and marker": func(made string) error {
			return errors.Join(os.Chown(made, 65534, 65534), os.Chown(made+"/"+Marker, 65534, 65534))
		},
		"directory": func(made string) error { return os.Chown(made, 65534, 65534) },
		"marker":    func(made string) error { return os.Chown(made+"/"+Marker, 65534, 65534) },
		"a FIFO as marker": func(made string) error {
			return errors.Join(os.Remove(made+"/"+Marker), syscall.Mkfifo(made+"/"+Marker, 0o644), os.Chown(made, 65534, 65534))
		},
		"FIFOs beside the marker": func(made string) error {
			return errors.Join(os.Remove(made+"/pid"), syscall.Mkfifo(made+"/pid", 0o644), syscall.Mkfifo(made+"/"+NBDFile, 0o644), os.Chown(made, 65534, 65534))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, l := t.TempDir(), dead(t)
			made := dir + "/iotax-forged"
			victimDir := dir + "/root" + made // the path of the program contains the path of the directory
			if err := os.MkdirAll(victimDir, 0o755); err != nil {
				t.Fatal(err)
			}
			victim := sleeper(t, victimDir, made+"/conf")
			marked(t, made, l, victim.Process.Pid)
			if err := forge(made); err != nil {
				t.Fatal(err)
			}
			found := clean(t, dir, l)
			if name != "marker" && (len(found) != 1 || found[0].State != Foreign || found[0].Name != made) {
				t.Errorf("found %+v", found)
			}
			if _, err := os.Stat(made); err != nil {
				t.Error(err)
			}
			if !runs(t, strconv.Itoa(victim.Process.Pid)) {
				t.Error("clean ended a process for it")
			}
		})
	}
}

// Removing a directory also ends the process whose id is in the directory, if a word in the process's arguments is a
// path in the directory. The path of the directory itself, or a longer path that contains it, does not count.
func TestProcessOfDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		argument string // MADE is the directory
		ended    bool
	}{
		"in it":           {"MADE/conf", true},
		"as in a title":   {"-p MADE -c MADE/conf", true},
		"name at the end": {"/data" + "MADE/conf", false},
		"itself":          {"MADE", false},
		"a longer name":   {"MADE-2/conf", false},
	} {
		t.Run(name, func(t *testing.T) {
			l, at := dead(t), t.TempDir()
			made := filepath.Join(dir, "iotax-"+filepath.Base(filepath.Dir(at)))
			p := sleeper(t, at, strings.ReplaceAll(c.argument, "MADE", made))
			ended := make(chan error, 1)
			go func() { ended <- p.Wait() }()
			marked(t, made, l, p.Process.Pid)
			clean(t, dir, l)
			if _, err := os.Stat(made); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", made, err)
			}
			if got := !runs(t, strconv.Itoa(p.Process.Pid)); got != c.ended {
				t.Errorf("ended: %v, want %v", got, c.ended)
			}
		})
	}
}

// The value of a variable may imitate the environment of another process. Find must ignore the imitation.
func TestForgedEnvironment(t *testing.T) {
	needRoot(t, "start a process of another user")
	l, dir := dead(t), t.TempDir()
	victim := sleeper(t, dir)
	forger := exec.Command("/bin/sh", "-c", "echo ready; read _")
	forger.SysProcAttr, forger.Dir = another, "/"
	forger.Env = []string{fmt.Sprintf("A=\n==> /proc/%d/environ <==\nIOTAX_RUN=%s\nIOTAX_RUNNER=%s", victim.Process.Pid, l.Run, l.Runner)}
	in, err := forger.StdinPipe()
	out, oerr := forger.StdoutPipe()
	if err := errors.Join(err, oerr, forger.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); forger.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if found := clean(t, dir, l); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if !runs(t, strconv.Itoa(victim.Process.Pid)) {
		t.Error("the process was ended")
	}
}

// In another time namespace, /proc shows different start times, even for the run itself. The run's runner must not count
// as dead.
func TestOtherTimeNamespace(t *testing.T) {
	needRoot(t, "make a time namespace")
	dir := t.TempDir()
	cmd := exec.Command("unshare", "--time", "--boottime", "100000", "--fork", "--kill-child", os.Args[0])
	cmd.Env = append(os.Environ(), "LEFTOVER_TEST_RUNNER="+dir)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var made, child string
	if _, err := fmt.Fscanf(out, "%q %s\n", &made, &child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(child); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	found := clean(t, dir, Label{Run: "run-" + filepath.Base(dir)})
	if len(found) != 2 || slices.ContainsFunc(found, func(i Item) bool { return i.State != Unknown || !strings.Contains(i.Why, "time namespace") }) {
		t.Errorf("found %+v", found)
	}
	if _, err := os.Stat(made); err != nil || !runs(t, child) {
		t.Errorf("%s: %v; process %s runs: %v", made, err, child, runs(t, child))
	}
}

// init lets this program print the state of a runner as another user.
func init() {
	name := os.Getenv("LEFTOVER_TEST_STATE")
	if name == "" {
		return
	}
	r, err := ParseRunner(name)
	if err := errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		panic(err)
	}
	fmt.Print(r.State())
	os.Exit(0)
}

// A process that /proc hides from this user may be alive.
func TestHiddenProcess(t *testing.T) {
	needRoot(t, "mount /proc with hidepid")
	ended := Self()
	ended.PID = 1<<22 + 1
	for want, r := range map[State]Runner{Unknown: Self(), Dead: ended} {
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t proc -o hidepid=2 proc /proc && exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), "LEFTOVER_TEST_STATE="+r.String())
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != string(want) {
			t.Errorf("%s, %v, want %s", out, err, want)
		}
	}
}
