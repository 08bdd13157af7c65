//go:build !linux

package serving

import "errors"

// Start returns an error, because this system is not supported.
func Start(func() []int, Protocol) (stop func() (Times, error), err error) {
	return nil, errors.New("measuring a server needs Linux")
}
