//go:build !unix

package object

import "time"

func cpuTime() time.Duration { return 0 }
