//go:build !windows

package host

import "iotax"

// Local returns this host.
func Local() iotax.Machine { return local{} }
