package probe

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"iotax"
	"iotax/internal/probe/pause"
)

// A Watch observes one trial. It reads counters before and after the trial. During the trial, it samples the memory and
// CPU time of the processes that serve the target.
type Watch struct {
	t       *iotax.Target
	fs      system
	devices []string // names in /sys/class/block of the devices below Place.Backing
	served  bool     // this host does work for the target
	begin   snapshot
	inside  snapshot // of the target's machine, if it is not this host
	clock   reading
	last    map[string]reading     // from a Watcher, or nil
	pauses  pauses                 // from a Watcher, or nil
	memory  *sampler               // of the processes that serve the target, or nil
	stages  *stages                // of an explained trial, or nil
	profile func() ([]byte, error) // of a profiled trial, or nil
	kept    func() bool            // prevents the call of profile when the context ends
	facts   map[string]string
}

// system contains the directories of this host's counters. Tests replace it.
type system struct{ proc, sys string }

// thisHost has directories that do not exist on macOS and Windows.
var thisHost = system{"/proc", "/sys"}

// A snapshot contains the counters at one moment, except those that could not be read.
type snapshot struct {
	at        time.Time
	disks     map[string]diskStat
	cpu       procfs.CPUStat
	cpuOK     bool
	labels    map[string][]int // the processes by label
	processes map[int]usage
	own       ioBytes
	ownOK     bool
}

// ioBytes counts the bytes that processes requested from block devices (read_bytes and write_bytes in proc_pid_io(5)).
// Reads from the page cache do not count. Writes to the page cache count when they make a page dirty.
type ioBytes struct{ read, written uint64 }

// diskStat contains the counters of a device. Flushes reports whether they include flushes, as they do since Linux 5.5.
type diskStat struct {
	blockdevice.IOStats
	Flushes bool
}

// usage is the resource usage of one process. The CPU times and the I/O are totals since its start. The peak is the
// maximum since resetPeak.
type usage struct {
	own    float64 // s of CPU, including ended threads
	waited float64 // s of CPU time of its children that ended and were waited for
	peak   uint64  // B, peak of the resident memory
	shmem  uint64  // B, resident shared memory
	io     ioBytes
	ioOK   bool
}

// A Watcher starts watches. A watch that starts soon after the previous trial (see recently) reuses that trial's last
// reading of the clock. From the first watch until the context of that watch is done, the Watcher also detects pauses
// of iotax itself: the value "paused" (s) and the fact "paused" cover the time from Start to Stop, and the fact
// "paused.before" covers the time since the previous watch. A Watcher must be used from one goroutine.
type Watcher struct {
	// Serving measures the processes that `pids` lists, until `stop` is called. `protocol` is a serving.Protocol. If
	// Serving is nil or fails, the stages of a server are unknown.
	Serving func(pids func() []int, protocol string) (stop func() (ServingTime, error), err error)

	// Profiler profiles the processes that `pids` lists, until `stop` is called. `stop` returns nil if they used no CPU
	// time.
	Profiler func(pids func() []int) (stop func() ([]byte, error), err error)

	last   map[string]reading // by machine name
	pauses pauses
}

// pauses is the part of a pause.Watcher that a Watch uses. Tests replace it.
type pauses interface{ Take() []pause.Pause }

// recently limits the time before the trial that a clock ratio may cover.
const recently = 5 * time.Second

// Start begins to observe, during a trial on t:
//
//   - The I/O of the block devices under t.Place.Backing: device.read.bytes, device.write.bytes (B), device.read.ios,
//     device.write.ios, device.flushes (1) and device.busy. The last is the share of the time in which the busiest
//     device had I/O in progress.
//   - The part of this I/O that the trial itself requested: own.read.bytes and own.write.bytes (B). It comes from the
//     commands that iotax runs here, the processes that serve a guest, or the control group of a container. It is
//     unknown for targets that work together.
//   - If the target's own machine is not this host: the counters of the device that stores the place there,
//     machine.device.read.bytes and so on, and cpu.machine.steal, a share of the CPU time of that machine.
//   - The CPU time of this host, as shares of the time of all its CPUs: cpu.host.busy (all except idle time and waits
//     for I/O), cpu.host.user, cpu.host.system, cpu.host.iowait, cpu.host.steal. cpu.host.used is the user and system
//     time, in CPU seconds per second.
//   - For the processes that serve the target (Target.Processes): cpu.serving (s), and memory.serving (B). The latter
//     is the peak of their resident memory since Start, with shared memory counted once.
//   - For the same processes: cpu.host, in CPU seconds per second, also by label (cpu.host.qemu), and the series
//     cpu.host. The series is sampled every 100 ms, with a resolution of 10 ms.
//   - For the same processes: memory.host.peak, the peak of the resident memory, also by label, and the series
//     memory.host.rss. Both are sampled every 100 ms.
//   - For the same processes: memory.host.uss and memory.host.pss, the largest unique and proportional set sizes. They
//     are sampled at intervals that limit the cost to about half a percent of a core. watch.cost is the cost of all
//     sampling as a share of a core.
//   - For a machine that is not this host, its clock: clock.ratio is the time that passed on the machine from Start, or
//     shortly before it (see recently), to Stop, divided by the time that passed on this host. clock.error bounds its
//     error.
//
// Start omits counters of this host for a machine that does not run on it, and counters that it cannot read. It fails
// only if ctx is done.
func (k *Watcher) Start(ctx context.Context, t *iotax.Target) (*Watch, error) {
	if k.last == nil {
		k.last = map[string]reading{}
	}
	if k.pauses == nil {
		p := pause.Watch()
		context.AfterFunc(ctx, p.Close)
		k.pauses = p
	}
	return start(ctx, t, thisHost, k.last, k.pauses)
}

func start(ctx context.Context, t *iotax.Target, fs system, last map[string]reading, pauses pauses) (*Watch, error) {
	w := &Watch{t: t, fs: fs, last: last, pauses: pauses, facts: map[string]string{}}
	if t.Place.Backing != "" {
		w.devices = fs.devices(t.Place.Backing)
		if len(w.devices) > 0 {
			w.facts[iotax.FactWatchDevice] = strings.Join(w.devices, " ")
		}
	}
	caps := t.Machine.Caps()
	w.served = caps.Local || caps.Processes != nil || len(t.Serving) > 0 || t.Place.Backing != ""
	if !caps.Local {
		if r := last[t.Machine.String()]; r.ok && time.Since(r.at) < recently {
			w.clock = r
		} else {
			w.clock = readClock(ctx, t.Machine)
		}
		if w.clock.ok { // otherwise the machine has no boot clock, or does not answer
			w.inside = inside(ctx, t)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for pid := range w.pids() {
		w.fs.resetPeak(pid)
	}
	w.begin = w.snapshot()
	if caps.Processes != nil || len(t.Serving) > 0 || len(t.Together) > 0 {
		w.memory = fs.sample(ctx, t.Processes)
	}
	w.paused(iotax.FactPausedBefore) // take these pauses last, so that they do not count as pauses of the trial
	return w, nil
}

// paused takes the pauses so far, describes them in a fact, and returns their total length in seconds.
func (w *Watch) paused(fact string) (sum float64) {
	if w.pauses == nil {
		return 0
	}
	var lengths []string
	for _, p := range w.pauses.Take() {
		sum += p.Length.Seconds()
		lengths = append(lengths, p.String())
	}
	set(w.facts, fact, strings.Join(lengths, "; "))
	return sum
}

// Stop ends the watch and returns the values since Start, even after a failed trial. It fails only if ctx is done.
func (w *Watch) Stop(ctx context.Context) (iotax.Seen, error) {
	seen := iotax.Seen{Facts: w.facts}
	if w.profile != nil {
		w.kept()
		var err error
		if seen.Profile, err = w.profile(); err != nil {
			seen.Facts[iotax.FactNoProfile] = err.Error()
		} else if seen.Profile == nil {
			seen.Facts[iotax.FactNoProfile] = "no process that iotax knows on this host worked for the target"
		}
	}
	if s := w.paused("paused"); s > 0 {
		seen.Values = append(seen.Values, iotax.Value{Name: iotax.ValuePaused, Value: s, Unit: iotax.Seconds})
	}
	if w.memory != nil {
		w.memory.end(&seen)
	}
	end := w.snapshot()
	values := append(difference(w.begin, end), perProcess(w.begin, end)...)
	if w.inside.cpuOK {
		values = append(values, insideValues(w.inside, inside(ctx, w.t))...)
	}
	if w.clock.ok {
		now := readClock(ctx, w.t.Machine)
		values = append(values, w.clock.compare(now)...)
		if w.last != nil {
			w.last[w.t.Machine.String()] = now
		}
	}
	seen.Values = append(values, seen.Values...)
	if w.stages != nil {
		w.stageValues(ctx, &seen)
	}
	return seen, context.Cause(ctx)
}

// perProcess returns the CPU usage of the processes of each label, and of all processes, in CPU seconds per second.
func perProcess(a, b snapshot) []iotax.Value {
	s := b.at.Sub(a.at).Seconds()
	if s <= 0 || len(a.processes) == 0 || len(b.processes) == 0 {
		return nil
	}
	add := func(name string, used float64) iotax.Value {
		return iotax.Value{Name: name, Value: used / s, Unit: iotax.RatioUnit, Better: iotax.Down}
	}
	values := []iotax.Value{add(iotax.ValueCPUHost, cpuSeconds(a.processes, b.processes))}
	of := func(s snapshot, label string) map[int]usage {
		out := map[int]usage{}
		for _, pid := range s.labels[label] {
			if u, ok := s.processes[pid]; ok {
				out[pid] = u
			}
		}
		return out
	}
	for _, label := range slices.Sorted(maps.Keys(b.labels)) {
		values = append(values, add("cpu.host."+label, cpuSeconds(of(a, label), of(b, label))))
	}
	return values
}

func (w *Watch) pids() map[int]bool {
	pids := map[int]bool{}
	for _, list := range w.t.Processes() {
		for _, pid := range list {
			pids[pid] = true
		}
	}
	return pids
}

func (w *Watch) snapshot() snapshot {
	s := snapshot{disks: map[string]diskStat{}, labels: w.t.Processes(), processes: map[int]usage{}}
	for _, pids := range s.labels {
		for _, pid := range pids {
			if u, ok := w.fs.usage(pid); ok {
				s.processes[pid] = u
			}
		}
	}
	s.own, s.ownOK = w.own(s.processes)
	if w.served {
		c := w.fs.counters("")
		s.cpu, s.cpuOK = c.CPU, c.CPUOK
	}
	if disks, err := blockdevice.NewFS(w.fs.proc, w.fs.sys); err == nil {
		for _, d := range w.devices {
			if st, err := w.fs.diskStat(disks, d); err == nil {
				s.disks[d] = st
			}
		}
	}
	s.at = time.Now()
	return s
}

// own returns the I/O of the trial's own processes so far, if it is known. The I/O of this process includes that of
// commands it has waited for. The I/O of targets that work together is unknown, because fio's servers outlive the
// trial.
func (w *Watch) own(serving map[int]usage) (ioBytes, bool) {
	var sum ioBytes
	if len(w.t.Together) > 0 {
		return sum, false
	}
	caps := w.t.Machine.Caps()
	if caps.DeviceBytes != nil {
		read, written, ok := caps.DeviceBytes()
		return ioBytes{read, written}, ok
	}
	if caps.Local {
		u, ok := w.fs.usage(os.Getpid())
		if sum = u.io; !ok || !u.ioOK || len(serving) == 0 {
			return sum, ok && u.ioOK
		}
	}
	for _, u := range serving {
		if !u.ioOK {
			return ioBytes{}, false
		}
		sum.read += u.io.read
		sum.written += u.io.written
	}
	return sum, len(serving) > 0
}

// diskStat reads the counters of a disk or a partition.
func (fs system) diskStat(disks blockdevice.FS, name string) (diskStat, error) {
	st, n, err := disks.SysBlockDeviceStat(fs.inBlock(name))
	return diskStat{st, n >= 17}, err
}

// inBlock returns the path of a device under /sys/block. A partition is below its disk.
func (fs system) inBlock(name string) string {
	if real, err := filepath.EvalSymlinks(filepath.Join(fs.sys, "class/block", name)); err == nil {
		if _, err := os.Stat(filepath.Join(real, "partition")); err == nil {
			return filepath.Base(filepath.Dir(real)) + "/" + name
		}
	}
	return name
}

// difference returns the values for the time between two snapshots. It omits counters that went backwards, as they do
// when a device is replaced.
func difference(a, b snapshot) []iotax.Value {
	var values []iotax.Value
	add := func(name string, v float64, unit string, better iotax.Better) {
		values = append(values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
	}
	var read, written, reads, writes, flushes, busy float64
	known, knowFlushes := len(a.disks) > 0, true
	for d, x := range a.disks {
		y, ok := b.disks[d]
		// Mounting the file system reads from its device. If the counters are 0 nevertheless, the driver does not count I/O.
		if !ok || y.ReadIOs+y.WriteIOs == 0 || y.ReadIOs < x.ReadIOs || y.WriteIOs < x.WriteIOs || y.ReadSectors < x.ReadSectors || y.WriteSectors < x.WriteSectors {
			known = false
			break
		}
		// A sector is 512 bytes here, whatever the block size of the device (Documentation/block/stat.rst).
		read += 512 * float64(y.ReadSectors-x.ReadSectors)
		written += 512 * float64(y.WriteSectors-x.WriteSectors)
		reads += float64(y.ReadIOs - x.ReadIOs)
		writes += float64(y.WriteIOs - x.WriteIOs)
		flushes += float64(y.FlushRequestsCompleted - x.FlushRequestsCompleted)
		knowFlushes = knowFlushes && x.Flushes
		busy = max(busy, float64(y.IOsTotalTicks-x.IOsTotalTicks)/1e3)
	}
	if known {
		add(iotax.ValueDeviceReadBytes, read, iotax.Bytes, iotax.Neither)
		add(iotax.ValueDeviceWriteBytes, written, iotax.Bytes, iotax.Neither)
		add(iotax.ValueDeviceReadIOs, reads, iotax.Count, iotax.Neither)
		add(iotax.ValueDeviceWriteIOs, writes, iotax.Count, iotax.Neither)
		if knowFlushes {
			add("device.flushes", flushes, iotax.Count, iotax.Neither)
		}
		if s := b.at.Sub(a.at).Seconds(); s > 0 {
			add("device.busy", min(1, busy/s), iotax.RatioUnit, iotax.Neither)
		}
	}
	// The sum goes backwards if a serving process has ended, because its I/O no longer counts.
	if a.ownOK && b.ownOK && b.own.read >= a.own.read && b.own.written >= a.own.written {
		add("own.read.bytes", float64(b.own.read-a.own.read), iotax.Bytes, iotax.Neither)
		add("own.write.bytes", float64(b.own.written-a.own.written), iotax.Bytes, iotax.Neither)
	}
	if a.cpuOK && b.cpuOK {
		values = append(values, cpuShares(a.cpu, b.cpu, b.at.Sub(a.at))...)
	}
	if len(a.processes) > 0 && len(b.processes) > 0 {
		add(iotax.ValueCPUServing, cpuSeconds(a.processes, b.processes), iotax.Seconds, iotax.Down)
		add(iotax.ValueMemoryServing, resident(b.processes), iotax.Bytes, iotax.Down)
	}
	return values
}

// cpuShares returns the time that the CPUs of this host spent in each state, as shares of the total, and cpu.host.used.
// took is the elapsed time. The time of guests is part of user and nice (proc_stat(5)), and is not added again.
func cpuShares(a, b procfs.CPUStat, took time.Duration) []iotax.Value {
	// The kernel's idle and iowait may go backwards slightly.
	d := func(x, y float64) float64 { return max(0, y-x) }
	user := d(a.User, b.User) + d(a.Nice, b.Nice)
	system := d(a.System, b.System) + d(a.IRQ, b.IRQ) + d(a.SoftIRQ, b.SoftIRQ)
	idle, iowait, steal := d(a.Idle, b.Idle), d(a.Iowait, b.Iowait), d(a.Steal, b.Steal)
	total := user + system + idle + iowait + steal
	if total <= 0 {
		return nil // shorter than one tick of the counters
	}
	var values []iotax.Value
	for _, x := range []struct {
		name string
		v    float64
	}{
		{iotax.ValueCPUHostBusy, user + system + steal}, {"cpu.host.user", user}, {"cpu.host.system", system},
		{"cpu.host.iowait", iowait}, {iotax.ValueCPUHostSteal, steal},
	} {
		values = append(values, iotax.Value{Name: x.name, Value: x.v / total, Unit: iotax.RatioUnit})
	}
	if s := took.Seconds(); s > 0 {
		values = append(values, iotax.Value{Name: iotax.ValueCPUHostUsed, Value: (user + system) / s, Unit: iotax.RatioUnit, Better: iotax.Down})
	}
	return values
}

// cpuSeconds returns the CPU time between two readings of a set of processes. The time of a process that ended in
// between is included in the time of its parent after the parent has waited for it.
func cpuSeconds(a, b map[int]usage) float64 {
	var all, still float64
	for pid, y := range b {
		x := a[pid] // a process that started in between counts from zero
		all += y.own + y.waited
		still += max(0, y.own-x.own)
	}
	for _, x := range a {
		all -= x.own + x.waited
	}
	// If the parent of an ended process is not in the set, the time of the ended process is missing from b, so the sum
	// is too small. The time of the remaining processes is a lower bound.
	return max(all, still)
}

// resident returns the peak resident memory of a set of processes: the private memory of each process, plus the shared
// memory once, such as the guest memory that QEMU shares with a file server.
func resident(p map[int]usage) float64 {
	var private, shared uint64
	for _, u := range p {
		private += u.peak - min(u.peak, u.shmem)
		shared = max(shared, min(u.peak, u.shmem))
	}
	return float64(private + shared)
}

// userHZ is USER_HZ, a constant of the kernel's interface: the number of CPU-time ticks per second.
const userHZ = 100

// usage reads the counters of a process. The CPU time in stat includes threads that have ended, unlike the more precise
// clocks under task/. QEMU starts and ends threads for its I/O.
func (fs system) usage(pid int) (usage, bool) {
	proc, err := procfs.NewFS(fs.proc)
	if err != nil {
		return usage{}, false
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return usage{}, false
	}
	st, err := p.Stat()
	if err != nil {
		return usage{}, false
	}
	u := usage{own: st.CPUTime(), waited: float64(st.CUTime+st.CSTime) / userHZ}
	if status, err := p.NewStatus(); err == nil {
		u.peak, u.shmem = status.VmHWM, status.RssShmem
	}
	if io, err := p.IO(); err == nil {
		u.io, u.ioOK = ioBytes{io.ReadBytes, io.WriteBytes}, true
	}
	return u, true
}

// resetPeak resets the peak of the resident memory (proc_pid_clear_refs(5)). Without the permission to do so, the peak
// covers the time since the start of the process.
func (fs system) resetPeak(pid int) {
	_ = os.WriteFile(filepath.Join(fs.proc, strconv.Itoa(pid), "clear_refs"), []byte("5"), 0)
}

// devices returns the block devices whose counters include the I/O on path: the partition or disk below its file
// system, or path itself if it is a block device. For a device mapper or RAID, it returns the top device, because other
// volumes may use the same disks. For a loop device, it returns the device that stores its file, if there is one,
// because there is a cache between the two. The result is empty if no such device is known.
func (fs system) devices(path string) []string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	// Read the mounts now: they may change during a run, and volumes create new ones.
	text, err := os.ReadFile(filepath.Join(fs.proc, "self/mountinfo"))
	if err != nil {
		return nil
	}
	return fs.carriers(ParseMounts(string(text)), real, 0)
}

func (fs system) carriers(ms []Mount, path string, depth int) []string {
	if depth > 8 { // a loop device that is stored on itself
		return nil
	}
	names := []string{fs.byNumber(deviceNumber(path))}
	if names[0] == "" {
		names = fs.storing(ms, path)
	}
	var all []string
	for _, name := range names {
		on := fs.under(ms, name, depth)
		if len(on) == 0 {
			return nil // the others count only a part of the I/O
		}
		all = append(all, on...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Storing returns the names in sys/class/block of the devices whose file system stores the file `path`. The result is
// empty if they are unknown.
func Storing(ms []Mount, sys, path string) []string { return system{sys: sys}.storing(ms, path) }

func (fs system) storing(ms []Mount, path string) []string {
	m, _ := MountOf(ms, path)
	if m.upper != nil {
		m = *m.upper
	}
	return fs.siblings(fs.byNumber(m.number())) // btrfs may use several devices
}

// under returns the devices that count the I/O of the device `name`. For a loop device, these are the devices that
// store its file, if they count I/O.
func (fs system) under(ms []Mount, name string, depth int) []string {
	if name == "" {
		return nil
	}
	disk, _, _ := strings.Cut(fs.inBlock(name), "/")
	backing, err := os.ReadFile(filepath.Join(fs.sys, "block", disk, "loop/backing_file"))
	if err == nil {
		if below := fs.carriers(ms, strings.TrimSuffix(string(backing), "\n"), depth+1); len(below) > 0 {
			return below
		}
		// The file is in memory, or no device below it counts I/O. Use the loop device.
	}
	return fs.counting(name, disk)
}

// nvmeHead matches the name of an NVMe namespace, which may have several paths.
var nvmeHead = regexp.MustCompile(`^nvme([0-9]+)n([0-9]+)$`)

// counting returns the devices that count the I/O of the device `name`, which is disk itself or a partition of disk. Not
// every disk in memory counts, so none is used.
func (fs system) counting(name, disk string) []string {
	if fs.notCounting(disk) || memoryDisk.MatchString(disk) {
		return nil
	}
	// Before Linux 6.4, an NVMe namespace with several paths counted I/O only on its paths (such as nvme0c1n1).
	if m := nvmeHead.FindStringSubmatch(disk); m != nil {
		stat, err := os.ReadFile(filepath.Join(fs.sys, "block", disk, "stat"))
		if err == nil && strings.Trim(string(stat), "0 \n") == "" {
			paths, _ := filepath.Glob(filepath.Join(fs.sys, "block", "nvme"+m[1]+"c*n"+m[2]))
			for i := range paths {
				paths[i] = filepath.Base(paths[i])
			}
			return paths
		}
	}
	return []string{name}
}

// notCounting reports whether the counters of a disk are disabled.
func (fs system) notCounting(disk string) bool {
	on, err := os.ReadFile(filepath.Join(fs.sys, "block", disk, "queue/iostats"))
	return err == nil && strings.TrimSpace(string(on)) == "0"
}

// siblings returns all devices of the btrfs file system on the device `name`.
func (fs system) siblings(name string) []string {
	if name == "" {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(fs.sys, "fs/btrfs/*/devices", name))
	for _, f := range found {
		if entries, err := os.ReadDir(filepath.Dir(f)); err == nil {
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		}
	}
	return []string{name}
}
