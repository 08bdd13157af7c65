//go:build !linux

package guesttest

// Static does nothing: only Linux runs guests.
func Static() {}
