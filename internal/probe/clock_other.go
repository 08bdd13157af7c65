//go:build !linux

package probe

import (
	"errors"
	"time"
)

// sinceBoot is read on Linux only, where guests are.
func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
