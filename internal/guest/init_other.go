//go:build !linux

package guest

// IsInit reports whether this process belongs to a micro-guest. Guests run Linux.
func IsInit() bool { return false }

// Main is the program in a guest.
func Main() { panic("guest.Main outside of a guest") }
