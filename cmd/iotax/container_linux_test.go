package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/lab/engine"
)

const boxImage = "localhost/iotax-test:1"

// boxed makes a stage beside an engine that has an image without fio, and a file system on a loop
// device that the engine's limits can be set on.
func boxed(t *testing.T, start func(*testing.T) *engine.Engine) (s *stage, e *engine.Engine, device string) {
	e = start(t)
	e.Load(t, boxImage, false)
	s = newStage(t)
	must := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image, dir := s.path("loop.img"), s.mkdir("loop")
	must("truncate", "-s", "256M", image)
	must("mke2fs", "-q", "-t", "ext4", image)
	device = must("losetup", "-f", "--show", image)
	t.Cleanup(func() { must("losetup", "-d", device) })
	must("mount", device, dir)
	t.Cleanup(func() { must("umount", dir) })
	return s, e, device
}

// The limit of the control group is a truth that is known from outside: a container that may do 400
// reads a second measures 400, and what its other places do, every kind of mount included, is counted.
func TestContainerPlaces(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman} {
		t.Run(name, func(t *testing.T) {
			s, e, device := boxed(t, start)
			s.write("plan.yaml", `
baseline: host
machines:
  box: {`+name+`: {image: `+boxImage+`, pull: never, host: "`+e.Host+`"}}
  capped: {`+name+`: {image: `+boxImage+`, pull: never, host: "`+e.Host+`", read_iops: 400, limit_device: `+device+`}}
targets:
  host: {dir: loop}
  overlay: {on: box, dir: /var/tmp}
  bind: {on: box, mount: bind}
  volume: {on: box, mount: volume}
  memory: {on: box, mount: tmpfs}
  capped: {on: capped, mount: {type: bind, of: host}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 8MiB}}}
measure: {protocol: "fixed:2x1s", ramp: 300ms}
`)
			r := s.iotax("run", "plan.yaml", "--calibrate=no").works(t, 0, "overlay", "volume", "memory", "durability-differs")
			run, trials := s.trials()
			if blocked := strings.Contains(r.stdout, "blocked by the container's seccomp profile"); blocked != (name == "podman") {
				// Podman's profile blocks io_uring; that of Docker does from 25 on.
				t.Errorf("io_uring is told to be blocked: %v: %s", blocked, r)
			}
			seen := map[string]int{}
			for _, tr := range trials {
				seen[tr.Target]++
				v, ok := tr.Value("read.iops")
				if !ok || tr.Err != "" {
					t.Errorf("%s: %s: no value: %s", tr.Target, tr.Workload, tr.Err)
				}
				// A machine that is busy may not reach a limit; nothing gets beyond it by more than the two slices of a
				// tenth of a second by which the kernel's throttle counts.
				if tr.Target == "capped" && (v.Value > 1.25*400 || v.Value < 0.3*400) {
					t.Errorf("the container that may do 400 reads a second did %g", v.Value)
				}
				if own, ok := tr.Value("own.read.bytes"); tr.Target == "bind" && (!ok || own.Value < v.Value*4096/2) {
					t.Errorf("%g reads a second, and the control group counts %g bytes", v.Value, own.Value)
				}
			}
			if len(seen) != 6 {
				t.Errorf("trials of %v", seen)
			}
			for _, info := range run.Targets {
				if f := info.Facts; info.Name == "capped" && (f["limit.read.iops"] != "400 on "+device || f["engine"] != name || f["engine.version"] == "") {
					t.Errorf("facts of %s: %v", info.Name, f)
				}
				if info.Name == "memory" && info.Durability != iotax.Volatile {
					t.Errorf("memory is %s", info.Durability)
				}
			}
		})
	}
}

// An interrupt ends fio in the container and removes the container; a container that dies under a
// trial is a row that says so; what the engine refuses is told with a mend.
func TestContainerFaults(t *testing.T) {
	s, e, _ := boxed(t, engine.Docker)
	s.env["DOCKER_HOST"] = e.Host
	long := []string{"run", "dir:" + s.path("a"), "docker:bind,pull=never,image=" + boxImage, "-w", "randread-4k-8MiB", "--trial", "2s", "--ramp", "0s", "--blocks", "2", "--calibrate=no"}
	r := s.start(nil, long...)
	r.said("block 1/2")
	time.Sleep(300 * time.Millisecond)
	r.send(os.Interrupt)
	r.wait().works(t, 130, "interrupted")
	if left := e.CLI(t, "ps", "-aq") + e.CLI(t, "volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}

	r = s.start(nil, long...)
	r.said("block 1/2")
	e.CLI(t, "kill", e.CLIFirst(t, "ps", "-q"))
	if r := r.wait(); r.code == 0 {
		t.Errorf("the container died and all was well: %s", r)
	}
	_, trials := s.trials()
	told := false
	for _, tr := range trials {
		told = told || strings.Contains(tr.Err, "the container ended: ")
	}
	if !told {
		t.Errorf("no trial tells of the container's end: %d trials", len(trials))
	}

	// Killed, it leaves the container, and nothing that goes on in it.
	r = s.start(nil, long...)
	r.said("block 1/2")
	id := e.CLIFirst(t, "ps", "-q")
	measures := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); strings.Contains(e.CLI(t, "exec", id, "ps", "-o", "args"), "--runtime=2000ms") != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("that fio runs in the container is not %v", want)
			}
		}
	}
	measures(true)
	r.send(syscall.SIGKILL)
	r.wait()
	measures(false)
	e.CLI(t, "rm", "-f", "-v", id)
	s.iotax("clean", "--yes").works(t, 0, "removed")

	s.iotax("run", "dir:"+s.path("a"), "docker://no-such-thing/tmp?pull=never").refuses(t, 1, "no-such-thing", "the engine does not have it", "mend: docker pull")
	s.iotax("run", "dir:"+s.path("a"), "docker:bind").refuses(t, 2, "image")
	s.iotax("run", "dir:"+s.path("a"), "docker://x").refuses(t, 2, "no directory", "docker://IMAGE-or-container/path")

	// One that exists is used and left alone.
	e.CLI(t, "run", "-d", "--name", "mine", "--network", "none", boxImage, "sleep", "300")
	s.iotax("run", "dir:"+s.path("a"), "docker://mine/var/tmp", "-w", "randread-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--blocks", "2", "--calibrate=no").works(t, 0, "docker://mine")
	if out := e.CLI(t, "exec", "mine", "ls", "-a", "/var/tmp"); strings.Contains(out, "iotax") {
		t.Errorf("left in the container: %s", out)
	}
	e.CLI(t, "rm", "-f", "mine")

	// The engine of another host, by the way that Docker's own client takes.
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	there := fmt.Sprintf("ssh://127.0.0.1:%d", d.port)
	s.env["DOCKER_HOST"] = there + strings.TrimPrefix(e.Host, "unix://")
	s.iotax("run", "dir:"+s.path("a"), "docker:volume,pull=never,image="+boxImage, "-w", "randread-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--blocks", "2", "--calibrate=no").works(t, 0, "docker:volume")
	if left := e.CLI(t, "ps", "-aq") + e.CLI(t, "volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}
	s.env["DOCKER_HOST"] = there + s.path("nothing.sock")
	s.iotax("run", "dir:"+s.path("a"), "docker://x/tmp").refuses(t, 1, "connect to docker", "mend: log in there by hand", "docker system dial-stdio")

	// An engine that does not answer.
	s.env["DOCKER_HOST"] = "unix://" + s.path("nothing.sock")
	s.iotax("run", "dir:"+s.path("a"), "docker://x/tmp").refuses(t, 1, "connect to docker", "mend: start Docker")
}
