package pause

import (
	"time"

	"golang.org/x/sys/unix"
)

// slept returns how far CLOCK_MONOTONIC, which runs while the host sleeps (clock_gettime(3)), is ahead of ran, the time of
// Go's clock, which stops.
func slept(ran time.Duration) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano()) - ran
}
