package iotax

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"
)

// CacheDir returns the directory in which iotax keeps kernels, guest images and tools between runs. If the environment
// defines no cache directory (see os.UserCacheDir), this is a directory below the user's home directory in the user
// database. A user without an entry in the database gets a new directory for each process, because another user could
// have made one with a fixed name.
func CacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "iotax")
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return filepath.Join(u.HomeDir, ".cache", "iotax")
	}
	return ownCache()
}

var ownCache = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "iotax-cache-")
	if err != nil {
		return os.DevNull // not a directory, so each use of the cache returns an error
	}
	return dir
})

// outputTime is the time limit of Output if the caller's context has no deadline.
var outputTime = 5 * time.Minute

// Output runs the command args on m and returns its standard output, at most MaxOutput bytes. Without a deadline in
// ctx, the time limit is five minutes.
func Output(ctx context.Context, m Machine, args ...string) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, outputTime, fmt.Errorf("no end within %v", outputTime))
		defer cancel()
	}
	var out Capture
	c := Command(args...)
	c.Stdout = &out
	err := m.Run(ctx, c)
	return out.Bytes(), err
}

// Reserve returns the number of bytes to leave free on a file system with size bytes. A full file system is slow,
// and breaks other programs that write to it.
func Reserve(size int64) int64 { return size / 20 }
