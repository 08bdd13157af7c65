//go:build !linux

package probe

import (
	"errors"
	"time"
)

// sinceBoot returns errors.ErrUnsupported. The clock is for guests, and guests run Linux.
func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
