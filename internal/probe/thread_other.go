//go:build !linux

package probe

import "time"

// Without /proc there is nothing to sample, and so no thread to account for.
func threadCPU() func() time.Duration { return func() time.Duration { return 0 } }

func threadTime() time.Duration { return 0 }
