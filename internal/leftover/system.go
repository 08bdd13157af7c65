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

// A system tells of this host what the name of a runner holds. here is that of this program: /proc on Linux, package
// proctable elsewhere.
type system struct {
	boot    func() string                 // what starts count from
	space   func() string                 // in which process ids and starts count
	machine func() string                 // its id, "" for none
	start   func(pid int) (uint64, error) // proctable.ErrGone or os.ErrNotExist of one that has ended
}

// sinceEpoch is the boot of runners whose start counts milliseconds since 1970.
const sinceEpoch = "epoch"

// proc is a system with /proc.
var proc = system{boot: bootID, space: spaces, machine: machineID, start: startOf}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
}

// spaces is the number of this process's PID namespace, followed by that of its time namespace, which shifts what /proc shows as the start
// of every process, unless that is the first one (PROC_TIME_INIT_INO in the kernel).
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

// machineID tells installations apart.
func machineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return hashed(strings.TrimSpace(string(b)))
}

// hashed is what is told of a machine's id: the id itself is not for strangers, who may read a label; see machine-id(5).
func hashed(id string) string {
	if len(id) < 32 { // "" in the images of containers, "uninitialized" while the first boot goes on
		return ""
	}
	sum := sha256.Sum256([]byte("iotax " + id))
	return hex.EncodeToString(sum[:8])
}

// startOf reads when the process pid started. One that has ended and waits to be reaped counts as gone.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		// With the option hidepid, /proc shows a user no processes of others. A signal 0 still distinguishes them from ended ones.
		if p, perr := os.FindProcess(pid); perr == nil && errors.Is(p.Signal(syscall.Signal(0)), os.ErrPermission) {
			return 0, fmt.Errorf("/proc does not show process %d of another user", pid)
		}
	}
	if err != nil {
		return 0, err
	}
	// "pid (name) state ppid …"; the name may hold anything, so count from its end. The start is
	// field 22 of all, 20 behind the name.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	if f[0][0] == 'Z' || f[0][0] == 'X' {
		return 0, proctable.ErrGone
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}
