package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"iotax"
)

const (
	quick = 30 * time.Second // for a call that does little I/O
	slow  = 5 * time.Minute  // for a call that may wait for a device: mkfs, rm -rf, umount
)

// on calls a function on m with the time limit d. If the function returns an *iotax.Error, and m is not this host, `on`
// adds the name of m to the error, unless the error already ends with the name.
func on[In, Out any](ctx context.Context, d time.Duration, call func(context.Context, iotax.Machine, In) (Out, error), m iotax.Machine, in In) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer from %v within %v: %w", m, d, context.DeadlineExceeded))
	defer cancel()
	out, err := call(ctx, m, in)
	if e, ok := err.(*iotax.Error); ok && !iotax.IsLocal(m) && !strings.HasSuffix(e.On, m.String()) {
		at := *e
		at.On = strings.TrimSpace(e.On + " on " + m.String())
		err = &at
	}
	return out, err
}

// left adds op, path and m to err, the error of a failed removal or unmount. It returns err unchanged if err is nil or
// already names path.
func left(op, path string, m iotax.Machine, err error) error {
	var e *iotax.Error
	if err == nil || errors.As(err, &e) && strings.HasPrefix(e.On, path) {
		return err
	}
	return &iotax.Error{Op: op, On: fmt.Sprintf("%s on %v", path, m), Err: err, Hint: "look at it, and remove it by hand"}
}

type none struct{}

// failed returns an error for a failed system call, with a hint for known causes.
func failed(op, on string, err error) error {
	e := &iotax.Error{Op: op, On: on, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), says(err, "no space"):
		e.Hint = "free some space, use another directory, or a smaller size"
	case errors.Is(err, syscall.EROFS):
		e.Err, e.Hint = errors.New("the file system is mounted read-only"), "use another directory, or mount it writable"
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "run as a user who may write there, or use another directory"
	case errors.Is(err, syscall.ENOTSUP):
		e.Hint = "use a directory on a file system with the usual file modes and attributes"
	case errors.Is(err, fs.ErrExist):
		e.Hint = "another run uses this directory, or left it: remove it"
	}
	return e
}

// needRoot returns an error if this process is not root. The caller has already tried sudo.
func needRoot(op, on string) error {
	if os.Geteuid() <= 0 { // Windows has no user IDs
		return nil
	}
	return &iotax.Error{Op: op, On: on, Err: errors.New("neither root nor sudo without a password here"),
		Hint: "let the user there be root, or give it sudo without a password"}
}

// withOutput returns the standard error output of a failed command as an error, or err if there is no such output.
func withOutput(err error) error {
	var e *iotax.ExitError
	if errors.As(err, &e) {
		if s := strings.TrimSpace(e.Stderr); s != "" {
			return errors.New(s)
		}
	}
	return err
}

// says reports whether err, or the standard error output of a failed command, contains `text` in upper or lower case.
// The argument `text` must be in lower case.
func says(err error, text string) bool {
	return err != nil && strings.Contains(strings.ToLower(withOutput(err).Error()), text)
}
