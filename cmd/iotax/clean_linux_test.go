package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

// clean finds and removes the leftovers of a killed run, and keeps the files and processes of a run that is still
// running.
func TestClean(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	slow := []string{"run", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--trial", "20s", "--ramp", "0s", "--rounds", "1", "--calibrate=no"}
	lives, dies := s.start(nil, slow...), s.start(nil, slow...)
	measuring := func() int { // counts directories, because one fio is several processes
		in := map[string]bool{}
		for _, p := range s.processes("fio") {
			if strings.Contains(p, "--runtime=20000ms") {
				in[p[strings.LastIndexByte(p, ' '):]] = true
			}
		}
		return len(in)
	}
	for end := time.Now().Add(4 * time.Minute); measuring() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the two runs do not begin to measure")
		}
	}
	s.cleans().works(t, 0, "no leftovers found")
	before, err := filepath.Glob(s.path("[ab]/iotax-*"))
	if err != nil || len(before) != 4 {
		t.Fatalf("%q, %v", before, err)
	}
	dies.send(syscall.SIGKILL)
	dies.wait()

	told := s.iotax("doctor").works(t, 0, "leftovers", "iotax clean --yes")
	if m := regexp.MustCompile(`(\d+) directories of crashed runs`).FindStringSubmatch(told.stdout); m == nil || len(m[1]) == 1 && m[1] < "4" { // other runs may have left directories, too
		t.Errorf("the dead run has left 4 directories: %s", told)
	}
	s.cleans().works(t, 0, "process", "fio", s.path("a")+"/iotax-", s.path("b")+"/iotax-", s.path("tmp")+"/iotax-", "left by run", "remove them with: iotax clean ", " --yes")
	var listed struct{ Leftovers []cleanItem }
	if err := json.Unmarshal([]byte(s.cleans("--json").works(t, 0).stdout), &listed); err != nil || len(listed.Leftovers) < 4 {
		t.Fatalf("%v: %+v", err, listed)
	}
	s.cleans("--yes").works(t, 0, "removed")
	s.cleans().works(t, 0, "no leftovers found")
	after, _ := filepath.Glob(s.path("[ab]/iotax-*"))
	if len(after) != 2 || len(s.processes("fio")) == 0 {
		t.Errorf("of the run that lives there are %q and %q", after, s.processes("fio"))
	}

	// list shows the killed run as interrupted.
	r := s.iotax("list").works(t, 0, "running", "interrupted")
	if strings.Count(r.stdout, "running") != 1 {
		t.Error(r)
	}
	lives.send(os.Interrupt)
	lives.wait().works(t, 130)
}

// Directories of other users are not leftovers. clean prints their number and names the first.
func TestCleanForeign(t *testing.T) {
	var out strings.Builder
	if err := (&app{out: &out}).printLeft(nil, []string{"host: /tmp/iotax-\x1b1", "host: /tmp/iotax-2"}, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"directories of other users, 2 in all, the first is host: /tmp/iotax-", "each user runs iotax clean", "no leftovers found"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q has a control character", out.String())
	}
}

// killsInATrial kills r soon after an fio has started. It must not kill r earlier: for some microseconds, a new
// directory has no marker yet, and a new process has not yet executed fio.
func (s *stage) killsInATrial(r *running) {
	s.t.Helper()
	before := s.processes("fio")
	for end := time.Now().Add(time.Minute); !slices.ContainsFunc(s.processes("fio"), func(p string) bool { return !slices.Contains(before, p) }); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("no fio starts")
		}
	}
	r.send(syscall.SIGKILL)
	r.wait()
}

// A killed run keeps its finished trials, its report shows that iotax was killed, and it can be resumed.
func TestRunnerKilled(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	s.env[storeVariable] = s.path("runs.db")
	r := s.start(nil, "run", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "3", "--calibrate=no")
	r.said("round 2/3")
	s.killsInATrial(r)
	run, had := s.trials()
	if run.Status != iotax.Interrupted || len(had) < 3 {
		t.Errorf("%d trials are saved, the run is %s", len(had), run.Status)
	}
	s.iotax("report", "--details").works(t, 0, "runner-died", "iotax run --resume="+run.ID)
	s.ages()
	s.iotax("run", "--resume").works(t, 0, "was killed", "iotax clean lists what it left behind")
	after, trials := s.trials()
	if after.Status != iotax.Done || len(trials) < 6 || trials[0].Start != had[0].Start {
		t.Errorf("%s, %d trials", after.Status, len(trials))
	}
	for _, f := range after.Findings {
		if f.Rule == "runner-died" {
			t.Errorf("the run went on, and still says %v", f)
		}
	}
	s.cleans("--yes").works(t, 0, "removed")
}

// When iotax is killed, fio on the SSH host ends, and clean finds the leftovers there.
func TestRunnerKilledOverSSH(t *testing.T) {
	s := newStage(t)
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	r := s.start(nil, "run", fmt.Sprintf("ssh://127.0.0.1:%d%s", d.port, s.path("a")), fmt.Sprintf("ssh://127.0.0.1:%d%s", d.port, s.path("b")),
		"-w", "randread-4k", "--size", "8MiB", "--trial", "60s", "--ramp", "0s", "--rounds", "1", "--calibrate=no")
	measuring := func() (found []string) {
		for _, p := range s.processes("fio") {
			if strings.Contains(p, "--runtime=60000ms") {
				found = append(found, p)
			}
		}
		return found
	}
	for end := time.Now().Add(4 * time.Minute); len(measuring()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.send(syscall.SIGKILL)
			t.Fatal(r.wait())
		}
	}
	time.Sleep(300 * time.Millisecond)
	r.send(syscall.SIGKILL)
	r.wait()
	for end := time.Now().Add(4 * time.Minute); len(measuring()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("fio goes on over there: %q", measuring())
		}
	}
	s.cleans("--remote", "--yes").works(t, 0, "removed", s.path("a")+"/iotax-")
	s.cleans("--remote").works(t, 0, "no leftovers found")
}

// ages removes the key "overrun" from the saved plan of the latest run, as if an older iotax had written the plan.
func (s *stage) ages() {
	s.t.Helper()
	s.saved(func(db *store.Store, r *iotax.Run) {
		was := string(r.Plan)
		r.Plan = []byte(regexp.MustCompile(`(?m)^ *overrun: .*\n`).ReplaceAllString(was, ""))
		if string(r.Plan) == was {
			s.t.Fatalf("no overrun in\n%s", was)
		}
		if err := db.Update(s.t.Context(), r); err != nil {
			s.t.Fatal(err)
		}
	})
}

// A killed shard leaves directories next to its plan, and clean finds them there. The shard can be started again, even
// if an older iotax wrote its plan.
func TestShardKilled(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.env[storeVariable] = s.path("runs.db")
	s.mkdir("plans/data")
	s.write("plans/p.yaml", `
targets: {a: {dir: data}, b: {dir: data}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 1MiB}}}
measure: {trial: 300ms, ramp: 0s, rounds: {min: 6, max: 6}, cold: false}
`)
	shard := []string{"run", "plans/p.yaml", "--shard", "0/2", "--id", "killed", "--calibrate", "no"}
	r := s.start(nil, shard...)
	r.said("round 1/")
	s.killsInATrial(r)
	left := func() int {
		found, err := filepath.Glob(s.path("plans/data/iotax-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if left() == 0 {
		t.Fatal("no leftovers found")
	}
	s.cleans("--yes").works(t, 0, "removed", s.path("plans/data")+"/iotax-")
	if n := left(); n > 0 {
		t.Errorf("%d directories stay", n)
	}
	s.ages()
	s.iotax(shard...).works(t, 0)
}
