package probe

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"iotax"
)

// writeDirect writes n bytes with O_DIRECT and flushes them.
func writeDirect(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_DIRECT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20+4096)
	if off := int(uintptr(unsafe.Pointer(&buf[0])) & 4095); off != 0 {
		buf = buf[4096-off:]
	}
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	for ; n > 0; n -= 1 << 20 {
		if _, err := f.Write(buf[:1<<20]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestWatchDevice(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "iotax-probe-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if len(thisHost.devices(dir)) == 0 {
		t.Skip("needs /var/tmp on a block device")
	}
	for _, m := range []iotax.Machine{here, there} {
		w, err := start(t.Context(), &iotax.Target{Machine: m, Place: iotax.Place{Backing: dir, Durability: iotax.Durable}}, thisHost, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		const n = 16 << 20
		writeDirect(t, filepath.Join(dir, "x"), n)
		seen, err := w.Stop(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := byName(seen.Values)
		if v["device.write.bytes"] < n || v["device.write.bytes"] > 20*n || v["device.write.ios"] < 1 {
			t.Errorf("device.write.bytes = %v after %d were written; %v", v["device.write.bytes"], n, v)
		}
		if _, ok := v["own.write.bytes"]; ok != (m == here) {
			t.Errorf("%s: own.write.bytes is there: %v", m, ok)
		}
		if m == here && (v["own.write.bytes"] < n || v["own.write.bytes"] > 1.1*n) {
			t.Errorf("own.write.bytes = %v after %d were written", v["own.write.bytes"], n)
		}
		for _, name := range []string{"device.read.bytes", "device.read.ios", "device.flushes", "device.busy"} {
			if _, ok := v[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
		if v["device.flushes"] < 1 {
			t.Errorf("an fsync, but %v flushes", v["device.flushes"])
		}
		if seen.Facts["watch.device"] == "" {
			t.Errorf("facts %v", seen.Facts)
		}
		if _, ok := v["clock.ratio"]; ok != (m == there) {
			t.Errorf("%s: clock.ratio is there: %v", m, ok)
		}
		if _, ok := v["cpu.serving"]; ok {
			t.Error("cpu.serving without an Accountant")
		}
	}
}

// For targets that work together, the I/O of the trial's own processes is unknown: fio servers perform it, and they
// outlive the trial.
func TestNoAccountOfGroups(t *testing.T) {
	for _, c := range []struct {
		members []*iotax.Target
		known   bool
	}{{nil, true}, {[]*iotax.Target{{Machine: here}}, false}} {
		w, err := start(t.Context(), &iotax.Target{Machine: here, Together: c.members}, thisHost, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := w.Stop(t.Context())
		if _, ok := byName(seen.Values)["own.read.bytes"]; err != nil || ok != c.known {
			t.Errorf("%d members: own.read.bytes is there: %v (%v)", len(c.members), ok, err)
		}
	}
}

// There is a cache between a loop device and the disk, so the watch uses the counters of the disk.
func TestWatchThroughLoop(t *testing.T) {
	for _, partition := range []bool{false, true} {
		dir, device := loopMount(t, partition)
		want := thisHost.devices(filepath.Dir(dir))
		if got := thisHost.devices(dir); !slices.Equal(got, want) {
			t.Errorf("devices under a file system on %s: %v, want %v", device, got, want)
		}
		if got := thisHost.devices("/dev/" + device); !slices.Equal(got, want) {
			t.Errorf("devices under %s: %v, want %v", device, got, want)
		}
		facts, err := Place(t.Context(), there, dir)
		if err != nil {
			t.Fatal(err)
		}
		disk := device
		if partition {
			disk = strings.TrimSuffix(device, "p1")
		}
		for k, v := range map[string]string{"device.name": device, "device.disk": disk, "filesystem": "ext4", "filesystem.source": "/dev/" + device, "filesystem.mount": dir} {
			if facts[k] != v {
				t.Errorf("partition %v: %s = %q, want %q", partition, k, facts[k], v)
			}
		}
		if !strings.Contains(facts["filesystem.options"], "noatime") || facts["queue.logical_block_size"] == "" || !strings.HasSuffix(facts["device.on"], "/image") {
			t.Errorf("facts %v", facts)
		}
		number := strings.TrimSpace(thisHost.read(thisHost.sys, "class/block", device, "dev"))
		major, minor, _ := strings.Cut(number, ":")
		node := filepath.Join(t.TempDir(), "vda") // in a container, a node may have the name of another device
		if out, err := exec.Command("mknod", node, "b", major, minor).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		if got := thisHost.devices(node); !slices.Equal(got, want) {
			t.Errorf("devices under a node of %s: %v, want %v", device, got, want)
		}
		byDevice, err := Place(t.Context(), here, "/dev/"+device)
		if err != nil || byDevice["device.name"] != device || byDevice["device.size"] != facts["device.size"] || byDevice["filesystem"] != "" {
			t.Errorf("facts of the device: %v, %v", byDevice, err)
		}
	}
}

// hidden presents this host as Podman presents it to a container: without /sys/dev/block.
type hidden struct{ iotax.Machine }

func (hidden) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (h hidden) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	in.Args = append([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o ro none /sys/dev/block && exec "$@"`, "sh"}, c.Args...)
	return h.Machine.Run(ctx, &in)
}

func TestPlaceWithoutNumbers(t *testing.T) {
	dir, device := loopMount(t, true)
	want, err := Place(t.Context(), here, dir)
	if err != nil || want["device.name"] != device {
		t.Fatalf("%v, %v", want, err)
	}
	if got, err := Place(t.Context(), hidden{here}, dir); err != nil || !maps.Equal(got, want) {
		t.Errorf("facts %v, %v, want %v", got, err, want)
	}
}

func TestPlaceHere(t *testing.T) {
	facts, err := Place(t.Context(), there, "/proc/sys")
	if err != nil || facts["filesystem"] != "proc" || facts["device.name"] != "" {
		t.Errorf("/proc: %v, %v", facts, err)
	}
	dir := t.TempDir()
	odd := filepath.Join(dir, "with ' and \n and $(x)")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(odd, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{odd, link} {
		if facts, err := Place(t.Context(), here, p); err != nil || facts["filesystem"] == "" || facts["filesystem.mount"] == "" {
			t.Errorf("%q: %v, %v", p, facts, err)
		}
	}
	if _, err := Place(t.Context(), here, filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("missing path: %v", err)
	}
}

func TestWatchProcesses(t *testing.T) {
	// One process uses CPU time, and one only sleeps.
	var pids []int
	for _, args := range [][]string{{"sh", "-c", "while :; do :; done"}, {"sleep", "600"}} {
		cmd := exec.Command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		pids = append(pids, cmd.Process.Pid)
	}
	// The scheduler's schedstat measures the same time independently, in nanoseconds.
	spent := func() float64 {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "schedstat"))
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return ns / 1e9
	}
	m := serving{remoteMachine{there}, map[string][]int{"sh": {pids[0]}, "sleep": {pids[1]}, "gone": {1 << 30}}}
	w, err := start(t.Context(), &iotax.Target{Machine: m}, thisHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := spent()
	for range 200 { // wait for CPU time, not for elapsed time, because this machine may be busy
		if spent()-before > 0.3 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	after := spent()
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := byName(seen.Values)
	// The tolerance is two ticks of the counter, and the CPU time used between the readings.
	if used := after - before; used < 0.1 || v["cpu.serving"] < used-0.02 || v["cpu.serving"] > used+0.15 {
		t.Errorf("cpu.serving = %v s, the scheduler says %v", v["cpu.serving"], used)
	}
	if v["memory.serving"] < 100<<10 || v["memory.serving"] > 100<<20 {
		t.Errorf("memory.serving = %v", v["memory.serving"])
	}
	if v["cpu.host.busy"] <= 0 || v["cpu.host.busy"] > 1 {
		t.Errorf("cpu.host.busy = %v", v["cpu.host.busy"])
	}
}

// hungry runs a pipeline. Its second process allocates the given number of bytes soon after its start and holds them
// until the first process ends. hungry returns the process id of the second process.
func hungry(t *testing.T, bytes int, seconds string) int {
	t.Helper()
	n := strconv.Itoa(bytes)
	c := exec.Command("sh", "-c", `{ sleep 0.4; head -c "$1" /dev/zero; sleep "$2"; } | tail -c "$1" >/dev/null & wait`, "sh", n, seconds)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Wait() })
	for range 200 {
		children, _ := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/task/" + strconv.Itoa(c.Process.Pid) + "/children")
		for _, f := range strings.Fields(string(children)) {
			if name, _ := os.ReadFile("/proc/" + f + "/comm"); string(name) == "tail\n" {
				pid, _ := strconv.Atoi(f)
				return pid
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no tail among its children")
	return 0
}

// The sampler detects a memory peak between Start and Stop, and returns the samples as series. It also reports its own
// cost.
func TestMemoryIsSampled(t *testing.T) {
	const most = 300 << 20
	pid := hungry(t, most, "3") // long enough that one reading of smaps_rollup does not dominate the cost
	m := serving{remoteMachine{there}, map[string][]int{"server": {pid}, "test": {os.Getpid()}}}
	w, err := start(t.Context(), &iotax.Target{Machine: m}, thisHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ { // wait until the process has ended
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/smaps_rollup"); err != nil || i > 1000 {
			break
		}
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm"); strings.HasPrefix(string(b), "0 ") {
			break // a zombie
		}
		// Use some CPU time: the kernel counts it in ticks of 10 ms, and a test that only sleeps may end without a
		// tick.
		for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
		}
		time.Sleep(15 * time.Millisecond)
	}
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := byName(seen.Values)
	if got := v["memory.host.peak.server"]; got < most || got > most+64<<20 {
		t.Errorf("the server's peak is %.0f MiB", got/(1<<20))
	}
	if all := v["memory.host.peak"]; all < v["memory.host.peak.server"] || all > v["memory.host.peak.server"]+v["memory.host.peak.test"] {
		t.Errorf("the peak of all is %v, of each %v", all, v)
	}
	if v["memory.host.uss"] <= 0 || v["memory.host.pss"] < v["memory.host.uss"] {
		t.Errorf("uss %v, pss %v", v["memory.host.uss"], v["memory.host.pss"])
	}
	// The sampler may use 0.5 % of a core for smaps_rollup and 0.2 % for the list of processes. It can exceed this, so
	// the test allows 1.5 %: in a trial this short, one reading of smaps_rollup takes 0.2 %. The sampler chooses the time
	// of the next reading by the cost of the last one, but the next one may cost more.
	if v["watch.cost"] <= 0 || v["watch.cost"] > 0.015 {
		t.Errorf("the sampling took %.3g %% of a core", 100*v["watch.cost"])
	}
	t.Log(seen.Facts["watch.memory"], seen.Facts["watch.cost"])
	if !strings.Contains(seen.Facts["watch.memory"], "every 100ms") || !strings.HasSuffix(seen.Facts["watch.cost"], "of a core") {
		t.Errorf("facts %v", seen.Facts)
	}
	names := map[string]int{}
	for _, s := range seen.Series {
		names[s.Name] = len(s.T)
		unit := iotax.Bytes
		if s.Name == "cpu.host" {
			unit = iotax.RatioUnit
		}
		if len(s.T) != len(s.V) || !slices.IsSorted(s.T) || s.Unit != unit {
			t.Errorf("series %s of %d and %d in %s", s.Name, len(s.T), len(s.V), s.Unit)
		}
	}
	if names["memory.host.rss"] < 5 || names["memory.host.rss.server"] != names["memory.host.rss"] || names["cpu.host"] != names["memory.host.rss"]-1 {
		t.Errorf("series %v", names)
	}
	if v["cpu.host"] <= 0 || math.Abs(v["cpu.host"]-v["cpu.host.server"]-v["cpu.host.test"]) > 0.02 && v["cpu.host"] < v["cpu.host.test"] {
		t.Errorf("cpu.host %v", v)
	}
}

// A process that starts to serve the target after Start, such as a guest that the trial boots, is sampled from then on,
// together with the others.
func TestMemoryOfWhatBegins(t *testing.T) {
	const most = 200 << 20
	var guest atomic.Int64
	m := begins{remoteMachine{there}, func() map[string][]int {
		all := map[string][]int{"test": {os.Getpid()}}
		if pid := int(guest.Load()); pid > 0 {
			all["guest"] = []int{pid}
		}
		return all
	}}
	w, err := start(t.Context(), &iotax.Target{Machine: m}, thisHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * rssPeriod)
	pid := hungry(t, most, "4")
	guest.Store(int64(pid))
	for range 3000 {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if now, _ := kilobytes(b, "\nVmRSS:"); now >= most {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(5 * rssPeriod)
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := byName(seen.Values)
	if got := v["memory.host.peak.guest"]; got < most || got > most+64<<20 {
		t.Errorf("the guest's peak is %.0f MiB", got/(1<<20))
	}
	if all := v["memory.host.peak"]; all < v["memory.host.peak.guest"]+v["memory.host.peak.test"]/2 {
		t.Errorf("the peak of all is %v, of the guest %v, of the test %v", all, v["memory.host.peak.guest"], v["memory.host.peak.test"])
	}
	if v["memory.host.uss"] < most || v["memory.host.pss"] < v["memory.host.uss"] {
		t.Errorf("uss %v, pss %v", v["memory.host.uss"], v["memory.host.pss"])
	}
	curve := map[string]iotax.Series{}
	for _, s := range seen.Series {
		curve[s.Name] = s
	}
	all, of := curve["memory.host.rss"], curve["memory.host.rss.guest"]
	if len(of.V) < 4 || len(of.V) != len(all.V) || len(of.T) != len(of.V) || of.V[0] != 0 || of.V[len(of.V)-1] < most {
		t.Fatalf("the guest's curve is %v of %v", of, all)
	}
	if all.V[0] <= 0 || all.V[len(all.V)-1] < all.V[0]+most/2 {
		t.Errorf("the curve of all is %v", all.V)
	}
	// The CPU series contains the CPU time of both processes, except for the resolution of ticks and the time before
	// the sampler finds a new process.
	cpu, sum, last := curve["cpu.host"], 0.0, 0.0
	for i, x := range cpu.V {
		sum += x * (cpu.T[i] - last)
		last = cpu.T[i]
	}
	if used := v["cpu.serving"]; sum <= 0 || sum > used+0.05 || sum < used/2-0.05 {
		t.Errorf("the curve of the CPU holds %.3f s of %.3f s: %v", sum, used, cpu)
	}
}

// begins is a machine whose serving processes change.
type begins struct {
	remoteMachine
	processes func() map[string][]int
}

func (b begins) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &inProcess, Processes: b.processes}
}

func TestMemoryOfNobody(t *testing.T) {
	for _, pids := range []map[string][]int{{"gone": {1 << 30}}, nil} {
		seen := iotax.Seen{Facts: map[string]string{}}
		thisHost.sample(t.Context(), func() map[string][]int { return pids }).end(&seen)
		if len(seen.Values)+len(seen.Series)+len(seen.Facts) > 0 {
			t.Errorf("%v is sampled: %+v", pids, seen)
		}
	}
}

func TestThin(t *testing.T) {
	var at, v []float64
	for i := range 10*maxSamples + 1 {
		at, v = append(at, float64(i)), append(v, float64(i%7))
	}
	x, y := thin(at, v, slices.Max[[]float64])
	if len(x) != len(y) || len(x) > maxSamples || slices.Max(y) != 6 || x[len(x)-1] != at[len(at)-1] {
		t.Errorf("%d of %d are left", len(x), len(at))
	}
}

// This host's clock, read as if it were a guest's, runs at this host's rate.
func TestClockHere(t *testing.T) {
	w, err := start(t.Context(), &iotax.Target{Machine: there}, thisHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(700 * time.Millisecond)
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := byName(seen.Values)
	if r, e := v["clock.ratio"], v["clock.error"]; math.Abs(r-1) > e || e <= 0 || e > 0.5 {
		t.Errorf("clock.ratio = %v ± %v", r, e)
	}
	if _, ok := v["cpu.host.busy"]; ok {
		t.Error("this host's CPU beside a machine that has nothing to do with it")
	}
}

func TestClock(t *testing.T) {
	start := time.Now()
	uptime := func(rate float64, delay time.Duration) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			time.Sleep(delay)
			u := 5000*time.Second + time.Duration(float64(time.Since(start))*rate)
			time.Sleep(delay)
			return u, nil
		}
	}
	for _, x := range []struct {
		rate  float64
		delay time.Duration // in each direction
	}{{1, 0}, {1.1, 0}, {0.5, 200 * time.Microsecond}, {40, 0}, {0, 0}, {1.05, 5 * time.Millisecond}} {
		ask := uptime(x.rate, x.delay)
		var v map[string]float64
		for range 20 { // other work on this machine may make a reading imprecise
			a := readClockOf(ask)
			time.Sleep(300 * time.Millisecond)
			if v = byName(a.compare(readClockOf(ask))); v["clock.error"] < 0.02 {
				break
			}
		}
		if len(v) != 2 || math.Abs(v["clock.ratio"]-x.rate) > v["clock.error"]+math.Abs(x.rate-1)*0.2 || v["clock.error"] < 0 {
			t.Errorf("a clock at rate %v: %v", x.rate, v)
		}
		if x.rate == 1 && v["clock.error"] > 0.02 {
			t.Errorf("error %v over 0.3 s and a short way", v["clock.error"])
		}
	}
	if r := readClockOf(func() (time.Duration, error) { return 0, errors.New("gone") }); r.ok || r.compare(r) != nil {
		t.Errorf("gone: %+v", r)
	}
	// readClock gives up on a machine that never answers.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if r := readClock(ctx, mute{there}); r.ok || time.Since(began) > 30*time.Second {
		t.Errorf("mute machine: %+v after %s", r, time.Since(began))
	}
}

type mute struct{ iotax.Machine }

func (mute) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (mute) Run(ctx context.Context, _ *iotax.Cmd) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestEnvironmentHere(t *testing.T) {
	facts, err := Environment(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var release strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	if facts["kernel"] != release.String() {
		t.Errorf("kernel %q, want %q", facts["kernel"], release.String())
	}
	for _, k := range []string{"os", "arch", "hostname", "cpu.count", "memory", "memory.bytes", "clocksource"} {
		if facts[k] == "" {
			t.Errorf("no fact %s in %v", k, facts)
		}
	}
	for k, v := range facts {
		if strings.ContainsAny(v, "\n\x1e\x00") {
			t.Errorf("%s = %q", k, v)
		}
	}
}

// The probes must also work on a machine that has only busybox.
func TestBusybox(t *testing.T) {
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	dir := t.TempDir()
	if out, err := exec.Command(box, "--install", "-s", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := busybox{here, dir}
	facts, err := Environment(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	same, err := Environment(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range same {
		// Without systemd-detect-virt, the hypervisor and the container are detected in another way, or not at all.
		if k != "hypervisor" && k != "container" && facts[k] != v {
			t.Errorf("%s: %q by busybox, %q otherwise", k, facts[k], v)
		}
	}
	a, err := Place(t.Context(), m, "/var/tmp")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Place(t.Context(), here, "/var/tmp")
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range b {
		if a[k] != v {
			t.Errorf("%s: %q by busybox, %q otherwise", k, a[k], v)
		}
	}
	if r := readClock(t.Context(), m); !r.ok || r.hi-r.lo > 0.05 {
		t.Errorf("clock: %+v", r)
	}
}

type busybox struct {
	iotax.Machine
	dir string
}

func (busybox) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (b busybox) Run(ctx context.Context, c *iotax.Cmd) error {
	d := *c
	d.Env = append(slices.Clone(c.Env), "PATH="+b.dir)
	return b.Machine.Run(ctx, &d)
}

// BenchmarkWatch measures the cost of Start and Stop, without and with a serving process.
func BenchmarkWatch(b *testing.B) {
	m := serving{remoteMachine{there}, map[string][]int{"self": {os.Getpid()}}}
	for _, x := range []struct {
		name string
		m    iotax.Machine
	}{{"host", here}, {"guest", m}} {
		b.Run(x.name, func(b *testing.B) {
			var before, after syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				w, err := start(b.Context(), &iotax.Target{Machine: x.m, Place: iotax.Place{Backing: "/var/tmp"}}, thisHost, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/trial")
		})
	}
}

// The clock reading at the end of a trial is reused at the start of the next: two trials need three readings.
func TestWatcherReadsTheClockOnceATrial(t *testing.T) {
	var k Watcher
	var last reading
	for i := range 2 {
		w, err := k.Start(t.Context(), &iotax.Target{Machine: there})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && w.clock != last {
			t.Errorf("the clock was read again: %+v after %+v", w.clock, last)
		}
		time.Sleep(100 * time.Millisecond)
		seen, err := w.Stop(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v := byName(seen.Values); math.Abs(v["clock.ratio"]-1) > v["clock.error"] {
			t.Errorf("clock.ratio = %v", v)
		}
		if now := k.last["there"]; !now.ok || now == last {
			t.Errorf("the clock was not read at the end: %+v", now)
		}
		last = k.last["there"]
	}
}
