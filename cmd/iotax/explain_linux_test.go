package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax/internal/testenv/long"
)

// An explanation is the JSON of a report about the stages of a workload.
type explanation struct {
	Workload string
	Targets  []struct {
		Target, Against, Unknown string
		Rounds                   int
		Total, Difference, Speed struct{ Estimate, Lo, Hi float64 }
		Stages                   []struct {
			Name             string
			Time, Difference struct{ Estimate, Lo, Hi float64 }
		}
		Rest    struct{ Estimate float64 }
		Missing []struct{ Stage, Why string }
	}
}

// explained runs a plan with --explain and returns the stages of its first workload.
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

// holds fails the test unless a stage of the second target holds at least 90 % of its difference to the first.
func (x explanation) holds(t *testing.T, stage string) {
	t.Helper()
	e := x.Targets[1]
	for _, s := range e.Stages {
		if strings.Contains(s.Name, stage) {
			share := s.Difference.Estimate / e.Difference.Estimate
			t.Logf("%.0f %% of %.2f ms are in %q; explained trials ran at %.2f", 100*share, 1000*e.Difference.Estimate, s.Name, e.Speed.Estimate)
			if share < .9 || share > 1.1 {
				t.Errorf("%q holds %.0f %% of the difference: %+v", stage, 100*share, e)
			}
			return
		}
	}
	t.Errorf("no stage %q: %+v", stage, e)
}

// QEMU limits the second disk, so the difference is in QEMU, not in the guest, the queue or the device.
func TestExplainsThrottle(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	r := s.iotax("run", "--explain", "--json", "--calibrate=no", s.write("plan.yaml", `
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here: {dir: b}
  disk: {on: guest, disk: {of: here}}
  throttled: {on: guest, disk: {of: here, iops: 20}}
baseline: disk
workloads: {read: {at: [disk, throttled], fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:6x2s", ramp: 200ms}
`))
	x := s.explained(r)
	x.holds(t, "QEMU")
	if e := x.Targets[1]; len(e.Missing) > 0 || len(e.Stages) != 4 || !(e.Difference.Lo > .005) {
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

// pulses stops the stage's processes of a program most of the time, until the test ends.
func (s *stage) pulses(program string, stopped, running time.Duration) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			var pids []int
			names, _ := filepath.Glob("/proc/[0-9]*/comm")
			for _, name := range names {
				text, _ := os.ReadFile(name)
				environ, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
				if strings.TrimSpace(string(text)) == program && strings.Contains(string(environ), s.dir) {
					var pid int
					fmt.Sscanf(name, "/proc/%d/comm", &pid)
					pids = append(pids, pid)
				}
			}
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			time.Sleep(stopped)
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGCONT)
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

// The NFS server is stopped again and again, so the difference is in the server, not in the guest's NFS client or the
// device.
func TestExplainsServer(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	s.pulses("ganesha.nfsd", 60*time.Millisecond, 10*time.Millisecond)
	r := s.iotax("run", "--explain", "--json", "--calibrate=no", s.write("plan.yaml", `
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here: {dir: b}
  disk: {on: guest, disk: {of: here}}
  nfs: {on: guest, nfs: {of: here}}
baseline: disk
workloads: {read: {at: [disk, nfs], fio: {rw: randread, bs: 4k, size: 16MiB}}}
measure: {protocol: "fixed:6x1s", ramp: 200ms}
`))
	s.explained(r).holds(t, "NFS server")
}

// A place without a block device is reported as missing, and a workload without latencies has no stages. Both runs succeed.
func TestExplainsNothing(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	r := s.iotax("run", "--explain", "--json", "--calibrate=no", "--trial=300ms", "--ramp=0s", "--rounds=2", "dir:a", "dir:/dev/shm", "-w", "randread-4k", "--size=8MiB")
	x := s.explained(r)
	if e := x.Targets[1]; len(e.Missing) != 1 || e.Missing[0].Why != "the place is in memory" || len(e.Stages) != 1 {
		t.Errorf("%+v", e)
	}
	if r := s.iotax("run", "--explain", "--json", "--calibrate=no", "--trial=300ms", "--ramp=0s", "--rounds=2", "dir:a", "dir:b", "-w", "command:true"); r.code != exitOK || strings.Contains(r.stdout, `"stages"`) {
		t.Error(r)
	}
}
