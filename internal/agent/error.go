package agent

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"iotax"
)

// sentinels maps names to the errors that errors.Is still finds in an error from another machine.
var sentinels = map[string]error{
	"not exist":  fs.ErrNotExist,
	"exist":      fs.ErrExist,
	"permission": fs.ErrPermission,
	"canceled":   context.Canceled,
	"deadline":   context.DeadlineExceeded,
	"gone":       iotax.ErrGone,
	"not done":   errors.ErrUnsupported,
	"read-only":  syscall.EROFS,
}

// A wireError is an error encoded for the connection.
type wireError struct {
	Msg          string
	Is           []string // keys of sentinels
	Structured   bool     // the error is an *iotax.Error, and Cause is its Err
	Op, On, Hint string
	Exit         *iotax.ExitError
	Cause        *wireError
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Msg: err.Error()}
	switch e := err.(type) {
	case *iotax.Error:
		w.Structured, w.Op, w.On, w.Hint, w.Cause = true, e.Op, e.On, e.Hint, toWire(e.Err)
		return w
	case *iotax.ExitError:
		w.Exit = e
		return w
	}
	for name, s := range sentinels {
		if errors.Is(err, s) {
			w.Is = append(w.Is, name)
		}
	}
	var inner *iotax.Error
	var exit *iotax.ExitError
	if errors.As(err, &inner) {
		w.Cause = toWire(inner)
	} else if errors.As(err, &exit) {
		w.Cause = toWire(exit)
	}
	return w
}

func (w *wireError) error() error {
	switch {
	case w == nil:
		return nil
	case w.Structured:
		return &iotax.Error{Op: w.Op, On: w.On, Err: w.Cause.error(), Hint: w.Hint}
	case w.Exit != nil:
		return w.Exit
	}
	e := &farError{msg: w.Msg}
	for _, name := range w.Is {
		e.wraps = append(e.wraps, sentinels[name])
	}
	if w.Cause != nil {
		e.wraps = append(e.wraps, w.Cause.error())
	}
	return e
}

// A farError is an error that a function returned on another machine.
type farError struct {
	msg   string
	wraps []error
}

func (e *farError) Error() string   { return e.msg }
func (e *farError) Unwrap() []error { return e.wraps }
