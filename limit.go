package iotax

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// MaxOutput is the largest answer of a command, in bytes, and the largest file of settings.
const MaxOutput = 16 << 20

// A LimitError reports a file or a stream that is larger than iotax reads.
type LimitError struct{ Limit int64 }

func (e *LimitError) Error() string {
	if e.Limit >= 1<<20 && e.Limit%(1<<20) == 0 {
		return fmt.Sprintf("it is larger than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("it is larger than %d bytes", e.Limit)
}

// A Capture keeps what a command prints. A write beyond Limit bytes (0 is MaxOutput) fails with a *LimitError,
// which ends the command. It has no ReadFrom, which would read without a limit.
type Capture struct {
	Limit int
	buf   bytes.Buffer
	err   error
}

func (c *Capture) Write(p []byte) (int, error) {
	limit := c.Limit
	if limit == 0 {
		limit = MaxOutput
	}
	if n := limit - c.buf.Len(); len(p) > n {
		c.buf.Write(p[:n])
		c.err = &LimitError{int64(limit)}
		return n, c.err
	}
	return c.buf.Write(p)
}

// Bytes returns what was kept. It is valid until the next write.
func (c *Capture) Bytes() []byte { return c.buf.Bytes() }

// Err is the *LimitError of a write that was too large, or nil.
func (c *Capture) Err() error { return c.err }

func (c *Capture) String() string { return c.buf.String() }

// ReadAll reads r to its end. More than limit bytes are a *LimitError.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(b)) > limit {
		return nil, &LimitError{limit}
	}
	return b, err
}

// ReadFile is os.ReadFile with a limit. Devices and FIFOs are read up to it.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, limit)
}
