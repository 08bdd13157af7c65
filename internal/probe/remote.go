package probe

import (
	"context"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"iotax"
	"iotax/internal/agent"
)

// counters are those of a machine's own kernel. What it does not have is not OK.
type counters struct {
	CPU    procfs.CPUStat
	CPUOK  bool
	Disk   diskStat
	DiskOK bool
}

// readCounters reads the counters of the CPUs and of a block device, if one is named. Those of a device whose counting is off
// are left out.
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

// inside is the state of the counters of the target's own machine; a machine that has none (not
// Linux, gone) yields an empty one.
func inside(ctx context.Context, t *iotax.Target) snapshot {
	s := snapshot{disks: map[string]diskStat{}}
	device := t.Place.Facts[iotax.FactDeviceName]
	if t.Place.Facts[iotax.FactFilesystem] == "btrfs" { // it may be spread over more devices than this one
		device = ""
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := readCounters.On(ctx, t.Machine, device)
	if err != nil {
		return s // what cannot be read is left out
	}
	s.cpu, s.cpuOK = c.CPU, c.CPUOK
	if c.DiskOK {
		s.disks[device] = c.Disk
	}
	return s
}

// insideValues are the values of the target's own machine that mean what they say: a guest's CPU time
// does not (what its virtual CPUs did not get counts as used), but what was stolen is never less than
// it says.
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
