package agent

import (
	"context"
	"errors"
	"io/fs"
	"slices"
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

// maxCauses limits the number of errors in a wireErrors.
const maxCauses = 64

// A wireErrors is an error encoded for the connection, followed by the errors that it wraps. It is a list because gob
// decodes nested values recursively, and the other end could exhaust the stack. An empty list means no error.
type wireErrors []wireError

type wireError struct {
	Msg          string
	Is           []string // keys of sentinels
	Structured   bool     // the error is an *iotax.Error, and the next in the list is its Err
	Op, On, Hint string
	Exit         *iotax.ExitError
}

func toWire(err error) (all wireErrors) {
	for err != nil && len(all) < maxCauses {
		var w wireError
		var inner *iotax.Error
		var exit *iotax.ExitError
		switch e := err.(type) {
		case *iotax.Error:
			w.Structured, w.Op, w.On, w.Hint = true, e.Op, e.On, e.Hint
			err = e.Err
		case *iotax.ExitError:
			w.Exit, err = e, nil
		default:
			w.Msg = err.Error()
			for name, s := range sentinels {
				if errors.Is(err, s) {
					w.Is = append(w.Is, name)
				}
			}
			switch {
			case errors.As(err, &inner):
				err = inner
			case errors.As(err, &exit):
				err = exit
			default:
				err = nil
			}
		}
		all = append(all, w)
	}
	return all
}

func (all wireErrors) error() (err error) {
	for _, w := range slices.Backward(all[:min(len(all), maxCauses)]) {
		switch {
		case w.Structured:
			err = &iotax.Error{Op: w.Op, On: w.On, Err: err, Hint: w.Hint}
		case w.Exit != nil:
			err = w.Exit
		default:
			e := &farError{msg: w.Msg}
			for _, name := range w.Is {
				e.wraps = append(e.wraps, sentinels[name])
			}
			if err != nil {
				e.wraps = append(e.wraps, err)
			}
			err = e
		}
	}
	return err
}

// A farError is an error that a function returned on another machine.
type farError struct {
	msg   string
	wraps []error
}

func (e *farError) Error() string   { return e.msg }
func (e *farError) Unwrap() []error { return e.wraps }
