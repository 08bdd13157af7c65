//go:build !amd64

package qemu

import "time"

// TSCKHz returns 0: iotax reads the time stamp counter only on amd64.
func TSCKHz() int64 { return 0 }

func measureTSC(time.Duration) int64 { return 0 }
