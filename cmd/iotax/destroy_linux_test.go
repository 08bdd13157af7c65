package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"iotax/internal/testenv/long"
)

// bare makes a loop device on a sparse file of 48 MiB.
func (s *stage) bare(name string) string {
	s.t.Helper()
	needsRoot(s.t)
	file := s.write(name, "")
	if err := os.Truncate(file, 48<<20); err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		s.t.Fatalf("losetup: %s", out)
	}
	dev := strings.TrimSpace(string(out))
	s.t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", dev).CombinedOutput(); err != nil {
			s.t.Errorf("losetup -d: %s", out)
		}
	})
	return dev
}

func (s *stage) sum(file string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(file))
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// iotax overwrites a block device only if --destroy names the device and the device contains no file system.
func TestDestroy(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	dev := s.bare("image")
	write := func(more ...string) []string {
		return append([]string{"run", "dir:a", "device:" + dev, "-w", "randwrite-4k", "--size", "8MiB", "--trial", "300ms", "--ramp", "50ms", "--rounds", "2"}, more...)
	}
	empty := s.sum("image")
	s.iotax(write()...).refuses(t, 1, "block devices are only read, and the job writes", "iotax run --destroy "+dev)
	s.iotax(write("--destroy", dev+"0")...).refuses(t, 2, "no target of the plan is this block device", "name one exactly as the plan does: "+dev)
	s.iotax(write("--destroy", "host:"+dev)...).works(t, 0) // this host, addressed by its name
	if s.sum("image") == empty {
		t.Error("nothing was written")
	}
	r := s.iotax(write("--destroy", dev)...).works(t, 0, "everything on "+dev+", 48 MiB", "of host will be overwritten, as --destroy allows")
	if strings.Contains(r.stdout+r.stderr, "[y/") {
		t.Error("it asks")
	}
	run, trials := s.trials()
	if len(trials) != 4 {
		t.Errorf("%d trials", len(trials))
	}
	for _, tr := range trials {
		if v, ok := tr.Value("write.iops"); !ok || !(v.Value > 0) || tr.Err != "" {
			t.Errorf("%s: %v, %s", tr.Target, v, tr.Err)
		}
	}
	if got := run.Targets[1].Facts["device.destroyed"]; !strings.Contains(got, dev) {
		t.Errorf("the report's fact is %q", got)
	}

	if out, err := exec.Command("mkfs.ext4", "-q", "-F", dev).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %s", out)
	}
	full := s.sum("image")
	s.iotax(write("--destroy", dev)...).refuses(t, 1, "overwrite block device "+dev, "it carries a signature of ext4", "hint: ", "wipefs")
	// Reading does not need --destroy.
	s.iotax("run", "dir:a", "device:"+dev, "-w", "randread-4k", "--size", "8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "1").works(t, 0)
	_, trials = s.trials()
	for _, tr := range trials {
		if !strings.Contains(tr.Facts["command"], "--readonly") {
			t.Errorf("fio may write: %s", tr.Facts["command"])
		}
	}

	// Over SSH, addressed by the machine's name in the plan.
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	s.write("plan.yaml", fmt.Sprintf(`
baseline: host
machines: {there: {ssh: {host: 127.0.0.1, port: %d}}}
targets:
  host:  {dir: a}
  there: {on: there, device: %s}
workloads: {write: {fio: {rw: randwrite, bs: 4k, size: 8MiB}}}
measure: {trial: 300ms, ramp: 50ms, rounds: 1}
`, d.port, dev))
	s.iotax("run", "plan.yaml", "--destroy", dev).refuses(t, 2, "no target of the plan is this block device", "there:"+dev)
	s.iotax("run", "plan.yaml", "--destroy", "there:"+dev).refuses(t, 1, "it carries a signature of ext4")
	if s.sum("image") != full {
		t.Fatal("the device has changed")
	}
	if out, err := exec.Command("blkdiscard", "--force", "--zeroout", dev).CombinedOutput(); err != nil {
		t.Fatalf("blkdiscard: %s", out)
	}
	s.iotax("run", "plan.yaml", "--destroy", "there:"+dev).works(t, 0, "everything on "+dev, "of ssh://127.0.0.1 will be overwritten")
}
