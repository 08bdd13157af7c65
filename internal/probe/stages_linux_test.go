package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"

	"iotax"
)

// A merged request counts once for each of its I/Os. The device's work for other processes does not count.
func TestPassages(t *testing.T) {
	a := ofDisk(blockdevice.IOStats{ReadIOs: 100, ReadMerges: 5, ReadTicks: 70, WriteIOs: 10, WriteTicks: 10, TimeSpentFlushing: 3})
	b := ofDisk(blockdevice.IOStats{ReadIOs: 300, ReadMerges: 205, ReadTicks: 270, WriteIOs: 20, WriteTicks: 40, TimeSpentFlushing: 9000})
	if got, want := b.since(a, [3]float64{1, 1, 1}), (passage{.43, 410, 210}); fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := b.since(a, [3]float64{.5, 0, 1}), (passage{.2, 200, 100}); fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := a.since(b, [3]float64{1, 1, 1}); got != (passage{}) {
		t.Errorf("backwards: %v", got)
	}
	of := func(own, device float64) [3]float64 {
		return ownShare([]iotax.Value{{Name: "own.read.bytes", Value: own}, {Name: "device.read.bytes", Value: device}})
	}
	if of(10, 40)[0] != .25 || of(40, 10)[0] != 1 || of(0, 0)[0] != 1 || of(10, 40)[1] != 1 {
		t.Error("own share")
	}
}

const mountstats = `device /dev/vda1 mounted on / with fstype ext4
device 10.0.2.2:/export mounted on /mnt/nfs with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2,rsize=262144
	age:	25
	impl_id:	name='',domain='',date='0,0'
	caps:	caps=0x3ffbffff,wtmult=512,dtsize=262144,bsize=0,namlen=255
	nfsv4:	bm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x800,acl=0x0,sessions,pnfs=not configured,lease_time=90,lease_expired=0
	sec:	flavor=1,pseudoflavor=1
	events:	1 2 0 0 3 4 8 0 0 2 0 0 0 1 0 3 0 0 3 0 0 0 0 0 0 0 0
	bytes:	0 0 8388608 0 8388608 0 0 0
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
	xprt:	tcp 0 0 1 0 24 2100 2100 0 2101 0 2 0 0
	per-op statistics
	        NULL: 1 1 0 44 24 0 5 6 0
	        READ: 2000 2000 0 432000 8568000 100 3000 3300 0
	       WRITE: 100 100 0 43200 856800 20 400 500 0
`

// The clocks of an NFS mount include all its operations.
func TestNFSClocks(t *testing.T) {
	fs := system{proc: t.TempDir()}
	dir := filepath.Join(fs.proc, fmt.Sprint(os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mountstats"), []byte(mountstats), 0o600); err != nil {
		t.Fatal(err)
	}
	c := fs.clocks(clockQuery{Mount: "/mnt/nfs"})
	if c.Client == nil || c.Server == nil || fmt.Sprintf("%.3f", c.Client.By[2]) != "{3.806 2101.000 2101.000}" || fmt.Sprintf("%.3f", c.Server.By[2]) != "{3.405 2101.000 2101.000}" {
		t.Errorf("%+v %+v", c.Client, c.Server)
	}
	if c := fs.clocks(clockQuery{Mount: "/"}); c.Client != nil || c.Server != nil || c.Block != nil {
		t.Errorf("another mount: %+v", c)
	}
}

// stagesOf returns the stages and values of a trial that calls `do`.
func stagesOf(t *testing.T, target *iotax.Target, do func()) (stages []iotax.Stage, values map[string]float64) {
	t.Helper()
	return stagesBy(t, &Watcher{}, target, do)
}

func stagesBy(t *testing.T, k *Watcher, target *iotax.Target, do func()) (stages []iotax.Stage, values map[string]float64) {
	t.Helper()
	w, err := k.Explain(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	do()
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(seen.Facts[iotax.FactStages]), &stages); err != nil {
		t.Fatal(err, seen.Facts)
	}
	return stages, byName(seen.Values)
}

func names(stages []iotax.Stage) string {
	var all []string
	for _, s := range stages {
		all = append(all, s.Name+" > "+s.End)
	}
	return strings.Join(all, " | ")
}

// A target on a loop device has the clock of the loop device, and the clock of the device below its file: on this host,
// on another machine, and in a container whose overlay is on the loop device.
func TestStagesOfThisKernel(t *testing.T) {
	dir, device := loopMount(t, false)
	merged := filepath.Join(t.TempDir(), "merged")
	for _, d := range []string{merged, dir + "/lower", dir + "/upper", dir + "/work"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(merged, unix.MNT_DETACH) })
	for name, target := range map[string]*iotax.Target{
		"this host":       {Machine: here, Place: iotax.Place{Path: dir, Backing: dir}},
		"another machine": {Machine: there, Place: iotax.Place{Path: dir}},
		"container":       {Machine: there, Place: iotax.Place{Path: merged, Backing: dir + "/upper"}},
	} {
		stages, v := stagesOf(t, target, func() { writeDirect(t, filepath.Join(target.Place.Path, "x"), 4<<20) })
		want := "above the block layer > block | " + device + " and the file below it > device | device > "
		if v[iotax.ValueStage(clockDevice, iotax.StageRequests)] == 0 || stages[0].End == clockDevice { // the loop device's file is in memory
			want = "above the block layer > device | device > "
		}
		first := stages[0].End
		if names(stages) != want || !(v[iotax.ValueStage(first, iotax.StageBelow)] > 0) || !(v[iotax.ValueStage(first, iotax.StageRequests)] > 0) {
			t.Errorf("%s: %s, want %s; %v", name, names(stages), want, v)
		}
	}
}

// A stage whose end cannot be measured records the reason.
func TestMissingLayers(t *testing.T) {
	lacks := func(fs system, path, want string) {
		t.Helper()
		if got := fs.layers(path); !strings.Contains(got.Missing, want) || got.Counting != nil {
			t.Errorf("%s: %+v, want %q", path, got, want)
		}
	}
	lacks(thisHost, "", "no path of this host is known")
	lacks(thisHost, "/none/such", "no such file or directory")
	lacks(thisHost, "/proc", "no counter of a block device")
	fs := system{t.TempDir(), t.TempDir()}
	dir := t.TempDir()
	for name, text := range map[string]string{
		fs.proc + "/self/mountinfo":         "20 1 0:20 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/hidden,workdir=/w\n",
		fs.sys + "/block/sdz/queue/iostats": "0\n",
		fs.sys + "/class/block/sdz/dev":     "9:9\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lacks(fs, dir, "the upper directory of the overlay is not visible")
	if err := os.WriteFile(fs.proc+"/self/mountinfo", []byte("20 1 9:9 / / rw - ext4 /dev/sdz rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lacks(fs, dir, "a 1 in /sys/block/sdz/queue/iostats makes it count")
	memory := &iotax.Target{Machine: here, Place: iotax.Place{Path: "/dev/shm", Backing: "/dev/shm", Durability: iotax.Volatile}}
	if stages, _ := stagesOf(t, memory, func() {}); names(stages) != "above the block layer > device | device > " || stages[0].Missing != "the place is in memory" {
		t.Errorf("%+v", stages)
	}
}

// A guest is this host with the capabilities of a guest. times returns the times of its disk.
type guest struct {
	iotax.Machine
	times func() (iotax.Passed, error)
}

func (g guest) Caps() iotax.MachineCaps {
	c := iotax.MachineCaps{Facts: map[string]string{iotax.FactAccel: "kvm"}}
	if g.times != nil {
		c.DiskTimes = func(context.Context, string) (iotax.Passed, error) { return g.times() }
	}
	return c
}

// A guest has the clocks of its block layer, of QEMU, and of the device. If a clock cannot be read, its stage records
// the reason.
func TestStagesOfGuests(t *testing.T) {
	n := uint64(0)
	counting := guest{there, func() (iotax.Passed, error) {
		n += 100
		return iotax.Passed{Time: time.Duration(n) * time.Millisecond, Requests: n, Handed: n / 2}, nil
	}}
	disk := map[string]string{iotax.FactDeviceName: "none-such", iotax.FactDiskSerial: "t1", iotax.FactDiskBus: "virtio-blk"}
	stages, v := stagesOf(t, &iotax.Target{Machine: counting, Place: iotax.Place{Facts: disk}}, func() {})
	if names(stages) != "guest above the block layer > block | virtio-blk queue > woken | wake-up > qemu | QEMU and its file system > device | device > " {
		t.Error(names(stages))
	}
	if v[iotax.ValueStage(clockQEMU, iotax.StageBelow)] != .1 || v[iotax.ValueStage(clockQEMU, iotax.StageRequests)] != 100 || v[iotax.ValueStage(clockQEMU, iotax.StageHanded)] != 50 {
		t.Errorf("%v", v)
	}
	if stages[0].Missing == "" || !strings.Contains(stages[1].Missing, "clocks above and below") || stages[2].Missing != "" || stages[3].Missing == "" {
		t.Errorf("%+v", stages)
	}
	failing := guest{there, func() (iotax.Passed, error) { return iotax.Passed{}, errors.New("QEMU does not answer") }}
	if stages, _ = stagesOf(t, &iotax.Target{Machine: failing, Place: iotax.Place{Facts: disk}}, func() {}); stages[1].Missing != "QEMU does not answer" || stages[2].Missing != "QEMU does not answer" {
		t.Errorf("%+v", stages)
	}
	share := map[string]string{iotax.FactShareType: "virtiofs"}
	stages, _ = stagesOf(t, &iotax.Target{Machine: counting, Place: iotax.Place{Facts: share}}, func() {})
	if names(stages) != "guest file system > fuse | queue, server and its file system > device | device > " || !strings.Contains(stages[0].Missing, "tracing them in the guest") {
		t.Errorf("%+v", stages)
	}
	nfs := map[string]string{iotax.FactShareType: "nfs", iotax.FactFilesystemMount: "/none"}
	stages, _ = stagesOf(t, &iotax.Target{Machine: counting, Place: iotax.Place{Facts: nfs, Backing: "/"}}, func() {})
	if !strings.HasPrefix(names(stages), "guest above the NFS client > nfs-client | NFS client > nfs-server | network, NFS server") || stages[0].Missing != "its counters could not be read" {
		t.Errorf("%+v", stages)
	}
}

// Explain measures the server of a place if the system permits it.
func TestStagesOfServers(t *testing.T) {
	with := func(facts map[string]string, labels ...string) *iotax.Target {
		return &iotax.Target{Machine: guest{there, nil}, Place: iotax.Place{Path: "/x", Backing: "/", Facts: facts},
			Serving: []func() map[string][]int{func() map[string][]int {
				all := map[string][]int{}
				for i, l := range labels {
					all[l] = []int{os.Getpid() + i}
				}
				return all
			}}}
	}
	at := func(share string, labels ...string) *iotax.Target {
		return with(map[string]string{iotax.FactShareType: share}, labels...)
	}
	export := func(aio string, labels ...string) *iotax.Target {
		return with(map[string]string{iotax.FactNBD: "qemu-nbd", iotax.FactNBDAIO: aio}, labels...)
	}
	attached := export("threads", "qemu-nbd")
	attached.Place.Kind, attached.Place.Path = iotax.PlaceDevice, "/dev/nbd7"
	var measured []int
	var protocol string
	stops := 0
	k := &Watcher{Serving: func(pids func() []int, by string) (func() (ServingTime, error), error) {
		measured, protocol = pids(), by
		return func() (ServingTime, error) { stops++; return ServingTime{2, 200, 1.5, 300}, nil }, nil
	}}
	for _, x := range []struct {
		target   *iotax.Target
		want     string
		pids     int
		protocol string
	}{
		{at("virtiofs", "virtiofsd"), "guest file system > fuse | queue and wake-up > serving | virtiofsd > calls | host file system > device | device > ", 1, ""},
		{at("virtiofs", "virtiofsd", "qemu"), "guest file system > fuse | queue and wake-up > serving | virtiofsd > calls | host file system > device | device > ", 1, ""},
		{at("9p", "qemu"), "guest file system > fuse | queue, wake-up and QEMU’s 9p server > calls | host file system > device | device > ", 1, ""},
		{at("nfs", "qemu", "ganesha"), "guest above the NFS client > nfs-client | NFS client > nfs-server | network and wake-up > serving | NFS server > calls | host file system > device | device > ", 1, ""},
		{at("sshfs", "sftp-server"), "guest file system > fuse | SSH connection and wake-up > serving | sftp-server > calls | host file system > device | device > ", 1, "sftp"},
		{export("threads", "qemu-nbd", "qemu"), "client and network > serving | qemu-nbd > calls | host file system > device | device > ", 1, "nbd"},
		{attached, "guest above the block layer > block | client and network > serving | qemu-nbd > calls | host file system > device | device > ", 1, "nbd"},
		{export("native"), "client and network > serving | NBD server and the layers below it > ", 0, ""},
	} {
		measured, protocol = nil, ""
		stages, v := stagesBy(t, k, x.target, func() {})
		if names(stages) != x.want || len(measured) != x.pids || protocol != x.protocol {
			t.Errorf("%s, want %s; %v by %q", names(stages), x.want, measured, protocol)
		}
		if x.pids > 0 && (v[iotax.ValueStage(clockServing, iotax.StageBelow)] != 2 || v[iotax.ValueStage(clockCalls, iotax.StageBelow)] != 1.5 || v[iotax.ValueStage(clockCalls, iotax.StageRequests)] != 300 || v[iotax.ValueStage(clockServing, iotax.StageRequests)] != 200) {
			t.Errorf("%v", v)
		}
	}
	if stages, _ := stagesBy(t, k, export("native", "qemu-nbd"), func() {}); !strings.Contains(stages[1].Missing, "aio: threads would show it") {
		t.Errorf("%+v", stages)
	}
	if stages, _ := stagesBy(t, k, export(""), func() {}); stages[0].Missing == "" {
		t.Errorf("%+v", stages)
	}
	for _, k := range []*Watcher{{}, {Serving: func(func() []int, string) (func() (ServingTime, error), error) {
		return nil, errors.New("not permitted")
	}},
		{Serving: func(func() []int, string) (func() (ServingTime, error), error) {
			return func() (ServingTime, error) { return ServingTime{}, errors.New("not permitted") }, nil
		}}} {
		stages, v := stagesBy(t, k, at("virtiofs", "virtiofsd"), func() {})
		if _, ok := v[iotax.ValueStage(clockServing, iotax.StageBelow)]; ok || stages[1].Missing == "" || stages[2].Missing == "" || k.Serving != nil && stages[2].Missing != "not permitted" {
			t.Errorf("%+v", stages)
		}
	}
	// If a trial is interrupted, Stop is not called. The end of the context then stops the measurement.
	stops = 0
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := k.Explain(ctx, at("virtiofs", "virtiofsd")); err != nil {
		t.Fatal(err)
	}
	cancel()
	for end := time.Now().Add(5 * time.Second); stops == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if stops != 1 {
		t.Errorf("stopped %d times", stops)
	}
}

// The waits of QEMU's threads are a stage of their own, unless the share of them that delayed requests is unknown.
func TestSeparateWaits(t *testing.T) {
	passed := func() map[string]passage {
		return map[string]passage{clockBlock: {.9, 200, 200}, clockQEMU: {.3, 200, 200}, clockDevice: {.1, 200, 200}}
	}
	p := passed()
	if err := separate(p, .4, time.Second); err != nil || fmt.Sprintf("%.3f %.3f", p[clockWoken], p[clockQEMU]) != "{0.600 200.000 0.000} {0.200 200.000 200.000}" {
		t.Errorf("%v: %v", err, p)
	}
	if p = passed(); separate(p, .85, time.Second) != nil || math.Abs(p[clockQEMU].Time-.1) > 1e-9 {
		t.Errorf("overlapping waits: %v", p)
	}
	for want, err := range map[string]error{
		"more than one request": separate(passed(), .4, 800*time.Millisecond),
		"longer than":           separate(passed(), .9, time.Second),
		"counted no wait":       separate(passed(), 0, time.Second),
		"could not be read":     separate(map[string]passage{clockQEMU: {.3, 200, 200}}, .4, time.Second),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	a := map[int]waiting{1: {100, 2}, 2: {100, 5}, 3: {100, 1}, 5: {0, 1}}
	b := map[int]waiting{1: {200, 2.5}, 3: {1100, 2}, 4: {50, .25}, 5: {0, 2}} // thread 3 wakes up ten times for each request
	if got := waited(a, b, 100); math.Abs(got-1.95) > 1e-9 {
		t.Error(got)
	}
}
