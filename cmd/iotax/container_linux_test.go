package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/long"
)

const (
	boxImage = "localhost/iotax-test:1" // without fio
	fioImage = "localhost/iotax-fio:1"  // with fio
)

// engines maps the names of engines to functions that start the engine for a test.
var engines = map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman}

// boxed starts an engine, loads boxImage, and makes a stage. In the stage's directory `loop`, it mounts a file system
// from device, a loop device whose I/O the engine can limit.
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

// iotax measures every kind of place in a container, including all types of mounts. The facts record the limits and
// whether iotax copied fio.
func TestContainerPlaces(t *testing.T) {
	long.Test(t)
	t.Parallel()
	for name, start := range engines {
		t.Run(name, func(t *testing.T) {
			if name == "podman" {
				repeats(t, "TestContainerPlaces/docker")
			}
			s, e, device := boxed(t, start)
			e.Load(t, fioImage, true)
			capped(t, s, name, e, device) // first, because since Linux 6.10, cgroup v1 counts only the I/O of devices that have had a limit
			s.write("plan.yaml", `
baseline: host
machines:
  box: {`+name+`: {image: `+boxImage+`, pull: never, host: "`+e.Host+`", cpus: 1.5, memory: 256MiB}}
  has fio: {`+name+`: {image: `+fioImage+`, pull: never, host: "`+e.Host+`"}}
targets:
  host: {dir: loop}
  overlay: {on: box, dir: /var/tmp}
  bind: {on: box, mount: bind}
  volume: {on: box, mount: volume}
  memory: {on: box, mount: tmpfs}
  its own fio: {on: has fio, dir: /var/tmp}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 8MiB}}}
measure: {protocol: "fixed:2x300ms", ramp: 100ms}
`)
			r := s.iotax("run", "plan.yaml", "--calibrate=no", "--details").works(t, 0, "overlay", "volume", "memory", "durability-differs", "copying fio")
			run, trials := s.trials()
			if blocked := strings.Contains(r.stdout, "blocked by the container's seccomp profile"); blocked != (name == "podman") {
				// Podman's seccomp profile blocks io_uring. Docker's profile does so only from version 25 on.
				t.Errorf("io_uring is told to be blocked: %v: %s", blocked, r)
			}
			seen := map[string]int{}
			for _, tr := range trials {
				seen[tr.Target]++
				v, ok := tr.Value("read.iops")
				if !ok || tr.Err != "" {
					t.Errorf("%s: %s: no value: %s", tr.Target, tr.Workload, tr.Err)
				}
				if own, ok := tr.Value("own.read.bytes"); tr.Target == "bind" && (!ok || own.Value < v.Value*4096*tr.Length.Seconds()/2) {
					t.Errorf("%g reads a second, and the control group counts %g bytes", v.Value, own.Value)
				}
				if own := tr.Target == "host" || tr.Target == "its own fio"; own == strings.Contains(tr.Facts["command"], "--library-path") {
					t.Errorf("%s: %s", tr.Target, tr.Facts["command"])
				}
			}
			if len(seen) != 6 {
				t.Errorf("trials of %v", seen)
			}
			for _, info := range run.Targets {
				// iotax copies this host's fio only if the image does not contain fio.
				if own := info.Name == "host" || info.Name == "its own fio"; own != (info.Facts["fio.pushed"] == "") {
					t.Errorf("%s: fio was brought as %q", info.Name, info.Facts["fio.pushed"])
				}
				switch f := info.Facts; info.Name {
				case "overlay":
					if f["limit.cpus"] != "1.5" || f["limit.memory"] != "268435456" || f["engine"] != name || f["engine.version"] == "" || f["image"] != boxImage {
						t.Errorf("facts of %s: %v", info.Name, f)
					}
				case "its own fio":
					if f["limit.cpus"]+f["limit.memory"] != "" || f["image"] != fioImage {
						t.Errorf("facts of %s: %v", info.Name, f)
					}
				case "memory":
					if info.Durability != iotax.Volatile {
						t.Errorf("memory is %s", info.Durability)
					}
				}
			}
			deviceInContainer(t, s, name, e)
		})
	}
}

// capped checks that a container with a cgroup limit of 400 reads per second measures about 400 IOPS. A trial may
// exceed the limit a little, because the kernel counts in slices of a tenth of a second. A busy machine may keep fio
// below the limit, but not in every trial.
func capped(t *testing.T, s *stage, name string, e *engine.Engine, device string) {
	const limit = 400
	s.write("cap.yaml", fmt.Sprintf(`
machines: {capped: {%s: {image: %s, pull: never, host: %q, read_iops: %d, limit_device: %s}}}
targets: {host: {dir: loop}, capped: {on: capped, mount: {type: bind, of: host}}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 64, ioengine: libaio, size: 8MiB}, at: [capped]}}
measure: {protocol: "fixed:2x3s", ramp: 500ms, cold: false}
`, name, fioImage, e.Host, limit, device))
	most, all := 0., []float64(nil)
	for range 3 {
		s.iotax("run", "cap.yaml", "--calibrate=no", "--json").works(t, 0)
		run, trials := s.trials()
		for _, tr := range trials {
			v, ok := tr.Value("read.iops")
			if !ok || v.Value > 1.15*limit {
				t.Errorf("the container that may do %d reads a second did %g: %s", limit, v.Value, tr.Err)
			}
			most, all = max(most, v.Value), append(all, v.Value)
		}
		for _, info := range run.Targets {
			if want := fmt.Sprintf("%d on %s", limit, device); info.Name == "capped" && info.Facts["limit.read.iops"] != want {
				t.Errorf("facts: %v", info.Facts)
			}
		}
		if most >= 0.85*limit {
			break
		}
	}
	if most < 0.85*limit {
		t.Errorf("the container that may do %d reads a second did %.0f", limit, all)
	}
}

// deviceInContainer checks that iotax reads a block device that is passed to a container, and writes to it only if
// --destroy names it. iotax must find signatures on the device even if the container has no tool that detects them.
func deviceInContainer(t *testing.T, s *stage, name string, e *engine.Engine) {
	device := s.bare("image")
	s.write("device.yaml", fmt.Sprintf(`
baseline: host
machines: {raw: {%s: {image: %s, pull: never, host: %q, devices: [%s]}}}
targets: {host: {dir: a}, device: {on: raw, device: %[4]s}}
workloads: {work: {fio: {rw: randread, bs: 4k, size: 8MiB}}}
measure: {protocol: "fixed:1x300ms", ramp: 50ms}
`, name, boxImage, e.Host, device))
	run := func(more ...string) result {
		return s.iotax(append([]string{"run", "device.yaml", "--calibrate=no"}, more...)...)
	}
	writes := func(more ...string) result {
		text, err := os.ReadFile(s.path("device.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		s.write("write.yaml", strings.Replace(string(text), "randread", "randwrite", 1))
		return s.iotax(append([]string{"run", "write.yaml", "--calibrate=no"}, more...)...)
	}
	empty := s.sum("image")
	run().works(t, 0)
	writes().refuses(t, 1, "block devices are only read, and the job writes", "iotax run --destroy raw:"+device)
	writes("--destroy", device).refuses(t, 2, "no target of the plan is this block device", "raw:"+device)
	if s.sum("image") != empty {
		t.Fatal("the device was written to")
	}
	writes("--destroy", "raw:"+device).works(t, 0, "everything on "+device, "will be overwritten")
	if s.sum("image") == empty {
		t.Error("nothing was written")
	}
	info, trials := s.trials()
	for _, tr := range trials {
		if v, ok := tr.Value("write.iops"); !ok || !(v.Value > 0) || tr.Err != "" {
			t.Errorf("%s: %v, %s", tr.Target, v, tr.Err)
		}
	}
	if f := info.Targets[1].Facts; !strings.Contains(f["device.destroyed"], device) {
		t.Errorf("facts: %v", f)
	}
	// iotax also refuses to overwrite a file system on a device in a container.
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", device).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %s", out)
	}
	full := s.sum("image")
	writes("--destroy", "raw:"+device).refuses(t, 1, "overwrite block device "+device, "it carries a signature of ext", "hint: ")
	if s.sum("image") != full {
		t.Error("the device has changed")
	}
}

// An interrupt ends fio and removes the container. If the container dies during a trial, that trial records the error.
// iotax reports errors of the engine with a hint.
func TestContainerFaults(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s, e, _ := boxed(t, engine.Docker)
	s.env["DOCKER_HOST"] = e.Host
	long := []string{"run", "dir:" + s.path("a"), "docker:bind,pull=never,image=" + boxImage, "-w", "randread-4k-8MiB", "--trial", "2s", "--ramp", "0s", "--rounds", "2", "--calibrate=no"}
	r := s.start(nil, long...)
	r.said("round 1/2")
	time.Sleep(300 * time.Millisecond)
	r.send(os.Interrupt)
	r.wait().works(t, 130, "interrupted")
	if left := e.CLI(t, "ps", "-aq") + e.CLI(t, "volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}

	containerFaults(s, e)

	s.iotax("run", "dir:"+s.path("a"), "docker://no-such-thing/tmp?pull=never").refuses(t, 1, "no-such-thing", "the engine does not have it", "hint: docker pull")
	s.iotax("run", "dir:"+s.path("a"), "docker:tmpfs,image=127.0.0.1:9/none:1").refuses(t, 1, "fetch image 127.0.0.1:9/none:1", "refused", "hint: check its name", "docker load")
	s.iotax("run", "dir:"+s.path("a"), "docker:bind").refuses(t, 2, "image")
	s.iotax("run", "dir:"+s.path("a"), "docker://x").refuses(t, 2, "no directory", "docker://IMAGE-or-container/path")

	// An image with a single file and no shell.
	s.write("file", "text")
	if out, err := exec.Command("tar", "-C", s.dir, "-cf", s.path("bare.tar"), "file").CombinedOutput(); err != nil {
		t.Fatalf("tar: %s", out)
	}
	e.CLI(t, "import", s.path("bare.tar"), "localhost/bare:1")
	s.iotax("run", "dir:"+s.path("a"), "docker:tmpfs,pull=never,image=localhost/bare:1").refuses(t, 1, "start container of localhost/bare:1", "executable file not found", "hint: use an image that has a POSIX shell")
	e.CLI(t, "create", "--name", "stopped", "--network", "none", boxImage, "true")
	s.iotax("run", "dir:"+s.path("a"), "docker://stopped/tmp").refuses(t, 1, "open container stopped: it does not run: created", "hint: docker start stopped")
	e.CLI(t, "rm", "stopped")

	// An existing container is used and not changed.
	e.CLI(t, "run", "-d", "--name", "mine", "--network", "none", boxImage, "sleep", "300")
	s.iotax("run", "dir:"+s.path("a"), "docker://mine/var/tmp", "-w", "randread-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "2", "--calibrate=no").works(t, 0, "docker://mine")
	if out := e.CLI(t, "exec", "mine", "ls", "-a", "/var/tmp"); strings.Contains(out, "iotax") {
		t.Errorf("left in the container: %s", out)
	}
	e.CLI(t, "rm", "-f", "mine")

	// Connect to an engine on another host over SSH, as Docker's own client does.
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	there := fmt.Sprintf("ssh://127.0.0.1:%d", d.port)
	s.env["DOCKER_HOST"] = there + strings.TrimPrefix(e.Host, "unix://")
	s.iotax("run", "dir:"+s.path("a"), "docker:volume,pull=never,image="+boxImage, "-w", "randread-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "2", "--calibrate=no").works(t, 0, "docker:volume")
	if left := e.CLI(t, "ps", "-aq") + e.CLI(t, "volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}
	s.env["DOCKER_HOST"] = there + s.path("nothing.sock")
	s.iotax("run", "dir:"+s.path("a"), "docker://x/tmp").refuses(t, 1, "connect to docker", "hint: log in there by hand", "docker system dial-stdio")
	s.env["DOCKER_HOST"] = there + strings.TrimPrefix(e.Host, "unix://")

	// The SSH connection to the engine breaks while fio measures, and iotax cannot reconnect. iotax reports an error,
	// and fio in the container ends.
	r = s.start(nil, inVolume(s, e)...)
	r.said("round 1/2")
	id := e.CLIFirst(t, "ps", "-q")
	fioIn(t, id, true)
	d.hold() // prevents a new connection
	s.killSessions()
	d.stop()
	fioIn(t, id, false)
	if lost := r.wait(); lost.code == 0 || lost.code == -1 {
		t.Errorf("the way was lost and all was well: %s", lost)
	}
	_, trials := s.trials()
	var errs []string
	for _, tr := range trials {
		errs = append(errs, tr.Err)
	}
	if !slices.ContainsFunc(errs, func(e string) bool { return e != "" }) {
		t.Errorf("no trial tells of the lost way: %q", errs)
	}
	s.env["DOCKER_HOST"] = e.Host
	s.cleans("--yes").works(t, 0, "removed")
	if left := e.CLI(t, "ps", "-aq") + e.CLI(t, "volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}
	// The engine does not run.
	s.env["DOCKER_HOST"] = "unix://" + s.path("nothing.sock")
	s.iotax("run", "dir:"+s.path("a"), "docker://x/tmp").refuses(t, 1, "connect to docker", "hint: start Docker")
}

// inVolume returns the arguments of a run in a volume of the engine. fioIn finds its fio by the trial length of 2 s.
func inVolume(s *stage, e *engine.Engine) []string {
	return []string{"run", "dir:" + s.path("a"), e.Name + ":volume,pull=never,image=" + boxImage, "-w", "randread-4k-8MiB", "--trial", "2s", "--ramp", "0s", "--rounds", "2", "--calibrate=no"}
}

// fioIn waits until an fio with trials of 2 s runs in the container or, if want is false, until none does. It searches
// this host's processes, because on a busy engine, starting a command in the container takes longer than a trial.
func fioIn(t *testing.T, id string, want bool) {
	t.Helper()
	runs := func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cgroup")
		for _, file := range all {
			groups, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(groups, []byte(id)) {
				continue
			}
			if line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err == nil && bytes.Contains(line, []byte("--runtime=2000ms")) {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(4 * time.Minute); runs() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("that fio runs in the container is not %v", want)
		}
	}
}

// containerFaults tests the faults in the containers' rows of the table in docs/dev/reliability.md.
func containerFaults(s *stage, e *engine.Engine) {
	in := " (" + map[string]string{"docker": "Docker", "podman": "Podman"}[e.Name] + ")"
	setup := func(s *stage) []string {
		return []string{"dir:a", e.Name + ":volume,pull=never,image=" + boxImage, "--trial", "2s", "--rounds", "2"}
	}
	s.elsewhere = append(s.elsewhere, func() (left census) {
		for _, id := range strings.Fields(e.CLI(s.t, "ps", "-aq")) {
			left = append(left, "container: "+id)
		}
		for _, name := range strings.Fields(e.CLI(s.t, "volume", "ls", "-q")) {
			left = append(left, "volume: "+name)
		}
		return left
	})
	s.tryEach([]fault{
		{name: "the container killed" + in, setup: setup, codes: []int{0, 1}, fails: true, says: []string{"the container ended:"},
			inject: func(s *stage, r *running, _ *rand.Rand) bool {
				r.said("round 1/2")
				e.CLI(s.t, "kill", e.CLIFirst(s.t, "ps", "-q"))
				return true
			}},
		{name: "SIGKILL of iotax, one target in a container" + in, setup: setup, codes: []int{-1}, killed: true, says: []string{"runner-died"},
			inject: func(s *stage, r *running, _ *rand.Rand) bool {
				r.said("round 1/2")
				id := e.CLIFirst(s.t, "ps", "-q")
				fioIn(s.t, id, true)
				r.send(syscall.SIGKILL)
				r.wait()
				fioIn(s.t, id, false) // fio ends by itself, the container does not
				s.cleans().works(s.t, 0, "container", id[:12], "volume", "left by run")
				return true
			}},
	})
}

func TestPodmanFaults(t *testing.T) {
	repeats(t, "TestContainerFaults")
	t.Parallel()
	e := engine.Podman(t)
	e.Load(t, boxImage, false)
	s := newStage(t)
	s.env["CONTAINER_HOST"] = e.Host
	containerFaults(s, e)
}
