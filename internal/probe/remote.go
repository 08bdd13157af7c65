package probe

import (
	"context"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"iotax"
)

// countersScript prints the counters of the CPUs and of the block device $1 as a machine's own kernel
// has them. It is made of builtins, so that a reading costs one process over there.
const countersScript = `
read -r x </proc/stat && echo "stat $x"
[ -n "$1" ] || exit 0
for q in "/sys/class/block/$1/queue/iostats" "/sys/class/block/$1/../queue/iostats"; do
	[ -r "$q" ] && read -r on <"$q" && [ "$on" = 0 ] && exit 0
done
read -r x <"/sys/class/block/$1/stat" && echo "disk $x"
true
`

// inside is the state of the counters of the target's own machine; a machine that has none (not
// Linux, gone) yields an empty one. Counts of a device whose
// counting is off are left out.
func inside(ctx context.Context, t *iotax.Target) snapshot {
	s := snapshot{disks: map[string]diskStat{}}
	device := t.Place.Facts["device.name"]
	if t.Place.Facts["filesystem"] == "btrfs" { // it may be spread over more devices than this one
		device = ""
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// Its error does not matter: what is not told is not known.
	out, err := iotax.Output(ctx, t.Machine, "sh", "-c", countersScript, "sh", device)
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(out)) {
		switch kind, rest, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "stat":
			s.cpu, s.cpuOK = parseCPU(rest)
		case "disk":
			if st, ok := parseDisk(rest); ok {
				s.disks[device] = st
			}
		}
	}
	return s
}

// parseCPU reads the first line of /proc/stat, see proc_stat(5).
func parseCPU(line string) (procfs.CPUStat, bool) {
	name, rest, _ := strings.Cut(line, " ")
	n, ok := numbers(rest)
	if name != "cpu" || !ok || len(n) < 8 { // steal is the eighth, since Linux 2.6.11
		return procfs.CPUStat{}, false
	}
	const hz = 100 // USER_HZ, a constant of the kernel's interface
	f := func(i int) float64 { return float64(n[i]) / hz }
	return procfs.CPUStat{User: f(0), Nice: f(1), System: f(2), Idle: f(3), Iowait: f(4), IRQ: f(5), SoftIRQ: f(6), Steal: f(7)}, true
}

// parseDisk reads the stat file of a block device, see Documentation/block/stat.rst.
func parseDisk(line string) (diskStat, bool) {
	n, ok := numbers(line)
	if !ok || len(n) < 11 {
		return diskStat{}, false
	}
	st := diskStat{IOStats: blockdevice.IOStats{
		ReadIOs: n[0], ReadSectors: n[2], WriteIOs: n[4], WriteSectors: n[6], IOsTotalTicks: n[9]}}
	if len(n) >= 17 {
		st.FlushRequestsCompleted, st.flushes = n[15], true
	}
	return st, true
}

func numbers(s string) ([]uint64, bool) {
	var out []uint64
	for f := range strings.FieldsSeq(s) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// insideValues are the values of the target's own machine that mean what they say: a guest's CPU time
// does not (what its virtual CPUs did not get counts as used), but what was stolen is never less than
// it says.
func insideValues(a, b snapshot) []iotax.Value {
	var values []iotax.Value
	for _, v := range difference(a, b) {
		switch {
		case v.Name == "cpu.host.steal":
			v.Name = "cpu.machine.steal"
		case strings.HasPrefix(v.Name, "device.") && v.Name != "device.busy":
			v.Name = "machine." + v.Name
		default:
			continue
		}
		values = append(values, v)
	}
	return values
}
