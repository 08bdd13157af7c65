//go:build !linux

package generate

import (
	"os"
	"time"
)

// flush makes the bytes of a file durable. On macOS that is F_FULLFSYNC, as in etcd.
func flush(f *os.File) error { return f.Sync() }

func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

var started = time.Now()

// cpuTime is the time of a clock where a thread's own time has no call that all systems share.
func cpuTime() time.Duration { return time.Since(started) }
