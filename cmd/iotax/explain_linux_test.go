package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"iotax/internal/testenv/long"
)

// An explanation is the part of a JSON report about the stages of one workload.
type explanation struct {
	Workload string
	Targets  []struct {
		Target, Against, Unknown string
		Rounds                   int
		Total, Difference, Speed struct{ Estimate, Lo, Hi float64 }
		Stages                   []struct {
			Name             string
			Time, Difference struct{ Estimate, Lo, Hi float64 }
			Requests         float64
		}
		Rest    struct{ Estimate float64 }
		Missing []struct{ Stage, Why string }
	}
}

// explained parses the JSON report of r and returns the stages of its first workload. If the report has no stages, the
// test fails.
func (s *stage) explained(r result) explanation {
	s.t.Helper()
	if r.code != exitOK {
		s.t.Fatal(r)
	}
	var rep struct{ Stages []explanation }
	s.parse(r, &rep)
	if len(rep.Stages) == 0 {
		s.t.Fatal("no stages: " + r.stdout)
	}
	return rep.Stages[0]
}

// misplaced returns "" if the named stages account for 90 to 110 % of the difference between the second target and the
// first.
func (x explanation) misplaced(t *testing.T, stages ...string) string {
	t.Helper()
	e := x.Targets[1]
	sum, found := 0., 0
	for _, s := range e.Stages {
		if slices.ContainsFunc(stages, func(part string) bool { return strings.Contains(s.Name, part) }) {
			sum, found = sum+s.Difference.Estimate, found+1
		}
	}
	share := sum / e.Difference.Estimate
	t.Logf("%.0f %% of %.2f ms are in %q; explained trials ran at %.2f", 100*share, 1000*e.Difference.Estimate, stages, e.Speed.Estimate)
	if share < .9 || share > 1.1 || found != len(stages) {
		return fmt.Sprintf("%q holds %.0f %% of the difference: %+v", stages, 100*share, e)
	}
	return ""
}

func (x explanation) holds(t *testing.T, stages ...string) {
	t.Helper()
	if odd := x.misplaced(t, stages...); odd != "" {
		t.Error(odd)
	}
}

// QEMU limits the second disk, so the difference is in QEMU. With a lower limit, the few I/Os of the guest itself would
// take a large share of a trial's time.
func TestExplainsThrottle(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	plan := s.write("plan.yaml", fmt.Sprintf(`
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here: {dir: %s}
  disk: {on: guest, disk: {of: here, size: 48MiB}}
  throttled: {on: guest, disk: {of: here, size: 48MiB, iops: 20}}
baseline: disk
workloads: {read: {at: [disk, throttled], fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:6x2s", ramp: 200ms}
`, s.private()))
	var x explanation
	thrice(t, func() string {
		x = s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", plan))
		return x.misplaced(t, "QEMU")
	})
	if e := x.Targets[1]; len(e.Missing) > 0 || len(e.Stages) < 3 || !(e.Difference.Lo > .005) { // no check of single stages: they may be negative if other processes use the device
		t.Errorf("%+v", e)
	}
	text := strings.Join(strings.Fields(s.iotax("report").works(t, exitOK, "Where the time goes · read").stdout), " ")
	if !strings.Contains(text, " are in “QEMU and its file system”") {
		t.Error(text)
	}
	s.iotax("report", "-o", "report.html").works(t, exitOK)
	page, err := os.ReadFile(s.path("report.html"))
	if err != nil || !strings.Contains(string(page), "<title>QEMU and its file system: ") {
		t.Errorf("no stage with a figure on hover (%v)", err)
	}
}

// running returns the PIDs of this stage's processes with the given program name.
func (s *stage) running(program string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && strings.TrimSpace(string(text)) == program && strings.Contains(string(environ), s.dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pulses repeatedly stops this stage's processes with the given program name for the duration `stopped`, and lets them
// run for the duration `running`, until the test ends.
func (s *stage) pulses(program string, stopped, running time.Duration) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			pids := s.running(program)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // the process may have ended
			}
			time.Sleep(stopped)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
			select {
			case <-done:
				return
			case <-time.After(running):
			}
		}
	})
	s.t.Cleanup(func() { close(done); wg.Wait() })
}

// The NFS server is stopped again and again, mostly while it waits for a request. So the difference is in its wake-up
// and in the server.
func TestExplainsStoppedServer(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	s.pulses("ganesha.nfsd", 60*time.Millisecond, 10*time.Millisecond)
	plan := s.write("plan.yaml", fmt.Sprintf(`
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here: {dir: %s}
  disk: {on: guest, disk: {of: here, size: 48MiB}}
  nfs: {on: guest, nfs: {of: here}}
baseline: disk
workloads: {read: {at: [disk, nfs], fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:3x1s", ramp: 200ms}
`, s.private()))
	thrice(t, func() string {
		return s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", plan)).misplaced(t, "network and wake-up", "NFS server")
	})
}

// In the first case, virtiofsd gets hardly any CPU, so the difference is in virtiofsd. In the second, reads are delayed
// above the device, so the difference is in the host's file system.
func TestExplainsSlowServer(t *testing.T) {
	long.Test(t)
	cpu := func(s *stage, _ string) (procs string) { return s.starved() }
	reads := func(s *stage, dir string) (procs string) { l := s.limited(dir); l.set(5); return l.joined }
	const virtiofs, sshfs = "\n  share: {on: guest, share: {of: here, type: virtiofs}}", "\n  sftp: {on: guest, sshfs: {of: here}}"
	for _, x := range []struct {
		targets, stage string
		servers        []string
		plant          func(s *stage, dir string) (procs string)
	}{
		{virtiofs, "virtiofsd", []string{"virtiofsd"}, cpu},
		{virtiofs + sshfs, "host file system", []string{"virtiofsd", "sftp-server"}, reads},
	} {
		t.Run(strings.ReplaceAll(x.stage, " ", "-"), func(t *testing.T) {
			s := newStage(t)
			dir := s.private()
			procs := x.plant(s, dir)
			thrice(t, func() (odd string) { // a limited server may wait for a second before fio starts
				r := s.start(nil, "run", "--explain", "--json", "--calibrate=no", "-v", s.write("plan.yaml", fmt.Sprintf(`
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here: {dir: %s}%s
workloads: {read: {fio: {rw: randread, bs: 4k, size: 48MiB}}}
measure: {protocol: "fixed:3x2s", ramp: 200ms}
`, dir, x.targets)))
				r.afterTrials(2 + 2*len(x.servers)) // skip the first round, which writes the file
				for _, server := range x.servers {
					pids := s.running(server)
					for _, pid := range pids {
						if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0); err != nil {
							t.Error(err)
						}
					}
					if len(pids) == 0 {
						t.Errorf("no %s runs", server)
					}
				}
				got := s.explained(r.wait())
				for i := range x.servers {
					odd += explanation{Targets: slices.Concat(got.Targets[:1], got.Targets[i+1:])}.misplaced(t, x.stage)
				}
				return odd
			})
		})
	}
}

// starved makes a control group whose processes get a thousandth of a CPU until the test ends. It returns the path of
// its cgroup.procs.
func (s *stage) starved() (procs string) {
	s.t.Helper()
	needsRoot(s.t)
	dir, files := "/sys/fs/cgroup/cpu/iotax-"+filepath.Base(s.dir), map[string]string{"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "1000"}
	file, unlimited := "cpu.cfs_quota_us", "-1"
	if b, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control"); err == nil && slices.Contains(strings.Fields(string(b)), "cpu") {
		dir, files = "/sys/fs/cgroup/iotax-"+filepath.Base(s.dir), map[string]string{"cpu.max": "1000 1000000"}
		file, unlimited = "cpu.max", "max"
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Skipf("needs control groups that limit the CPU: %v", err)
	}
	s.t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(unlimited), 0); err != nil { // so that the processes can end
			s.t.Error(err)
		}
		for end := time.Now().Add(10 * time.Second); os.Remove(dir) != nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				s.t.Errorf("%s stays", dir)
				return
			}
		}
	})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			s.t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cgroup.procs")
}

// For a target in memory, the report lists the stage of the device as missing. A workload without latencies has no
// stages.
func TestExplainsNothing(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	r := s.iotax("run", "--explain", "--profile", "--json", "--calibrate=no", "--trial=300ms", "--ramp=0s", "--rounds=2", "dir:a", "dir:/dev/shm", "-w", "randread-4k", "--size=8MiB")
	x := s.explained(r)
	if e := x.Targets[1]; len(e.Missing) != 1 || e.Missing[0].Why != "the place is in memory" || len(e.Stages) != 1 {
		t.Errorf("%+v", e)
	}
	s.profiled(r)
	if r := s.iotax("run", "--explain", "--json", "--calibrate=no", "--trial=300ms", "--ramp=0s", "--rounds=2", "dir:a", "dir:b", "-w", "command:true", "-w", "randread-4k", "--size=8MiB"); r.code != exitOK || !strings.Contains(r.stderr, "no explained trials of command:true") {
		t.Error(r)
	}
}

// profiled checks the profiles of the latest run, whose JSON report is r.
func (s *stage) profiled(r result) {
	s.t.Helper()
	var rep struct {
		Profiles []struct {
			Per     string
			Targets []struct {
				Unknown   string
				Trials    []int
				Functions []struct{ Name, File string }
			}
		}
	}
	s.parse(r, &rep)
	if len(rep.Profiles) != 1 || len(rep.Profiles[0].Targets) != 2 {
		s.t.Fatalf("%+v", rep)
	}
	for _, x := range rep.Profiles[0].Targets {
		if os.Geteuid() != 0 {
			if !strings.Contains(x.Unknown, "CAP_PERFMON") {
				s.t.Errorf("%+v", x)
			}
			continue
		}
		if x.Unknown != "" || len(x.Trials) != 2 || rep.Profiles[0].Per != "I/O" {
			s.t.Errorf("%+v", rep)
			continue
		}
		if !slices.ContainsFunc(x.Functions, func(f struct{ Name, File string }) bool { return f.File == "[kernel]" && f.Name != "[kernel]" }) {
			s.t.Errorf("no function of the kernel: %+v", x.Functions)
		}
		p, err := profile.Parse(strings.NewReader(s.iotax("show", "--profile", fmt.Sprint("--trial=", x.Trials[0])).works(s.t, exitOK).stdout))
		if err != nil {
			s.t.Fatal(err)
		}
		var fio, all int64
		for _, sample := range p.Sample {
			all += sample.Value[1]
			if sample.Location[len(sample.Location)-1].Line[0].Function.Name == "fio" {
				fio += sample.Value[1]
			}
		}
		if float64(fio) < .5*float64(all) {
			s.t.Errorf("fio has %d of %d ns", fio, all)
		}
	}
	if os.Geteuid() == 0 {
		s.iotax("report", "--profile", "-o", "flames.svg").works(s.t, exitOK)
		if svg, err := os.ReadFile(s.path("flames.svg")); err != nil || strings.Count(string(svg), "<title>fio: ") < 2 {
			s.t.Errorf("no flame graphs (%v): %s", err, svg)
		}
	}
}

// nbdkit waits 20 ms before each read, so the difference is in the server.
func TestExplainsSlowExport(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	s := newStage(t)
	slow := s.write("slow", "#!/bin/sh\n[ \"$1\" = --version ] && exec nbdkit --version\nexec nbdkit --filter=delay \"$@\" rdelay=20ms\n")
	if err := os.Chmod(slow, 0o700); err != nil {
		t.Fatal(err)
	}
	plan := s.write("plan.yaml", fmt.Sprintf(`
targets:
  export: {nbd: {server: nbdkit, path: %[1]s, size: 16MiB}}
  slow:   {nbd: {server: nbdkit, path: %[1]s, size: 16MiB, binary: %[2]s}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:6x400ms", ramp: 100ms}
`, s.private(), slow))
	x := s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", plan))
	x.holds(t, "nbdkit")
	if e := x.Targets[1]; len(e.Missing) > 0 || !(e.Difference.Estimate > .018) {
		t.Errorf("%+v", e)
	}
}

// The reads of a machine over SSH are limited above the device. A container on this host and the machine over SSH use this
// host's kernel, so the report shows the same two stages for both.
func TestExplainsOtherMachines(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	dir := s.private()
	limit := s.limited(dir)
	limit.set(40) // enough I/Os that one more or less at each end of a trial does not matter
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	if err := os.WriteFile(limit.joined, []byte(strconv.Itoa(d.pid)), 0); err != nil {
		t.Fatal(err)
	}
	x := s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", s.write("plan.yaml", fmt.Sprintf(`
machines:
  box: {container: {engine: namespaces}}
  far: {ssh: {host: 127.0.0.1, port: %d}}
targets:
  here: {dir: %[2]s}
  far:  {on: far, dir: %[2]s}
  box:  {on: box, dir: %[2]s}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:4x500ms", ramp: 100ms}
`, d.port, dir))))
	x.holds(t, "above the block layer")
	for _, e := range x.Targets {
		if n := len(e.Stages); n != 2 || e.Stages[1].Name != "device" || len(e.Missing) > 0 || e.Stages[1].Requests < .9 || e.Stages[1].Requests > 1.15 {
			t.Errorf("%+v", e)
		}
	}
}

// twoGuests returns a plan with a disk in each of two guests, of which one has planted=1 on its kernel's command line.
func (s *stage) twoGuests(disk, measure string) string {
	return s.write("plan.yaml", fmt.Sprintf(`
machines:
  guest:   {qemu: {memory: 256MiB, cpus: 1}}
  planted: {qemu: {memory: 256MiB, cpus: 1, append: planted=1}}
targets:
  here:    {dir: %s}
  plain:   {on: guest, disk: {of: here, size: 48MiB%[2]s}}
  planted: {on: planted, disk: {of: here, size: 48MiB%[2]s}}
baseline: plain
workloads: {read: {at: [plain, planted], fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure:
  protocol: "fixed:3x1s"
  ramp: 200ms
%[3]s`, s.private(), disk, measure))
}

// Bursts of other work take the guest's only CPU while fio runs, so the difference is in the guest.
func TestExplainsBusyGuest(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	plan := s.twoGuests("", `  prepare_on: target
  prepare: |
    grep -q planted /proc/cmdline || exit 0
    setsid sh -c 'for i in $(seq 99); do pgrep fio && break; sleep .1; done
    while pgrep fio; do nice -n -20 sh -c "i=0; while [ \$i -lt 100000 ]; do i=\$((i+1)); done"; done' >/dev/null 2>&1 &
`)
	thrice(t, func() string {
		return s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", plan)).misplaced(t, "guest above the block layer")
	})
}

// QEMU's I/O thread and its workers share a CPU with two loops that have a higher priority, so the difference is in the
// wake-up.
func TestExplainsBusyHost(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	s := newStage(t)
	last := runtime.NumCPU() - 1
	for range 2 {
		loop := exec.Command("taskset", "-c", fmt.Sprint(last), "sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for _, pid := range s.running("qemu-system-x86") {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "planted=1") {
					share(pid, last)
				}
			}
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait() })
	plan := s.twoGuests(", iothread: true", "")
	thrice(t, func() string {
		return s.explained(s.iotax("run", "--explain", "--json", "--calibrate=no", plan)).misplaced(t, "wake-up")
	})
}

// share keeps the I/O threads and workers of QEMU on one CPU, with the lowest priority.
func share(pid, cpu int) {
	var cpus unix.CPUSet
	cpus.Set(cpu)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range threads {
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		if text := string(name); strings.HasPrefix(text, "IO t-") || strings.HasPrefix(text, "worker") {
			id, _ := strconv.Atoi(filepath.Base(dir))
			_ = unix.SchedSetaffinity(id, &cpus) // the thread may have ended
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19)
		}
	}
}
