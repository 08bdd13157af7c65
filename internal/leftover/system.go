package leftover

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"iotax/internal/leftover/proctable"
)

// A system provides the fields of a runner on this host. The variable `here` is proc on Linux, and table on other
// systems.
type system struct {
	boot    func() string                 // the boot id, or sinceEpoch if start times count from 1970
	space   func() string                 // the namespaces in which process ids and start times are valid
	machine func() string                 // the id of the installation; "" if there is none
	start   func(pid int) (uint64, error) // start time; the error is proctable.ErrGone or os.ErrNotExist if the process has ended
}

// sinceEpoch is the value of Runner.Boot if Runner.Start is in milliseconds since 1970.
const sinceEpoch = "epoch"

// proc is the system on Linux. It reads /proc.
var proc = system{boot: bootID, space: spaces, machine: machineID, start: startOf}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
}

// spaces returns the number of this process's PID namespace. A time namespace shifts the start times in /proc, so
// spaces appends the number of the time namespace unless it is the initial one (PROC_TIME_INIT_INO in the kernel).
func spaces() string {
	number := func(kind string) string {
		s, _ := os.Readlink("/proc/self/ns/" + kind) // pid:[4026531836]
		return strings.TrimSuffix(strings.TrimPrefix(s, kind+":["), "]")
	}
	if time := number("time"); time != "" && time != "4026531834" {
		return number("pid") + "+" + time
	}
	return number("pid")
}

// machineID returns an id that differs between installations, or "" if there is none.
func machineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return hashed(strings.TrimSpace(string(b)))
}

// hashed returns a hash of a machine's id. Labels are visible to other users, who must not see the id itself: see
// machine-id(5).
func hashed(id string) string {
	if len(id) < 32 { // "" in container images, "uninitialized" during the first boot
		return ""
	}
	sum := sha256.Sum256([]byte("iotax " + id))
	return hex.EncodeToString(sum[:8])
}

// startOf reads the start time of the process pid. A zombie counts as ended.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		// With the option hidepid, /proc hides the processes of other users. Signal 0 still distinguishes them from
		// processes that have ended.
		if p, perr := os.FindProcess(pid); perr == nil && errors.Is(p.Signal(syscall.Signal(0)), os.ErrPermission) {
			return 0, fmt.Errorf("/proc does not show process %d of another user", pid)
		}
	}
	if err != nil {
		return 0, err
	}
	// "pid (name) state ppid …": the name may contain any character, so parse from its end. The start time is field 22,
	// the 20th after the name.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	if f[0][0] == 'Z' || f[0][0] == 'X' {
		return 0, proctable.ErrGone
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}
