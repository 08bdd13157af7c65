package reporttest

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"iotax"
)

// Profiled returns the run of Explained with a profiled trial in place of each explained one. An I/O on the host disk
// takes 10 µs of CPU time in fio, including 6 µs in vfs_read. An I/O on the guest disk takes 60 µs in QEMU, including
// 42 µs in vfs_read. In odd rounds, an I/O takes 1 % more CPU time. The guest share has no profile.
func Profiled(rounds int) (*iotax.Run, []*iotax.Trial) {
	run, trials := Explained(rounds)
	for _, t := range trials {
		work := t.Explains()
		if work == "" {
			continue
		}
		t.Workload = work + " (profiled)"
		t.Facts = map[string]string{iotax.FactProfiles: work}
		level := int64(1000) // of the trial, in thousandths
		if t.Round%2 == 1 {
			level = 1010
		}
		switch t.Target {
		case "host disk":
			t.Profile = pprof(map[string]int64{"fio;io_loop;[kernel]vfs_read;[kernel]copy": 2 * level, "fio;io_loop;[kernel]vfs_read": 4 * level, "fio;io_loop": 4 * level})
		case "guest disk":
			t.Profile = pprof(map[string]int64{"qemu;aio_worker;[kernel]vfs_read;[kernel]copy": 2 * level, "qemu;aio_worker;[kernel]vfs_read": 40 * level, "qemu;aio_worker": 12 * level, "qemu;[stack not recorded]": 6 * level})
		default:
			t.Facts[iotax.FactNoProfile] = "profile processes: operation not permitted"
		}
	}
	return run, trials
}

// pprof returns a profile of 10,000 I/Os. `stacks` contains the ns that an I/O spends in each stack.
func pprof(stacks map[string]int64) []byte {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}
	for _, stack := range slices.Sorted(maps.Keys(stacks)) {
		s := &profile.Sample{Value: []int64{stacks[stack] * 10_000}}
		for name := range strings.SplitSeq(stack, ";") {
			file := ""
			if rest, ok := strings.CutPrefix(name, "[kernel]"); ok {
				name, file = rest, "[kernel]"
			}
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: file}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			s.Location = append([]*profile.Location{l}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		panic(err) // cannot happen: the profile is complete
	}
	return b.Bytes()
}
