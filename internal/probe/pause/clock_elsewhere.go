//go:build !linux && !darwin

package pause

import "time"

// slept returns 0, because the only clock runs while the host sleeps (interrupt time on Windows). So a sleep looks like a
// stopped process.
func slept(time.Duration) time.Duration { return 0 }
