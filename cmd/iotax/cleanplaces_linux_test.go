package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax/internal/leftover"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/long"
)

// cleans runs iotax clean for the runs of this stage only.
func (s *stage) cleans(flags ...string) result {
	s.t.Helper()
	var saved []struct{ ID string }
	s.parse(s.iotax("list", "--all", "--json"), &saved)
	args := append([]string{"clean"}, flags...)
	for _, r := range saved {
		args = append(args, r.ID)
	}
	markers, _ := filepath.Glob(s.path("tmp/iotax-*/" + leftover.Marker)) // runs that ended before they were saved
	for _, m := range markers {
		if b, err := os.ReadFile(m); err == nil {
			if l, ok := leftover.ParseLabel(strings.TrimSpace(string(b))); ok {
				args = append(args, l.Run)
			}
		}
	}
	if len(args) == 1+len(flags) {
		return result{args: args} // no run has begun
	}
	return s.iotax(args...)
}

// leftBy returns the leftovers that clean lists for a run, as "kind name".
func (s *stage) leftBy(run string, args ...string) (names []string) {
	s.t.Helper()
	var listed struct{ Leftovers []cleanItem }
	s.parse(s.iotax(append([]string{"clean", "--json", run}, args...)...).works(s.t, 0), &listed)
	for _, l := range listed.Leftovers {
		if l.Error == "" {
			names = append(names, l.Kind+" "+l.Name)
		}
	}
	return names
}

// waitFor waits until a file matches the pattern, and returns its path.
func (s *stage) waitFor(r *running, pattern string) string {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
		select {
		case <-r.done:
			s.t.Fatalf("nothing matches %s: %s", pattern, r.wait())
		default:
		}
		if time.Now().After(end) {
			r.send(syscall.SIGKILL)
			s.t.Fatalf("nothing matches %s: %s", pattern, r.wait())
		}
	}
}

// clean finds the directories that a killed run made for workloads and volumes, wherever the plan put them.
func TestCleanFindsScratches(t *testing.T) {
	for _, where := range []string{"here", "over SSH"} {
		t.Run(where, func(t *testing.T) {
			s := newStage(t)
			s.mkdir("export")
			s.mkdir("copy")
			s.mkdir("served")
			machines, on, path, flags := "", "", "", []string{}
			web, wanted := "  web: {http: {size: 64KiB, files: 2}, at: [files]}\n", []string{"served/iotax-", "export/iotax-", "copy/iotax-", "/var/tmp/iotax-", "tmp/iotax-nginx-"}
			if where == "over SSH" {
				d := s.sshd(os.Getenv("PATH"))
				s.knows(d)
				machines = fmt.Sprintf("machines: {there: {ssh: {host: 127.0.0.1, port: %d}}}\n", d.port)
				on, path, flags = "on: there, ", s.dir+"/", []string{"--remote"}
				web, wanted = "", wanted[:4] // iotax does not reach HTTP ports of an SSH host
			}
			s.write("plan.yaml", machines+fmt.Sprintf(`
targets:
  files:  {%[1]sdir: %[2]sserved}
  export: {%[1]snbd: {path: %[2]sexport}}
workloads:
%[4]s  image: {image: {size: 1MiB, import: "true", first: "true", second: "true", remove: "true"}, at: [files]}
  copy:  {materialise: {path: %[3]s, size: 192MiB}, at: [export]}
measure: {protocol: "fixed:200x300ms", ramp: 0s, cold: false}
`, on, path, s.path("copy"), web))
			r := s.start(nil, "run", "plan.yaml", "--calibrate=no")
			r.said("round 1/")
			s.waitFor(r, s.path("copy/iotax-*/.iotax"))
			r.send(syscall.SIGKILL)
			r.wait()
			run, _ := s.trials()
			for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // the run's processes end by themselves, also over SSH
				if left := s.leftBy(run.ID, flags...); !slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "process ") }) {
					break
				}
				if time.Now().After(end) {
					break // clean ends them below
				}
			}
			left := s.leftBy(run.ID, flags...)
			for _, want := range wanted {
				if !strings.HasPrefix(want, "/") {
					want = s.path(want)
				}
				if !slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "directory "+want) }) {
					t.Errorf("%s… is not found: %q", want, left)
				}
			}
			s.cleans(append([]string{"--yes"}, flags...)...)
			if still := s.leftBy(run.ID, flags...); len(still) > 0 {
				t.Errorf("after clean: %q", still)
			}
			for _, l := range left {
				if _, dir, _ := strings.Cut(l, " "); strings.HasPrefix(l, "directory ") {
					if _, err := os.Lstat(dir); err == nil {
						t.Errorf("%s is still there", dir)
					}
					for _, p := range using(t, dir) {
						t.Errorf("process %s still uses %s", p, dir)
					}
				}
			}
		})
	}
}

// clean finds the leftovers of a killed run in a container that still exists, and skips a container that no longer
// exists.
func TestCleanInContainer(t *testing.T) {
	long.Test(t)
	t.Parallel()
	e := engine.Podman(t)
	e.Load(t, boxImage, false)
	s := newStage(t)
	e.CLI(t, "run", "-d", "--name", "stays", "--network", "none", boxImage, "sleep", "3000")
	t.Cleanup(func() { e.CLI(t, "rm", "-f", "-t", "0", "stays") })
	s.write("plan.yaml", `
machines: {box: {podman: {ref: stays, host: "`+e.Host+`"}}, made: {podman: {ref: `+boxImage+`, pull: never, host: "`+e.Host+`"}}}
targets: {one: {on: box, dir: {path: /data, create: true}}, other: {on: made, dir: /var/tmp}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}
measure: {protocol: "fixed:100x1s", ramp: 0s}
`)
	r := s.start(nil, "run", "plan.yaml", "--calibrate=no")
	r.said("round 1/")
	r.send(syscall.SIGKILL)
	r.wait()
	run, _ := s.trials()
	if left := s.leftBy(run.ID, "--remote"); !slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "directory /data/iotax-") }) {
		t.Errorf("what it left in the container is not found: %q", left)
	}
	s.cleans("--remote", "--yes").works(t, 0, "/data/iotax-", "removed")
	if left := s.leftBy(run.ID, "--remote"); len(left) > 0 {
		t.Errorf("after clean: %q", left)
	}
	if there := e.CLI(t, "exec", "stays", "ls", "/data"); strings.Contains(there, "iotax-") {
		t.Errorf("still in the container: %s", there)
	}
}

// clean finds and removes the objects of a killed run in a bucket. It keeps other objects.
func TestCleanInBucket(t *testing.T) {
	s := newStage(t)
	addr := s.s3("bench")
	for _, name := range []string{"mine", "iotax-mine/x"} {
		s.mkdir(filepath.Dir("s3/bench/" + name))
		s.write("s3/bench/"+name, "dear to somebody")
	}
	s.write("plan.yaml", `
targets: {one: {bucket: "http://`+addr+`/bench"}, other: {bucket: "http://`+addr+`/bench"}}
workloads: {put: {object: {size: 256KiB, count: 40}}}
measure: {protocol: "fixed:500x300ms", ramp: 0s}
`)
	r := s.start(nil, "run", "plan.yaml", "--calibrate=no")
	s.waitFor(r, s.path("s3/bench/iotax-*/*-0005"))
	r.send(syscall.SIGKILL)
	r.wait()
	run, _ := s.trials()
	there := func() (dirs []string) {
		all, _ := filepath.Glob(s.path("s3/bench/iotax-*"))
		for _, d := range all {
			if d != s.path("s3/bench/iotax-mine") {
				dirs = append(dirs, "objects "+filepath.Base(d)+"/")
			}
		}
		return dirs
	}
	s.iotax("doctor").works(t, 0, "s3://"+addr+"/bench was not asked")
	if left := s.leftBy(run.ID, "--remote"); len(there()) != 2 || !slices.Equal(left[max(0, len(left)-2):], there()) {
		t.Errorf("found %q, there are %q", left, there())
	}
	s.cleans("--remote", "--yes")
	if left := s.leftBy(run.ID, "--remote"); len(left) > 0 || len(there()) > 0 {
		t.Errorf("after clean: %q, and there are %q", left, there())
	}
	for _, name := range []string{"mine", "iotax-mine/x"} {
		if b, err := os.ReadFile(s.path("s3/bench/" + name)); err != nil || string(b) != "dear to somebody" {
			t.Errorf("%s of somebody: %q, %v", name, b, err)
		}
	}

	// A run that ends normally leaves no objects.
	s.write("plan.yaml", strings.Replace(s.read("plan.yaml"), "500x", "1x", 1))
	s.iotax("run", "plan.yaml", "--calibrate=no").works(t, 0)
	if len(there()) > 0 {
		t.Errorf("after a run: %q", there())
	}
}

// read returns the content of a file in the stage's directory.
func (s *stage) read(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// s3 starts a real S3 server with a bucket and returns its address. The server accepts the keys in the stage's
// environment. If there are none, s3 adds some.
func (s *stage) s3(bucket string) string {
	s.t.Helper()
	s.mkdir("s3/" + bucket)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "stagekey", "AWS_SECRET_ACCESS_KEY": "stagesecret"} {
		if s.env[name] == "" {
			s.env[name] = value
		}
	}
	c := exec.Command(s.storeProgram(), "--port", addr, "--quiet", "--keep-alive", "posix", s.path("s3"))
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.env["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY="+s.env["AWS_SECRET_ACCESS_KEY"])
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr
		}
		if time.Now().After(end) {
			s.t.Fatalf("the store does not serve: %s", said.String())
		}
	}
}

// A killed run mounted a tmpfs over SSH. clean finds it by the label of the directory that contains the mount point.
func TestCleanMountOverSSH(t *testing.T) {
	needsRoot(t)
	s := newStage(t)
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	s.write("plan.yaml", fmt.Sprintf(`
machines: {there: {ssh: {host: 127.0.0.1, port: %d}}}
targets: {memory: {on: there, memory: tmpfs}, other: {on: there, dir: %s}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}
measure: {protocol: "fixed:100x1s", ramp: 0s}
`, d.port, s.path("a")))
	r := s.start(nil, "run", "plan.yaml", "--calibrate=no")
	r.said("round 1/")
	r.send(syscall.SIGKILL)
	r.wait()
	run, _ := s.trials()
	has := func(left []string, prefix string) bool {
		return slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, prefix) })
	}
	left := s.leftBy(run.ID, "--remote")
	if !has(left, "mount /mnt/iotax-") || !has(left, "directory /mnt/iotax-") {
		t.Errorf("found %q", left)
	}
	s.cleans("--remote", "--yes").works(t, 0, "removed")
	if left := s.leftBy(run.ID, "--remote"); len(left) > 0 {
		t.Errorf("after clean: %q", left)
	}
	for _, l := range left {
		if _, dir, _ := strings.Cut(l, " "); strings.HasPrefix(l, "directory ") {
			if _, err := os.Lstat(dir); err == nil {
				t.Errorf("%s is still there", dir)
			}
		}
	}
}

// using returns the ids of the processes whose command lines name a file in dir. Unlike a search for the label in
// environments, it also finds nginx, whose environment does not contain the label.
func using(t *testing.T, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), dir+"/") {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
