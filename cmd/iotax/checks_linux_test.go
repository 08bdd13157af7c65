package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/long"
)

// These tests plant faults in real components (fio, loop devices, guests). They check that the right rule finds the
// fault, and that this rule has no finding without the fault. They ignore other rules, because other work on this machine
// may cause findings.

// found returns the cells ("target / workload") of the latest run with a finding of the rule, or with a trial that the
// rule discarded.
func (s *stage) found(rule string) (cells []string) {
	s.t.Helper()
	_, trials := s.trials()
	for _, t := range trials {
		said := strings.HasPrefix(t.Discarded, rule+":") || slices.ContainsFunc(t.Findings, func(f iotax.Finding) bool { return f.Rule == rule })
		if said && !slices.Contains(cells, t.Cell()) {
			cells = append(cells, t.Cell())
		}
	}
	slices.Sort(cells)
	return cells
}

// loop mounts an ext4 file system on a loop device until the test ends, and returns the mount point. The backing file
// is in dir and has `size` MiB.
func (s *stage) loop(name, dir string, size int) string {
	s.t.Helper()
	needsRoot(s.t)
	image, point := filepath.Join(dir, name+".img"), s.mkdir(name)
	must := func(args ...string) string {
		s.t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	must("fallocate", "-l", fmt.Sprintf("%dM", size), image)
	device, err := exec.Command("losetup", "-f", "--show", image).Output()
	if err != nil {
		s.t.Skip("needs loop devices")
	}
	d := strings.TrimSpace(string(device))
	s.t.Cleanup(func() { must("losetup", "-d", d) })
	must("mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", d)
	must("mount", d, point)
	s.t.Cleanup(func() { s.unmount(point) })
	return point
}

// private returns a directory on a block device that no other process uses: a loop device whose file is in memory.
func (s *stage) private() string {
	s.t.Helper()
	return s.loop("disk", s.mount("memory", "size=256m"), 200)
}

// measured runs a plan, which must succeed.
func (s *stage) measured(plan string, flags ...string) result {
	s.t.Helper()
	r := s.iotax(append([]string{"run", s.write("checks.yaml", plan)}, flags...)...)
	if r.code != exitOK {
		s.t.Fatal(r)
	}
	return r
}

// thrice calls try until it returns "", but at most three times. Any other result describes an unexpected outcome. The
// test fails only after three of them, because other work on this machine may look like a planted fault, or hide one.
func thrice(t *testing.T, try func() (odd string)) {
	t.Helper()
	var odd string
	for range 3 {
		if odd = try(); odd == "" {
			return
		}
		t.Log(odd)
	}
	t.Error(odd)
}

// first returns the first trial of the latest run.
func first(s *stage) *iotax.Trial {
	_, trials := s.trials()
	return trials[0]
}

// fio returns the ids of the fio processes that run a trial, including those of their jobs.
func (s *stage) fio() (pids []int) {
	s.t.Helper()
	for _, p := range s.processes("fio") {
		pid, line, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.Contains(line, "--runtime=") {
			pids = append(pids, n)
		}
	}
	return pids
}

// The page cache of the file below a loop device answers direct reads of the device.
func TestFindsCacheServed(t *testing.T) {
	s := newStage(t)
	disk := s.private()
	loop := s.loop("loop", disk, 80)
	s.measured(fmt.Sprintf(`
baseline: disk
targets:
  disk: {dir: %s}
  loop: {dir: %s}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 8, size: 32MiB}}}
measure: {trial: 1s, ramp: 100ms, rounds: 1}
`, disk, loop))
	if got := s.found("cache-served"); !slices.Equal(got, []string{"loop / read"}) {
		_, trials := s.trials()
		t.Errorf("cache-served in %q: %+v %+v", got, trials[0].Values, trials[1].Values)
	}
}

// foreign-io is found only while a second fio reads from the same device.
func TestFindsForeignIO(t *testing.T) {
	s := newStage(t)
	dir := s.private()
	plan := fmt.Sprintf(`
targets: {disk: {dir: %s}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 32MiB}}}
measure: {trial: 1s, ramp: 200ms, rounds: 1}
`, dir)
	thrice(t, func() string {
		s.measured(plan)
		if got := s.found("foreign-io"); len(got) > 0 {
			return fmt.Sprintf("nobody else is there: %q\n%+v", got, first(s).Findings)
		}
		return ""
	})
	other := exec.Command("fio", "--name=other", "--directory="+dir, "--rw=randread", "--bs=64k", "--size=32m", "--direct=1", "--time_based", "--runtime=60", "--output=/dev/null")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Signal(syscall.SIGINT)
		other.Wait()
	}()
	thrice(t, func() string {
		s.measured(plan)
		if got := s.found("foreign-io"); !slices.Equal(got, []string{"disk / read"}) {
			return fmt.Sprintf("foreign-io in %q: %+v", got, first(s).Values)
		}
		return ""
	})
}

// awaitFio waits until fio runs a trial, and returns the ids of its processes.
func (r *running) awaitFio() (pids []int) {
	r.s.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if pids = r.s.fio(); len(pids) >= 2 { // fio and its job
			return pids
		}
	}
	r.s.t.Fatalf("fio does not run: %s", r.wait())
	return nil
}

func (s *stage) signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			s.t.Error(err)
		}
	}
}

// If fio is stopped for 2.5 seconds in the first of two rounds, only the trial of that round has the finding "stall".
func TestFindsStall(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	dir := s.private()
	plan := s.write("checks.yaml", fmt.Sprintf(`
targets: {disk: {dir: %s}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 32MiB}}}
measure: {trial: 5s, ramp: 0s, rounds: 2}
`, dir))
	thrice(t, func() (odd string) {
		r := s.start(nil, "run", plan)
		pids := r.awaitFio()
		time.Sleep(1500 * time.Millisecond)
		s.signalAll(pids, syscall.SIGSTOP)
		time.Sleep(2500 * time.Millisecond)
		s.signalAll(pids, syscall.SIGCONT)
		r.wait().works(t, 0)
		_, trials := s.trials()
		for i, want := range []bool{true, false} {
			if got := slices.ContainsFunc(trials[i].Findings, func(f iotax.Finding) bool { return f.Rule == "stall" }); got != want {
				odd += fmt.Sprintf("stall in round %d: %v\n%+v\n%+v\n", i, got, trials[i].Findings, trials[i].Series)
			}
		}
		return odd
	})
}

// A workload with the null engine is limited by the CPU. A workload with one I/O every millisecond is not.
func TestFindsGeneratorBound(t *testing.T) {
	s := newStage(t)
	thrice(t, func() string {
		s.measured(`
targets: {host: {dir: b}}
workloads:
  spin: {fio: {rw: randread, bs: 4k, ioengine: "null", size: 32MiB}}
  idle: {fio: {rw: randread, bs: 4k, ioengine: psync, size: 32MiB, rate_iops: 1000}}
measure: {trial: 1500ms, ramp: 0s, rounds: 1}
`)
		if got := s.found("generator-bound"); !slices.Equal(got, []string{"host / spin"}) {
			return fmt.Sprintf("generator-bound in %q: %+v", got, first(s).Values)
		}
		return ""
	})
}

// libaio on a buffered file does its I/O at submission.
func TestFindsBlockingSubmit(t *testing.T) {
	s := newStage(t)
	dir := s.private()
	thrice(t, func() (odd string) {
		s.measured(fmt.Sprintf(`
targets: {disk: {dir: %s}}
workloads:
  buffered: {fio: {rw: randread, bs: 64k, iodepth: 16, ioengine: libaio, direct: 0, size: 64MiB}}
  direct:   {fio: {rw: randread, bs: 64k, iodepth: 16, ioengine: io_uring, size: 64MiB}}
measure: {trial: 1s, ramp: 100ms, rounds: 1}
`, dir))
		if got := s.found("blocking-submit"); !slices.Contains(got, "disk / buffered") || slices.Contains(got, "disk / direct") {
			return fmt.Sprintf("blocking-submit in %q", got)
		}
		return ""
	})
}

// The rule clock-insane finds a guest whose kernel assumes a wrong frequency of its time stamp counter.
// TestFindsTheHostsCache checks that an unmodified guest does not have this finding.
func TestFindsWrongClock(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	// All trials of the guest are discarded, so the run compares nothing. The guest's clock is so fast that a trial of
	// three seconds ends after about 100 ms.
	if r := s.iotax("run", s.write("checks.yaml", `
machines: {guest: {qemu: {memory: 512MiB, accel: tcg, append: "tsc_early_khz=100000 tsc=reliable"}}}
targets: {host: {dir: b}, guest: {on: guest, disk: {}}}
baseline: host
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB}}}
measure: {trial: 3s, ramp: 0s, rounds: 1}
`)); r.code != exitError {
		t.Fatal(r)
	}
	if got := s.found("clock-insane"); !slices.Equal(got, []string{"guest / read"}) {
		t.Errorf("clock-insane in %q: %+v", got, first(s).Values)
	}
}

// The host's warm cache serves a guest's disk with cache=unsafe, but not a disk with cache=none in the same directory.
func TestFindsTheHostsCache(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	var r result
	thrice(t, func() (odd string) {
		r = s.measured(`
machines: {guest: {qemu: {memory: 512MiB}}}
targets:
  host:   {dir: b}
  none:   {on: guest, disk: {cache: none}}
  unsafe: {on: guest, disk: {cache: unsafe}}
baseline: host
workloads:
  direct read:   {fio: {rw: randread, bs: 4k, iodepth: 4, size: 16MiB}}
  buffered read: {fio: {rw: randread, bs: 4k, size: 16MiB, direct: 0}}
  write:         {fio: {rw: randwrite, bs: 4k, iodepth: 4, size: 16MiB}}
measure: {trial: 600ms, ramp: 0s, rounds: 1, cold: false}
`, "--json")
		for rule, want := range map[string][]string{
			"cache-served":    {"unsafe / direct read"},
			"device-did-less": {"unsafe / buffered read"},
			"clock-insane":    nil,
		} {
			if got := s.found(rule); !slices.Equal(got, want) {
				odd += fmt.Sprintf("%s in %q, want %q; ", rule, got, want)
			}
		}
		if got := s.found("write-absorbed"); !slices.Contains(got, "unsafe / write") || slices.Contains(got, "none / write") || slices.Contains(got, "host / write") {
			odd += fmt.Sprintf("write-absorbed in %q", got)
		}
		return odd
	})
	var rep struct {
		Cells []struct {
			Target, Verdict string
			Findings        []iotax.Finding
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	for _, c := range rep.Cells {
		differs := slices.ContainsFunc(c.Findings, func(f iotax.Finding) bool { return f.Rule == "durability-differs" })
		if differs != (c.Target == "unsafe") {
			t.Errorf("%s: durability-differs is told: %v", c.Target, differs)
		}
	}
}
