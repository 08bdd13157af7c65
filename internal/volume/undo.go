package volume

import (
	"context"
	"errors"
	"time"
)

// undoTime bounds undoing after a cancel; otherwise the caller sets the deadline.
const undoTime = 30 * time.Second

// undo is a stack of what must be taken back. A step is pushed before the action it takes back, so
// that an action cut off half way is undone as well; each step therefore also succeeds when there is
// nothing to do.
type undo struct{ steps []func(context.Context) error }

func (u *undo) push(f func(context.Context) error) { u.steps = append(u.steps, f) }

// run takes everything back, last first. It goes on after an error and tells them all. When ctx is
// already done, it has a deadline of its own: undoing is what happens after a cancel.
func (u *undo) run(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
	}
	var errs []error
	for len(u.steps) > 0 {
		last := len(u.steps) - 1
		f := u.steps[last]
		u.steps = u.steps[:last]
		if err := f(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
