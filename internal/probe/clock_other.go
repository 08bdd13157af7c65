//go:build !linux

package probe

import (
	"errors"
	"time"
)

// sinceBoot is not supported, because all guests run Linux.
func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
