package serving

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// States of a thread.
const (
	waiting = iota // in a call that waits for requests or for other threads
	busy           // outside of system calls, or in a call that neither waits nor uses a file
	inFile         // in a call on a file
)

// waits lists the calls in which a server waits. It includes read and readv, because a server uses them on sockets,
// pipes and eventfds. Servers other than sftp-server read files with pread.
var waits = []int{unix.SYS_READ, unix.SYS_READV, unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_FUTEX,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_RECVFROM,
	unix.SYS_RECVMSG, unix.SYS_RECVMMSG, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP} // a thread that has ended is not busy

var fileCalls = []int{unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_FSYNC,
	unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FALLOCATE, unix.SYS_COPY_FILE_RANGE}

const (
	mostProcesses = 256
	mostThreads   = 8192
	// refresh is the interval at which new processes are looked up.
	refresh = 200 * time.Millisecond
)

// A thread is the value of one thread in the eBPF map `threads`. Since is the start of its current state in ns of
// CLOCK_MONOTONIC.
type thread struct {
	Since, State       uint64
	Busy, Calls, Count uint64 // Busy and Calls in ns
}

// Offsets of the fields of a thread, and its size.
const (
	atSince = 8 * iota
	atState
	atBusy
	atCalls
	atCount
	threadSize
)

// A measurement contains the functions that remove its parts from the kernel.
type measurement []func() error

func (m *measurement) table(name string, kind ebpf.MapType, key, value, entries uint32) (*ebpf.Map, error) {
	made, err := ebpf.NewMap(&ebpf.MapSpec{Name: "iotax_" + name, Type: kind, KeySize: key, ValueSize: value, MaxEntries: entries})
	if err == nil {
		*m = append(*m, made.Close)
	}
	return made, err
}

func (m *measurement) program(name string, kind ebpf.ProgramType, code asm.Instructions) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "iotax_" + name, Type: kind, License: license, Instructions: code})
	if err == nil {
		*m = append(*m, p.Close)
	}
	return p, err
}

// follow calls `look` immediately and then at every refresh interval, until `stop` is called or `look` returns an
// error. `stop` returns that error.
func (m *measurement) follow(look func() error) (stop func() error, err error) {
	if err := look(); err != nil {
		return nil, err
	}
	end, ended := make(chan struct{}), make(chan error, 1)
	stop = sync.OnceValue(func() error { close(end); return <-ended })
	*m = append(*m, stop)
	go func() {
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-end:
				ended <- nil
				return
			case <-tick.C:
				if err := look(); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	return stop, nil
}

func (m *measurement) close() {
	for _, f := range slices.Backward(*m) {
		_ = f()
	}
}

// Start measures the processes that `pids` lists, until `stop` is called. For NBD, it must start while the server has
// no request. It needs root, or CAP_BPF and CAP_PERFMON.
func Start(pids func() []int, by Protocol) (stop func() (Times, error), err error) {
	const op = "measure a server by its system calls"
	m := &measurement{}
	defer func() {
		if err != nil {
			m.close()
			err = fmt.Errorf("%s: %w", op, err)
		}
	}()
	_ = rlimit.RemoveMemlock() // kernels before 5.11 count maps as locked memory; if this fails, creating the maps fails too
	processes, err := m.table("pids", ebpf.Hash, 4, 4, mostProcesses)
	if err != nil {
		return nil, err
	}
	threads, err := m.table("threads", ebpf.Hash, 8, threadSize, mostThreads)
	if err != nil {
		return nil, err
	}
	programs := []program{{"sys_enter", atEntry(processes.FD(), threads.FD(), by)}, {"sys_exit", atReturn(processes.FD(), threads.FD())}}
	var tallies *ebpf.Map
	if by == NBD {
		if tallies, err = m.table("requests", ebpf.Array, 4, tallySize, 1); err != nil {
			return nil, err
		}
		programs = append(programs, program{"sys_enter", atReply(processes.FD(), tallies.FD())}, program{"sys_exit", atRequest(processes.FD(), tallies.FD())})
	}
	unfollow, err := m.follow(func() error { return put(processes, pids()) })
	if err != nil {
		return nil, err
	}
	for _, x := range programs {
		p, err := m.program(x.at, ebpf.RawTracepoint, x.code)
		if err != nil {
			return nil, err
		}
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: x.at, Program: p})
		if err != nil {
			return nil, err
		}
		*m = append(*m, l.Close)
	}
	return func() (t Times, err error) {
		defer m.close()
		if err = unfollow(); err == nil {
			t, err = sum(threads, tallies)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", op, err)
		}
		return t, err
	}, nil
}

// put adds processes to the kernel's map of measured processes.
func put(processes *ebpf.Map, pids []int) error {
	for _, pid := range pids {
		if err := processes.Put(uint32(pid), uint32(1)); err != nil {
			return err
		}
	}
	return nil
}

// sum adds up the times of the threads, including the time that each thread has been in its current state. If tallies
// is not nil, Busy is the time of the requests instead.
func sum(threads, tallies *ebpf.Map) (t Times, err error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return t, err
	}
	var id uint64
	var x thread
	n := 0
	all := threads.Iterate()
	for all.Next(&id, &x) {
		n++
		d := max(0, float64(now.Nano()-int64(x.Since)))
		b, c := float64(x.Busy), float64(x.Calls)
		switch x.State {
		case busy:
			b += d
		case inFile:
			c += d
		}
		t.Busy, t.Calls, t.Count = t.Busy+(b+c)/1e9, t.Calls+c/1e9, t.Count+float64(x.Count)
	}
	switch {
	case all.Err() != nil:
		return t, all.Err()
	case n == 0:
		return t, errors.New("it made no system call")
	case n >= mostThreads:
		return t, fmt.Errorf("it has more than %d threads", mostThreads)
	case tallies != nil:
		t.Busy, t.Requests, err = requests(tallies, uint64(now.Nano()))
	}
	return t, err
}

// license must be GPL-compatible, because the kernel permits only such programs to read memory.
const license = "Dual BSD/GPL"

// A program runs at a raw tracepoint.
type program struct {
	at   string
	code asm.Instructions
}

// first gives the first instruction a name, to which other instructions can jump.
func first(code asm.Instructions, name string) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

// load returns the instructions that set R7 to the 8 bytes at address plus offset. They end the program if the bytes
// cannot be read.
func load(read asm.BuiltinFunc, address asm.Register, offset int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, address),
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		read.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R7, asm.RFP, -8, asm.DWord),
	}
}

// initial is the inode number of the first PID namespace, PROC_PID_INIT_INO.
const initial = 0xEFFFFFFC

// current returns the instructions that set R0 to the numbers of the current process, times 1<<32, and thread, as this process
// sees them. In a PID namespace, as in a container, they end the program if the current process is not in the same one:
// its number in the first namespace may be the number of another process here. They use the 8 bytes of the stack at `at`.
func current(at int32) asm.Instructions {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &ns); err != nil || ns.Ino == initial {
		return asm.Instructions{asm.FnGetCurrentPidTgid.Call()}
	}
	return asm.Instructions{
		asm.LoadImm(asm.R1, int64(ns.Dev), asm.DWord),
		asm.LoadImm(asm.R2, int64(ns.Ino), asm.DWord),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, at),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(), // since Linux 5.7; stores the thread, then the process
		asm.JNE.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R0, asm.RFP, int16(at), asm.DWord),
	}
}

// ofProcess returns the instructions that end the program if the process is not measured. They set R7 to the thread's
// key.
func ofProcess(processes int) asm.Instructions {
	return append(current(-8),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, processes),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	)
}

// lookUp returns the instructions that both programs of threads share. They end the program if the process is not
// measured. They set R7 to the thread's key, R8 to the time, and R0 to the address of the thread's value, or 0 for a
// new thread. They preserve R9.
func lookUp(processes, threads int) asm.Instructions {
	return append(ofProcess(processes),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.StoreMem(asm.RFP, -16, asm.R7, asm.DWord),
		asm.LoadMapPtr(asm.R1, threads),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.FnMapLookupElem.Call(),
	)
}

// create returns the instructions that create the value of a new thread, in state R9, and end the program.
func create(threads int) asm.Instructions {
	const value = -16 - threadSize
	return asm.Instructions{
		asm.StoreMem(asm.RFP, value+atSince, asm.R8, asm.DWord).WithSymbol("create"),
		asm.StoreMem(asm.RFP, value+atState, asm.R9, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, value+atBusy, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, value+atCalls, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, value+atCount, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, threads),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, value),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
}

// account returns the instructions that add the time since the last event to the total of the old state, switch the
// thread to the state in R9, and end the program. Waiting time has no total. At the end of a file call, they also count
// the call.
func account() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R0, atSince, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Sub.Reg(asm.R2, asm.R1),
		asm.LoadMem(asm.R1, asm.R0, atState, asm.DWord),
		asm.JEq.Imm(asm.R1, waiting, "begin"),
		asm.JEq.Imm(asm.R1, inFile, "file"),
		asm.LoadMem(asm.R3, asm.R0, atBusy, asm.DWord),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.R0, atBusy, asm.R3, asm.DWord),
		asm.Ja.Label("begin"),
		asm.LoadMem(asm.R3, asm.R0, atCalls, asm.DWord).WithSymbol("file"),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.R0, atCalls, asm.R3, asm.DWord),
		asm.LoadMem(asm.R3, asm.R0, atCount, asm.DWord),
		asm.Add.Imm(asm.R3, 1),
		asm.StoreMem(asm.R0, atCount, asm.R3, asm.DWord),
		asm.StoreMem(asm.R0, atSince, asm.R8, asm.DWord).WithSymbol("begin"),
		asm.StoreMem(asm.R0, atState, asm.R9, asm.DWord),
		asm.Ja.Label("out"),
	}
}

// atEntry returns the program for sys_enter(regs, number).
func atEntry(processes, threads int, by Protocol) asm.Instructions {
	code := asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord)}
	if by == SFTP {
		code = append(code, asm.JEq.Imm(asm.R6, unix.SYS_READ, "descriptor"), asm.JEq.Imm(asm.R6, unix.SYS_WRITE, "descriptor"))
	}
	for _, nr := range fileCalls {
		code = append(code, asm.JEq.Imm(asm.R6, int32(nr), "is-file"))
	}
	for _, nr := range slices.Concat(waits, olderWaits) {
		code = append(code, asm.JEq.Imm(asm.R6, int32(nr), "is-wait"))
	}
	code = append(code, asm.Mov.Imm(asm.R9, busy), asm.Ja.Label("known"))
	if by == SFTP { // a read or a write is on a file, unless its descriptor is a standard one
		code = append(code, asm.LoadMem(asm.R8, asm.R1, 0, asm.DWord).WithSymbol("descriptor")) // registers
		code = append(code, load(asm.FnProbeReadKernel, asm.R8, atFirst)...)
		code = append(code, asm.JGT.Imm(asm.R7, 2, "is-file"), asm.JEq.Imm(asm.R6, unix.SYS_READ, "is-wait"),
			asm.Mov.Imm(asm.R9, busy), asm.Ja.Label("known"))
	}
	code = append(code,
		asm.Mov.Imm(asm.R9, inFile).WithSymbol("is-file"), asm.Ja.Label("known"),
		asm.Mov.Imm(asm.R9, waiting).WithSymbol("is-wait"))
	code = append(code, first(lookUp(processes, threads), "known")...)
	code = append(code, asm.JEq.Imm(asm.R0, 0, "create"))
	return append(append(code, account()...), create(threads)...)
}

// interrupted lists the results of a call that a signal interrupted: -EINTR, and the kernel's ERESTARTSYS,
// ERESTARTNOINTR, ERESTARTNOHAND and ERESTART_RESTARTBLOCK. A thread that is stopped before a restart still counts as
// waiting.
var interrupted = []int32{-int32(unix.EINTR), -512, -513, -514, -516}

// atReturn returns the program for sys_exit(regs, result).
func atReturn(processes, threads int) asm.Instructions {
	code := asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), asm.Mov.Imm(asm.R9, waiting)}
	for _, result := range interrupted {
		code = append(code, asm.JEq.Imm(asm.R6, result, "known"))
	}
	code = append(code, asm.Mov.Imm(asm.R9, busy))
	code = append(code, first(lookUp(processes, threads), "known")...)
	code = append(code, asm.JEq.Imm(asm.R0, 0, "create"))
	return append(append(code, account()...), create(threads)...)
}
