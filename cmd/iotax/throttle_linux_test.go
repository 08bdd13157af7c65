package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"iotax/internal/testenv/long"
)

// A limit is a control group in which the kernel limits the rate of reads from one device.
type limit struct {
	s         *stage
	dir, file string
	line      string // a line of `file`; %d is the rate
	joined    string // the file through which a process joins the group
}

// limited makes a control group for the block device that stores the file or directory at the path `device`. The
// cleanup of the test removes the group.
func (s *stage) limited(device string) *limit {
	s.t.Helper()
	needsRoot(s.t)
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		s.t.Fatal(err)
	}
	id := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	name := "iotax-" + filepath.Base(s.dir)
	l := &limit{s: s, dir: "/sys/fs/cgroup/blkio/" + name, file: "blkio.throttle.read_iops_device", line: id + " %d"}
	if b, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control"); err == nil && slices.Contains(strings.Fields(string(b)), "io") {
		l.dir, l.file, l.line = "/sys/fs/cgroup/"+name, "io.max", id+" riops=%d"
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		s.t.Skipf("needs control groups that limit I/O: %v", err)
	}
	s.t.Cleanup(func() {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			err := os.Remove(l.dir)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				s.t.Error(err)
				return
			}
		}
	})
	l.joined = filepath.Join(l.dir, "cgroup.procs")
	return l
}

// set limits the processes of the group to n reads per second.
func (l *limit) set(n int) {
	l.s.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, l.file), fmt.Appendf(nil, l.line, n), 0); err != nil {
		l.s.t.Fatal(err)
	}
}

// The kernel limits the rate of reads to much less than the device could reach. The test changes the limit while fio
// measures. For each change, only the matching rule about the course of a trial reports a finding. For a constant
// limit, none does. The queue is deep enough to cover the time that fio may wait for a CPU.
func TestFindsThrottledDisk(t *testing.T) {
	long.Test(t)
	const seconds = 12
	shape := []string{"stall", "throttle-step", "warm-up", "not-steady"}
	for _, c := range []struct {
		name, want string
		rate       func(second int) int
	}{
		{"a limit", "", func(int) int { return 200 }},
		{"used up", "throttle-step", func(i int) int {
			if i < seconds/2 {
				return 300
			}
			return 120
		}},
		{"warms up", "warm-up", func(i int) int { return min(300, 20+35*i) }},
		{"comes and goes", "not-steady", func(i int) int {
			if i%4 < 2 {
				return 300
			}
			return 100
		}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			s := newStage(t)
			dir := s.private()
			l := s.limited(dir)
			plan := s.write("checks.yaml", fmt.Sprintf(`
targets: {disk: {dir: %s}}
workloads: {read: {fio: {rw: randread, bs: 4k, ioengine: libaio, iodepth: 48, size: 32MiB}}}
measure: {trial: %ds, ramp: 0s, rounds: 1}
`, dir, seconds))
			var got []string
			for range 3 { // on a busy machine fio may wait for seconds, which is a stall
				l.set(c.rate(0))
				r := s.start([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, l.joined}, "run", "--calibrate=no", plan)
				for _, pid := range r.awaitFio() { // give fio real-time priority, if that is allowed
					_ = unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}, 0)
				}
				tick := time.NewTicker(time.Second)
				for i := 1; i < seconds; i++ {
					<-tick.C
					if c.rate(i) != c.rate(i-1) {
						l.set(c.rate(i))
					}
				}
				tick.Stop()
				r.wait().works(t, 0)
				got = nil
				for _, f := range first(s).Findings {
					if slices.Contains(shape, f.Rule) && !slices.Contains(got, f.Rule) {
						got = append(got, f.Rule)
					}
				}
				if strings.Join(got, " ") == c.want {
					return
				}
			}
			t.Errorf("found %q, want %q\n%+v\n%v", got, c.want, first(s).Findings, first(s).Series[0].V)
		})
	}
}

// A workload and its noise share a device with a limited rate of reads, so the workload gets only a part of the rate.
func TestVictimLosesToNoise(t *testing.T) {
	long.Test(t)
	const limit = 400
	s := newStage(t)
	dir := s.private()
	l := s.limited(dir)
	l.set(limit)
	plan := s.write("noise.yaml", fmt.Sprintf(`
baseline: quiet
targets:
  quiet: {dir: %[1]s}
  other: {dir: %[1]s}
  beside noise: {neighbours: {of: quiet, noise: [other], doing: noise}}
workloads:
  read: {fio: {rw: randread, bs: 4k, ioengine: libaio, iodepth: 32, size: 16MiB}, at: [quiet, beside noise]}
  noise: {fio: {rw: randread, bs: 4k, ioengine: libaio, iodepth: 32, size: 16MiB}}
measure: {protocol: "fixed:6x1s", ramp: 300ms}
`, dir))
	s.start([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, l.joined}, "run", "--calibrate=no", "--json", plan).wait().works(t, 0)
	var r struct {
		Cells []struct {
			Target string
			Ratio  *struct{ Estimate, Lo, Hi float64 }
		}
	}
	s.parse(s.iotax("report", "--json"), &r)
	found := false
	for _, c := range r.Cells {
		if c.Target != "beside noise" {
			continue
		}
		found = true
		if c.Ratio == nil || !(c.Ratio.Hi < 0.9) || !(c.Ratio.Estimate > 0.25) {
			t.Errorf("the victim keeps %+v of what it has alone", c.Ratio)
		}
	}
	_, trials := s.trials()
	for _, tr := range trials {
		v, ok := tr.Value("read.iops")
		noise, beside := tr.Value("noise.iops")
		if !ok || beside != (tr.Target == "beside noise") || v.Value+noise.Value > 1.25*limit {
			t.Errorf("%s: %g reads a second, and %g of the noise, of %d that the device does: %s", tr.Target, v.Value, noise.Value, limit, tr.Err)
		}
	}
	if !found || len(trials) != 12 {
		t.Errorf("%d trials: %+v", len(trials), r)
	}
}
