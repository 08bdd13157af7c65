package wired

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack returns what starting and preparing needed and measuring does not: the heap's free pages, and
// the pages of the program itself, which the kernel maps again as they are run. The memory belongs to what is
// measured. It is called once, before the first trial.
func giveBack() {
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		var perms string
		// Only code: it is never written, so that the file holds all of it.
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &perms); n != 3 || perms != "r-xp" || !strings.HasSuffix(s.Text(), exe) || to <= from {
			continue
		}
		// A kernel that refuses leaves the pages where they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, uintptr(unix.MADV_DONTNEED))
	}
}
