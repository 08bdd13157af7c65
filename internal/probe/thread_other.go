//go:build !linux

package probe

import "time"

// Without /proc there is nothing to sample, so that the cost is 0.
func threadCPU() func() time.Duration { return func() time.Duration { return 0 } }

func threadTime() time.Duration { return 0 }
