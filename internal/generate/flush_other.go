//go:build !linux

package generate

import (
	"os"
	"time"
)

// flush makes the data of a file durable. On macOS it uses F_FULLFSYNC, as etcd does.
func flush(f *os.File) error { return f.Sync() }

func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

var started = time.Now()

// cpuTime returns elapsed time, because these systems have no common call for the CPU time of a thread.
func cpuTime() time.Duration { return time.Since(started) }
