package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since this host booted, including the time in which it was suspended.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}
