//go:build !amd64

package qemu

import "time"

// TSCKHz is 0 where there is no time stamp counter.
func TSCKHz() int64 { return 0 }

func measureTSC(time.Duration) int64 { return 0 }
