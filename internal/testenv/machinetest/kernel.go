package machinetest

import (
	"context"

	"iotax"
)

// A Kernel is a machine with a different /sys/block, for tests of devices that test machines often lack. It needs root
// and Linux.
type Kernel struct {
	iotax.Machine
	Sys string // directory that is mounted over /sys/block
}

// Caps returns the machine's capabilities as if it were a remote host, so that each function of the agent runs in a
// separate process and sees Sys.
func (k Kernel) Caps() iotax.MachineCaps {
	c := k.Machine.Caps()
	c.Local, c.Agent = false, nil
	return c
}

func (k Kernel) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	in.Args = append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /sys/block && exec "$@"`, k.Sys}, c.Args...)
	return k.Machine.Run(ctx, &in)
}
