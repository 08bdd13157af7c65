package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A pinning keeps a guest on some CPUs of this host and everything that iotax runs beside it (load
// generators, the servers of its shares, iotax itself) on the others.
type pinning struct {
	guest, rest, all unix.CPUSet
}

// newPinning checks that this process may use the CPUs, and that some are left.
func newPinning(cpus []int) (*pinning, error) {
	p := &pinning{}
	if err := unix.SchedGetaffinity(0, &p.all); err != nil {
		return nil, err
	}
	p.rest = p.all
	for _, c := range cpus {
		if !p.all.IsSet(c) {
			return nil, fmt.Errorf("CPU %d is not one that may be used here (%s)", c, cpuList(&p.all))
		}
		p.guest.Set(c)
		p.rest.Clear(c)
	}
	if p.rest.Count() == 0 {
		return nil, errors.New("no CPU is left for the load generator and the servers")
	}
	return p, nil
}

// pin moves the guest's process to its CPUs, and this process with its other children to the rest. What
// they start later stays where they are.
func (p *pinning) pin(guest int) error {
	if err := moveThreads(guest, &p.guest); err != nil {
		return err
	}
	return p.moveRest(&p.rest, guest)
}

// undo gives all CPUs back, once the guest is gone.
func (p *pinning) undo() error { return p.moveRest(&p.all, 0) }

func (p *pinning) moveRest(to *unix.CPUSet, but int) error {
	self := os.Getpid()
	errs := []error{moveThreads(self, to)}
	for _, pid := range children(self) {
		if pid == but {
			continue
		}
		for _, below := range append([]int{pid}, children(pid)...) {
			if err := moveThreads(below, to); err != nil && !errors.Is(err, os.ErrNotExist) { // it ended meanwhile
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func moveThreads(pid int, to *unix.CPUSet) error {
	moved := map[string]bool{}
	for again := true; again; { // a thread may start another meanwhile
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

// children lists the processes below pid.
func children(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			if c, err := strconv.Atoi(w); err == nil && !slices.Contains(all, c) {
				all = append(append(all, c), children(c)...)
			}
		}
	}
	return all
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
