//go:build !linux

package guest

import "iotax"

// IsInit returns false, because guests run Linux.
func IsInit() bool { return false }

// Main must not be called on this system.
func Main(iotax.Machine) { panic("guest.Main outside of a guest") }
