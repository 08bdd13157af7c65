//go:build !linux

package guest

import "iotax"

// IsInit reports whether this process belongs to a micro-guest. Guests run Linux.
func IsInit() bool { return false }

// Main is the program in a guest.
func Main(iotax.Machine) { panic("guest.Main outside of a guest") }
