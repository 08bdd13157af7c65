//go:build !linux

package probe

import (
	"errors"
	"time"
)

// sinceBoot is not supported on this system. It is only needed in guests, which run Linux.
func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
