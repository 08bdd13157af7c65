//go:build !unix

package object

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
