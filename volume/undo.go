package volume

import (
	"context"
	"errors"
)

// undo is a stack of what must be taken back. A step is pushed before the action it takes back, so
// that an action cut off half way is undone as well; each step therefore also succeeds when there is
// nothing to do.
type undo struct{ steps []func(context.Context) error }

func (u *undo) push(f func(context.Context) error) { u.steps = append(u.steps, f) }

// run takes everything back, last first. It goes on after an error and tells them all. The steps do
// not see a cancel of ctx: undoing is what happens after one, and each step has its own deadline.
func (u *undo) run(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
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
