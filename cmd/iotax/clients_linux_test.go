package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax/plan"
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

// Two nodes of a lab and a process of this host do a job at the same moment, and one of the nodes does it
// beside a writer on the other.
func TestClientsTogether(t *testing.T) {
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
	type value struct{ Median float64 }
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
		cells[c.Target] = map[string]float64{c.Metric: c.Value.Median}
		for _, f := range c.Secondary {
			cells[c.Target][f.Name] = f.Value.Median
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
	if !(three["read.iops"] > 0) || math.Abs(sum/three["read.iops"]-1) > .5 { // medians of three trials
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

// commandsWith lists the processes of this host whose command line has a word of that path.
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

// What is wrong with a plan of clients and neighbours is said at the place.
func TestClientsPlan(t *testing.T) {
	read := func(targets, works string) (*plan.Plan, error) {
		return plan.Parse("p.yaml", []byte("targets:\n  a: {dir: /var/tmp}\n  b: {dir: /var/tmp}\n"+targets+"workloads:\n  w: {fio: {size: 1MiB}}\n"+works), kinds())
	}
	for name, c := range map[string]struct{ targets, works, want string }{
		"too few":           {targets: "  g: {group: {of: [a, b], clients: 3}}\n", want: "3 clients of 2 targets"},
		"nobody":            {targets: "  g: {group: {of: [a, c]}}\n", want: `there is no target "c"`},
		"none":              {targets: "  g: {group: {}}\n", want: "made of no target"},
		"of itself":         {targets: "  g: {group: {of: [a]}}\n  h: {group: {of: [g]}}\n", want: "itself made of other targets"},
		"its own neighbour": {targets: "  n: {neighbours: {of: a, noise: [a], doing: w}}\n", want: "its own neighbour"},
		"no such work":      {targets: "  n: {neighbours: {of: a, noise: [b], doing: x}}\n", want: `there is no workload "x"`},
		"no noise":          {targets: "  n: {neighbours: {of: a, doing: w}}\n", want: "noise"},
		"negative":          {targets: "  g: {group: {of: [a], clients: -1}}\n", want: "is no number of clients"},
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
	// What is resolved can be read again, and comes to the same.
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.Parse("again.yaml", text, kinds())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	second, err := again.YAML()
	if err != nil || !bytes.Equal(text, second) {
		t.Errorf("%v: resolved twice:\n%s\n%s", err, text, second)
	}
}
