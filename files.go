package iotax

import (
	"context"
	"fmt"
	"io"
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

// limits of Output and Put where the caller's context has no deadline
var (
	outputTime = 5 * time.Minute
	putTime    = time.Hour
)

// within is ctx with a deadline: its own, or that of limit.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
}

// Output runs args on m and returns what they printed on standard output, MaxOutput bytes at most.
func Output(ctx context.Context, m Machine, args ...string) ([]byte, error) {
	ctx, cancel := within(ctx, outputTime)
	defer cancel()
	var out Capture
	c := Command(args...)
	c.Stdout = &out
	err := m.Run(ctx, c)
	return out.Bytes(), err
}

// Reserve is how many bytes are left free on a file system of size bytes: one that is filled to the brim slows down, and
// breaks whoever else writes to it.
func Reserve(size int64) int64 { return size / 20 }

// Put writes r to the file path on m with the given permissions ("755"), through a temporary name,
// so that a broken transfer leaves no half file under the real one.
func Put(ctx context.Context, m Machine, r io.Reader, path, mode string) error {
	ctx, cancel := within(ctx, putTime)
	defer cancel()
	q := Quote(path)
	script := "umask 077; t=" + q + ".part$$; trap 'rm -f \"$t\"' EXIT; cat >\"$t\" && chmod " + Quote(mode) + " \"$t\" && mv -f \"$t\" " + q
	return m.Run(ctx, &Cmd{Args: []string{"sh", "-c", script}, Stdin: r})
}

// Get copies the file path of m to w.
func Get(ctx context.Context, m Machine, path string, w io.Writer) error {
	return m.Run(ctx, &Cmd{Args: []string{"cat", "--", path}, Stdout: w})
}
