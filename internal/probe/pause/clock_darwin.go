package pause

import (
	"time"

	"golang.org/x/sys/unix"
)

// slept returns the difference between CLOCK_MONOTONIC and ran, the time of Go's clock. While the host sleeps,
// CLOCK_MONOTONIC runs (clock_gettime(3)), and Go's clock stops.
func slept(ran time.Duration) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano()) - ran
}
