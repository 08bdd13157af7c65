package serving

import "golang.org/x/sys/unix"

// olderWaits are calls of waits that newer architectures lack.
var olderWaits = []int{unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_WAIT, unix.SYS_PAUSE}
