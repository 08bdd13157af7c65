//go:build !unix

package object

import "time"

// CPUTime returns 0, because this system does not provide the CPU time.
func CPUTime() time.Duration { return 0 }
