package fake

import (
	"context"

	"iotax"
)

// A Kernel is a machine with another /sys/block: what scripts do around the kernel's devices is theirs, and only the devices,
// which kernels for guests and containers often lack, are not. It needs root and Linux.
type Kernel struct {
	iotax.Machine
	Sys string // the directory that stands there
}

// Caps are those of the machine, as of another host: a question to it runs below Sys, in a process of its own.
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
