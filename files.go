package iotax

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CacheDir is where kernels, guest images and tools are kept between runs.
func CacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "iotax")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("iotax-cache-%d", os.Getuid())) // no HOME
}

// outputTime is the limit of Output where the caller's context has no deadline.
var outputTime = 5 * time.Minute

// Output runs args on m and returns what they printed on standard output, MaxOutput bytes at most.
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

// Reserve is how many bytes are left free on a file system of size bytes: one that is filled to the brim slows down, and
// breaks whoever else writes to it.
func Reserve(size int64) int64 { return size / 20 }
