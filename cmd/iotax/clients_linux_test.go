package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
)

const clientsPlan = `
machines:
  n1: {node: node01}
  n2: {node: node02}
targets:
  client: {on: [n1, n2], dir: DIR}
  here: {dir: DIR}
  together: {group: {of: [client, here], clients: [1, 3]}}
  beside a writer: {neighbours: {of: client on=n1, noise: [client on=n2], doing: stream}}
workloads:
  4k random read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 4MiB}}
  stream: {fio: {rw: write, bs: 64k, size: 4MiB}}
measure: {protocol: fixed:3x300ms, ramp: 100ms}
`

// Two nodes of a lab and this host run a job at the same time. One node also runs the job while the other node writes.
func TestClientsTogether(t *testing.T) {
	long.Test(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("TMPDIR", dir)
	file := filepath.Join(dir, "contention.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(clientsPlan, "DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if code := Main(t.Context(), []string{"run", file, "--store", filepath.Join(dir, "db"), "--calibrate=no", "--json"}, strings.NewReader(""), &out, &stderr); code != exitOK {
		t.Fatalf("exit status %d\n%s\n%s", code, out.String(), stderr.String())
	}
	type value struct{ Estimate float64 }
	var r struct {
		Cells []struct {
			Target, Workload, Metric string
			Baseline                 bool
			Value                    value
			Secondary                []struct {
				Name  string
				Value value
			}
		}
		Clients []struct {
			Target string
			Points []struct {
				Clients int
				Jain    *struct{ Estimate float64 }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	cells := map[string]map[string]float64{}
	for _, c := range r.Cells {
		if c.Workload != "4k random read" {
			t.Errorf("%s is measured by itself", c.Workload)
		}
		cells[c.Target] = map[string]float64{c.Metric: c.Value.Estimate}
		for _, f := range c.Secondary {
			cells[c.Target][f.Name] = f.Value.Estimate
		}
		if c.Baseline != (c.Target == "together clients=1") {
			t.Errorf("baseline %v of %s", c.Baseline, c.Target)
		}
	}
	for name := range cells {
		if strings.HasPrefix(name, "client on") || name == "here" {
			t.Errorf("%s, which is a part of others, is measured by itself", name)
		}
	}
	three := cells["together clients=3"]
	sum := three["client.1.read.iops"] + three["client.2.read.iops"] + three["client.3.read.iops"]
	if !(three["read.iops"] > 0) || math.Abs(sum/three["read.iops"]-1) > .5 { // medians of three trials do not add up exactly
		t.Errorf("three clients: %v", three)
	}
	if j, m := three["fairness.jain"], three["fairness.min-max"]; !(j > 1./3-1e-9 && j < 1+1e-9 && m > 0 && m <= 1) {
		t.Errorf("fairness: Jain %v, min/max %v", j, m)
	}
	if one := cells["together clients=1"]; one["fairness.jain"] != 0 || one["noise.iops"] != 0 || !(one["read.iops"] > 0) {
		t.Errorf("one client: %v", one)
	}
	if v := cells["beside a writer"]; !(v["read.iops"] > 0) || !(v["noise.bandwidth"] > 0) || v["write.iops"] != 0 {
		t.Errorf("a victim: %v", v)
	}
	if len(r.Clients) != 1 || len(r.Clients[0].Points) != 2 || r.Clients[0].Points[1].Clients != 3 || r.Clients[0].Points[1].Jain == nil || r.Clients[0].Target != "together" {
		t.Errorf("clients: %+v", r.Clients)
	}
	left, err := filepath.Glob(filepath.Join(dir, "iotax-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	if running := commandsWith(t, dir); len(running) > 0 {
		t.Errorf("still running: %q", running)
	}
}

// The fio server for a job that only reads refuses to write, even if its client sends a job that writes.
func TestServersOnlyRead(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	real, err := exec.LookPath("fio")
	if err != nil {
		t.Fatal(err)
	}
	// This fio sends write jobs when iotax uses it as a client for read jobs.
	s.mkdir("bin")
	s.write("bin/fio", fmt.Sprintf(`#!/bin/sh
case "$*" in
*--server=*) cat %[2]s/[ab]/iotax-*/iotax-* | sha256sum >>%[2]s/read;;
*--client=*) sed -i s/^rw=randread/rw=randwrite/ ./*.fio;;
esac
exec %[1]s "$@"
`, real, s.dir))
	if err := os.Chmod(s.path("bin/fio"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env["PATH"] = s.path("bin") + ":" + os.Getenv("PATH")
	s.write("plan.yaml", `
targets:
  one: {dir: a}
  other: {dir: b}
  both: {group: {of: [one, other], clients: [2]}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}
measure: {protocol: "fixed:3x300ms", ramp: 0s}
`)
	if r := s.iotax("run", "plan.yaml", "--calibrate=no"); r.code == 0 {
		t.Errorf("a server wrote for a job that only reads: %s", r)
	}
	sums, err := os.ReadFile(s.path("read"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(strings.ReplaceAll(string(sums), "-", ""))
	if len(lines) < 4 || len(slices.Compact(lines)) != 1 {
		t.Errorf("the files have changed: %s", sums)
	}
}

// fio's client and its servers on two SSH hosts communicate over the SSH connections.
func TestClientsOverSSH(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	bin := s.mkdir("there")
	d := s.sshd(bin + ":" + os.Getenv("PATH"))
	s.knows(d)
	s.write("plan.yaml", fmt.Sprintf(`
machines:
  n1: {ssh: {host: 127.0.0.1, port: %[1]d}}
  n2: {ssh: {host: 127.0.0.1, port: %[1]d}}
targets:
  client: {on: [n1, n2], dir: %[2]s}
  together: {group: {of: client, clients: [1, 2]}}
workloads: {4k random read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 4MiB}}}
measure: {protocol: fixed:2x300ms, ramp: 100ms}
`, d.port, s.path("b")))
	id := fmt.Sprintf("over-ssh-%d", os.Getpid())
	run := func(more ...string) []string {
		return append([]string{"run", "plan.yaml", "--calibrate=no", "--id", id}, more...)
	}
	// over returns the fio servers of the run that still run on the SSH host.
	over := func() (found []string) {
		all, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			b, err := os.ReadFile(f)
			name, cerr := os.ReadFile(filepath.Dir(f) + "/cmdline")
			if err == nil && cerr == nil && bytes.Contains(b, []byte("IOTAX_RUN="+id)) && bytes.Contains(name, []byte("--server=sock:")) {
				found = append(found, strings.ReplaceAll(string(name), "\x00", " "))
			}
		}
		return found
	}
	gone := func() {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); len(over()) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("still runs over there: %q", over())
			}
		}
	}
	s.iotax(append(run(), "--details")...).works(t, exitOK, "Clients · together", "copying the agent to ssh://127.0.0.1")
	_, trials := s.trials()
	both := 0
	for _, tr := range trials {
		_, first := tr.Value("client.1.read.iops")
		_, second := tr.Value("client.2.read.iops")
		if tr.Err != "" || tr.Facts["clients"] == "2" && !(first && second) {
			t.Errorf("%s: %s %v", tr.Target, tr.Err, tr.Values)
		}
		if first && second {
			both++
		}
	}
	if len(trials) != 4 || both != 2 {
		t.Errorf("%d trials, %d of two clients", len(trials), both)
	}
	gone()

	// Cut the SSH connections during a trial.
	id += "-lost"
	r := s.start(nil, run("--protocol", "fixed:1x3s")...)
	for end := time.Now().Add(4 * time.Minute); len(over()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no server begins over there")
		}
	}
	s.killSessions()
	r.wait()
	lost := 0
	if _, trials = s.trials(); len(trials) > 0 {
		for _, tr := range trials {
			if tr.Err != "" {
				lost++
			}
		}
	}
	if lost == 0 {
		t.Errorf("the connections were cut, and of %d trials none failed", len(trials))
	}
	gone()
	s.cleans("--remote", "--yes").works(t, exitOK) // removes what iotax could not remove without a connection

	// iotax refuses a client and a server of different fio versions.
	id += "-old"
	fio, err := exec.LookPath("fio")
	if err != nil {
		t.Fatal(err)
	}
	s.write("there/fio", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo fio-3.1; exit; fi\nexec "+fio+" \"$@\"\n")
	if err := os.Chmod(s.path("there/fio"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.iotax(run()...).refuses(t, exitError, "ssh://127.0.0.1", "has fio-3.1", "must be of one version", "hint: install the same version")
}

// commandsWith returns the command lines of the fio servers on this host whose socket path begins with path.
func commandsWith(t *testing.T, path string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		text, err := os.ReadFile(p)
		if s := strings.ReplaceAll(string(text), "\x00", " "); err == nil && strings.Contains(s, "--server=sock:"+path) {
			found = append(found, s)
		}
	}
	return found
}

// Errors in a plan with clients or neighbours name the cause. A valid plan has the expected baseline and the expected
// workloads at each target.
func TestClientsPlan(t *testing.T) {
	read := func(targets, works string) (*plan.Plan, error) {
		return plan.Parse("p.yaml", []byte("targets:\n  a: {dir: /var/tmp}\n  b: {dir: /var/tmp}\n"+targets+"workloads:\n  w: {fio: {size: 1MiB}}\n"+works), kinds.All())
	}
	for name, c := range map[string]struct{ targets, works, want string }{
		"too few":           {targets: "  g: {group: {of: [a, b], clients: 3}}\n", want: "3 clients of 2 targets"},
		"nobody":            {targets: "  g: {group: {of: [a, c]}}\n", want: `there is no target "c"`},
		"none":              {targets: "  g: {group: {}}\n", want: "made of no target"},
		"of itself":         {targets: "  g: {group: {of: [a]}}\n  h: {group: {of: [g]}}\n", want: "itself made of other targets"},
		"its own neighbour": {targets: "  n: {neighbours: {of: a, noise: [a], doing: w}}\n", want: "its own neighbour"},
		"no such work":      {targets: "  n: {neighbours: {of: a, noise: [b], doing: x}}\n", want: `there is no workload "x"`},
		"no noise":          {targets: "  n: {neighbours: {of: a, doing: w}}\n", want: "noise"},
		"negative":          {targets: "  g: {group: {of: [a], clients: -1}}\n", want: "is not a number of clients"},
	} {
		if _, err := read(c.targets, c.works); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	p, err := read("  g: {group: {of: [a, b], clients: [1, 2]}}\n  n: {neighbours: {of: a, noise: [b], doing: s}}\n", "  s: {fio: {rw: write, size: 1MiB}}\n  all: {fio: {size: 2MiB}, at: [a, g]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if p.Baseline != "g clients=1" {
		t.Errorf("baseline %s: the first target that is no part of another", p.Baseline)
	}
	done := func(w int) (at []string) {
		for _, target := range p.Targets {
			if p.Workloads[w].Done(target.Name) {
				at = append(at, target.Name)
			}
		}
		return at
	}
	for w, want := range map[int]string{0: "g clients=1,g clients=2,n", 1: "", 2: "g clients=1,a,g clients=2"} {
		if got := strings.Join(done(w), ","); got != want {
			t.Errorf("%s is done at %s, want %s", p.Workloads[w].Name, got, want)
		}
	}
	// A resolved plan can be parsed again and resolves to the same text.
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.Parse("again.yaml", text, kinds.All())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	second, err := again.YAML()
	if err != nil || !bytes.Equal(text, second) {
		t.Errorf("%v: resolved twice:\n%s\n%s", err, text, second)
	}
}
