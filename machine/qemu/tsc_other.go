//go:build !amd64

package qemu

// TSCKHz is 0 where there is no time stamp counter.
func TSCKHz() int64 { return 0 }
