package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/leftover"
)

// A fault is one thing that goes wrong while a run measures.
type fault struct {
	name   string
	sample int                            // tries in CI; IOTAX_FAULTS gives another number to all
	setup  func(s *stage) (args []string) // words of two targets, or a plan file
	inject func(s *stage, r *running, d *rand.Rand)
	codes  []int                                  // exit status that it may end with
	killed bool                                   // the runner, or its way over there, is gone: clean must do what it cannot
	whole  bool                                   // the run goes on and needs no resuming
	fails  bool                                   // trials fail of it: a run in which none does was not hit
	says   string                                 // what the report tells of it
	do     func(s *stage, d *rand.Rand) aftermath // all of a try, where iotax does not run on this host
}

// local are the words of a small run on two directories.
func local(*stage) []string { return []string{"dir:a", "dir:b"} }

// remote is a directory of this host and one over SSH.
func remote(s *stage) []string {
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	return []string{"dir:a", fmt.Sprintf("ssh://127.0.0.1:%d%s", d.port, s.path("b"))}
}

// remoteForLong is remote with trials that last until somebody has found out what runs over there.
func remoteForLong(s *stage) []string { return append(remote(s), "--trial", "3s") }

// guested is a directory of this host, and a disk of it in a guest. What else the plan says is more.
func guested(more string) func(*stage) []string {
	return func(s *stage) []string {
		s.write("plan.yaml", strings.Replace(guestPlan(3, "", "disk: {of: host}"), "workloads: {", "workloads: {"+more, 1))
		return []string{"plan.yaml"}
	}
}

// stored is a directory and an object store on it, which is started for the run.
func stored(s *stage) []string {
	s.write("plan.yaml", fmt.Sprintf(`
baseline: one
targets:
  one: {bucket: {from: host, path: a, program: %[1]q}}
  other: {bucket: {from: host, path: b, program: %[1]q}}
workloads: {put: {object: {size: 1MiB, count: 2, timeout: 5s}}}
measure: {blocks: 4, budget: 2m}
`, s.storeProgram()))
	return []string{"plan.yaml"}
}

// storeProgram is the path of a real S3 server.
func (s *stage) storeProgram() string {
	s.t.Helper()
	if p, err := filepath.Abs("../../bin/versitygw"); err == nil {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	p, err := exec.LookPath("versitygw")
	if err != nil {
		s.t.Fatal("versitygw is not there: scripts/need test")
	}
	return p
}

// networked are two links between nodes of a lab that is made for the run.
func networked(s *stage) []string {
	s.write("plan.yaml", `
baseline: there
machines: {one: {node: node01}, two: {node: node02}}
targets:
  there: {on: one, network: two}
  back:  {on: two, network: one}
workloads: {network: {network: {}}}
measure: {trial: 1s, ramp: 0s, blocks: 2}
`)
	return []string{"plan.yaml"}
}

// afterTrials waits until r has told of n trials.
func (r *running) afterTrials(n int) {
	for end := time.Now().Add(time.Minute); r.told() < n && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.done:
			return
		default:
		}
	}
}

// at sends sig to the runner at a random time of its life: while it opens, or some time after it told of one
// of its trials.
func at(sig syscall.Signal) func(*stage, *running, *rand.Rand) {
	return func(s *stage, r *running, d *rand.Rand) {
		trials := d.IntN(6)
		for end := time.Now().Add(time.Minute); trials > 0 && r.told() < trials && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			select {
			case <-r.done: // it was faster
				return
			default:
			}
		}
		select {
		case <-r.done:
		case <-time.After(time.Duration(d.Int64N(int64(400 * time.Millisecond)))):
			r.cmd.Process.Signal(sig) // it may have ended just now
		}
	}
}

// told counts the trials that the run has told of.
func (r *running) told() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if strings.Contains(l, "  block ") {
			n++
		}
	}
	return n
}

// whileMeasuring waits for the first fio that measures, and a little longer.
func whileMeasuring(s *stage, r *running, d *rand.Rand, do func()) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, p := range s.processes("fio") {
			if strings.Contains(p, "--runtime=") && !strings.Contains(p, "--parse-only") {
				time.Sleep(time.Duration(d.Int64N(int64(200 * time.Millisecond))))
				do()
				return
			}
		}
		select {
		case <-r.done:
			return
		default:
		}
	}
	s.t.Error("it never measured")
}

// signalEvery sends sig to the processes of a name, as far as they are still there.
func (s *stage) signalEvery(name string, sig syscall.Signal) {
	for _, p := range s.processes(name) {
		pid, _, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil {
			syscall.Kill(n, sig)
		}
	}
}

func faults() []fault {
	return []fault{
		{name: "Ctrl-C (SIGINT) at a random time", sample: 2, setup: local, inject: at(syscall.SIGINT), codes: []int{0, 130}},
		{name: "SIGTERM at a random time", sample: 1, setup: local, inject: at(syscall.SIGTERM), codes: []int{0, 130}},
		{name: "terminal closed (SIGHUP) at a random time", sample: 1, setup: local, inject: at(syscall.SIGHUP), codes: []int{0, 130}},
		{name: "SIGKILL of iotax at a random time", sample: 3, setup: local, inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true},
		{name: "SIGKILL of iotax, one target over SSH", sample: 1, setup: remote, inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true},
		{name: "SIGKILL of fio", sample: 1, setup: local, codes: []int{0, 4}, whole: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				whileMeasuring(s, r, d, func() { s.signalEvery("fio", syscall.SIGKILL) })
			}},
		{name: "the connection's sshd killed", sample: 1, setup: remoteForLong, codes: []int{0, 4}, fails: true, killed: true, says: "connection lost: the other side closed the connection; made again",
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.afterTrials(1)
				there := func() bool {
					return slices.ContainsFunc(s.processes("fio"), func(p string) bool {
						return strings.Contains(p, "--runtime=") && strings.Contains(p, s.path("b")+"/")
					})
				}
				for end := time.Now().Add(time.Minute); !there() && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				}
				s.killSessions()
			}},
		{name: "SIGKILL of QEMU, one target in its guest", sample: 1, setup: guested(""), codes: []int{4}, fails: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.afterTrials(1 + d.IntN(3))
				s.signalEvery("qemu-system", syscall.SIGKILL)
			}},
		{name: "the guest's clock set an hour ahead", sample: 1, setup: guested(`jump: {command: {shell: true, run: "date -s @$(($(date +%s) + 3600))"}, at: [guest]}, `), codes: []int{0}, whole: true,
			inject: func(s *stage, r *running, d *rand.Rand) { r.wait() }},
		{name: "iotax's own clock set an hour ahead and two back (iotax in a guest)", sample: 1, do: jumpOwnClock},
		{name: "SIGKILL of the S3 server", sample: 1, setup: stored, codes: []int{4}, fails: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.afterTrials(1 + d.IntN(3))
				s.signalEvery("versitygw", syscall.SIGKILL)
			}},
		// Not in CI: a trial that hangs is given its 90 s.
		{name: "link between two namespaces down", sample: 0, setup: networked, codes: []int{1, 4}, fails: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.afterTrials(1 + d.IntN(2))
				for _, ns := range s.namespaces(r) {
					if out, err := exec.Command("ip", "-n", ns, "link", "set", "eth0", "down").CombinedOutput(); err != nil {
						s.t.Errorf("%s: %s", ns, out)
					}
				}
			}},
		{name: "SIGKILL of iotax, two nodes of a lab", sample: 1, setup: networked, codes: []int{0, -1}, killed: true, inject: at(syscall.SIGKILL)},
		{name: "host suspended (SIGSTOP of iotax and fio for 2 s)", sample: 1, setup: local, codes: []int{0, 4}, whole: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				whileMeasuring(s, r, d, func() {
					r.send(syscall.SIGSTOP)
					s.signalEvery("fio", syscall.SIGSTOP)
					time.Sleep(2 * time.Second)
					s.signalEvery("fio", syscall.SIGCONT)
					r.send(syscall.SIGCONT)
				})
			}},
		{name: "target's file system becomes read-only", sample: 1, codes: []int{0, 1, 4}, killed: true,
			setup: func(s *stage) []string { return []string{"dir:a", "dir:" + s.mount("small", "size=32m")} },
			inject: func(s *stage, r *running, d *rand.Rand) {
				whileMeasuring(s, r, d, func() {
					for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
						if exec.Command("mount", "-o", "remount,ro", s.path("small")).Run() == nil {
							break
						}
					}
				})
				r.wait()
				if out, err := exec.Command("mount", "-o", "remount,rw", s.path("small")).CombinedOutput(); err != nil {
					s.t.Errorf("remount: %s", out)
				}
			}},
		{name: "target's file system fills up", sample: 1, codes: []int{0, 1, 4},
			setup: func(s *stage) []string { return []string{"dir:a", "dir:" + s.mount("small", "size=32m")} },
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.said("opening")
				exec.Command("dd", "if=/dev/zero", "of="+s.path("small")+"/others", "bs=1M").Run()
				r.wait()
				os.Remove(s.path("small") + "/others")
			}},
		{name: "store's file system fills up", sample: 1, codes: []int{1},
			setup: func(s *stage) []string {
				s.env["XDG_STATE_HOME"] = s.mount("small", "size=2m")
				return local(s)
			},
			inject: func(s *stage, r *running, d *rand.Rand) {
				r.afterTrials(1 + d.IntN(3))
				exec.Command("dd", "if=/dev/zero", "of="+s.path("small")+"/others", "bs=4k").Run() // it ends when all is full
				r.wait()
				os.Remove(s.path("small") + "/others")
			}},
		{name: "store locked by another program for 3 s", sample: 1, setup: local, codes: []int{0, 4}, whole: true,
			inject: func(s *stage, r *running, d *rand.Rand) {
				whileMeasuring(s, r, d, func() {
					db, err := sql.Open("sqlite", s.store())
					if err != nil {
						s.t.Error(err)
						return
					}
					defer db.Close()
					c, err := db.Conn(context.Background())
					if err != nil {
						s.t.Error(err)
						return
					}
					defer c.Close()
					if _, err := c.ExecContext(context.Background(), "PRAGMA busy_timeout=10000; BEGIN IMMEDIATE"); err != nil {
						s.t.Error(err)
						return
					}
					time.Sleep(3 * time.Second)
					if _, err := c.ExecContext(context.Background(), "ROLLBACK"); err != nil {
						s.t.Error(err)
					}
				})
			}},
	}
}

// store is the file of the stage's store.
func (s *stage) store() string {
	found, _ := filepath.Glob(s.env["XDG_STATE_HOME"] + "/iotax/*.db")
	if len(found) != 1 {
		s.t.Fatalf("stores: %q", found)
	}
	return found[0]
}

// namespaces are those of the lab that r made: its processes are in them.
func (s *stage) namespaces(r *running) (names []string) {
	labs, _ := filepath.Glob("/var/tmp/iotax-lab-r*")
	for _, dir := range labs {
		b, err := os.ReadFile(filepath.Join(dir, leftover.Marker))
		if l, ok := leftover.ParseLabel(string(b)); err == nil && ok && l.Runner.PID == r.cmd.Process.Pid {
			for _, n := range []string{"node01", "node02"} {
				names = append(names, strings.Replace(filepath.Base(dir), "iotax-lab-", "iotax-", 1)+"-"+n)
			}
		}
	}
	if len(names) == 0 {
		s.t.Errorf("no lab of process %d among %q", r.cmd.Process.Pid, labs)
	}
	return names
}

// killSessions kills what sshd started for connections, and not the one that listens. That one calls itself
// "sshd: PATH -D …", so that its name is not the base of its first word.
func (s *stage) killSessions() {
	for _, pid := range s.sessions() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (s *stage) sessions() (pids []int) {
	listens, err := exec.Command("pgrep", "-f", "^sshd: .* -f "+regexp.QuoteMeta(s.dir)+"/").Output()
	if err != nil {
		s.t.Errorf("no sshd of %s listens: %v", s.dir, err)
	}
	for _, pid := range strings.Fields(string(listens)) {
		out, err := exec.Command("pgrep", "-P", pid).Output()
		if err != nil {
			s.t.Errorf("sshd %s has no connection: %v", pid, err)
		}
		for _, child := range strings.Fields(string(out)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// An aftermath counts what came of a fault.
type aftermath struct {
	tries, hit          int
	finished, lost      int // trials that iotax had told of, and those of them that are not in the store
	left                int // things that are still there after clean
	resumed, notResumed int
}

func (a *aftermath) add(o aftermath) {
	a.tries += o.tries
	a.hit += o.hit
	a.finished += o.finished
	a.lost += o.lost
	a.left += o.left
	a.resumed += o.resumed
	a.notResumed += o.notResumed
}

// TestFaults does to small real runs what happens to runs. A trial that was told of must be in the store, what
// is left must be found by clean, and the run must go on. With IOTAX_FAULTS=N each fault is tried N times, and with
// IOTAX_FAULTS_DOC=FILE the table of docs/reliability.md is written there.
func TestFaults(t *testing.T) {
	needsRoot(t)
	only := os.Getenv("IOTAX_FAULTS_ONLY")
	var mu sync.Mutex
	results := make([]aftermath, len(faults()))
	t.Run("each", func(t *testing.T) {
		for i, f := range faults() {
			tries := f.sample
			if n, err := strconv.Atoi(os.Getenv("IOTAX_FAULTS")); err == nil {
				tries = n
			}
			if only != "" && !strings.Contains(f.name, only) {
				continue
			}
			for n := range tries {
				t.Run(fmt.Sprintf("%s/%d", f.name, n), func(t *testing.T) {
					t.Parallel()
					o := f.try(newStage(t), rand.New(rand.NewPCG(uint64(i), uint64(n))))
					mu.Lock()
					defer mu.Unlock()
					results[i].add(o)
				})
			}
		}
	})
	tabulate(t, faults(), results)
}

// tabulate tells what came of faults, and writes it into the document that IOTAX_FAULTS_DOC names.
func tabulate(t *testing.T, all []fault, results []aftermath) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| fault | tried | of these while it ran | trials that had finished | of these lost | left behind after `clean` | gone on with |\n|---|---|---|---|---|---|---|\n")
	for i, f := range all {
		if r := results[i]; r.tries > 0 {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d of %d |\n", f.name, r.tries, r.hit, r.finished, r.lost, r.left, r.resumed, r.resumed+r.notResumed)
		}
	}
	t.Log("\n" + b.String())
	if doc := os.Getenv("IOTAX_FAULTS_DOC"); doc != "" {
		putTable(t, doc, b.String())
	}
}

// putTable puts the rows of table in place of those for the same faults in the Markdown file doc; new ones go to the end
// of its table.
func putTable(t *testing.T, doc, table string) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(table, "|---|---|---|---|---|---|---|\n")
	before, after, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table that begins %q", doc, head)
	}
	end := strings.Index(after, "\n\n") + 1
	old, after := after[:end], after[end:]
	for row := range strings.Lines(body) {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		lines := strings.SplitAfter(old, "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| "+name+" |") })
		if at < 0 {
			old += row
			continue
		}
		lines[at] = row
		old = strings.Join(lines, "")
	}
	if err := os.WriteFile(doc, []byte(before+head+old+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try does f to one run.
func (f fault) try(s *stage, d *rand.Rand) (o aftermath) {
	if f.do != nil {
		return f.do(s, d)
	}
	o.tries = 1
	args := []string{"run", "--calibrate=no"}
	words := f.setup(s)
	if !strings.HasSuffix(words[0], ".yaml") {
		args = append(args, "-w", "randrw-4k", "--size", "8MiB", "--trial", "200ms", "--ramp", "0s", "--blocks", "3")
	}
	r := s.start(nil, append(args, words...)...)
	f.inject(s, r, d)
	got := r.wait()
	ok := got.code == -1 && got.stderr == "" // before main had begun: nothing was made yet
	for _, c := range f.codes {
		ok = ok || c == got.code
	}
	if !ok || strings.Contains(got.stderr, "goroutine ") || strings.Contains(got.stderr, "panic") {
		s.t.Errorf("it ended unlike any of %v: %s", f.codes, got)
	}
	if got.code != 0 && !f.fails || f.whole {
		o.hit = 1
	}
	told := strings.Count(got.stderr, "  block ")

	if f.killed {
		// Over there the watchdog looks once a second.
		for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if r := s.iotax("clean", "--remote", "--yes"); strings.Contains(r.stdout, "nothing was left") {
				break
			}
		}
	}
	for _, dir := range []string{"a", "b", "tmp", "small"} {
		left, _ := filepath.Glob(s.path(dir) + "/iotax-*")
		o.left += len(left)
		for _, l := range left {
			s.t.Errorf("left behind: %s after %s", l, got)
		}
	}

	saved := s.iotax("list", "--json")
	if saved.code != 0 || strings.TrimSpace(saved.stdout) == "[]" {
		if told > 0 {
			s.t.Errorf("%d trials were told of, and there is no run: %s", told, saved)
		}
		o.finished, o.lost = told, told
		return o // before anything was saved
	}
	run, trials := s.trials()
	o.finished = len(trials)
	if len(trials) < told {
		o.lost = told - len(trials)
		s.t.Errorf("%d trials were told of, %d are saved", told, len(trials))
	}
	for _, t := range trials {
		if f.fails && t.Err != "" {
			o.hit = 1
		}
	}
	if f.fails && o.hit == 0 {
		s.t.Errorf("no trial failed of it: %s", got)
	}
	if f.says != "" {
		if got := s.iotax("report", "--format", "json"); !strings.Contains(got.stdout, f.says) {
			s.t.Errorf("the report does not say %q: %s", f.says, got)
		}
	}
	if run.Status == iotax.Running {
		s.t.Errorf("the run still counts as running")
	}
	if f.whole || run.Status == iotax.Done || got.code == 1 && len(trials) == 0 {
		return o
	}
	if again := s.iotax("run", "--resume"); again.code == 0 || again.code == 4 {
		o.resumed = 1
		after, all := s.trials()
		if after.ID != run.ID || len(all) < len(trials) {
			s.t.Errorf("%d trials of %s became %d of %s", len(trials), run.ID, len(all), after.ID)
		}
	} else {
		o.notResumed = 1
		s.t.Errorf("it does not go on: %s", again)
	}
	return o
}
