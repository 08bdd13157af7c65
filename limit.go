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

// MaxOutput is the maximum size in bytes of a command's captured output, and of a settings file.
const MaxOutput = 16 << 20

// A LimitError reports a file or a stream that has more than Limit bytes.
type LimitError struct{ Limit int64 }

func (e *LimitError) Error() string {
	if e.Limit >= 1<<20 && e.Limit%(1<<20) == 0 {
		return fmt.Sprintf("it is larger than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("it is larger than %d bytes", e.Limit)
}

// A Capture keeps the output of a command. A write beyond Limit bytes (0 means MaxOutput) fails with a *LimitError,
// which ends the command. Capture does not embed bytes.Buffer: io.Copy would call its ReadFrom method, which has no
// limit.
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

// Bytes returns the captured bytes. The result is valid until the next write.
func (c *Capture) Bytes() []byte { return c.buf.Bytes() }

// Err returns the *LimitError of a write that exceeded the limit, or nil.
func (c *Capture) Err() error { return c.err }

func (c *Capture) String() string { return c.buf.String() }

// WriteWhole writes the file path atomically, by renaming a temporary file in the same directory.
func WriteWhole(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".iotax-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = write(f)
	if err == nil {
		err = f.Chmod(mode) // not os.Chmod: another user of the directory could replace the file of that name
	}
	if err == nil {
		err = f.Sync() // else the file may be empty or torn after a power failure
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// ExecOutput runs cmd and returns its standard output, at most MaxOutput bytes. If cmd.Stderr is nil, the result
// includes standard error.
func ExecOutput(cmd *exec.Cmd) ([]byte, error) {
	var out Capture
	cmd.Stdout = &out
	if cmd.Stderr == nil {
		cmd.Stderr = &out
	}
	err := cmd.Run()
	return out.Bytes(), cmp.Or(out.Err(), err)
}

// GitEnviron returns the environment for git commands: the environment of iotax without the variables GIT_*. In a git
// hook, these point to the hook's repository.
func GitEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// ReadAll reads r until EOF. It returns a *LimitError if there are more than limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(Limit(r, limit))
	if errors.As(err, new(*LimitError)) {
		return nil, err
	}
	return b, err
}

// Limit returns a reader of r that fails with a *LimitError if r has more than limit bytes.
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

// CheckSize returns an error if the file is larger than limit bytes or is a device. It is for files that a library
// reads into memory in full. A missing file and os.DevNull are not errors.
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

// ReadFile is like os.ReadFile, but returns a *LimitError if there are more than limit bytes. The limit also applies to
// devices and FIFOs.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, limit)
}

// Cause returns the cause of a file system error without the path, for messages that already contain the path.
func Cause(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
