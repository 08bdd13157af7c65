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
	"iotax/internal/leftover"
	"iotax/internal/testenv/long"
)

// A fault is an event that disturbs a run.
type fault struct {
	name   string
	sample int                                                  // tries in CI; 0 means only with IOTAX_TEST_REPEATS; IOTAX_FAULTS overrides it
	setup  func(s *stage) (args []string)                       // targets and flags, a plan file, or --resume
	inject func(s *stage, r *running, d *rand.Rand) (done bool) // reports whether the fault occurred during the run
	codes  []int                                                // possible exit statuses; they include 1 if a target may end up without a valid trial
	killed bool                                                 // iotax may be unable to clean up, so clean must remove the leftovers
	whole  bool                                                 // the run completes, so there is nothing to resume
	fails  bool                                                 // at least one trial must fail
	says   []string                                             // at least one of these texts must be in the report
	do     func(s *stage, d *rand.Rand) aftermath               // replaces the whole try if iotax does not run on this host
}

// local returns two directories as targets.
func local(*stage) []string { return []string{"dir:a", "dir:b"} }

// remote returns a directory of this host and one over SSH as targets.
func remote(s *stage) []string {
	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)
	return []string{"dir:a", fmt.Sprintf("ssh://127.0.0.1:%d%s", d.port, s.path("b"))}
}

// small contains the flags for six short trials: three rounds on two targets.
var small = []string{"-w", "randrw-4k", "--size", "8MiB", "--trial", "200ms", "--ramp", "0s", "--rounds", "3"}

// begun starts a run on two directories, interrupts it after the first trial, and returns the arguments that resume it.
func begun(s *stage) []string {
	r := s.start(nil, slices.Concat([]string{"run", "--calibrate=no"}, small, local(s))...)
	r.afterTrials(1)
	r.send(syscall.SIGINT)
	if got := r.wait(); got.code != 130 {
		s.t.Errorf("it was to be interrupted: %s", got)
	}
	return []string{"--resume"}
}

// overLink returns a directory of this host and one of a host at the other end of the stage's link as targets, with
// trials of 3 s.
func overLink(s *stage) []string {
	d := s.sshdOverLink(os.Getenv("PATH"))
	s.knows(d)
	config, err := os.ReadFile(s.path("home/.ssh/config"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("home/.ssh/config", string(config)+"\tServerAliveInterval 1\n")
	return []string{"dir:a", fmt.Sprintf("ssh://%s:%d%s", d.address, d.port, s.path("b")), "--trial", "3s"}
}

// overNBD returns a plan with a directory, and an NBD export of an image that fio reads with its nbd engine.
func overNBD(s *stage) []string {
	s.write("plan.yaml", fmt.Sprintf(`
targets:
  one: {dir: a}
  other: {nbd: {path: %q}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB}}}
measure: {trial: 300ms, ramp: 0s, rounds: 3}
`, s.path("b")))
	return []string{"plan.yaml"}
}

// remoteForLong is like remote, with trials long enough to find their processes.
func remoteForLong(s *stage) []string { return append(remote(s), "--trial", "3s") }

// guested returns a setup function for a plan with a directory of this host, a guest's disk in it, and the workloads in
// `more`.
func guested(more string) func(*stage) []string {
	return func(s *stage) []string {
		s.write("plan.yaml", strings.Replace(guestPlan(3, "", "disk: {of: host}"), "workloads: {", "workloads: {"+more, 1))
		return []string{"plan.yaml"}
	}
}

// stored returns a plan with two object stores, which the run starts on directories.
func stored(s *stage) []string {
	s.write("plan.yaml", fmt.Sprintf(`
baseline: one
targets:
  one: {bucket: {from: host, path: a, program: %[1]q}}
  other: {bucket: {from: host, path: b, program: %[1]q}}
workloads: {put: {object: {size: 1MiB, count: 2, timeout: 5s}}}
measure: {rounds: 4, budget: 2m}
`, s.storeProgram()))
	return []string{"plan.yaml"}
}

// inBucket returns a plan with two targets in a bucket of a running store.
func inBucket(s *stage) []string {
	address, keys := s.objectStore()
	s.write("plan.yaml", fmt.Sprintf(`
targets:
  one: {bucket: {url: "http://%[1]s/bench", style: path, credentials: %[2]q}}
  other: {bucket: {url: "http://%[1]s/bench", style: path, credentials: %[2]q}}
workloads: {put: {object: {size: 4MiB, count: 16, timeout: 5s}}}
measure: {rounds: 4, budget: 2m}
`, address, keys))
	return []string{"plan.yaml"}
}

// storeProgram returns the path of a real S3 server.
func (s *stage) storeProgram() string {
	s.t.Helper()
	p, err := exec.LookPath("versitygw")
	if err != nil {
		s.t.Fatal("versitygw is not there: scripts/need test")
	}
	return p
}

// networked returns a plan that measures both directions between two nodes of a lab that the run makes.
func networked(s *stage) []string {
	s.write("plan.yaml", `
baseline: there
machines: {one: {node: node01}, two: {node: node02}}
targets:
  there: {on: one, network: two}
  back:  {on: two, network: one}
workloads: {network: {network: {}}}
measure: {trial: 1s, ramp: 0s, overrun: 5s, rounds: 2}
`)
	return []string{"plan.yaml"}
}

// afterTrials waits until r has printed n trials or has ended, for at most four minutes.
func (r *running) afterTrials(n int) {
	for end := time.Now().Add(4 * time.Minute); r.told() < n && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.done:
			return
		default:
		}
	}
}

// `at` returns an inject function that sends sig to iotax up to 400 ms after the start, or after one of the first five
// trials.
func at(sig syscall.Signal) func(*stage, *running, *rand.Rand) bool { return among(6, sig) }

// `among` is like `at`, but sends the signal after fewer than `most` trials.
func among(most int, sig syscall.Signal) func(*stage, *running, *rand.Rand) bool {
	return func(s *stage, r *running, d *rand.Rand) bool {
		trials := d.IntN(most)
		for end := time.Now().Add(4 * time.Minute); trials > 0 && r.told() < trials && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			select {
			case <-r.done:
				return false
			default:
			}
		}
		select {
		case <-r.done:
			return false
		case <-time.After(time.Duration(d.Int64N(int64(400 * time.Millisecond)))):
			return r.cmd.Process.Signal(sig) == nil && r.wait().code != 0 // the run may have ended meanwhile
		}
	}
}

// told counts the trials that the run has printed.
func (r *running) told() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if strings.Contains(l, "  round ") {
			n++
		}
	}
	return n
}

// whileMeasuring waits until an fio process measures, sleeps up to 200 ms, and returns the result of `do`. It returns
// false if the run ends first.
func whileMeasuring(s *stage, r *running, d *rand.Rand, do func() bool) bool {
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, p := range s.processes("fio") {
			if strings.Contains(p, "--runtime=") && !strings.Contains(p, "--parse-only") {
				time.Sleep(time.Duration(d.Int64N(int64(200 * time.Millisecond))))
				return do()
			}
		}
		select {
		case <-r.done:
			return false
		default:
		}
	}
	s.t.Error("it never measured")
	return false
}

// whileThere waits until an fio in directory b has just begun to measure.
func whileThere(s *stage, r *running) {
	r.afterTrials(1)
	there := func() bool {
		return slices.ContainsFunc(s.processes("fio"), func(p string) bool {
			return strings.Contains(p, "--runtime=") && strings.Contains(p, s.path("b")+"/")
		})
	}
	for _, want := range []bool{false, true} {
		for end := time.Now().Add(4 * time.Minute); there() != want && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
	}
}

// signalEvery sends sig to all of the stage's processes with that name. It reports whether it signalled at least one.
func (s *stage) signalEvery(name string, sig syscall.Signal) (sent bool) {
	for _, p := range s.processes(name) {
		pid, _, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, sig) == nil {
			sent = true
		}
	}
	return sent
}

func faults() []fault {
	interrupted := []string{`"interrupted"`}
	died := []string{"runner-died", `"interrupted"`} // the report contains the second text if the run had no trial yet
	return []fault{
		{name: "Ctrl-C (SIGINT) at a random time", sample: 2, setup: local, inject: at(syscall.SIGINT), codes: []int{0, 130}, says: interrupted},
		{name: "SIGTERM at a random time", sample: 2, setup: local, inject: at(syscall.SIGTERM), codes: []int{0, 130}, says: interrupted},
		{name: "terminal closed (SIGHUP) at a random time", sample: 2, setup: local, inject: at(syscall.SIGHUP), codes: []int{0, 130}, says: interrupted},
		{name: "SIGKILL of iotax at a random time", sample: 3, setup: local, inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true, says: died},
		{name: "SIGKILL of iotax run --resume at a random time", sample: 1, setup: begun, inject: among(4, syscall.SIGKILL), codes: []int{0, -1}, killed: true, says: died},
		{name: "SIGKILL of iotax, one target over SSH", sample: 1, setup: remote, inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true, says: died},
		{name: "SIGKILL of fio", sample: 1, setup: local, codes: []int{0}, whole: true, says: []string{"trial-failed"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				return whileMeasuring(s, r, d, func() bool { return s.signalEvery("fio", syscall.SIGKILL) })
			}},
		{name: "the connection's sshd killed", sample: 1, setup: remoteForLong, codes: []int{0}, fails: true, killed: true, says: []string{"connection lost: Connection to 127.0.0.1 closed by remote host.; made again"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				whileThere(s, r)
				return s.killSessions()
			}},
		{name: "link to a host over SSH down for 8 s", sample: 1, setup: overLink, codes: []int{0}, fails: true, killed: true, says: []string{"connection lost: Timeout, server "},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				whileThere(s, r)
				s.link("down")
				time.Sleep(8 * time.Second)
				s.link("up")
				return true
			}},
		{name: "SIGKILL of iotax, one target in its guest", sample: 1, setup: guested(""), inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true, says: died},
		{name: "SIGKILL of iotax, one target an NBD export", sample: 1, setup: overNBD, inject: at(syscall.SIGKILL), codes: []int{0, -1}, killed: true, says: died},
		{name: "SIGKILL of the NBD server", sample: 1, setup: overNBD, codes: []int{0, 1}, fails: true, says: []string{"server-died"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(3))
				return s.signalEvery("qemu-nbd", syscall.SIGKILL)
			}},
		{name: "the guest's kernel panics", sample: 1, setup: guested(`crash: {command: {shell: true, run: "echo c >/proc/sysrq-trigger"}, at: [guest]}, `), codes: []int{1}, fails: true, says: []string{"the guest's kernel panicked: sysrq triggered crash"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.wait()
				return true // a workload of the run causes the fault
			}},
		// Not in CI, because TestSecondInterrupt covers a hanging guest. Here, iotax needs 25 s to detect that the guest
		// hangs, and 25 s again during the clean-up.
		{name: "the guest hangs (SIGSTOP of QEMU)", sample: 0, setup: guested(""), codes: []int{0, 1}, fails: true, says: []string{"no sign of life"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(3))
				return s.signalEvery("qemu-system", syscall.SIGSTOP)
			}},
		// Not in CI, because TestGuestKilled covers it.
		{name: "SIGKILL of QEMU, one target in its guest", sample: 0, setup: guested(""), codes: []int{0, 1}, fails: true, says: []string{"signal: killed"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(3))
				return s.signalEvery("qemu-system", syscall.SIGKILL)
			}},
		// Not in CI, because TestFindsWrongClock covers it.
		{name: "the guest's clock set an hour ahead", sample: 0, setup: guested(`jump: {command: {shell: true, run: "date -s @$(($(date +%s) + 3600))"}, at: [guest]}, `), codes: []int{0}, whole: true, says: []string{"clock"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.wait()
				_, trials := s.trials() // a workload of the run causes the fault
				return slices.ContainsFunc(trials, func(t *iotax.Trial) bool { return t.Workload == "jump" && t.Err == "" })
			}},
		{name: "iotax's own clock set an hour ahead and two back (iotax in a guest)", sample: 1, do: jumpOwnClock},
		{name: "SIGKILL of the S3 server", sample: 1, setup: stored, codes: []int{0, 1}, fails: true, says: []string{"connection refused", "connection reset", "EOF"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(3))
				return s.signalEvery("versitygw", syscall.SIGKILL)
			}},
		{name: "SIGKILL of iotax, one target a bucket of others", sample: 1, setup: inBucket, codes: []int{0, -1}, killed: true, inject: at(syscall.SIGKILL), says: died},
		{name: "link between two namespaces down", sample: 1, setup: networked, codes: []int{0, 1}, fails: true, says: []string{"measure: overrun", "Network is unreachable"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(2))
				for _, ns := range s.namespaces(r) {
					if out, err := exec.Command("ip", "-n", ns, "link", "set", "eth0", "down").CombinedOutput(); err != nil {
						s.t.Errorf("%s: %s", ns, out)
					}
				}
				return true
			}},
		{name: "SIGKILL of iotax, two nodes of a lab", sample: 1, setup: networked, codes: []int{0, -1}, killed: true, inject: at(syscall.SIGKILL), says: died},
		{name: "host suspended (SIGSTOP of iotax and fio for 2 s)", sample: 1, setup: local, codes: []int{0}, whole: true, says: []string{"host-paused"},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				return whileMeasuring(s, r, d, func() bool {
					r.send(syscall.SIGSTOP)
					stopped := s.signalEvery("fio", syscall.SIGSTOP)
					time.Sleep(2 * time.Second)
					s.signalEvery("fio", syscall.SIGCONT)
					r.send(syscall.SIGCONT)
					return stopped
				})
			}},
		{name: "target's file system becomes read-only", sample: 1, codes: []int{0, 1}, killed: true, says: []string{"Read-only file system", "read-only"},
			setup: func(s *stage) []string { return []string{"dir:a", "dir:" + s.mount("small", "size=32m")} },
			inject: func(s *stage, r *running, d *rand.Rand) (done bool) {
				whileMeasuring(s, r, d, func() bool {
					for end := time.Now().Add(10 * time.Second); !done && time.Now().Before(end); time.Sleep(time.Millisecond) {
						done = exec.Command("mount", "-o", "remount,ro", s.path("small")).Run() == nil
					}
					return done
				})
				r.wait()
				if out, err := exec.Command("mount", "-o", "remount,rw", s.path("small")).CombinedOutput(); err != nil {
					s.t.Errorf("remount: %s", out)
				}
				return done
			}},
		{name: "target's file system fills up", sample: 1, codes: []int{0, 1}, fails: true, says: []string{"No space left on device"},
			setup: func(s *stage) []string {
				// Each trial writes a new file, because overwriting an existing file needs no new space.
				s.write("plan.yaml", fmt.Sprintf(`
targets: {a: {dir: a}, small: {dir: %q}}
workloads: {write: {command: {shell: true, run: "dd if=/dev/zero of=new bs=1M count=8 conv=fsync && sleep 0.3 && rm new"}}}
measure: {rounds: 4, budget: 1m}
`, s.mount("small", "size=32m")))
				return []string{"plan.yaml"}
			},
			inject: func(s *stage, r *running, d *rand.Rand) (full bool) {
				for r.afterTrials(2); ; time.Sleep(20 * time.Millisecond) { // again and again, because the trials free space by removing their files
					select {
					case <-r.done:
						os.Remove(s.path("small") + "/others")
						return full
					default: // dd ends when the file system is full
						full = exec.Command("dd", "if=/dev/zero", "of="+s.path("small")+"/others", "bs=64k", "oflag=append", "conv=notrunc").Run() != nil || full
					}
				}
			}},
		{name: "store's file system fills up", sample: 1, codes: []int{1}, says: died,
			setup: func(s *stage) []string {
				s.env["XDG_STATE_HOME"] = s.mount("small", "size=2m")
				return local(s)
			},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				r.afterTrials(1 + d.IntN(3))
				dd := exec.Command("dd", "if=/dev/zero", "of="+s.path("small")+"/others", "bs=4k").Run() // dd ends when the file system is full
				r.wait()
				os.Remove(s.path("small") + "/others")
				return dd != nil
			}},
		{name: "store locked by another program for 3 s", sample: 1, setup: local, codes: []int{0}, whole: true, says: []string{`"done"`},
			inject: func(s *stage, r *running, d *rand.Rand) bool {
				return whileMeasuring(s, r, d, func() bool {
					db, err := sql.Open("sqlite", s.store())
					if err != nil {
						s.t.Error(err)
						return false
					}
					defer db.Close()
					c, err := db.Conn(context.Background())
					if err != nil {
						s.t.Error(err)
						return false
					}
					defer c.Close()
					if _, err := c.ExecContext(context.Background(), "PRAGMA busy_timeout=10000; BEGIN IMMEDIATE"); err != nil {
						s.t.Error(err)
						return false
					}
					time.Sleep(3 * time.Second)
					if _, err := c.ExecContext(context.Background(), "ROLLBACK"); err != nil {
						s.t.Error(err)
					}
					return true
				})
			}},
	}
}

// store returns the path of the stage's store.
func (s *stage) store() string {
	found, _ := filepath.Glob(s.env["XDG_STATE_HOME"] + "/iotax/*.db")
	if len(found) != 1 {
		s.t.Fatalf("stores: %q", found)
	}
	return found[0]
}

// namespaces returns the network namespaces of the lab that r made.
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

// killSessions kills the sshd processes of connections, but not the listener.
func (s *stage) killSessions() (killed bool) {
	for _, pid := range s.sessions() {
		killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
	}
	return killed
}

// sessions returns the PIDs of the children of the listening sshd, whose process title is "sshd: PATH -D …".
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

// An aftermath counts the effects of a fault.
type aftermath struct {
	tries, hit          int
	finished, lost      int // saved trials (printed trials if no run was saved), and printed trials that are not in the store
	made                int // leftovers (processes, directories and so on) right after the run ended
	left                int // leftovers that remain after clean
	resumed, notResumed int
	said                []string // texts of fault.says that the report contains
}

func (a *aftermath) add(o aftermath) {
	a.tries += o.tries
	a.hit += o.hit
	a.finished += o.finished
	a.lost += o.lost
	a.made += o.made
	a.left += o.left
	a.resumed += o.resumed
	a.notResumed += o.notResumed
	for _, w := range o.said {
		if !slices.Contains(a.said, w) {
			a.said = append(a.said, w)
		}
	}
	slices.Sort(a.said)
}

// row formats a as a row of the table.
func (a *aftermath) row(fault string) string {
	resumed, said := "—", "—"
	if n := a.resumed + a.notResumed; n > 0 {
		resumed = fmt.Sprintf("%d of %d", a.resumed, n)
	}
	if len(a.said) > 0 {
		said = "`" + strings.Join(a.said, "`, `") + "`"
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %s | %s |\n", fault, a.tries, a.hit, a.finished, a.lost, a.made, a.left, resumed, strings.ReplaceAll(said, `"`, ""))
}

// TestFaults injects faults into small real runs. The store must contain every trial that iotax printed. Nothing may be
// left behind, except after a fault with `killed` set: then `iotax clean` must remove the leftovers. An incomplete run
// must resume.
//
// IOTAX_FAULTS=N tries each fault N times. IOTAX_FAULTS_ONLY=TEXT tries only the faults whose names contain TEXT.
// IOTAX_FAULTS_DOC=docs/dev/reliability.md updates the table in that file.
func TestFaults(t *testing.T) {
	long.Test(t)
	t.Parallel()
	needsRoot(t)
	only := os.Getenv("IOTAX_FAULTS_ONLY")
	var mu sync.Mutex
	results := make([]aftermath, len(faults()))
	t.Run("each", func(t *testing.T) {
		for i, f := range faults() {
			tries := f.sample
			if os.Getenv("IOTAX_TEST_REPEATS") != "" {
				tries = max(1, tries)
			}
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

// tryEach tries the faults one after the other on the same stage, and logs the table.
func (s *stage) tryEach(rows []fault) {
	s.t.Helper()
	results := make([]aftermath, len(rows))
	for i, f := range rows {
		results[i].add(f.try(s, rand.New(rand.NewPCG(1, uint64(i)))))
	}
	tabulate(s.t, rows, results)
}

const (
	tableRule = "|---|---|---|---|---|---|---|---|---|\n"
	tableHead = "| fault | runs | hit | trials | lost | left | left in the end | resumed | the report says |\n" + tableRule
)

// tabulate logs the table, and updates the table in the document that IOTAX_FAULTS_DOC names.
func tabulate(t *testing.T, all []fault, results []aftermath) {
	t.Helper()
	var b strings.Builder
	b.WriteString(tableHead)
	for i, f := range all {
		if r := results[i]; r.tries > 0 {
			b.WriteString(r.row(f.name))
		}
	}
	t.Log("\n" + b.String())
	if doc := os.Getenv("IOTAX_FAULTS_DOC"); doc != "" {
		putTable(t, doc, b.String())
	}
}

// putTable writes table into the table of the Markdown file doc. It replaces rows of the same faults, and appends the
// others.
func putTable(t *testing.T, doc, table string) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.TrimPrefix(table, tableHead)
	before, after, found := strings.Cut(string(text), tableHead)
	if !found {
		t.Fatalf("%s has no table that begins %q", doc, tableHead)
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
	if err := os.WriteFile(doc, []byte(before+tableHead+old+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try injects f into one run and returns the effects. It fails the test on effects that f must not have.
func (f fault) try(s *stage, d *rand.Rand) (o aftermath) {
	if f.do != nil {
		return f.do(s, d)
	}
	o.tries = 1
	args := f.setup(s)
	switch {
	case args[0] == "--resume":
	case strings.HasSuffix(args[0], ".yaml"):
		args = slices.Concat([]string{"--calibrate=no"}, args)
	default:
		args = slices.Concat([]string{"--calibrate=no"}, small, args) // args come last, because later flags win
	}
	r := s.start(nil, append([]string{"run", "-v"}, args...)...)
	hit := f.inject(s, r, d)
	got := r.wait()
	o.made = len(s.census(r))
	ok := got.code == -1 && got.stderr == "" // killed before main began, when nothing was made yet
	for _, c := range f.codes {
		ok = ok || c == got.code
	}
	if !ok || strings.Contains(got.stderr, "goroutine ") || strings.Contains(got.stderr, "panic:") {
		s.t.Errorf("it ended unlike any of %v: %s", f.codes, got)
	}
	told := strings.Count(got.stderr, "  round ")

	var undo func()
	if f.killed {
		undo = func() { s.cleans("--remote", "--yes") }
	}
	left := s.gone(r, undo)
	o.left = len(left)
	for _, l := range left {
		s.t.Errorf("left behind: %s after %s", l, got)
	}

	saved := s.iotax("list", "--all", "--json")
	if saved.code != 0 || strings.TrimSpace(saved.stdout) == "[]" {
		if told > 0 {
			s.t.Errorf("%d trials were told of, and there is no run: %s", told, saved)
		}
		o.finished, o.lost = told, told
		if hit && got.code != 0 {
			o.hit = 1
		}
		return o // nothing was saved
	}
	run, trials := s.trials()
	o.finished = len(trials)
	if len(trials) < told {
		o.lost = told - len(trials)
		s.t.Errorf("%d trials were told of, %d are saved", told, len(trials))
	}
	hit = hit && (f.whole || f.fails || got.code != 0 || run.Status != iotax.Done)
	if f.fails {
		hit = hit && slices.ContainsFunc(trials, func(t *iotax.Trial) bool { return t.Err != "" })
		if !hit {
			s.t.Errorf("no trial failed of it: %s", got)
		}
	}
	if hit {
		o.hit = 1
		report := s.iotax("report", "--format", "json")
		for _, w := range f.says {
			if strings.Contains(report.stdout, w) {
				o.said = append(o.said, w)
				break
			}
		}
		if len(f.says) > 0 && len(o.said) == 0 {
			s.t.Errorf("the report does not say any of %q: %s", f.says, report)
		}
	}
	if run.Status == iotax.Running {
		s.t.Errorf("the run still counts as running")
	}
	if i := slices.IndexFunc(run.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" }); i >= 0 && !f.killed && o.left == 0 {
		s.t.Errorf("nothing is left, and the run reports that something is: %s", run.Findings[i].Evidence)
	}
	if f.whole || run.Status == iotax.Done || got.code == 1 && len(trials) == 0 {
		return o
	}
	on := s.start(nil, "run", "--resume")
	if again := on.wait(); again.code == 0 || strings.Contains(again.stderr, "no valid trial on both sides of a comparison") {
		o.resumed = 1
		for _, l := range s.gone(on, nil) {
			o.left++
			s.t.Errorf("left behind by going on: %s", l)
		}
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
