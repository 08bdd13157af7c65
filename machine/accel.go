package machine

import (
	"context"

	"iotax/machine/qemu"
)

// Accelerator finds how guests run on this host, by booting one where an accelerator is present; the
// answer is kept in o.CacheDir. It needs o.WorkDir.
func Accelerator(ctx context.Context, o Options) (qemu.Accelerator, error) {
	b := &booting{spec: qemuKind.New().(*QEMU), o: o, dir: o.WorkDir}
	return b.probeForImage(ctx)
}
