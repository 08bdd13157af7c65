package vm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"iotax/internal/leftover/proctable"
)

// A pinning keeps a guest on some CPUs of this host, and iotax with its other processes (load generators, servers of
// shares) on the remaining CPUs.
type pinning struct {
	guest, rest, all unix.CPUSet
	pid              int // of the guest's QEMU
}

// pinned contains the CPUs of each pinned guest, by the pid of its QEMU. moveRest does not move these processes.
var pinned = struct {
	sync.Mutex
	guests map[int]unix.CPUSet
}{guests: map[int]unix.CPUSet{}}

// unpinned returns the CPUs in `all` that are neither in `own` nor used by a pinned guest. The caller must hold the lock
// of the variable `pinned`.
func unpinned(all, own unix.CPUSet) unix.CPUSet {
	for _, used := range append(slices.Collect(maps.Values(pinned.guests)), own) {
		for i := range all {
			all[i] &^= used[i]
		}
	}
	return all
}

var errNoCPU = errors.New("no CPU is left for the load generator and the servers")

// atStart returns the CPU set that this process had before the first pinning.
var atStart = sync.OnceValues(func() (all unix.CPUSet, err error) {
	err = unix.SchedGetaffinity(0, &all)
	return all, err
})

// newPinning returns a pinning of a guest to cpus. It returns an error if this process may not use one of them, or if
// no other CPU would remain.
func newPinning(cpus []int) (*pinning, error) {
	all, err := atStart()
	if err != nil {
		return nil, err
	}
	p := &pinning{all: all}
	for _, c := range cpus {
		if !p.all.IsSet(c) {
			return nil, fmt.Errorf("CPU %d is not one that may be used here (%s)", c, cpuList(&p.all))
		}
		p.guest.Set(c)
	}
	pinned.Lock()
	defer pinned.Unlock()
	if p.rest = unpinned(all, p.guest); p.rest.Count() == 0 {
		return nil, errNoCPU
	}
	return p, nil
}

// lastCPUs returns a pinning to the last n CPUs that this process may use, because interrupts and other programs
// usually run on the first CPUs.
func lastCPUs(n int) (*pinning, error) {
	all, err := atStart()
	if err != nil {
		return nil, err
	}
	var cpus []int
	for c := range len(all) * 64 {
		if all.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	if len(cpus) <= n {
		return nil, fmt.Errorf("this host has %d CPUs, and the guest %d", len(cpus), n)
	}
	return newPinning(cpus[len(cpus)-n:])
}

// pin moves the guest's process to the guest's CPUs, and this process and its descendants, except other guests, to the
// CPUs that no guest is pinned to. Later children inherit these CPUs.
func (p *pinning) pin(guest int) error {
	pinned.Lock()
	defer pinned.Unlock()
	if p.rest = unpinned(p.all, p.guest); p.rest.Count() == 0 { // another guest was pinned meanwhile
		return errNoCPU
	}
	p.pid = guest
	pinned.guests[guest] = p.guest
	if err := moveThreads(guest, &p.guest); err != nil {
		return err
	}
	return moveRest(&p.rest)
}

// undo lets this process and its descendants use all CPUs again, except the CPUs of other pinned guests. Call it after the
// guest has ended.
func (p *pinning) undo() error {
	pinned.Lock()
	defer pinned.Unlock()
	delete(pinned.guests, p.pid)
	rest := unpinned(p.all, unix.CPUSet{})
	return moveRest(&rest)
}

// moveRest moves this process and its descendants, except the guests, to the CPUs in `to`. The caller must hold the
// lock of the variable `pinned`.
func moveRest(to *unix.CPUSet) error {
	errs := []error{moveThreads(os.Getpid(), to)}
	for _, pid := range proctable.Tree(os.Getpid())[1:] {
		if _, isGuest := pinned.guests[pid]; isGuest {
			continue
		}
		if err := moveThreads(pid, to); err != nil && !errors.Is(err, os.ErrNotExist) { // ErrNotExist: the process has ended
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func moveThreads(pid int, to *unix.CPUSet) error {
	moved := map[string]bool{}
	for again := true; again; { // a thread may start another one during the loop
		again = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if moved[t.Name()] {
				continue
			}
			tid, _ := strconv.Atoi(t.Name())
			if err := unix.SchedSetaffinity(tid, to); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("set the CPUs of thread %d: %w", tid, err)
			}
			moved[t.Name()], again = true, true
		}
	}
	return nil
}

func cpuList(s *unix.CPUSet) string {
	var names []string
	for c := range len(s) * 64 {
		if s.IsSet(c) {
			names = append(names, strconv.Itoa(c))
		}
	}
	return strings.Join(names, ",")
}

func (p *pinning) facts() map[string]string {
	return map[string]string{"pin.guest": cpuList(&p.guest), "pin.others": cpuList(&p.rest)}
}
