package iotax

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// WriteWhole writes the file path whole or not at all, through another name in its directory.
func WriteWhole(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".iotax-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// ExecOutput runs cmd and returns what it printed, MaxOutput bytes at most: its standard error too where cmd.Stderr is nil.
func ExecOutput(cmd *exec.Cmd) ([]byte, error) {
	var out Capture
	cmd.Stdout = &out
	if cmd.Stderr == nil {
		cmd.Stderr = &out
	}
	err := cmd.Run()
	return out.Bytes(), cmp.Or(out.Err(), err)
}

// GitEnviron is the environment of commands of git, without the variables of git that iotax was started with: in a hook they name
// the repository of the hook.
func GitEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// ReadAll reads r to its end. More than limit bytes are a *LimitError.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(Limit(r, limit))
	if errors.As(err, new(*LimitError)) {
		return nil, err
	}
	return b, err
}

// Limit returns a reader of r that fails with a *LimitError where r has more than limit bytes.
func Limit(r io.Reader, limit int64) io.Reader {
	return &limited{io.LimitedReader{R: r, N: limit + 1}, limit}
}

type limited struct {
	r     io.LimitedReader
	limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.r.N == 0 {
		return max(0, n-1), &LimitError{l.limit}
	}
	return n, err
}

// CheckSize refuses a file that a library would read whole: one with more than limit bytes, or a device. That name does not
// exist is not its error.
func CheckSize(name string, limit int64) error {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist) || name == os.DevNull:
		return nil
	case err != nil:
		return err
	case st.Mode()&os.ModeDevice != 0:
		return errors.New("it is a device")
	case st.Size() > limit:
		return &LimitError{limit}
	}
	return nil
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

// Cause returns the cause of an error of the file system without the path, which the message has already.
func Cause(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
