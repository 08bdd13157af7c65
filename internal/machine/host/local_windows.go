package host

import (
	"iotax"
	"iotax/internal/machine/shell"
)

var withShell = WithShell(shell.Knows, shell.Run)

// Local returns this host. Windows has no POSIX shell: there the one inside of iotax does what is asked of one.
func Local() iotax.Machine { return withShell }
