//go:build !linux && !darwin

package pause

import "time"

// slept returns 0, because the only available clock runs while the host sleeps (interrupt time on Windows). A suspended
// host is therefore reported as a stopped process.
func slept(time.Duration) time.Duration { return 0 }
