package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax/internal/leftover"
)

// A census lists the leftovers of one iotax process, as in "process: 4711 fio …". It does not use the finders of `iotax
// clean`, because tests use a census to check those finders.
type census []string

// kinds counts the entries by kind.
func (c census) kinds() map[string]int {
	n := map[string]int{}
	for _, thing := range c {
		kind, _, _ := strings.Cut(thing, ":")
		n[kind]++
	}
	return n
}

// census lists the leftovers of r on this host, and those that s.elsewhere finds in an engine, a cluster or a bucket.
// r may still be running.
func (s *stage) census(r *running) (found census) {
	s.t.Helper()
	runner := strconv.Itoa(r.cmd.Process.Pid) + "."
	of := func(label string) bool {
		l, ok := leftover.ParseLabel(label)
		return ok && strings.HasPrefix(l.Runner.String(), runner)
	}
	add := func(kind, name string) { found = append(found, kind+": "+name) }

	// Processes with the label in their environment.
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		env, err := os.ReadFile(file)
		pid := filepath.Base(filepath.Dir(file))
		if err != nil || pid+"." == runner || !bytes.Contains(env, []byte(leftover.RunnerVariable+"="+runner)) {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && len(cmdline) > 0 { // still exists and is not a zombie
			add("process", pid+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}

	// All iotax-* directories in the stage's directories, and those in system directories whose marker has the label of
	// r.
	for _, dir := range []string{"a", "b", "tmp", "small"} {
		filepath.WalkDir(s.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), "iotax-") {
				add("directory", path)
				return fs.SkipDir
			}
			return nil
		})
	}
	var own []string
	for _, pattern := range []string{"/tmp/iotax-*", "/var/tmp/iotax-*", "/dev/shm/iotax-*", "/run/iotax-*", "/mnt/iotax-*"} {
		shared, _ := filepath.Glob(pattern)
		for _, dir := range shared {
			if marker, err := os.ReadFile(filepath.Join(dir, leftover.Marker)); err == nil && of(string(marker)) {
				add("directory", dir)
				own = append(own, dir+"/")
			}
		}
	}

	// Mounts and loop devices in iotax-* directories of the stage, mounts in the system directories found above, and
	// new loop devices whose file was deleted.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		words := strings.Fields(line) // the fifth field is the mount point
		in := func(dir string) bool { return len(words) > 4 && strings.HasPrefix(words[4], dir) }
		if strings.Contains(line, s.dir+"/") && strings.Contains(line, "/iotax-") || slices.ContainsFunc(own, in) {
			add("mount", strings.TrimSpace(line))
		}
	}
	for name, file := range loops() {
		ours := strings.HasPrefix(file, s.dir+"/") && strings.Contains(file, "/iotax-")
		if ours || s.loops[name] != file && lost(file) { // the path of a deleted file does not show which run attached the device
			add("loop device", name+" "+file)
		}
	}

	// The state file of a run's lab contains the run's label. Namespaces have no label, so list all namespaces except
	// those of other runs' labs.
	known := map[string]bool{}
	states, _ := filepath.Glob("/run/iotax-lab/r*.json")
	for _, file := range states {
		var lab struct{ Label string }
		b, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(b, &lab) != nil {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		known[name] = !of(lab.Label)
		if of(lab.Label) {
			add("lab", file)
		}
	}
	namespaces, _ := filepath.Glob("/run/netns/iotax-r*-*")
	for _, path := range namespaces {
		lab := strings.TrimPrefix(filepath.Base(path), "iotax-")
		if !known[lab[:strings.LastIndex(lab, "-")]] {
			add("namespace", path)
		}
	}
	for _, more := range s.elsewhere {
		found = append(found, more()...)
	}
	return found
}

// loops returns the attached loop devices by name, with the paths of their files as the kernel reports them.
func loops() map[string]string {
	found := map[string]string{}
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range backing {
		if b, err := os.ReadFile(path); err == nil {
			found[strings.Split(path, "/")[3]] = strings.TrimSuffix(string(b), "\n")
		}
	}
	return found
}

// lost reports whether the file of a loop device was deleted.
func lost(file string) bool { return file == "" || strings.HasSuffix(file, " (deleted)") }

// init makes the package fail if its tests, or an engine or cluster that they started, leave a loop device whose file
// was deleted.
func init() {
	guard = func(tests func() int) int {
		before := loops()
		code := tests()
		left := func() map[string]string {
			found := loops()
			maps.DeleteFunc(found, func(name, file string) bool { return before[name] == file || !lost(file) })
			return found
		}
		for end := time.Now().Add(10 * time.Second); len(left()) > 0; time.Sleep(100 * time.Millisecond) { // another package's tests may be about to detach some
			if time.Now().After(end) {
				fmt.Fprintf(os.Stderr, "FAIL: loop devices are left: %v\n", left())
				return max(code, 1)
			}
		}
		return code
	}
}

// gone waits until the census of r is empty or 30 seconds have passed, and returns the last census. It waits because
// watchdogs on other machines need some time to end processes. If undo is not nil, gone calls it before each census.
func (s *stage) gone(r *running, undo func()) (left census) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if undo != nil {
			undo()
		}
		if left = s.census(r); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// TestCensus takes a census of several kinds of leftovers, and again after it has removed most of them.
func TestCensus(t *testing.T) {
	needsRoot(t)
	s := newStage(t)
	r := s.start([]string{"sh", "-c", "exec sleep 600"}) // start appends the iotax command, which sh ignores
	label := leftover.Label{Run: "counted", Runner: leftover.Runner{PID: r.cmd.Process.Pid, Start: 1, Boot: "x", Host: "here"}}
	if c := s.census(r); len(c) > 0 {
		t.Fatalf("before anything was made: %q", c)
	}
	sh := func(script string) string {
		t.Helper()
		out, err := exec.Command("sh", "-c", script, "sh", s.dir).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	child := exec.Command("sleep", "600")
	child.Env = append(os.Environ(), leftover.RunVariable+"="+label.Run, leftover.RunnerVariable+"="+label.Runner.String())
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	shared, err := os.MkdirTemp("/var/tmp", "iotax-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) }) // runs after the unmount
	if err := os.WriteFile(filepath.Join(shared, leftover.Marker), []byte(label.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lab := fmt.Sprintf("r%d", os.Getpid())
	state := "/run/iotax-lab/" + lab + ".json"
	b, err := json.Marshal(map[string]string{"label": label.String()})
	if err != nil {
		t.Fatal(err)
	}
	sh("mkdir -p /run/iotax-lab && ip netns add iotax-" + lab + "-node01")
	defer exec.Command("ip", "netns", "del", "iotax-"+lab+"-node01").Run()
	if err := os.WriteFile(state, b, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(state)
	sh(`mkdir -p "$1/a/iotax-1/m" "$1/tmp/deep/iotax-2" && truncate -s 1M "$1/a/iotax-1/image"`)
	for _, at := range []string{s.path("a/iotax-1/m"), filepath.Join(shared, "m")} {
		t.Cleanup(func() { exec.Command("umount", at).Run() }) // fails if the test has already unmounted it
		sh(`mkdir -p "` + at + `" && mount -t tmpfs none "` + at + `"`)
	}
	loop := sh(`losetup --show -f "$1/a/iotax-1/image"`)
	detach := sync.OnceFunc(func() { sh("losetup -d " + loop) }) // once, because the kernel may reuse the device number
	t.Cleanup(detach)
	lone := sh(`truncate -s 1M "$1/gone" && losetup --show -f "$1/gone" && rm "$1/gone"`)
	forget := sync.OnceFunc(func() { sh("losetup -d " + lone) })
	t.Cleanup(forget)

	want := map[string]int{"process": 1, "directory": 3, "mount": 2, "loop device": 2, "lab": 1, "namespace": 1}
	if got := s.census(r); fmt.Sprint(got.kinds()) != fmt.Sprint(want) {
		t.Errorf("%v, want %v: %q", got.kinds(), want, got)
	}
	// A lab's namespace without a state file is in the census of every run.
	if err := os.Remove(state); err != nil {
		t.Error(err)
	}
	if got := s.census(r).kinds(); got["namespace"] != 1 || got["lab"] != 0 {
		t.Errorf("without the lab: %v", got)
	}
	detach()
	forget()
	sh(`umount "` + shared + `/m" "$1/a/iotax-1/m" && rm -r "$1/a/iotax-1" "$1/tmp/deep" && ip netns del iotax-` + lab + "-node01")
	if got := s.census(r); fmt.Sprint(got.kinds()) != fmt.Sprint(map[string]int{"process": 1, "directory": 1}) {
		t.Errorf("what was removed is counted: %q", got)
	}
	r.send(syscall.SIGKILL)
	r.wait()
}
