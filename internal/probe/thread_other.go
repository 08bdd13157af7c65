//go:build !linux

package probe

import "time"

// threadCPU returns a function that returns 0, because there is nothing to sample without /proc.
func threadCPU() func() time.Duration { return func() time.Duration { return 0 } }

func threadTime() time.Duration { return 0 }
