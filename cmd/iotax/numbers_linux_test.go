package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Tests and benchmarks of iotax's own cost. The figures are in docs/dev/numbers.md.

// During a trial, iotax uses at most 1 % of a core and 20 MiB of memory (see residentSet).
func TestCostDuringATrial(t *testing.T) {
	s := newStage(t)
	var share float64
	var rss int64
	for range 3 { // other work on this machine may disturb an attempt
		share, rss = s.costDuringATrial()
		t.Logf("%.3f %% of a core, %d MiB resident without the pages of the program", 100*share, rss>>20)
		if share <= 0.01 && rss <= 20<<20 {
			return
		}
	}
	if share > 0.01 {
		t.Errorf("iotax used %.2f %% of a core during a trial, want 1 %% at most", 100*share)
	}
	if rss > 20<<20 {
		t.Errorf("iotax held %d MiB during a trial, want 20 at most", rss>>20)
	}
}

// costDuringATrial returns the share of a core that iotax uses during a trial, and its residentSet.
func (s *stage) costDuringATrial() (share float64, rss int64) {
	t := s.t
	t.Helper()
	r := s.start(nil, "run", "dir:a", "-w", "randread-4k", "--size", "8MiB", "--trial", "4s", "--rounds", "1", "--calibrate=no")
	r.said("preparing")
	measuring := func() bool {
		return slices.ContainsFunc(s.processes("fio"), func(p string) bool { return strings.Contains(p, "write_bw_log") })
	}
	for end := time.Now().Add(20 * time.Second); !measuring(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no trial")
		}
	}
	time.Sleep(300 * time.Millisecond) // skip the start of the trial
	pid := r.cmd.Process.Pid
	from, before := time.Now(), cpuTime(t, pid)
	time.Sleep(2500 * time.Millisecond)
	share = float64(cpuTime(t, pid)-before) / float64(time.Since(from))
	rss = residentSet(t, pid)
	r.wait().works(t, exitOK)
	return share, rss
}

// cpuTime returns the CPU time of a process's threads (/proc/PID/task/*/schedstat, in ns).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	var sum time.Duration
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// residentSet returns the resident memory of a process in bytes, without shared and file-backed pages: the test binary
// is larger than iotax.
func residentSet(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b))
	resident, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// BenchmarkStart measures the time from the start of the program until it prepares the test file of a local target.
// Writing the test file is the last step before the first trial. Run it with:
//
//	go test -run xxx -bench Start -benchtime 20x ./cmd/iotax
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	exe := filepath.Join(dir, "program") // not "iotax", which is the directory of the store
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	target := b.TempDir()
	once := func() time.Duration {
		cmd := exec.Command(exe, "run", "dir:"+target, "-w", "randread-4k", "--size", "1MiB", "--trial", "100ms", "--ramp", "10ms", "--rounds", "1")
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CACHE_HOME="+dir)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			b.Fatal(err)
		}
		from := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		var took time.Duration
		var last string
		for sc := bufio.NewScanner(stderr); sc.Scan(); {
			if last = sc.Text(); strings.HasPrefix(last, "preparing") {
				took = time.Since(from)
			}
		}
		if err := cmd.Wait(); err != nil || took == 0 {
			b.Fatalf("run: %v: %s", err, last)
		}
		return took
	}
	once() // the first run caches the engines that work and the options that fio accepts
	var sum time.Duration
	n := 0
	for b.Loop() {
		sum += once()
		n++
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(n), "ms/start")
}
