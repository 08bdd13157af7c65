package serving

import "golang.org/x/sys/unix"

// olderWaits lists system calls that wait and that newer architectures do not have.
var olderWaits = []int{unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_WAIT, unix.SYS_PAUSE}

// Offsets in the kernel's struct pt_regs of the first two arguments of a system call, and of its number.
const (
	atFirst  = 112 // di
	atSecond = 104 // si
	atNumber = 120 // orig_ax
)
