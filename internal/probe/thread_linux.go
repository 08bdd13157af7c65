package probe

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU locks the goroutine to its thread. The returned function unlocks it, and returns the CPU time that the
// thread used in between.
func threadCPU() func() time.Duration {
	runtime.LockOSThread()
	begun := threadTime()
	return func() time.Duration {
		used := threadTime() - begun
		runtime.UnlockOSThread()
		return used
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
