//go:build !linux

package guesttest

// Static does nothing, because guests run only on Linux.
func Static() {}
