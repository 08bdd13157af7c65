package wired

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack returns to the OS the memory that setup used and trials do not need, which leaves more for the measured
// system. Call it before the first trial.
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
		// Drop only code pages: the program never writes to them, so the kernel can read them again from the file.
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &perms); n != 3 || perms != "r-xp" || !strings.HasSuffix(s.Text(), exe) || to <= from {
			continue
		}
		// Ignore the error: the pages then stay in memory.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, uintptr(unix.MADV_DONTNEED))
	}
}
