package volume

import (
	"context"
	"errors"
	"time"
)

// undoTime is the time that undo.run allows for the remaining steps when its context is done.
const undoTime = 30 * time.Second

// An undo is a stack of steps that undo actions. Push a step before its action, so that an interrupted action is
// undone, too. A step must succeed if its action has not happened.
type undo struct{ steps []func(context.Context) error }

func (u *undo) push(f func(context.Context) error) { u.steps = append(u.steps, f) }

// run runs all steps, last first. It continues after an error and returns all errors. Whenever ctx is done, it sets
// a new deadline, because undoing usually follows a cancel, and one slow step must not prevent the others.
func (u *undo) run(ctx context.Context) error {
	var errs []error
	for len(u.steps) > 0 {
		if ctx.Err() != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undoTime)
			defer cancel()
		}
		last := len(u.steps) - 1
		f := u.steps[last]
		u.steps = u.steps[:last]
		if err := f(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
