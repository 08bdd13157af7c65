//go:build !linux && !darwin

package pause

import "time"

// slept is always nothing: the one clock there is goes on while the host sleeps (interrupt time on Windows), so that a sleep shows
// as a stop.
func slept(time.Duration) time.Duration { return 0 }
