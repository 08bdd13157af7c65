package serving

import "golang.org/x/sys/unix"

// olderWaits lists system calls that wait and that newer architectures do not have.
var olderWaits = []int{unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_WAIT, unix.SYS_PAUSE}
