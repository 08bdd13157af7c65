//go:build !linux

package generate

import "os"

// flush makes the bytes of a file durable. On macOS that is F_FULLFSYNC, as in etcd.
func flush(f *os.File) error { return f.Sync() }

func preallocate(f *os.File, size int64) error { return f.Truncate(size) }
