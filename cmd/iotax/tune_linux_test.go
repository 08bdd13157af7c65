package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax/internal/testenv/long"
)

// tuned writes a program, and a plan that runs it with the options a to f in two directories. The result is the
// directory that is on a tmpfs. The program prints a time of 100 ms with 2 % noise. Options b and e each reduce the
// time, and together they reduce it by more than the product of their factors.
func (s *stage) tuned() (memory string) {
	s.t.Helper()
	memory, err := os.MkdirTemp("/dev/shm", "e2e-")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(memory) })
	tool := s.write("tool", `#!/bin/sh
seed=$(($(echo "$*" | cksum | cut -d' ' -f1) % 1000003))
exec awk -v seed="$seed" -v b="$3" -v e="$6" 'BEGIN {
	srand(seed); rand(); n = sqrt(-2*log(1-rand()))*cos(6.2831853*rand()); t = 100*exp(0.02*n)
	if (b == "on") t /= 1.2; if (e == "on") t /= 1.12; if (b == "on" && e == "on") t /= 1.1
	printf "took %.4f ms\n", t }'
`)
	if err := os.Chmod(tool, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.write("tune.yaml", fmt.Sprintf(`
targets:
  app:
    dir: {path: [a, %s]}
    labels: {a: [off, on], b: [off, on], c: [off, on], d: [off, on], e: [off, on], f: [off, on]}
workloads: {tool: {command: {run: "%s {seed} {a} {b} {c} {d} {e} {f}", values: {took: 'took (?<ms>[0-9.]+)'}}}}
measure: {cold: false, ramp: 0s}
`, memory, tool))
	return memory
}

// tune finds the two options that make the program faster, although it measures only some combinations. It refuses the
// directory in memory, except with --allow-weaker. An interrupted search resumes with the saved steps.
func TestTune(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	memory := s.tuned()
	type row struct{ Options, Wrong, Why string }
	var got struct {
		Changes      []struct{ Key, From, To string }
		Gain         struct{ Estimate, Lo, Hi float64 }
		Sure         bool
		Idle         []string `json:"no_difference"`
		Refused      []row
		Trials       int
		Combinations int
		Runs         []string
	}
	args := []string{"tune", "tune.yaml", "--for", "took", "--state", s.path("tune"), "--json", "-q"}
	// Without an earlier run, the time of the trials is estimated, and the estimate exceeds this budget.
	s.iotax(append(args, "--budget", "1m")...).works(t, exitError, "the budget is spent: the next 32 trials", "--budget continues")
	r := s.iotax(append(args, "--budget", "1h")...)
	r.works(t, exitOK)
	read := func(text string) {
		t.Helper()
		got.Changes, got.Refused, got.Runs = nil, nil, nil
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	read(r.stdout)
	if fmt.Sprint(got.Changes) != "[{b off on} {e off on}]" || !got.Sure || got.Gain.Lo > 1.2*1.12*1.1 || got.Gain.Hi < 1.2*1.12*1.1 {
		t.Errorf("found %v, %v, sure %v", got.Changes, got.Gain, got.Sure)
	}
	if len(got.Refused) != 1 || got.Refused[0].Wrong != "weaker" || !strings.Contains(got.Refused[0].Options, memory) {
		t.Errorf("refused: %v", got.Refused)
	}
	if idle := strings.Join(got.Idle, ""); len(idle) < 2 || strings.Trim(idle, "acdf") != "" || got.Combinations != 128 || got.Trials > 150 {
		t.Errorf("no difference: %v, %d trials of %d combinations", got.Idle, got.Trials, got.Combinations)
	}
	if _, err := os.Stat(s.path("tune")); !os.IsNotExist(err) {
		t.Errorf("the state is left: %v", err)
	}

	begun := s.start(nil, args[:6]...)
	begun.said("iotax: screening: 16 combinations of 64")
	begun.said("iotax: 32 trials take about ")
	s.iotax(args...).works(t, exitError, "another iotax tune works there", "--state DIR")
	begun.send(os.Interrupt)
	begun.wait().works(t, exitInterrupted, "the same command continues")
	s.iotax("tune", "tune.yaml", "--for", "took", "--state", s.path("tune"), "--allow-weaker").works(t, exitError, "another plan or another metric", "--reset")
	var state tuneState
	if text, err := os.ReadFile(s.path("tune/state.json")); err != nil || json.Unmarshal(text, &state) != nil || len(state.Steps) == 0 || !state.Steps[0].Done {
		t.Fatalf("the state: %s, %v", text, err)
	}
	r = s.iotax(args...)
	r.works(t, exitOK)
	if read(r.stdout); len(got.Runs) < 3 || got.Runs[0] != state.Steps[0].Runs[0] || len(got.Changes) != 2 {
		t.Errorf("runs %v, the first search had %v; changes %v", got.Runs, state.Steps, got.Changes)
	}
	s.write("idle.yaml", strings.NewReplacer("b: [off, on]", "b: off", "e: [off, on]", "e: off", "[a, "+memory+"]", "a").Replace(s.read("tune.yaml")))
	if r = s.iotax("tune", "idle.yaml", "--for", "took", "-q"); r.code != exitOK || !strings.Contains(r.stdout, "Keep the present options of app: no ") || strings.Contains(r.stdout, "1 finalist") {
		t.Errorf("options without an effect: %s", r)
	}
	r = s.iotax("tune", "tune.yaml", "--for", "took", "--state", s.path("tune"), "--allow-weaker", "-q")
	if r.code != exitOK && r.code != exitIncomplete || strings.Contains(r.stdout, "Not recommended") || !strings.Contains(r.stdout, "e: on    (now off)") {
		t.Errorf("with --allow-weaker: status %d: %s", r.code, r.stdout)
	}
}

// tune does not recommend a gain that comes only from the host's page cache. The image of the guest's disk is on a loop
// device, whose counters show what is read.
func TestTuneRefusesCache(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("cache.yaml", fmt.Sprintf(`
machines: {guest: {qemu: {memory: 512MiB}}}
targets:
  host: {dir: %s}
  disk: {on: guest, disk: {cache: [none, writeback], size: 100MiB}}
workloads: {read: {fio: {rw: randread, bs: 64k, size: 4MiB, direct: 1}}}
measure: {trial: 1s, ramp: 100ms}
`, s.loop("disk", s.mount("memory", "size=500m"), 450)))
	var got struct {
		Changes []struct{ Key string }
		Refused []struct{ Options, Wrong, Why string }
		Lines   []string
	}
	args := []string{"tune", "cache.yaml", "--for", "read.iops", "--rounds", "6..6", "-q", "--json", "--state", s.path("tune")}
	r := s.iotax(args...)
	if r.code != exitOK && r.code != exitIncomplete {
		t.Fatal(r)
	}
	s.parse(r, &got)
	if len(got.Changes) > 0 || len(got.Refused) != 1 || got.Refused[0].Options != "cache=writeback" || got.Refused[0].Wrong != "cached" || !strings.Contains(got.Refused[0].Why, "a cache answered, not the device") {
		t.Errorf("changes %v, refused %v", got.Changes, got.Refused)
	}
	if lines := strings.Join(got.Lines, "\n"); !strings.Contains(lines, "QEMU: -drive if=none,id=d-iotax-") || !strings.Contains(lines, "cache='none' io='threads'") {
		t.Errorf("lines %s", lines)
	}
}

// tune has a built-in list of options for some kinds of targets on the command line.
func TestTuneWords(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.iotax("tune", "dir:"+s.mkdir("a"), "--for", "read.iops").works(t, exitUsage, "no built-in list of options for dir", "cache: [writeback, none]")
	r := s.iotax("tune", s.mkdir("a"), "qemu:virtio-blk,cache=writeback", "--for", "read.iops", "--budget", "20s").works(t, exitError, "screening: 16 combinations of 16", "the budget is spent", "--margin")
	if n := strings.Count(r.stderr, "the budget is spent"); n != 1 {
		t.Errorf("it reports the budget %d times: %s", n, r)
	}
	s.iotax("tune", s.mkdir("a"), "qemu:virtiofs", "--for", "write.iops", "--budget", "20s", "--state", s.path("other")).works(t, exitError, "combinations of 24", "the budget is spent")
}

// Before it measures anything, tune refuses a search that cannot work.
func TestTuneRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("none.yaml", "targets: {here: {dir: a}}\nworkloads: {w: {command: 'true'}}")
	s.write("two.yaml", "targets: {here: {dir: {path: [a, b]}}}\nworkloads: {w: {command: 'true'}, v: {command: 'true'}}")
	for want, args := range map[string][]string{
		"no metric is given":         {"none.yaml"},
		"here has no list of values": {"none.yaml", "--for", "duration"},
		"the plan has 2 workloads":   {"two.yaml", "--for", "duration"},
		"--metric: ":                 {"two.yaml", "--for", "read.iops", "-w", "w"},
	} {
		s.iotax(append([]string{"tune"}, args...)...).works(t, exitUsage, want)
	}
	if left, _ := filepath.Glob(s.path(".iotax-tune")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
