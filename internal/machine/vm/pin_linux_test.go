package vm

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// affinity returns the CPUs that a process may use.
func affinity(t *testing.T, pid int) string {
	t.Helper()
	var s unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &s); err != nil {
		t.Fatal(err)
	}
	return cpuList(&s)
}

// A pinned guest runs on its CPUs, and other processes of iotax on the remaining CPUs. After the guest has closed,
// these processes may use all CPUs again.
func TestPin(t *testing.T) {
	long.Test(t)
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	if all.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	before := cpuList(&all)
	cpus, err := parseCPUs(before)
	if err != nil {
		t.Fatal(err)
	}
	last := strconv.Itoa(cpus[len(cpus)-1])
	server := exec.Command("sleep", "600") // represents a share's server
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	g := openGuest(t, func(s *Spec) { emulated(s); s.Pin = last; s.PinMemory = "0" }, iotax.Device{ID: "s", Share: &iotax.Share{Path: t.TempDir(), Type: "9p"}})
	if got := affinity(t, g.vm.Pid()); got != last {
		t.Errorf("QEMU is on CPUs %s, not %s", got, last)
	}
	rest := g.facts["pin.others"]
	for _, pid := range []int{os.Getpid(), server.Process.Pid} {
		if got := affinity(t, pid); got != rest || got == before {
			t.Errorf("process %d is on CPUs %s, not %s", pid, got, rest)
		}
	}
	if _, err := newPinning(cpus[:len(cpus)-1]); !errors.Is(err, errNoCPU) {
		t.Errorf("a second guest on all other CPUs: %v", err)
	}
	// Closing a second guest with the same pinning does not move the first guest, and the other processes stay pinned.
	again, err := g.Restart(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if guest, self := affinity(t, g.vm.Pid()), affinity(t, os.Getpid()); guest != last || self != rest {
		t.Errorf("after another guest, QEMU is on CPUs %s and this process on %s", guest, self)
	}
	closeGuest(t, g)
	for _, pid := range []int{os.Getpid(), server.Process.Pid} {
		if got := affinity(t, pid); got != before {
			t.Errorf("afterwards process %d is on CPUs %s, not %s", pid, got, before)
		}
	}
	for _, c := range []struct{ pin, cause string }{{before, "no CPU is left"}, {"1023", "is not one that may be used"}} {
		_, _, err := tryGuest(t, t.Context(), func(s *Spec) { s.Pin = c.pin })
		machinetest.WantHint(t, err, c.cause, "pin:")
	}
}

func TestParseCPUs(t *testing.T) {
	if got, err := parseCPUs("0-2,4"); err != nil || len(got) != 4 || got[3] != 4 {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "a", "2-1", "1-", "-1", "1,,2", "99999"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
		if err := (&Spec{Memory: 1 << 30, CPUs: 1, Accel: "tcg", User: "root", Pin: bad}).Validate(); bad != "" {
			if _, ok := err.(*plan.FieldError); !ok {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
}

// lastCPUs returns a pinning to the last CPUs. It returns an error if no CPU would remain for the other processes.
func TestPinAuto(t *testing.T) {
	all, err := atStart()
	if err != nil {
		t.Fatal(err)
	}
	n := all.Count()
	if p, err := lastCPUs(n); err == nil || !strings.Contains(err.Error(), "CPUs") {
		t.Errorf("all of %d CPUs are taken: %v", n, p)
	}
	if n < 2 {
		return
	}
	p, err := lastCPUs(1)
	if err != nil || p.guest.Count() != 1 || p.rest.Count() != n-1 {
		t.Fatalf("%+v, %v", p, err)
	}
	list := strings.Split(cpuList(&all), ",")
	if got := p.facts()["pin.guest"]; got != list[n-1] {
		t.Errorf("CPU %s of %v", got, list)
	}
	if err := (&Spec{Memory: 1 << 30, CPUs: 1, Accel: "tcg", User: "root", Pin: autoPin}).Validate(); err != nil {
		t.Error(err)
	}
}
