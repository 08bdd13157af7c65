//go:build !linux

package serving

import "errors"

// Start is not available on this system.
func Start(func() []int) (stop func() (Times, error), err error) {
	return nil, errors.New("measuring a server needs Linux")
}
