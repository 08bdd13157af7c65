package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/testenv/long"
)

// A stage is an environment for running iotax as a user does. It has its own home, store and directories, so that a
// test finds whatever iotax leaves behind. TestMain puts iotax into PATH.
type stage struct {
	t   *testing.T
	dir string
	env map[string]string

	loops     map[string]string // loop devices that were attached before the test
	elsewhere []func() census   // list leftovers in places other than this host: an engine, a cluster, a bucket
}

// Tests run in parallel unless they check measured values that other tests may change, or depend on other processes of
// this machine. Tests of clean and doctor depend on other processes, unless they examine a single run, engine or
// cluster. The tests that do not run in parallel run first, one at a time.

// repeats skips a test that repeats another one in a different environment, unless IOTAX_TEST_REPEATS is set.
func repeats(t *testing.T, other string) {
	t.Helper()
	if os.Getenv("IOTAX_TEST_REPEATS") == "" {
		t.Skip("repeats " + other + "; IOTAX_TEST_REPEATS=1 runs it")
	}
}

// newStage makes a stage. At the end of the test, the stage checks that iotax left nothing behind.
func newStage(t *testing.T) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "e2e-") // on a disk; a short path, because the length of socket paths is limited
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, loops: loops(), env: map[string]string{
		"HOME": dir + "/home", "TMPDIR": dir + "/tmp", "XDG_STATE_HOME": dir + "/state", "XDG_CACHE_HOME": cacheHome(), "NO_COLOR": "1",
	}}
	for _, d := range []string{"a", "b", "home", "tmp", "state"} {
		s.mkdir(d)
	}
	t.Cleanup(func() {
		s.clean()
		os.RemoveAll(dir)
	})
	return s
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) mkdir(name string) string {
	s.t.Helper()
	if err := os.MkdirAll(s.path(name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return s.path(name)
}

func (s *stage) write(name, text string) string {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.path(name)
}

// clean fails the test if iotax left a process, a mount or a file.
func (s *stage) clean() {
	s.t.Helper()
	var procs []string
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if procs = s.processes(""); len(procs) == 0 || time.Now().After(end) {
			break
		}
	}
	for _, p := range procs {
		s.t.Errorf("still runs: %s", p)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, s.dir+"/") {
			s.t.Errorf("still mounted: %s", line)
		}
	}
	for _, d := range []string{"a", "b", "tmp"} {
		entries, err := os.ReadDir(s.path(d))
		if err != nil {
			s.t.Error(err)
		}
		for _, e := range entries {
			s.t.Errorf("left behind: %s/%s", d, e.Name())
		}
	}
}

// processes returns the stage's processes whose program name contains name, as "pid command line directory". A process
// belongs to the stage if its command line contains a path below the stage's directory, or if its working directory is
// below that directory.
func (s *stage) processes(name string) []string {
	s.t.Helper()
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		b, err := os.ReadFile(f)
		args := strings.Split(string(b), "\x00")
		if cwd, err := os.Readlink(filepath.Dir(f) + "/cwd"); err == nil && cwd != s.dir {
			args = append(args, cwd+"/")
		}
		if line := strings.Join(args, " "); err == nil && strings.Contains(line, s.dir+"/") && strings.Contains(filepath.Base(args[0]), name) {
			found = append(found, filepath.Base(filepath.Dir(f))+" "+line)
		}
	}
	return found
}

// process returns the process ID of the only process that s.processes finds by name.
func (s *stage) process(name string) int {
	s.t.Helper()
	found := s.processes(name)
	if len(found) != 1 {
		s.t.Fatalf("%d processes are called %s: %q", len(found), name, found)
	}
	pid, _, _ := strings.Cut(found[0], " ")
	n, err := strconv.Atoi(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// signal sends sig to the only process that s.processes finds by name.
func (s *stage) signal(name string, sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.process(name), sig); err != nil {
		s.t.Fatal(err)
	}
}

// A result is the outcome of a command.
type result struct {
	args           []string
	stdout, stderr string
	code           int // exit status, or -1 if a signal ended the command
	took           time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("iotax %s: exit %d after %v\n%s\n%s", strings.Join(r.args, " "), r.code, r.took.Round(time.Millisecond), r.stdout, r.stderr)
}

// A running is a command that was started.
type running struct {
	s    *stage
	cmd  *exec.Cmd
	args []string
	from time.Time
	out  bytes.Buffer

	mu    sync.Mutex
	lines []string
	ended bool
	done  chan struct{}
}

// start starts iotax. The words of wrap come before the command.
func (s *stage) start(wrap []string, args ...string) *running {
	s.t.Helper()
	exe, err := exec.LookPath("iotax")
	if err != nil {
		s.t.Fatal(err)
	}
	argv := slices.Concat(wrap, []string{exe}, args)
	r := &running{s: s, args: args, from: time.Now(), done: make(chan struct{})}
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.Dir = s.dir
	r.cmd.Env = os.Environ()
	for k, v := range s.env {
		r.cmd.Env = append(r.cmd.Env, k+"="+v)
	}
	r.cmd.Stdout = &r.out
	stderr, err := r.cmd.StderrPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		for sc := bufio.NewScanner(stderr); sc.Scan(); {
			r.mu.Lock()
			r.lines = append(r.lines, sc.Text())
			r.mu.Unlock()
		}
		_ = r.cmd.Wait()
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}()
	s.t.Cleanup(func() { r.cmd.Process.Kill(); <-r.done })
	return r
}

// said waits until a line of standard error contains text.
func (r *running) said(text string) {
	r.s.t.Helper()
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		found := slices.ContainsFunc(r.lines, func(l string) bool { return strings.Contains(l, text) })
		ended, all := r.ended, strings.Join(r.lines, "\n")
		r.mu.Unlock()
		if found {
			return
		}
		if ended || time.Now().After(end) {
			r.s.t.Fatalf("it did not say %q:\n%s", text, all)
		}
	}
}

func (r *running) send(sig os.Signal) {
	r.s.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.s.t.Fatal(err)
	}
}

// wait waits until the command ends. After 15 minutes, it kills the command and fails the test.
func (r *running) wait() result {
	r.s.t.Helper()
	select {
	case <-r.done:
	case <-time.After(15 * time.Minute): // the longest command takes two minutes on an idle machine
		r.s.t.Errorf("it does not end")
		r.cmd.Process.Kill()
		<-r.done
	}
	return result{r.args, r.out.String(), strings.Join(r.lines, "\n"), r.cmd.ProcessState.ExitCode(), time.Since(r.from)}
}

// iotax runs a command to its end.
func (s *stage) iotax(args ...string) result {
	s.t.Helper()
	return s.start(nil, args...).wait()
}

// works fails the test unless the command exits with code and prints every text of want.
func (r result) works(t *testing.T, code int, want ...string) result {
	t.Helper()
	if r.code != code {
		t.Errorf("exit status %d, want %d", r.code, code)
	}
	for _, w := range want {
		if !strings.Contains(r.stdout+r.stderr, w) {
			t.Errorf("it does not say %q", w)
		}
	}
	if t.Failed() {
		t.Fatal(r)
	}
	return r
}

// refuses is like works, but also fails the test if the command measured, printed to standard output, or panicked.
func (r result) refuses(t *testing.T, code int, want ...string) {
	t.Helper()
	r.works(t, code, want...)
	if strings.Contains(r.stderr, "round 1/") || r.stdout != "" {
		t.Fatalf("it measured: %s", r)
	}
	if strings.Contains(r.stderr, "goroutine ") {
		t.Fatal(r)
	}
}

// tiny adds the flags of a very short measurement.
func tiny(args ...string) []string {
	return append(args, "-w", "randread-4k", "--size", "8MiB", "--trial", "300ms", "--rounds", "1")
}

// guestPlan returns a plan that compares a directory of this host with target, a disk or share in a guest. qemu is
// added to the settings of the guest.
func guestPlan(rounds int, qemu, target string) string {
	return fmt.Sprintf(`
baseline: host
machines: {guest: {qemu: {memory: 512MiB%s}}}
targets:
  host:  {dir: a}
  guest: {on: guest, %s}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB}}}
measure: {trial: 300ms, ramp: 50ms, rounds: %d, cold: false}
`, qemu, target, rounds)
}

// links makes a directory for PATH with links to this host's programs except those in `but`.
func (s *stage) links(but ...string) string {
	s.t.Helper()
	dir := s.mkdir("bin")
	for _, from := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		entries, _ := os.ReadDir(from)
		for _, e := range entries {
			if !slices.Contains(but, e.Name()) {
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())) // fails for a name that an earlier directory has
			}
		}
	}
	return dir
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount file systems")
	}
}

// mount mounts a tmpfs at name until the test ends.
func (s *stage) mount(name, options string) string {
	s.t.Helper()
	needsRoot(s.t)
	dir := s.mkdir(name)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		s.t.Skipf("needs mount: %s", out)
	}
	s.t.Cleanup(func() { s.unmount(dir) }) // before the stage checks for mounts
	return dir
}

// unmount retries while the mount is busy: a loop device closes its file a moment after it was detached, longer on a
// busy machine.
func (s *stage) unmount(dir string) {
	s.t.Helper()
	out, err := exec.Command("umount", dir).CombinedOutput()
	for end := time.Now().Add(4 * time.Minute); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, err = exec.Command("umount", dir).CombinedOutput()
	}
	if err != nil {
		s.t.Errorf("umount: %s", out)
	}
}

func TestMissingFio(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.env["PATH"] = s.links("fio")
	for _, other := range []string{"dir:b", "qemu:virtio-blk"} {
		r := s.iotax(tiny("run", "dir:a", other)...)
		r.refuses(t, 1, "this host lacks fio", "hint: apt-get install fio")
		if strings.Contains(r.stderr, "opening") {
			t.Errorf("it opened targets first: %s", r)
		}
	}
}

func TestMissingQEMU(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.env["PATH"] = s.links("qemu-system-x86_64", "qemu-system-aarch64", "qemu-kvm")
	s.iotax(tiny("run", "dir:a", "qemu:virtio-blk")...).refuses(t, 1, "this host lacks qemu-system-", "hint: apt-get install qemu-system-")
}

func TestMissingKernel(t *testing.T) {
	if k, _ := filepath.Glob("/boot/vmlinuz-*"); len(k) > 0 {
		t.Skip("needs a host without a kernel in /boot")
	}
	s := newStage(t)
	s.env["XDG_CACHE_HOME"] = s.mkdir("cache")
	s.env["PATH"] = s.links("apt-get", "apt-cache", "dpkg-deb")
	s.iotax(tiny("run", "dir:a", "qemu:virtio-blk")...).refuses(t, 1, "start machine guest: find a kernel for guests", "and none could be had: fetch a kernel", "apt-get", "hint: install a generic kernel, or name one: {qemu: {kernel:")
	s.iotax("kernel").refuses(t, 1, "find a kernel for guests", "hint: ")
	s.iotax("kernel", "--fetch").refuses(t, 1, "fetch a kernel for guests", "apt-get", "hint: ")
}

func TestMissingVirtiofsd(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	s := newStage(t)
	s.env["PATH"] = s.links("virtiofsd")
	// A mount namespace hides the directories in which distributions install virtiofsd.
	hide := "true"
	for _, f := range []string{"/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd"} {
		if _, err := os.Stat(f); err == nil {
			hide += " && mount -t tmpfs none " + filepath.Dir(f)
		}
	}
	s.start([]string{"unshare", "-m", "sh", "-c", hide + ` && exec "$0" "$@"`}, tiny("run", "dir:a", "qemu:virtiofs")...).wait().
		refuses(t, 1, "this host lacks virtiofsd", "hint: apt-get install ")
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("file", "text")
	full := s.mount("full", "size=4m")
	readOnly := s.mount("readonly", "ro,size=4m")
	for _, c := range []struct {
		dir  string
		want []string
	}{
		{full, []string{"use directory " + full + " (tmpfs on " + full + "): not enough space", "needs 8 MiB", "4 MiB are free", "hint: free some space"}},
		{readOnly, []string{"use directory " + readOnly, "mounted read-only", "hint: use another directory, or make it writable: mount -o remount,rw " + readOnly}},
		{s.path("file"), []string{"use directory " + s.path("file"), "is not a directory", "hint: name a directory"}},
		{"/proc/nothing", []string{"use directory /proc/nothing (proc on /proc)", "hint: use another directory"}},
	} {
		s.iotax(tiny("run", "dir:a", "dir:"+c.dir)...).refuses(t, 1, c.want...)
		// iotax does not start a guest that needs the directory.
		r := s.iotax(tiny("run", "dir:"+c.dir, "qemu:virtio-blk")...)
		r.refuses(t, 1, c.want...)
		if strings.Contains(r.stderr, "opening machine") {
			t.Errorf("it started a guest: %s", r)
		}
	}
	// With create=true, a missing directory is created, and removed again.
	s.iotax(tiny("run", "dir:a", "dir:b/c/d,create=true")...).works(t, 0)
}

// The error about a guest that does not boot contains the last lines of the guest's console.
func TestGuestThatDoesNotBoot(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct {
		append string
		want   []string
	}{
		{"rdinit=/none root=/dev/none rootfstype=ext4", []string{"start machine guest", "kernel panicked: VFS: Unable to mount root fs", "last lines of its console", "Call Trace", "hint: read the console above"}},
		{"iotax.root=%", []string{"start machine guest: its init gave up", "iotax.root", "last lines of its console"}},
	} {
		s.write("plan.yaml", guestPlan(1, fmt.Sprintf(", accel: tcg, append: %q", c.append), "disk: {of: host}"))
		r := s.iotax("run", "plan.yaml")
		r.refuses(t, 1, c.want...)
		if r.took > 2*time.Minute {
			t.Errorf("it took %v", r.took)
		}
	}
	// After boot_timeout, iotax ends a guest that hangs.
	s.write("plan.yaml", guestPlan(1, ", accel: tcg, args: [-S], boot_timeout: 1s", "share: {of: host, type: virtiofs}"))
	s.iotax("run", "plan.yaml").refuses(t, 1, "start machine guest", "within 1s")
	// --keep-going does not change this, because only the baseline is left.
	s.iotax("run", "--keep-going", "plan.yaml").refuses(t, 1, "within 1s")
}

// trials returns the latest run and its saved trials.
func (s *stage) trials() (run iotax.Run, trials []*iotax.Trial) {
	s.t.Helper()
	var v struct {
		Run    iotax.Run
		Trials []*iotax.Trial
	}
	s.parse(s.iotax("show", "--json"), &v)
	return v.Run, v.Trials
}

// parse decodes standard output, which must be exactly one JSON value.
func (s *stage) parse(r result, v any) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
		s.t.Fatalf("%v in the output of %s", err, r)
	}
}

// A restart boots the guest again, and makes new directories and test files for all targets.
func TestRestarts(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", `
machines: {guest: {qemu: {memory: 512MiB}}}
targets:
  host:  {dir: a}
  guest: {on: guest, share: {of: host, type: virtiofs}}
workloads:
  read: {fio: {rw: randread, bs: 4k, size: 8MiB}}
  boot:
    command:
      run: 'read -r id < /proc/sys/kernel/random/boot_id; echo boot=$((0x${id%%-*}))'
      shell: true
      values: {boot: 'boot=(?<count>[0-9]+)'}
measure: {trial: 300ms, ramp: 50ms, rounds: 4, restarts: 2, cold: false}
`)
	s.iotax("plan", "plan.yaml").works(t, 0, "2 times", "divided between")
	s.iotax("run", "plan.yaml").works(t, 0, "start 2 of 2")
	run, trials := s.trials()
	seen := map[string][]string{} // by target and start: boot ids and directories of the test file
	for _, tr := range trials {
		key := fmt.Sprintf("%s %d", tr.Target, tr.StartIndex)
		v, ok := tr.Value("boot")
		is := fmt.Sprintf("boot %.0f", v.Value)
		if !ok {
			is, _, _ = strings.Cut(strings.TrimPrefix(tr.Facts["command"], "cd "), " ")
		}
		if tr.Err != "" || is == "" {
			t.Errorf("%s: %q, error %q", tr.Cell(), is, tr.Err)
		}
		if !slices.Contains(seen[key], is) {
			seen[key] = append(seen[key], is)
		}
	}
	for target, boots := range map[string]int{"host": 1, "guest": 2} {
		one, two := seen[target+" 1"], seen[target+" 2"]
		if all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(one, two)))); len(one) != 2 || len(two) != 2 || len(all) != boots+2 {
			t.Errorf("%s: start 1 has %q, start 2 %q; want a directory each, and %d boots", target, one, two, boots)
		}
	}
	if run.Status != iotax.Done || len(trials) != 2*2*4 || len(seen) != 4 {
		t.Errorf("%s, %d trials, %v", run.Status, len(trials), seen)
	}
}

func TestInterrupt(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", guestPlan(2, "", "share: {of: host, type: virtiofs}"))
	r := s.start(nil, "run", "plan.yaml")
	r.said("round 1/2")
	time.Sleep(150 * time.Millisecond) // so that the next trial has begun
	r.send(os.Interrupt)
	time.Sleep(20 * time.Millisecond)
	r.send(syscall.SIGTERM) // nearly at once, as the second signal of timeout(1)
	sent := time.Now()
	r.wait().works(t, 130, "interrupted", "saved", "continue with: iotax run --resume=")
	if d := time.Since(sent); d > time.Minute {
		t.Errorf("the end took %v", d)
	}
	s.clean()
	before, had := s.trials()
	if before.Status != iotax.Interrupted || len(had) == 0 || len(had) > 3 {
		t.Fatalf("%d trials are saved, the run is %s", len(had), before.Status)
	}
	s.iotax("run", "--resume", "--trial", "1s").refuses(t, 2, "--trial cannot be combined with --resume", "hint: ")
	s.iotax("run", "--resume").works(t, 0, "guest", "round 2/2")
	after, trials := s.trials()
	whole := map[int]int{}
	for _, tr := range trials {
		whole[tr.Round]++
	}
	n := 0
	for _, c := range whole {
		if c == 2 {
			n++
		}
	}
	if after.Status != iotax.Done || after.ID != before.ID || n < 2 || trials[0].Start != had[0].Start {
		t.Errorf("%s is %s after %s, with %d whole rounds of %v", after.ID, after.Status, before.ID, n, whole)
	}
	s.iotax("run", "--resume").refuses(t, 2, "the run is complete", "hint: iotax report "+after.ID)
}

// SIGTERM ends a run even while the guest boots.
func TestInterruptWhileOpening(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", guestPlan(1, "", "share: {of: host, type: virtiofs}"))
	r := s.start(nil, "run", "plan.yaml")
	r.said("opening machine")
	time.Sleep(600 * time.Millisecond)
	r.send(syscall.SIGTERM)
	r.wait().refuses(t, 130, "interrupted before the first trial ended", "iotax run --resume=")
}

// A hanging guest delays the clean-up. A second interrupt ends iotax without waiting, and the guest ends, too.
func TestSecondInterrupt(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", guestPlan(9, "", "share: {of: host, type: virtiofs}"))
	r := s.start(nil, "run", "plan.yaml")
	r.said("round 1/9")
	s.signal("qemu-system", syscall.SIGSTOP)
	time.Sleep(100 * time.Millisecond)
	r.send(os.Interrupt)
	r.said("interrupted; removing what was made")
	time.Sleep(500 * time.Millisecond) // signals that follow the first one at once are part of it
	r.send(os.Interrupt)
	sent := time.Now()
	got := r.wait()
	if d := time.Since(sent); d > 30*time.Second || got.code != -1 {
		t.Errorf("it ended %v later: %v", d, got)
	}
	for end := time.Now().Add(30 * time.Second); len(s.processes("")) > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	if left := s.processes(""); len(left) > 0 {
		t.Errorf("still run: %q", left)
	}
	if _, trials := s.trials(); len(trials) == 0 {
		t.Error("no trial was saved")
	}
	// Remove the files that iotax had no time to remove.
	for _, pattern := range []string{"a/iotax-*", "tmp/iotax-*"} {
		left, _ := filepath.Glob(s.path(pattern))
		for _, f := range left {
			os.RemoveAll(f)
		}
	}
}

// If a guest dies during a run, its trials fail, and the other targets are measured.
func TestGuestKilled(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", strings.Replace(guestPlan(6, "", "disk: {of: host}"), "workloads:", "  other: {dir: b}\nworkloads:", 1))
	r := s.start(nil, "run", "plan.yaml", "-v", "-o", "report.html")
	r.said("round 1/6  read  guest")
	s.signal("qemu-system", syscall.SIGKILL)
	r.wait().works(t, 0, "failed: run fio for read on guest", "QEMU ended: signal: killed", "trials failed. The first: guest / read", "iotax run --resume", "Open     report.html")
	s.clean()
	run, trials := s.trials()
	n := map[string]int{}
	failed := 0
	for _, tr := range trials {
		n[tr.Target]++
		if tr.Err != "" {
			failed++
			if tr.Target != "guest" {
				t.Errorf("%s failed: %s", tr.Target, tr.Err)
			}
		}
	}
	if run.Status != iotax.Incomplete || failed != 3 || n["host"] != 6 || n["other"] != 6 {
		t.Errorf("the run is %s with %d failed trials of %v", run.Status, failed, n)
	}
	for _, f := range run.Findings {
		if f.Rule == "left-behind" {
			t.Error(f)
		}
	}
}

// An sshd is a real SSH server for the user who runs the tests.
type sshd struct {
	address string
	port    int
	host    string // public host key
	key     string // path of a private key that the server accepts
	pid     int
	stop    func() // ends the listener, but not existing connections
	hold    func() // suspends the listener, so that new connections hang
}

// sshd starts a server on the loopback interface. Its commands run with path as PATH and with a cache directory in the
// stage's directory.
func (s *stage) sshd(path string) *sshd { return s.sshdAt("127.0.0.1", path) }

// sshdOverLink starts an sshd in a new network namespace that is reached over one link.
func (s *stage) sshdOverLink(path string) *sshd {
	s.t.Helper()
	needsRoot(s.t)
	name := filepath.Base(s.dir) // of the namespace and of the near end of the link
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "e2e-"), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	net := fmt.Sprintf("10.78.%d.", n%256)
	near, far := net+strconv.Itoa(int(n/256%64)*4+1), net+strconv.Itoa(int(n/256%64)*4+2)
	s.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() }) // also deletes the link
	for _, args := range [][]string{
		{"netns", "add", name}, {"link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name},
		{"addr", "add", near + "/30", "dev", name}, {"-n", name, "addr", "add", far + "/30", "dev", "eth0"},
		{"link", "set", name, "up"}, {"-n", name, "link", "set", "eth0", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			s.t.Fatalf("ip %v: %s", args, out)
		}
	}
	return s.sshdAt(far, path, "ip", "netns", "exec", name)
}

// link sets the link of sshdOverLink up or down.
func (s *stage) link(way string) {
	s.t.Helper()
	if out, err := exec.Command("ip", "link", "set", filepath.Base(s.dir), way).CombinedOutput(); err != nil {
		s.t.Errorf("link %s: %s", way, out)
	}
}

// sshdAt starts an sshd at an address. The words of wrap come before the command.
func (s *stage) sshdAt(address, path string, wrap ...string) *sshd {
	s.t.Helper()
	bin := "/usr/sbin/sshd"
	if _, err := os.Stat(bin); err != nil {
		if bin, err = exec.LookPath("sshd"); err != nil {
			s.t.Skip("needs sshd")
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd needs this directory
			s.t.Fatal(err)
		}
	}
	dir := s.mkdir("sshd")
	d := &sshd{address: address, key: dir + "/user"}
	d.host = s.newKey("sshd/host")
	s.write("sshd/authorized", s.newKey("sshd/user"))
	for try := 0; ; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		d.port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		config := s.write("sshd/config", fmt.Sprintf(`ListenAddress %[5]s:%[1]d
HostKey %[2]s/host
AuthorizedKeysFile %[2]s/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv SHLVL=1 PATH=%[3]s XDG_CACHE_HOME=%[4]s
`, d.port, dir, path, s.mkdir("remote-cache"), address))
		argv := append(wrap, bin, "-D", "-e", "-f", config)
		cmd := exec.Command(argv[0], argv[1:]...)
		log, err := os.Create(dir + "/log")
		if err != nil {
			s.t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		d.pid = cmd.Process.Pid
		d.stop = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
		s.t.Cleanup(d.stop)
		d.hold = func() { cmd.Process.Signal(syscall.SIGSTOP) }
		for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
			if b, _ := os.ReadFile(dir + "/log"); strings.Contains(string(b), fmt.Sprintf("Server listening on %s port %d", address, d.port)) {
				return d
			} else if strings.Contains(string(b), "Address already in use") {
				break // another test took the port
			}
		}
		if try == 3 {
			b, _ := os.ReadFile(dir + "/log")
			s.t.Fatalf("sshd does not start: %s", b)
		}
	}
}

// knows writes an SSH configuration with the key that d accepts and the host key of d.
func (s *stage) knows(d *sshd) {
	s.t.Helper()
	s.sshConfig("\tIdentityFile " + d.key + "\n")
	s.write("known", fmt.Sprintf("[%s]:%d %s", d.address, d.port, d.host))
}

// sshConfig writes the user's SSH configuration. The settings in `lines` apply to all hosts. ssh ignores HOME, so a
// wrapper in PATH passes the file.
func (s *stage) sshConfig(lines string) {
	s.t.Helper()
	real, err := exec.LookPath("ssh")
	if err != nil {
		s.t.Skip("needs ssh")
	}
	s.mkdir("home/.ssh")
	config := s.write("home/.ssh/config", "Host *\n\tIdentitiesOnly yes\n\tGlobalKnownHostsFile /dev/null\n\tUserKnownHostsFile "+s.path("known")+"\n"+lines)
	s.mkdir("ssh-bin")
	if err := os.Chmod(s.write("ssh-bin/ssh", "#!/bin/sh\nexec "+real+" -F "+config+" \"$@\"\n"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.env["PATH"] = s.path("ssh-bin") + ":" + cmp.Or(s.env["PATH"], os.Getenv("PATH"))
}

// newKey writes a private key and returns the public key as a line of authorized_keys.
func (s *stage) newKey(name string) string {
	s.t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, string(pem.EncodeToMemory(block)))
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

func TestSSH(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	d := s.sshd(s.links("fio"))
	where := fmt.Sprintf("[127.0.0.1]:%d", d.port)
	s.sshConfig("\tIdentityFile " + d.key + "\n")
	target := fmt.Sprintf("ssh://127.0.0.1:%d%s", d.port, s.path("b"))

	// The host key is unknown.
	s.write("known", "")
	s.iotax(tiny("run", "dir:a", target)...).refuses(t, 1, where[1:10], "its host key is not known: ssh-ed25519 SHA256:", "hint: ", "accept_new")
	// The host key has changed.
	s.write("known", where+" "+s.newKey("sshd/other"))
	s.iotax(tiny("run", "dir:a", target)...).refuses(t, 1, "its host key has changed", "hint: ", "ssh-keygen -R '"+where+"'")
	// The connection is refused.
	s.iotax(tiny("run", "dir:a", "ssh://127.0.0.1:1/tmp")...).refuses(t, 1, "127.0.0.1:1", "Connection refused", "hint: ")

	// The host has no fio, so iotax copies this host's fio.
	s.write("known", where+" "+d.host)
	s.iotax(tiny("run", "dir:a", target)...).works(t, 0, "dir:a", "copying fio to", "round 1/1")
	run, trials := s.trials()
	if len(trials) != 2 || len(run.Targets) != 2 {
		t.Fatalf("%d trials of %+v", len(trials), run.Targets)
	}
	for _, tr := range trials {
		if v, ok := tr.Value("read.iops"); !ok || v.Value <= 0 || tr.Err != "" {
			t.Errorf("%s came to %v %s", tr.Target, v, tr.Err)
		}
	}
	// The SSH host counts the bytes read from its device.
	for _, tr := range trials {
		seen, ok := tr.Value("machine.device.read.bytes")
		done, _ := tr.Value("read.bytes")
		switch there := run.Targets[1].Name == tr.Target; {
		case ok != (there && run.Targets[1].Facts["device.name"] != ""):
			t.Errorf("%s: machine.device.read.bytes is there: %v", tr.Target, ok)
		case ok && seen.Value < 0.95*done.Value:
			t.Errorf("%s: %v of %v bytes were read from its device", tr.Target, seen.Value, done.Value)
		}
	}
	if brought, _ := filepath.Glob(s.path("remote-cache/iotax/fio-*")); len(brought) != 1 {
		t.Errorf("fio was brought as %q", brought)
	}
	// fio is copied only once.
	if r := s.iotax(tiny("run", "dir:a", target)...).works(t, 0); strings.Contains(r.stderr, "copying fio") {
		t.Error(r)
	}
	// A directory of the SSH host in which iotax cannot create files.
	s.iotax(tiny("run", "dir:a", fmt.Sprintf("ssh://127.0.0.1:%d/proc", d.port))...).refuses(t, 1, "use directory /proc", "hint: ")
}

func TestKeepGoing(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", strings.Replace(localPlan, "other: {dir: b}", "other: {dir: b}\n  bad: {dir: /proc/nothing}", 1))
	s.iotax("run", "plan.yaml").refuses(t, 1, "use directory /proc/nothing", "hint: ")
	s.iotax("run", "--keep-going", "--details", "plan.yaml").works(t, 0, "bad ", "other ", "target-not-opened: use directory /proc/nothing")
	run, trials := s.trials()
	if len(trials) != 2 || len(run.Targets) != 3 || !strings.Contains(run.Targets[2].Err, "/proc/nothing") {
		t.Errorf("%d trials of %+v", len(trials), run.Targets)
	}
	// Resuming fails while the error persists, and the saved trials stay.
	s.iotax("run", "--resume").works(t, 1, "use directory /proc/nothing")
	if run, trials := s.trials(); run.Status != iotax.Incomplete || len(trials) != 2 {
		t.Errorf("the run is %s, with %d trials", run.Status, len(trials))
	}
	// Without its baseline, a run compares nothing.
	s.write("plan.yaml", strings.Replace(localPlan, "host:  {dir: a}", "host: {dir: /proc/nothing}", 1))
	s.iotax("run", "--keep-going", "plan.yaml").refuses(t, 1, "use directory /proc/nothing", "hint: ")
}

const localPlan = `
baseline: host
targets:
  host:  {dir: a}
  other: {dir: b}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB}}}
measure: {trial: 300ms, ramp: 50ms, rounds: 1}
`

func TestStore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	junk := s.write("junk.db", "this is a text, and a long one at that, but no database of iotax or anyone else\n")
	for store, want := range map[string][]string{
		junk:                       {"open store " + junk, "not a database", "hint: name another file: --store"},
		"/proc/nothing/x.db":       {"open store /proc/nothing/x.db", "hint: name another file: --store"},
		s.path("a"):                {"open store " + s.path("a"), "is a directory", "hint: name a file: --store"},
		"postgres://127.0.0.1:1/x": {"open store postgres://127.0.0.1:1/x", "refused", "hint: is the server up"},
	} {
		s.iotax(tiny("run", "dir:a", "--store", store)...).refuses(t, 1, want...)
		s.iotax("list", "--store", store).refuses(t, 1, want...)
	}
	if b, err := os.ReadFile(junk); err != nil || !strings.HasPrefix(string(b), "this is a text") {
		t.Errorf("the file is now %q, %v", b, err)
	}
	ro := s.mount("readonly", "ro,size=4m")
	s.iotax(tiny("run", "dir:a", "--store", ro+"/x.db")...).refuses(t, 1, "open store "+ro+"/x.db", "read-only", "hint: allow writing to the file and its directory, or use another store: --store")
	// iotax also refuses a report file that it cannot write, before it measures.
	s.iotax(tiny("run", "dir:a", "-o", "missing/report.html")...).refuses(t, 2, "write missing/report.html", "does not exist", "hint: ")
	s.iotax(tiny("run", "dir:a", "-o", ro+"/report.html")...).refuses(t, 1, "write "+ro+"/report.html", "read-only", "hint: ")
}

// If the store fills up during the run, the run fails. The store can still be read.
func TestStoreFillsUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	small := s.mount("small", "size=320k")
	r := s.iotax(append(tiny("run", "dir:a", "dir:b", "--store", small+"/x.db"), "--rounds", "30")...)
	r.works(t, 1, "save trial", "full", "hint: ")
	s.iotax("list", "--store", small+"/x.db").works(t, 0, "dir:a vs dir:b")
}

func TestJSON(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", localPlan)
	var run, report struct{ Run struct{ ID string } }
	r := s.iotax("run", "-q", "--json", "plan.yaml")
	s.parse(r.works(t, 0), &run)
	if r.stderr != "" {
		t.Errorf("-q says %s", r.stderr)
	}
	for _, args := range [][]string{
		{"report"}, {"report", "--format", "json"}, {"list"}, {"show"}, {"show", "--trial", "2"}, {"show", "--raw", "--trial", "1"},
		{"export"}, {"plan", "quick"}, {"plan", "plan.yaml"}, {"suites"}, {"doctor"}, {"version"}, {"kernel"}, {"schema"},
	} {
		var v any
		s.parse(s.iotax(append(args, "--json")...).works(t, 0), &v)
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				t.Errorf("%v prints an empty object", args)
			}
		case []any:
			if len(v) == 0 {
				t.Errorf("%v prints an empty list", args)
			}
		default:
			t.Errorf("%v prints a %T", args, v)
		}
	}
	s.parse(s.iotax("report", "--json"), &report)
	if _, trials := s.trials(); len(trials) != 2 || report != run {
		t.Errorf("%d trials; the run's report is of %+v, the saved one's of %+v", len(trials), run, report)
	}
	var removed any
	s.parse(s.iotax("rm", "latest", "--yes", "--json").works(t, 0), &removed)
	s.parse(s.iotax("list", "--json").works(t, 0), &removed)
	if l, ok := removed.([]any); !ok || len(l) != 0 {
		t.Errorf("a list of nothing is %v", removed)
	}
}

func TestSavedRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, args := range [][]string{{"report"}, {"show"}, {"rm", "latest"}, {"export"}, {"run", "--resume"}} {
		s.iotax(args...).refuses(t, 1, "no run", "hint")
	}
	s.iotax(tiny("run", "-q", "dir:a")...).works(t, 0)
	id := func() string { r, _ := s.trials(); return r.ID }()
	s.iotax("rm", "nosuchrun").refuses(t, 1, "find run nosuchrun: not found", "hint: `iotax list` shows the runs")
	// If one id is unknown, rm removes no run.
	s.iotax("rm", id, "nosuchrun").refuses(t, 1, "nosuchrun")
	s.iotax("show", "--trial", "0").refuses(t, 2, "the first is 1")
	s.iotax("show", "--raw").refuses(t, 2, "--raw and --profile need --trial N")
	s.iotax("show", "--raw", "--trial", "9").refuses(t, 1, "trial 9", "not found", "hint: `iotax show "+id+"`")
	s.iotax("show", "--trial", "9").refuses(t, 1, "trial 9", "no such trial", "hint: iotax show "+id)
	s.iotax("show", "--raw", "--trial", "1").works(t, 0, `"fio version"`)
	s.iotax("run", "--resume", "dir:a").refuses(t, 2, "--resume cannot be combined with targets or a suite (dir:a)")
	s.iotax("run", "--resume=nosuchrun").refuses(t, 1, "find run nosuchrun", "hint: ")
	s.iotax("run", "--resume").refuses(t, 2, "resume "+id+": the run is complete", "hint: iotax report "+id)
	s.iotax("rm", id).refuses(t, 2, id, "hint: add --yes")
	s.iotax("rm", id, "--yes").works(t, 0, "removed "+id)
	s.iotax("list").works(t, 0, "no runs yet")
}
