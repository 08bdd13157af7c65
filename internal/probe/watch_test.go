package probe

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"iotax"
	"iotax/internal/probe/pause"
)

func byName(values []iotax.Value) map[string]float64 {
	m := map[string]float64{}
	for _, v := range values {
		m[v.Name] = v.Value
	}
	return m
}

// When a process has ended, all its CPU time is part of the time of its parent, including the time before the trial. The
// time before the trial must not count for the label.
func TestPerProcessOfAnEndedProcess(t *testing.T) {
	at := time.Now()
	a := snapshot{at: at, labels: map[string][]int{"qemu": {1, 2}}, processes: map[int]usage{1: {own: 10}, 2: {own: 100}}}
	b := snapshot{at: at.Add(10 * time.Second), labels: map[string][]int{"qemu": {1, 3}}, processes: map[int]usage{1: {own: 11, waited: 102}, 3: {own: 2}}}
	got := byName(perProcess(a, b))
	if want := map[string]float64{"cpu.host": 0.5, "cpu.host.qemu": 0.5}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDifference(t *testing.T) {
	at := time.Now()
	disk := func(rio, rs, wio, ws, ticks, fl uint64) diskStat {
		var d diskStat
		d.ReadIOs, d.ReadSectors, d.WriteIOs, d.WriteSectors, d.IOsTotalTicks, d.FlushRequestsCompleted = rio, rs, wio, ws, ticks, fl
		d.Flushes = true
		return d
	}
	a := snapshot{at: at, disks: map[string]diskStat{"sda": disk(10, 80, 5, 40, 1000, 1), "sdb": disk(0, 0, 0, 0, 0, 0)},
		cpuOK: true, cpu: procfs.CPUStat{User: 10, Nice: 1, System: 5, Idle: 100, Iowait: 4, IRQ: 1, SoftIRQ: 1, Steal: 2, Guest: 3}}
	b := snapshot{at: at.Add(10 * time.Second), disks: map[string]diskStat{"sda": disk(110, 880, 6, 48, 6000, 3), "sdb": disk(1, 8, 0, 0, 100, 0)},
		cpuOK: true, cpu: procfs.CPUStat{User: 13, Nice: 2, System: 7, Idle: 108, Iowait: 6, IRQ: 1.5, SoftIRQ: 1.5, Steal: 5, Guest: 9}}
	want := map[string]float64{"device.read.bytes": 808 * 512, "device.write.bytes": 8 * 512, "device.read.ios": 101, "device.write.ios": 1,
		"device.flushes": 2, "device.busy": 0.5, "cpu.host.busy": 0.5, "cpu.host.used": 0.7, "cpu.host.user": 0.2, "cpu.host.system": 0.15, "cpu.host.iowait": 0.1, "cpu.host.steal": 0.15}
	if got := byName(difference(a, b)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	// A device that was replaced or removed gets no values, because they would be wrong.
	for _, disks := range []map[string]diskStat{{"sda": disk(0, 0, 0, 0, 0, 0), "sdb": disk(0, 0, 0, 0, 0, 0)}, {"sda": disk(110, 880, 6, 48, 6000, 3)}, {}} {
		c := b
		c.disks = disks
		for name := range byName(difference(a, c)) {
			if strings.HasPrefix(name, "device.") {
				t.Errorf("%s from a device that changed", name)
			}
		}
	}
	zero := snapshot{at: at, disks: map[string]diskStat{"sda": {}}}
	if got := difference(zero, zero); got != nil {
		t.Errorf("from a device that does not count: %v", got)
	}
	if got := difference(a, a); len(got) != 0 { // no time has passed, so there are no shares and no division by zero
		t.Errorf("no time: %v", got)
	}
	// The I/O that the trial itself requested. If a process has ended, the values are missing, because its I/O no
	// longer counts.
	own := func(r, w uint64) snapshot { return snapshot{own: ioBytes{r, w}, ownOK: true} }
	if got := byName(difference(own(5, 7), own(15, 8))); !reflect.DeepEqual(got, map[string]float64{"own.read.bytes": 10, "own.write.bytes": 1}) {
		t.Errorf("own: %v", got)
	}
	for _, c := range []snapshot{own(4, 8), {}} {
		if got := difference(own(5, 7), c); got != nil {
			t.Errorf("own after an end: %v", got)
		}
	}
	if got := difference(snapshot{}, snapshot{}); got != nil {
		t.Errorf("from nothing: %v", got)
	}
}

func TestCPUSeconds(t *testing.T) {
	type family = map[int]usage
	for _, x := range []struct {
		what string
		a, b family
		want float64
	}{
		{"two live on", family{1: {own: 5}, 2: {own: 1}}, family{1: {own: 7}, 2: {own: 2}}, 3},
		{"one began", family{1: {own: 5}}, family{1: {own: 6}, 2: {own: 2}}, 3},
		{"a child ended and was waited for", family{1: {own: 5}, 2: {own: 4}}, family{1: {own: 6, waited: 5}}, 2},
		{"one ended that a stranger waited for", family{1: {own: 5}, 2: {own: 4}}, family{1: {own: 6}}, 1},
		{"nothing happened", family{1: {own: 5, waited: 3}}, family{1: {own: 5, waited: 3}}, 0},
		{"a pid was used again", family{1: {own: 50}}, family{1: {own: 1}}, 0},
	} {
		if got := cpuSeconds(x.a, x.b); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", x.what, got, x.want)
		}
	}
}

func TestResident(t *testing.T) {
	// QEMU shares 1000 bytes of guest memory with a file server that has touched 600 of them.
	if got := resident(map[int]usage{1: {peak: 1200, shmem: 1000}, 2: {peak: 650, shmem: 600}}); got != 1250 {
		t.Errorf("resident = %v, want 1250", got)
	}
}

// tree makes files below a temporary directory. Content of the form "-> target" makes a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(filepath.Join(dir, target), path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDevices(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/devices/sda/sda1/partition":          "1\n",
		"sys/devices/sda/sda1/stat":               "5 0 40 0 6 0 48 0 0 0 0\n",
		"sys/devices/loop0/loop0p1/partition":     "1\n",
		"sys/devices/loop0/loop/backing_file":     "/data/image with a blank\n",
		"sys/devices/loop1/loop/backing_file":     "/deep/loops/on/itself\n",
		"sys/devices/loop2/loop/backing_file":     "/tmp/image\n",
		"sys/class/block/loop2":                   "-> sys/devices/loop2",
		"sys/block/loop2":                         "-> sys/devices/loop2",
		"sys/dev/block/7:3":                       "-> sys/devices/loop2",
		"sys/devices/dm-0/slaves/sda2":            "",
		"sys/devices/nvme0n1/nvme0n1p2/partition": "2\n",
		"sys/devices/nvme1n1/size":                "1\n",
		"sys/fs/btrfs/uuid/devices/nvme0n1p2":     "",
		"sys/fs/btrfs/uuid/devices/nvme1n1":       "",
		"sys/fs/btrfs/half/devices/sdc":           "",
		"sys/class/block/sdc":                     "-> sys/devices/sdc",
		"sys/devices/sdc/stat":                    "5 0 40 0 6 0 48 0 0 0 0\n",
		"sys/dev/block/8:32":                      "-> sys/devices/sdc",
		"sys/devices/zram0/stat":                  "5 0 40 0 6 0 48 0 0 0 0\n",
		"sys/dev/block/254:0":                     "-> sys/devices/zram0",
		"sys/fs/btrfs/half/devices/mute":          "",
		"sys/class/block/sda1":                    "-> sys/devices/sda/sda1",
		"sys/class/block/loop0p1":                 "-> sys/devices/loop0/loop0p1",
		"sys/class/block/loop1":                   "-> sys/devices/loop1",
		"sys/class/block/dm-0":                    "-> sys/devices/dm-0",
		"sys/class/block/nvme0n1p2":               "-> sys/devices/nvme0n1/nvme0n1p2",
		"sys/class/block/nvme1n1":                 "-> sys/devices/nvme1n1",
		"sys/block/sda":                           "-> sys/devices/sda",
		"sys/block/loop0":                         "-> sys/devices/loop0",
		"sys/block/loop1":                         "-> sys/devices/loop1",
		"sys/devices/nvme2n1/stat":                "0 0 0 0 0 0 0 0 0 0 0\n",
		"sys/devices/nvme2n1/nvme2n1p1/partition": "1\n",
		"sys/class/block/nvme2n1p1":               "-> sys/devices/nvme2n1/nvme2n1p1",
		"sys/class/block/nvme2n1":                 "-> sys/devices/nvme2n1",
		"sys/block/nvme2n1":                       "-> sys/devices/nvme2n1",
		"sys/block/nvme2c0n1/stat":                "1 0 8 0\n",
		"sys/block/nvme2c1n1/stat":                "1 0 8 0\n",
		"sys/block/nvme2c0n2/stat":                "1 0 8 0\n",
		"sys/devices/mute/queue/iostats":          "0\n",
		"sys/class/block/mute":                    "-> sys/devices/mute",
		"sys/block/mute":                          "-> sys/devices/mute",
		"sys/dev/block/259:5":                     "-> sys/devices/nvme2n1/nvme2n1p1",
		"sys/dev/block/259:6":                     "-> sys/devices/mute",
		"sys/dev/block/8:1":                       "-> sys/devices/sda/sda1",
		"sys/dev/block/7:1":                       "-> sys/devices/loop0/loop0p1",
		"sys/dev/block/7:2":                       "-> sys/devices/loop1",
		"sys/dev/block/253:0":                     "-> sys/devices/dm-0",
	})
	fs := system{filepath.Join(root, "proc"), filepath.Join(root, "sys")}
	mounts := ParseMounts(`1 1 8:1 / /data rw - ext4 /dev/sda1 rw
2 1 7:1 / /loop rw - ext4 /dev/loop0p1 rw
3 1 253:0 / /lv rw - xfs /dev/mapper/vg-lv rw
4 1 0:9 / /tmp rw - tmpfs tmpfs rw
5 1 0:10 / /merged rw - overlay overlay rw,upperdir=/loop/up
6 1 7:2 / /deep rw - ext4 /dev/loop1 rw
7 1 9:9 / /gone rw - ext4 /dev/md9 rw
10 1 259:5 / /paths rw - xfs /dev/nvme2n1p1 rw
11 1 259:6 / /mute rw - xfs /dev/mute rw
12 1 7:3 / /inmemory rw - ext4 /dev/loop2 rw
13 1 254:0 / /zram rw - ext4 /dev/zram0 rw
8 1 0:11 / /nfs rw - nfs4 host:/x rw
9 1 0:12 / /half rw - btrfs ` + root + `/node rw
`)
	_ = exec.Command("mknod", root+"/node", "b", "8", "32").Run() // without root, the device is unknown
	for path, want := range map[string][]string{
		"/data/x": {"sda1"}, "/loop/x": {"sda1"}, "/lv": {"dm-0"}, "/tmp/x": nil, "/merged/x": {"sda1"},
		"/deep": {"loop1"}, "/inmemory/x": {"loop2"}, "/gone": nil, "/nfs/x": nil, "/elsewhere": nil,
		"/paths/x": {"nvme2c0n1", "nvme2c1n1"}, "/mute/x": nil, "/half/x": nil, "/zram/x": nil,
	} {
		if got := fs.carriers(mounts, path, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := fs.siblings("nvme1n1"); !reflect.DeepEqual(got, []string{"nvme0n1p2", "nvme1n1"}) {
		t.Errorf("siblings: %v", got)
	}
	if got := fs.inBlock("sda1"); got != "sda/sda1" {
		t.Errorf("inBlock: %v", got)
	}
}

// told contains the results of successive calls of Take.
type told [][]pause.Pause

func (t *told) Take() []pause.Pause {
	p := (*t)[0]
	*t = (*t)[1:]
	return p
}

// A pause is reported for the trial in which it occurred, or in paused.before of the next trial.
func TestWatcherTellsPauses(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stopped, suspended := pause.Pause{At: at, Length: 2 * time.Second}, pause.Pause{At: at, Length: time.Hour, Suspended: true}
	k := Watcher{pauses: &told{nil, nil, {stopped}, {suspended, stopped}}}
	for i, want := range []struct {
		paused       float64
		before, fact string
	}{
		{},
		{3602, stopped.String(), suspended.String() + "; " + stopped.String()},
	} {
		w, err := k.Start(t.Context(), &iotax.Target{Machine: there})
		if err != nil {
			t.Fatal(err)
		}
		seen, err := w.Stop(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v, f := byName(seen.Values), seen.Facts
		if v["paused"] != want.paused || f["paused.before"] != want.before || f["paused"] != want.fact {
			t.Errorf("trial %d: paused %v, facts %q", i, v["paused"], f)
		}
	}
}
