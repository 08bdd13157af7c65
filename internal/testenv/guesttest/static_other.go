//go:build !linux

package guesttest

// Static does nothing: guests and containers can only run a test binary for Linux.
func Static() {}
