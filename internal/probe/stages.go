package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"iotax"
	"iotax/internal/agent"
)

// A passage contains the counters of a layer for one direction (see iotax.Passed).
type passage struct{ Time, Requests, Handed float64 }

// passages contains the passages of reads, of writes, and of all other requests. A layer that does not distinguish them
// counts all requests as other requests. Once is true if the layer counts the time of a request once, even if the
// request carries several merged I/Os, as the kernel's block layer does.
type passages struct {
	By   [3]passage
	Once bool
}

// since returns the change of the counters since a, summed over the directions. share is the part of each direction
// that belongs to the trial.
func (b passages) since(a passages, share [3]float64) (sum passage) {
	for i, y := range b.By {
		x := a.By[i]
		d := passage{y.Time - x.Time, y.Requests - x.Requests, y.Handed - x.Handed}
		if d.Requests <= 0 {
			continue
		}
		if b.Once && d.Handed > 0 {
			d.Time *= d.Requests / d.Handed
		}
		sum.Time, sum.Requests, sum.Handed = sum.Time+share[i]*d.Time, sum.Requests+share[i]*d.Requests, sum.Handed+share[i]*d.Handed
	}
	return sum
}

// ofDisk returns the passages of a block device. It does not add flushes, because a flush is also counted as the write
// that requested it.
func ofDisk(d blockdevice.IOStats) passages {
	by := func(ios, merges, ticks uint64) passage {
		return passage{float64(ticks) / 1000, float64(ios + merges), float64(ios)}
	}
	return passages{[3]passage{by(d.ReadIOs, d.ReadMerges, d.ReadTicks), by(d.WriteIOs, d.WriteMerges, d.WriteTicks), by(d.DiscardIOs, d.DiscardMerges, d.DiscardTicks)}, true}
}

// Clocks at the ends of stages. A clock counts the requests that pass one point on the path of the I/O, and sums the
// time that each of them spends below that point.
const (
	clockBlock   = "block"      // block layer of the target's machine
	clockClient  = "nfs-client" // requests of the NFS client
	clockServer  = "nfs-server" // requests of the NFS client, from transmission to reply
	clockWoken   = "woken"      // requests at the disk, and the waits of QEMU's threads for a CPU
	clockQEMU    = "qemu"       // requests at the disk, as QEMU counts them; if clockWoken is known, without these waits
	clockServing = "serving"    // requests at the serving process; if they cannot be detected, its threads that are not waiting
	clockCalls   = "calls"      // threads of the serving process that are in a system call on a file
	clockDevice  = "device"     // block layer of the machine that has the device
)

// A clockQuery contains the arguments of readClocks: a block device, the mount point of an NFS mount, and the block
// devices below the place. Each may be empty.
type clockQuery struct {
	Device, Mount string
	Below         []string
}

// theirClocks contains the clocks of a kernel. A clock that was not read is nil.
type theirClocks struct{ Block, Client, Server, Below *passages }

// readClocks reads the clocks of a machine's kernel that a clockQuery names.
var readClocks = agent.New("read clocks", func(_ context.Context, q clockQuery) (theirClocks, error) {
	return thisHost.clocks(q), nil
})

// ofDisks returns the sum of the passages of block devices, or nil if one of them has no counters.
func (fs system) ofDisks(devices ...string) *passages {
	sum := passages{Once: true}
	for _, d := range devices {
		st := fs.counters(d)
		if !st.DiskOK {
			return nil
		}
		for i, p := range ofDisk(st.Disk.IOStats).By {
			x := &sum.By[i]
			x.Time, x.Requests, x.Handed = x.Time+p.Time, x.Requests+p.Requests, x.Handed+p.Handed
		}
	}
	return &sum
}

// layers describes the block devices below a place.
type layers struct {
	Top      string   // name of the device that stores the place, or ""
	Counting []string // devices whose counters include the I/O of the place
	Missing  string   // reason why Counting is empty
}

var findLayers = agent.New("find the block devices below a place", func(_ context.Context, path string) (layers, error) {
	return thisHost.layers(path), nil
})

func (fs system) layers(path string) layers {
	if path == "" {
		return layers{Missing: "no path of this host is known for the place"}
	}
	facts, err := fs.place(path)
	l := layers{Top: facts[iotax.FactDeviceName], Counting: fs.devices(path)}
	switch disk := facts[iotax.FactDeviceDisk]; {
	case len(l.Counting) > 0:
	case err != nil:
		l.Missing = err.Error()
	case memoryDisk.MatchString(disk), fs.inMemory(path):
		l.Missing = "the place is in memory"
	case disk != "" && fs.notCounting(disk):
		l.Missing = "the kernel does not count the I/O of " + disk + "; a 1 in /sys/block/" + disk + "/queue/iostats makes it count"
	case facts[iotax.FactFilesystem] == "overlay" && l.Top == "":
		l.Missing = "the upper directory of the overlay is not visible on the machine"
	default:
		l.Missing = "no counter of a block device below the place was found"
	}
	return l
}

func (fs system) clocks(q clockQuery) (c theirClocks) {
	if q.Device != "" {
		c.Block = fs.ofDisks(q.Device)
	}
	if q.Below != nil {
		c.Below = fs.ofDisks(q.Below...)
	}
	if q.Mount == "" {
		return c
	}
	proc, err := procfs.NewFS(fs.proc)
	if err != nil {
		return c
	}
	self, err := proc.Proc(os.Getpid())
	if err != nil {
		return c
	}
	mounts, err := self.MountStats()
	if err != nil {
		return c
	}
	for _, m := range mounts {
		nfs, ok := m.Stats.(*procfs.MountStatsNFS)
		if !ok || m.Mount != q.Mount {
			continue
		}
		client, server := passages{}, passages{}
		for _, o := range nfs.Operations {
			n := float64(o.Requests)
			for _, x := range []struct {
				to *passages
				ms uint64
			}{{&client, o.CumulativeTotalRequestMilliseconds}, {&server, o.CumulativeTotalResponseMilliseconds}} {
				p := &x.to.By[2]
				p.Time, p.Requests, p.Handed = p.Time+float64(x.ms)/1000, p.Requests+n, p.Handed+n
			}
		}
		c.Client, c.Server = &client, &server // the last mount hides earlier mounts on the same directory
	}
	return c
}

// stages contains the stages on the path of a target's I/Os, and the arguments and the first readings of their clocks.
type stages struct {
	all   []iotax.Stage
	query clockQuery
	here  bool                 // the query is for the kernel of this host, not of the target's machine
	disk  string               // argument of DiskTimes, or ""
	begin map[string]*passages // by clock
	since time.Time            // of begin
	waits map[int]waiting      // of begin: see threadWaits

	serving  func() []int // processes that are measured, or nil
	protocol string
	stop     func() (ServingTime, error)
	kept     func() bool // prevents the call of stop when the context ends
}

// A ServingTime has the fields of serving.Times. The agent must not import package serving, because that package is
// large.
type ServingTime struct{ Busy, Requests, Calls, Count float64 }

// Counting returns the block devices of this host whose counters include the I/O on path, or nil.
func Counting(path string) []string { return thisHost.devices(path) }

// Explain is like Start, for an explained trial: Stop also returns the stages of the trial's I/Os in the fact "stages",
// and the values of their clocks (see iotax.ValueStage). The trial must not have a ramp, because the clocks are read
// before and after it.
func (k *Watcher) Explain(ctx context.Context, t *iotax.Target) (*Watch, error) {
	w, err := k.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	w.stages = w.wayOf(ctx, t)
	w.stages.waits = w.threadWaits()
	w.stages.begin = w.readStages(ctx)
	w.stages.since = time.Now()
	if s := w.stages; s.serving != nil {
		err := errors.New("the server’s system calls are not measured")
		var stop func() (ServingTime, error)
		if k.Serving != nil {
			stop, err = k.Serving(s.serving, s.protocol)
		}
		s.lacks(clockServing, err)
		s.lacks(clockCalls, err)
		if err == nil {
			s.stop = sync.OnceValues(stop)
			s.kept = context.AfterFunc(ctx, func() { _, _ = s.stop() }) // an interrupted trial does not call Stop
		}
	}
	return w, nil
}

// wayOf returns the stages that I/Os on t pass through.
func (w *Watch) wayOf(ctx context.Context, t *iotax.Target) *stages {
	s := &stages{}
	add := func(name, end, missing string) {
		s.all = append(s.all, iotax.Stage{Name: name, End: end, Missing: missing})
	}
	facts := t.Place.Facts
	caps := t.Machine.Caps()
	guest := caps.Facts[iotax.FactAccel] != "" || caps.DiskTimes != nil
	at := ""
	if guest {
		at = "guest "
	}
	if len(t.Together) > 0 {
		add("everything", "", "the clocks of targets that work at the same moment are not read")
		return s
	}
	below := w.fs.layers(t.Place.Backing)
	device := below.Missing
	switch share := facts[iotax.FactShareType]; {
	case share == "nfs" || strings.HasPrefix(facts[iotax.FactFilesystem], "nfs"):
		s.query.Mount = facts[iotax.FactFilesystemMount]
		add(at+"above the NFS client", clockClient, "")
		add("NFS client", clockServer, "")
		if t.Place.Backing == "" {
			add("network and NFS server", "", "")
			return s
		}
		if s.serving = servers(t); s.serving == nil {
			add("network, NFS server and its file system", clockDevice, device)
			break
		}
		add("network and wake-up", clockServing, "")
		add("NFS server", clockCalls, "")
		add("host file system", clockDevice, device)
	case facts[iotax.FactNBD] != "":
		if t.Place.Kind == iotax.PlaceDevice {
			s.query.Device = path.Base(t.Place.Path)
			add(at+"above the block layer", clockBlock, "")
		}
		if s.serving = servers(t); s.serving == nil {
			add("client and network", clockServing, "iotax measures a server only if it has started it on this host")
			add("NBD server and the layers below it", "", "")
			return s
		}
		s.protocol = "nbd"
		calls := ""
		if aio := facts[iotax.FactNBDAIO]; aio != "" && aio != "threads" {
			calls = "with aio: " + aio + ", qemu-nbd does not wait for its I/O in system calls on the file; aio: threads would show it"
		}
		add("client and network", clockServing, "")
		add(facts[iotax.FactNBD], clockCalls, calls)
		add("host file system", clockDevice, device)
	case share != "":
		add(at+"file system", "fuse", "Linux keeps no times of the requests of "+share+"; tracing them in the guest would show the end of this stage")
		switch s.serving = servers(t); {
		case s.serving == nil:
			add("queue, server and its file system", clockDevice, device)
		case share == "9p": // no clock at the server, because QEMU's threads also do other work
			add("queue, wake-up and QEMU’s 9p server", clockCalls, "")
			add("host file system", clockDevice, device)
		case share == "sshfs":
			s.protocol = "sftp"
			add("SSH connection and wake-up", clockServing, "")
			add("sftp-server", clockCalls, "")
			add("host file system", clockDevice, device)
		default:
			add("queue and wake-up", clockServing, "")
			add("virtiofsd", clockCalls, "")
			add("host file system", clockDevice, device)
		}
	case guest:
		s.query.Device, s.disk = facts[iotax.FactDeviceName], facts[iotax.FactDiskSerial]
		bus := facts[iotax.FactDiskBus]
		missing := ""
		switch {
		case s.disk == "":
			missing = "the disk is not one that iotax made, so its counters in QEMU are not known"
		case caps.DiskTimes == nil:
			missing = "the counters of its QEMU cannot be reached"
		}
		if bus == "" {
			bus = "disk"
		}
		add("guest above the block layer", clockBlock, noDevice(s.query.Device))
		add(bus+" queue", clockWoken, missing)
		add("wake-up", clockQEMU, missing)
		add("QEMU and its file system", clockDevice, device)
	default:
		s.here = caps.Local || caps.HostPath != nil || t.Place.Backing != "" // this host's kernel does the I/O
		if !s.here {
			limit, cancel := context.WithTimeout(ctx, answerTime)
			var err error
			if below, err = findLayers.On(limit, t.Machine, t.Place.Path); err != nil {
				below.Missing = err.Error()
			}
			cancel()
			s.query.Below = below.Counting
		}
		if strings.HasPrefix(below.Top, "loop") && len(below.Counting) > 0 && !slices.Contains(below.Counting, below.Top) {
			s.query.Device = below.Top
			add("above the block layer", clockBlock, "")
			add(below.Top+" and the file below it", clockDevice, "")
			break
		}
		add("above the block layer", clockDevice, below.Missing)
	}
	add("device", "", "")
	return s
}

// servers returns a function that lists the processes on this host that serve a place: QEMU for 9p, other processes
// otherwise. It returns nil if no process serves the place.
func servers(t *iotax.Target) func() []int {
	pids := func() (all []int) {
		for label, pids := range t.Processes() {
			if (label == "qemu") == (t.Place.Facts[iotax.FactShareType] == "9p") {
				all = append(all, pids...)
			}
		}
		return all
	}
	if len(pids()) == 0 {
		return nil
	}
	return pids
}

func noDevice(name string) string {
	if name != "" {
		return ""
	}
	return "no block device of the target's machine is known for the place"
}

// readStages reads the clocks at the ends of the stages, except those of servers. If a request for a clock fails, it
// records the error.
func (w *Watch) readStages(ctx context.Context) map[string]*passages {
	s := w.stages
	out := map[string]*passages{}
	var c theirClocks
	switch q := s.query; {
	case s.here:
		c = w.fs.clocks(q)
	case q.Device != "" || q.Mount != "" || q.Below != nil:
		limit, cancel := context.WithTimeout(ctx, answerTime)
		var err error
		c, err = readClocks.On(limit, w.t.Machine, q)
		cancel()
		for _, clock := range []string{clockBlock, clockClient, clockServer} {
			s.lacks(clock, err)
		}
		if q.Below != nil {
			s.lacks(clockDevice, err)
		}
	}
	out[clockBlock], out[clockClient], out[clockServer], out[clockDevice] = c.Block, c.Client, c.Server, c.Below
	if len(w.devices) > 0 {
		out[clockDevice] = w.fs.ofDisks(w.devices...)
	}
	if times := w.t.Machine.Caps().DiskTimes; s.disk != "" && times != nil {
		limit, cancel := context.WithTimeout(ctx, answerTime)
		p, err := times(limit, s.disk)
		cancel()
		s.lacks(clockWoken, err)
		s.lacks(clockQEMU, err)
		if err == nil {
			out[clockQEMU] = &passages{By: [3]passage{2: {p.Time.Seconds(), float64(p.Requests), float64(p.Handed)}}}
		}
	}
	return out
}

// lacks records err as the reason why a clock cannot be read, unless another reason is recorded already. It does
// nothing if err is nil.
func (s *stages) lacks(clock string, err error) {
	for i := range s.all {
		if x := &s.all[i]; err != nil && x.End == clock && x.Missing == "" {
			x.Missing = err.Error()
		}
	}
}

// stageValues adds the stages to seen, and the changes of their clocks since Explain. seen must already contain the I/O
// of the device and of the trial (see ownShare).
func (w *Watch) stageValues(ctx context.Context, seen *iotax.Seen) {
	s := w.stages
	took := time.Since(s.since)
	end := w.readStages(ctx)
	passed := map[string]passage{}
	add := func(name string, value float64, unit string) {
		seen.Values = append(seen.Values, iotax.Value{Name: name, Value: value, Unit: unit})
	}
	if s.stop != nil {
		s.kept()
		t, err := s.stop()
		s.lacks(clockServing, err)
		s.lacks(clockCalls, err)
		if err == nil {
			add(iotax.ValueStage(clockServing, iotax.StageBelow), t.Busy, iotax.Seconds)
			if t.Requests > 0 {
				add(iotax.ValueStage(clockServing, iotax.StageRequests), t.Requests, iotax.Count)
			}
			add(iotax.ValueStage(clockCalls, iotax.StageBelow), t.Calls, iotax.Seconds)
			add(iotax.ValueStage(clockCalls, iotax.StageRequests), t.Count, iotax.Count)
		}
	}
	for i := range s.all {
		x := &s.all[i]
		a, b := s.begin[x.End], end[x.End]
		if x.End == "" || x.Missing != "" || x.End == clockServing || x.End == clockCalls || x.End == clockWoken {
			continue
		}
		if a == nil || b == nil {
			x.Missing = "its counters could not be read"
			continue
		}
		share := [3]float64{1, 1, 1}
		if x.End == clockDevice {
			share = ownShare(seen.Values)
		}
		passed[x.End] = b.since(*a, share)
	}
	if s.disk != "" {
		s.lacks(clockWoken, separate(passed, waited(s.waits, w.threadWaits(), passed[clockQEMU].Requests), took))
	}
	for clock, p := range passed {
		add(iotax.ValueStage(clock, iotax.StageBelow), p.Time, iotax.Seconds)
		add(iotax.ValueStage(clock, iotax.StageRequests), p.Requests, iotax.Count)
		add(iotax.ValueStage(clock, iotax.StageHanded), p.Handed, iotax.Count)
	}
	text, err := json.Marshal(s.all)
	if err != nil {
		panic(fmt.Sprint("stages: ", err)) // strings always encode
	}
	seen.Facts[iotax.FactStages] = string(text)
}

// A waiting contains how long a thread waited for a CPU, in seconds. For QEMU's main thread, which also does other work,
// Times is how often it got one.
type waiting struct{ Times, Time float64 }

// threadWaits returns the waits of the threads of QEMU that serve the disk: its I/O threads, or the main thread if it
// has none, and the workers.
func (w *Watch) threadWaits() map[int]waiting {
	proc, err := procfs.NewFS(w.fs.proc)
	if err != nil || w.stages.disk == "" {
		return nil
	}
	all, main, own := map[int]waiting{}, []int{}, false
	for _, pid := range w.t.Processes()["qemu"] {
		threads, _ := proc.AllThreads(pid) // the process may have ended
		for _, t := range threads {
			name, err := t.Comm()
			st, serr := t.Schedstat()
			if err != nil || serr != nil {
				continue
			}
			io := strings.HasPrefix(name, "IO t-"+w.stages.disk) // internal/machine/qemu names it
			x := waiting{Time: float64(st.WaitingNanoseconds) / 1e9}
			if t.PID == pid {
				main, x.Times = append(main, pid), float64(st.RunTimeslices)
			}
			if own = own || io; io || t.PID == pid || name == "worker" {
				all[t.PID] = x
			}
		}
	}
	for _, pid := range main {
		if own {
			delete(all, pid)
		}
	}
	return all
}

// waited returns the sum of the waits for requests between two results of threadWaits. The main thread wakes up
// at most twice for a request, at its start and at its end, and otherwise for other work. Threads that ended in between do not count.
func waited(a, b map[int]waiting, requests float64) (sum float64) {
	for thread, y := range b {
		if x := a[thread]; y.Time > x.Time {
			share := 1.
			if n := y.Times - x.Times; n > 2*requests {
				share = 2 * requests / n
			}
			sum += share * (y.Time - x.Time)
		}
	}
	return sum
}

// separate adds clockWoken to the passages of a trial, and subtracts the waits of QEMU's threads from clockQEMU. QEMU's
// clock contains the waits for its own workers and completions, but not the wait before it sees a request. Only the sum
// of both is known, so separate assumes that they are in proportion to the stages above and below QEMU's clock. It
// returns an error if one wait may delay several requests, or if the threads waited for other work.
func separate(passed map[string]passage, waits float64, took time.Duration) error {
	block, above := passed[clockBlock]
	qemu, ok := passed[clockQEMU]
	switch {
	case !above || !ok || block.Handed <= 0:
		return errors.New("the clocks above and below it could not be read")
	case waits <= 0:
		return errors.New("the kernel counted no wait of QEMU’s threads for a CPU (/proc/PID/task/*/schedstat)")
	case block.Time > took.Seconds():
		return errors.New("on average more than one request is in flight, and a wait of QEMU’s threads for a CPU delays an unknown number of them")
	}
	before := max(0, block.Time*block.Handed/block.Requests-qemu.Time)
	within := max(0, qemu.Time-passed[clockDevice].Time)
	if waits > 1.1*(before+within) { // the waits of two workers may overlap
		return errors.New("QEMU’s threads waited for a CPU longer than the requests were outside of the device")
	}
	waits = min(waits, before+within)
	woken := qemu
	woken.Time += waits * before / (before + within)
	woken.Handed = 0 // QEMU merges requests below this clock
	qemu.Time = woken.Time - waits
	passed[clockWoken], passed[clockQEMU] = woken, qemu
	return nil
}

// ownShare returns the shares, by bytes, of the device's reads, writes and other requests that the trial itself caused.
// An unknown share is 1. The share of other requests is always unknown.
func ownShare(values []iotax.Value) [3]float64 {
	get := func(name string) (float64, bool) {
		i := slices.IndexFunc(values, func(v iotax.Value) bool { return v.Name == name })
		if i < 0 {
			return 0, false
		}
		return values[i].Value, true
	}
	share := [3]float64{1, 1, 1}
	for i, direction := range []string{"read", "write"} {
		own, known := get("own." + direction + ".bytes")
		device, counted := get("device." + direction + ".bytes")
		if known && counted && device > 0 {
			share[i] = min(1, own/device)
		}
	}
	return share
}
