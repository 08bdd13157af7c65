//go:build !linux

package probe

import (
	"errors"
	"time"
)

// sinceBoot returns errors.ErrUnsupported.
func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
