package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"iotax"
	"iotax/internal/leftover"
)

const (
	quick = 30 * time.Second // a command that only looks or renames
	slow  = 5 * time.Minute  // a command that may wait for a device: mkfs, rm -rf, umount
)

// asRoot runs the script $1 with the arguments that follow as root: the mounts of a user's own guest
// image, whose login is usually not root, need it.
const asRoot = leftover.AsRoot + `echo "neither root nor sudo without a password here" >&2; exit 40`

// sh runs a POSIX script on m with args as $1, $2…; it asks no more of m than a busybox has.
func sh(ctx context.Context, m iotax.Machine, d time.Duration, script string, args ...string) (string, error) {
	return run(ctx, m, d, append([]string{"sh", "-c", leftover.Prologue + script, "sh"}, args...))
}

// root is sh with the rights of root.
func root(ctx context.Context, m iotax.Machine, d time.Duration, script string, args ...string) (string, error) {
	return run(ctx, m, d, append([]string{"sh", "-c", leftover.Prologue + asRoot, "sh", leftover.Prologue + script, "sh"}, args...))
}

func run(ctx context.Context, m iotax.Machine, d time.Duration, args []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var out iotax.Capture
	c := iotax.Command(args...)
	c.Stdout = &out
	err := m.Run(limited, c)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("no answer from %v within %v: %w", m, d, err)
	}
	return out.String(), err
}

// exit returns the exit status behind err, or -1 when the command never ended by itself.
func exit(err error) int {
	var e *iotax.ExitError
	if errors.As(err, &e) && e.Signal == "" {
		return e.Code
	}
	return -1
}

// said returns what the failed command wrote on standard error, or the error itself when it wrote
// nothing.
func said(err error) error {
	var e *iotax.ExitError
	if errors.As(err, &e) {
		if s := strings.TrimSpace(e.Stderr); s != "" {
			return errors.New(s)
		}
	}
	return err
}

// says reports whether the failed command's standard error contains one of the texts.
func says(err error, texts ...string) bool {
	var e *iotax.ExitError
	if !errors.As(err, &e) {
		return false
	}
	for _, t := range texts {
		if strings.Contains(strings.ToLower(e.Stderr), strings.ToLower(t)) {
			return true
		}
	}
	return false
}
