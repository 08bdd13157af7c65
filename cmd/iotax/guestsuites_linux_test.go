package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/testenv/long"
)

// One scaled-down workload of each of three suites about virtual machines runs on every target. A target that this QEMU
// does not support is reported.
func TestGuestSuites(t *testing.T) {
	long.Test(t)
	needsRoot(t) // the NFS server uses a privileged port
	t.Parallel()
	for _, c := range []struct {
		suite     string
		flags     []string
		workloads map[string]string // the metric of each workload
		targets   []string          // the first is on this host
		lacking   string            // a target that this QEMU may not support
		said      []string
	}{
		{"virtiofs", []string{"--scale", "0.02"}, map[string]string{"1 file random": "read.iops"},
			[]string{"host", "guest ext4", "guest squashfs", "guest erofs", "guest ramfs", "guest virtio-fs", "guest 9p", "guest NFS"},
			"guest virtio-fs DAX", []string{"vhost-user-fs-pci", "cache-size"}},
		{"lima-mounts", []string{"--scale", "0.01"}, map[string]string{"random-read": "read.iops"},
			[]string{"host", "guest disk", "reverse-sshfs", "9p", "virtiofs"}, "", nil},
		{"tart", []string{"--scale", "0.01"}, map[string]string{"sync test for its time": "write.iops"},
			[]string{"local", "guest", "guest sync=none", "guest caching=cached", "guest sync=none,caching=cached"}, "", []string{"latency (sync)"}},
	} {
		t.Run(c.suite, func(t *testing.T) {
			if c.suite != "virtiofs" {
				repeats(t, "TestGuestSuites/virtiofs")
			}
			t.Parallel()
			s := newStage(t)
			args := append([]string{"run", c.suite, "--details", "--protocol", "fixed:1x300ms", "--calibrate", "no"}, c.flags...)
			for w := range c.workloads {
				args = append(args, "-w", w)
			}
			r := s.iotax(args...)
			if r.code != exitOK {
				t.Fatal(r)
			}
			for _, w := range c.said {
				if !strings.Contains(r.stdout, w) {
					t.Errorf("the report does not say %q: %s", w, r)
				}
			}
			_, trials := s.trials()
			for w, value := range c.workloads {
				for i, target := range c.targets {
					at := slices.IndexFunc(trials, func(x *iotax.Trial) bool { return x.Target == target && x.Workload == w })
					if at < 0 {
						t.Errorf("%s / %s was not measured", target, w)
						continue
					}
					x := trials[at]
					if v, ok := x.Value(value); !ok || !(v.Value > 0) || x.Err != "" {
						t.Errorf("%s / %s: %s is %v, %s", target, w, value, v, x.Err)
					}
					for _, cost := range []string{"cpu.host", "memory.host.peak"} {
						if v, ok := x.Value(cost); ok != (i > 0) || i > 0 && cost == "memory.host.peak" && v.Value < 100<<20 {
							t.Errorf("%s / %s: %s is %v (%v)", target, w, cost, v.Value, ok)
						}
					}
				}
			}
			if c.lacking != "" && !slices.ContainsFunc(trials, func(x *iotax.Trial) bool { return x.Target == c.lacking }) && !strings.Contains(r.stdout, c.lacking) {
				t.Errorf("nothing says what became of %s: %s", c.lacking, r)
			}
		})
	}
}

// The suite "db" measures its databases and removes their files. If etcd's `benchmark` is not installed, the run
// reports it.
func TestServersOfSuite(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	here := s.mkdir("here")
	for _, d := range []string{s.path("."), here} { // the user postgres needs access
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := s.iotax("run", "db", here, "--calibrate", "no", "--protocol", "fixed:1x1s")
	run, trials := s.trials()
	tool, absent := exec.LookPath("benchmark")
	for workload, value := range map[string]string{"SQLite": "transactions.rate", "PostgreSQL": "tps", "Redis, always": "requests.rate", "Redis, every second": "requests.p99", "etcd server": "requests.rate"} {
		i := slices.IndexFunc(trials, func(x *iotax.Trial) bool { return x.Workload == workload })
		if workload == "etcd server" && absent != nil {
			if !strings.Contains(r.stdout+r.stderr, "benchmark is not installed") {
				t.Errorf("%s: nothing names the missing program: %s", workload, r)
			}
			continue
		}
		if i < 0 {
			t.Errorf("%s was not measured (%s): %s", workload, tool, r)
			continue
		}
		if v, ok := trials[i].Value(value); !ok || !(v.Value > 0) || trials[i].Err != "" {
			t.Errorf("%s: %s is %v, %s", workload, value, v, trials[i].Err)
		}
	}
	if left, err := os.ReadDir(here); err != nil || len(left) > 0 {
		t.Errorf("%s left %v (%v)", run.ID, left, err)
	}
}

// In a guest without any programs, the agent runs the built-in application workloads on the guest's disk and shares.
func TestGuestWork(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	r := s.iotax("run", "--calibrate", "no", s.write("names.yaml", `
machines: {guest: {qemu: {memory: 512MiB, cpus: 1}}}
targets:
  here:      {dir: .}
  disk:      {on: guest, disk: {of: here}}
  virtio-fs: {on: guest, share: {of: here, type: virtiofs}}
  9p:        {on: guest, share: {of: here, type: 9p}}
workloads:
  names: {metadata: {files: 20, directories: 3, depth: 2, workers: 2}}
  modules: {node_modules: {files: 50, workers: 2}}
  git:   {git: {files: 30}}
  load:  {dataload: {data: 2MiB, shards: 2, batch: 4, step: 1ms, checkpoint: 1MiB}}
  build: {build: {sources: 5, headers: 10, includes: 2, compile: 1ms}}
  wal:   {wal: {committers: 2, data: 1MiB}}
  sqlite: {sqlite: {accounts: 100, journal: delete}}
  etcd:  {at: [here, disk, virtio-fs], etcd: {}}
measure: {protocol: "fixed:1x1s", ramp: 0s}
`))
	if r.code != exitOK {
		t.Fatal(r)
	}
	_, trials := s.trials()
	if len(trials) != 4*7+3 {
		t.Errorf("%d trials", len(trials))
	}
	for _, x := range trials {
		operations, _ := x.Value(iotax.ValueOperations)
		latency := map[string]string{"names": "stat", "modules": "install", "build": "compile", "load": "step", "wal": "commit", "sqlite": "transaction", "etcd": "commit"}[x.Workload]
		took, _ := x.Value(latency + ".latency.mean")
		if latency == "" {
			took, _ = x.Value("clone.duration")
		}
		if x.Err != "" || x.Workload == "names" && operations.Value != 9*20+3*3 || !(took.Value > 0) {
			t.Errorf("%s at %s: %v operations, %s of %v, %s", x.Workload, x.Target, operations, latency, took, x.Err)
		}
	}
}
