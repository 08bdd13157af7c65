package pause

import (
	"time"

	"golang.org/x/sys/unix"
)

// slept returns the lead of CLOCK_MONOTONIC, which runs while the host sleeps (clock_gettime(3)), over Go's clock, which does not.
func slept(ran time.Duration) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano()) - ran
}
