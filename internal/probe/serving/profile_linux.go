package serving

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/google/pprof/profile"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const (
	// frequency is the number of samples per second and CPU. It is prime, so that samples do not follow the kernel's
	// tick.
	frequency = 199
	// mostFrames is the maximum number of frames that are kept of a stack, from the innermost one.
	mostFrames = 64
	// mostStacks is the size of the kernel's table of stacks. Two stacks with the same hash cannot both be in it, so
	// the table is much larger than the expected number of stacks.
	mostStacks = 1 << 15
	// mostLooks limits how often the mappings of a process are read, because that costs time. One reading is not
	// enough, because a new process may not have loaded its program and libraries yet.
	mostLooks = 5
	// kernel is the file name of the kernel's functions in a profile.
	kernel = "[kernel]"
)

// NoStack is the frame that replaces a missing stack of a sample. Either iotax had not found the process yet, or
// another stack with the same hash was in the kernel's table.
const NoStack = "[stack not recorded]"

// A place is a process with the ids of its kernel and user stacks in the kernel's table. A negative id means that the
// stack is missing.
type place struct {
	PID          uint32
	Kernel, User int32
	_            uint32
}

// Profile samples the stacks of the processes that `pids` lists while they use a CPU, until `stop` is called. `stop`
// returns the profile in the format of pprof, or nil if it has no samples. Profile needs root, or CAP_BPF and
// CAP_PERFMON.
func Profile(pids func() []int) (stop func() ([]byte, error), err error) {
	const op = "profile processes"
	m := &measurement{}
	defer func() {
		if err != nil {
			m.close()
			err = fmt.Errorf("%s: %w (needs root, or CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_PERF_EVENTS and CONFIG_BPF_EVENTS)", op, err)
		}
	}()
	_ = rlimit.RemoveMemlock()                                    // see Start
	processes, err1 := m.table("pids", ebpf.LRUHash, 4, 4, 1<<13) // a command may start many processes
	counts, err2 := m.table("counts", ebpf.Hash, 16, 8, mostStacks)
	stacks, err3 := m.table("stacks", ebpf.StackTrace, 4, 8*mostFrames, mostStacks)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	p, err := m.program("profile", ebpf.PerfEvent, atSample(processes.FD(), counts.FD(), stacks.FD()))
	if err != nil {
		return nil, err
	}
	known, looks := map[uint32]process{}, map[int]int{}
	unfollow, err := m.follow(func() error {
		all := pids()
		for _, pid := range all {
			if looks[pid]++; looks[pid] > mostLooks {
				continue
			}
			if x, ok := look(pid); ok { // otherwise the process may have ended
				known[uint32(pid)] = x
			}
		}
		return put(processes, all)
	})
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	var events []int
	detach := sync.OnceFunc(func() {
		for _, fd := range events {
			_ = unix.Close(fd)
		}
	})
	*m = append(*m, func() error { detach(); return nil })
	for cpu := range cpus {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
			Size: unix.PERF_ATTR_SIZE_VER1, Sample: frequency, Bits: unix.PerfBitFreq | unix.PerfBitDisabled | unix.PerfBitExcludeIdle}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) { // the CPU is offline
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("perf_event_open: %w", err)
		}
		events = append(events, fd)
		if err := cmp.Or(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD()), unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)); err != nil {
			return nil, fmt.Errorf("attach to the event of CPU %d: %w", cpu, err)
		}
	}
	return func() (_ []byte, err error) {
		defer m.close()
		defer func() {
			if err != nil {
				err = fmt.Errorf("%s: %w", op, err)
			}
		}()
		detach() // stop sampling before reading the symbols, which takes CPU time
		if err := unfollow(); err != nil {
			return nil, err
		}
		w := newWriter(begun)
		frames := func(id int32) []uint64 {
			var stack [mostFrames]uint64
			if id < 0 || stacks.Lookup(id, &stack) != nil {
				return nil
			}
			return slices.DeleteFunc(stack[:], func(at uint64) bool { return at == 0 })
		}
		n := 0
		var at place
		var count int64
		all := counts.Iterate()
		for ; all.Next(&at, &count); n++ {
			if x, ok := known[at.PID]; ok {
				w.add(x, frames(at.Kernel), frames(at.User), at.Kernel == noStack || at.User == noStack, count)
			}
		}
		switch {
		case all.Err() != nil:
			return nil, all.Err()
		case n >= mostStacks:
			return nil, fmt.Errorf("there were more than %d stacks", mostStacks)
		case len(w.p.Sample) == 0:
			return nil, nil
		}
		var b bytes.Buffer
		err = w.p.Write(&b)
		return b.Bytes(), err
	}, nil
}

// noStack replaces the id of a stack that was not recorded; see NoStack. It is the kernel's result if another stack has
// the same hash.
const noStack = -int32(unix.EEXIST)

// atSample returns the program for a sample. It also counts samples of other processes, without stacks, because `pids`
// may list these processes later.
func atSample(processes, counts, stacks int) asm.Instructions {
	const key, value, userStack = -24, -32, 1 << 8
	stack := func(flags int32, to int16) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, stacks),
			asm.Mov.Imm(asm.R3, flags),
			asm.FnGetStackid.Call(),
			asm.StoreMem(asm.RFP, to, asm.R0, asm.Word),
		}
	}
	find := func(table int) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, table),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, key),
			asm.FnMapLookupElem.Call(),
		}
	}
	return slices.Concat(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, current(value), asm.Instructions{
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, key, asm.R0, asm.Word),
		asm.Mov.Imm(asm.R1, noStack),
		asm.StoreMem(asm.RFP, key+4, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, key+8, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, key+12, asm.R1, asm.Word),
	}, find(processes), asm.Instructions{asm.JEq.Imm(asm.R0, 0, "count")}, stack(0, key+4), stack(userStack, key+8),
		first(find(counts), "count"), asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "new"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Ja.Label("out"),
			asm.Mov.Imm(asm.R1, 1).WithSymbol("new"),
			asm.StoreMem(asm.RFP, value, asm.R1, asm.DWord),
			asm.LoadMapPtr(asm.R1, counts),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, key),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, value),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
		})
}

// A process contains the name and the mappings of a process, from /proc.
type process struct {
	name string
	code []*procfs.ProcMap // executable mappings
}

func look(pid int) (process, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return process{}, false
	}
	name, err1 := p.Comm()
	code, err2 := p.ProcMaps()
	return process{name, slices.DeleteFunc(code, func(m *procfs.ProcMap) bool { return !m.Perms.Execute })}, err1 == nil && err2 == nil && len(code) > 0
}

// A writer builds a profile. Each location in the profile represents a function.
type writer struct {
	p         *profile.Profile
	functions map[[2]string]*profile.Location // by name and file
	symbols   map[string]symbols              // by file
}

func newWriter(begun time.Time) *writer {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	return &writer{functions: map[[2]string]*profile.Location{}, symbols: map[string]symbols{kernel: kernelSymbols()}, p: &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, cpu}, PeriodType: cpu, Period: int64(time.Second) / frequency,
		TimeNanos: begun.UnixNano(), DurationNanos: int64(time.Since(begun))}}
}

// add adds count samples with the same stacks. Their functions are in order from the innermost one to the process.
func (w *writer) add(x process, inKernel, user []uint64, lost bool, count int64) {
	var stack []*profile.Location
	add := func(name, file string) {
		l := w.function(name, file)
		if n := len(stack); n == 0 || stack[n-1] != l || name[0] != '[' { // merge consecutive unknown functions of a file
			stack = append(stack, l)
		}
	}
	for _, at := range inKernel {
		add(cmp.Or(w.symbols[kernel].name(at), kernel), kernel)
	}
	for i, at := range user {
		k := slices.IndexFunc(x.code, func(m *procfs.ProcMap) bool { return uint64(m.StartAddr) <= at && at < uint64(m.EndAddr) })
		if k < 0 { // the code has no frame pointers, so this and the following values are not return addresses
			break
		}
		m := x.code[k]
		offset := at - uint64(m.StartAddr) + uint64(m.Offset)
		if i > 0 || inKernel != nil {
			offset-- // a return address is after the call
		}
		name := "[" + strings.Trim(filepath.Base(m.Pathname), "[]") + "]"
		if m.Pathname == "" {
			name = "[generated code]"
		}
		add(cmp.Or(w.of(m).name(offset), name), m.Pathname)
	}
	if lost {
		add(NoStack, "")
	}
	add(x.name, "")
	w.p.Sample = append(w.p.Sample, &profile.Sample{Location: stack, Value: []int64{count, count * w.p.Period}})
}

func (w *writer) function(name, file string) *profile.Location {
	key := [2]string{name, file}
	if w.functions[key] == nil {
		id := uint64(len(w.p.Function) + 1)
		f := &profile.Function{ID: id, Name: name, Filename: file}
		w.functions[key] = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
		w.p.Function, w.p.Location = append(w.p.Function, f), append(w.p.Location, w.functions[key])
	}
	return w.functions[key]
}

// of returns the symbols of a mapping's file. It compares inode numbers, because a process in a container may have
// another file at the same path.
func (w *writer) of(m *procfs.ProcMap) symbols {
	known, ok := w.symbols[m.Pathname]
	if !ok {
		var st syscall.Stat_t
		if filepath.IsAbs(m.Pathname) && syscall.Stat(m.Pathname, &st) == nil && st.Ino == m.Inode {
			known = readSymbols(m.Pathname)
		}
		w.symbols[m.Pathname] = known
	}
	return known
}

// symbols are functions in the order of their addresses.
type symbols []symbol

type symbol struct {
	from, to uint64
	name     string
}

func (s symbols) name(at uint64) string {
	i, ok := slices.BinarySearchFunc(s, at, func(x symbol, at uint64) int { return cmp.Compare(x.from, at) })
	if !ok {
		i--
	}
	if i < 0 || at >= s[i].to {
		return ""
	}
	return s[i].name
}

// readSymbols reads the functions of a file, and those of its separate file with debugging information. The addresses
// of the functions are offsets in the file. It returns nil if it finds no functions.
func readSymbols(path string) (out symbols) {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	add := func(all []elf.Symbol, _ error) { // the error means that the file has no such table
		for _, x := range all {
			if elf.ST_TYPE(x.Info) != elf.STT_FUNC && elf.ST_TYPE(x.Info) != elf.STT_GNU_IFUNC || x.Size == 0 {
				continue
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_LOAD && p.Vaddr <= x.Value && x.Value < p.Vaddr+p.Filesz {
					from := x.Value - p.Vaddr + p.Off
					out = append(out, symbol{from, from + x.Size, x.Name})
				}
			}
		}
	}
	add(f.Symbols())
	add(f.DynamicSymbols())
	if s := f.Section(".note.gnu.build-id"); s != nil {
		if note, err := s.Data(); err == nil && len(note) > 18 {
			id := fmt.Sprintf("%x", note[16:])
			if d, err := elf.Open("/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"); err == nil {
				add(d.Symbols())
				d.Close()
			}
		}
	}
	slices.SortFunc(out, func(a, b symbol) int { return cmp.Compare(a.from, b.from) })
	return out
}

// NamesKernel reports whether profiles contain the names of the kernel's functions.
func NamesKernel() bool { return kernelSymbols() != nil }

// kernelSymbols reads the functions of the kernel from /proc/kallsyms. It returns nil if it cannot open the file, or if
// all addresses in it are 0 because this user may not see them.
func kernelSymbols() (out symbols) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if w := strings.Fields(in.Text()); len(w) > 2 && strings.Contains("tTwW", w[1]) {
			if at, err := strconv.ParseUint(w[0], 16, 64); err == nil && at > 0 {
				out = append(out, symbol{at, 1<<64 - 1, w[2]})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b symbol) int { return cmp.Compare(a.from, b.from) })
	out = slices.CompactFunc(out, func(a, b symbol) bool { return a.from == b.from })
	for i := range len(out) - 1 {
		out[i].to = out[i+1].from
	}
	return out
}
