package probe

import (
	"context"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"iotax"
	"iotax/internal/agent"
)

// counters contains the counters of a machine's kernel. CPUOK and DiskOK are false for counters that could not be read.
type counters struct {
	CPU    procfs.CPUStat
	CPUOK  bool
	Disk   diskStat
	DiskOK bool
}

// readCounters reads the counters of the CPUs. If device is not "", it also reads the counters of that block device,
// unless they are disabled.
var readCounters = agent.New("read counters", func(_ context.Context, device string) (counters, error) {
	return thisHost.counters(device), nil
})

func (fs system) counters(device string) (c counters) {
	if proc, err := procfs.NewFS(fs.proc); err == nil {
		if st, err := proc.Stat(); err == nil {
			c.CPU, c.CPUOK = st.CPUTotal, true
		}
	}
	if device == "" {
		return c
	}
	if disk, _, _ := strings.Cut(fs.inBlock(device), "/"); fs.notCounting(disk) {
		return c
	}
	if disks, err := blockdevice.NewFS(fs.proc, fs.sys); err == nil {
		st, err := fs.diskStat(disks, device)
		c.Disk, c.DiskOK = st, err == nil
	}
	return c
}

// evict writes back and drops the cached pages of the file, block device or tree at a path. It follows symbolic links in
// the path, but not those below it. macOS cannot evict a single file, so evict drops all caches there. On systems other
// than Linux and macOS, it returns an error. On Linux it returns the number of extents of the evicted files, or 0 if it is
// unknown.
var evict = agent.New("evict from the page cache", evictHere)

// EvictOn drops the file, block device or tree at a path of m from the page cache of m. It returns the number of extents
// of the evicted files, or 0 if it is unknown.
func EvictOn(ctx context.Context, m iotax.Machine, path string) (extents int, err error) {
	return evict.On(ctx, m, path)
}

// inside returns the counters of the target's own machine. They are empty if the machine has no such counters (it does
// not run Linux) or does not answer.
func inside(ctx context.Context, t *iotax.Target) snapshot {
	s := snapshot{disks: map[string]diskStat{}}
	device := t.Place.Facts[iotax.FactDeviceName]
	if t.Place.Facts[iotax.FactFilesystem] == "btrfs" { // btrfs may use several devices
		device = ""
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := readCounters.On(ctx, t.Machine, device)
	if err != nil {
		return s // omit counters that cannot be read
	}
	s.cpu, s.cpuOK = c.CPU, c.CPUOK
	if c.DiskOK {
		s.disks[device] = c.Disk
	}
	return s
}

// insideValues returns the reliable values of the target's own machine. The CPU time of a guest is not reliable,
// because it includes time that its virtual CPUs did not get. The guest's steal time is a lower bound of that time.
func insideValues(a, b snapshot) []iotax.Value {
	var values []iotax.Value
	for _, v := range difference(a, b) {
		switch {
		case v.Name == iotax.ValueCPUHostSteal:
			v.Name = iotax.ValueCPUMachineSteal
		case strings.HasPrefix(v.Name, "device.") && v.Name != "device.busy":
			v.Name = "machine." + v.Name
		default:
			continue
		}
		values = append(values, v)
	}
	return values
}
