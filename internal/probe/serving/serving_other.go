//go:build !linux

package serving

import "errors"

// Start returns an error, because this system is not supported.
func Start(func() []int, Protocol) (stop func() (Times, error), err error) {
	return nil, errors.New("measuring a server needs Linux")
}

// NamesKernel returns false, because this system is not supported.
func NamesKernel() bool { return false }

// Profile returns an error, because this system is not supported.
func Profile(func() []int) (stop func() ([]byte, error), err error) {
	return nil, errors.New("profiling needs Linux")
}
