//go:build !linux && !darwin

package pause

import "time"

// slept is always 0: the only clock runs while the host sleeps (interrupt time on Windows), so that a sleep looks like a stop.
func slept(time.Duration) time.Duration { return 0 }
