package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since this host booted, suspensions included.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}
