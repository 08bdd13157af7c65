package vm

import (
	"context"

	"iotax/machine/kind"
	"iotax/machine/qemu"
)

// Accelerator finds how guests run on this host, by booting one where an accelerator is present; the
// answer is kept in o.CacheDir. It needs o.WorkDir.
func Accelerator(ctx context.Context, o kind.Options) (qemu.Accelerator, error) {
	b := &booting{spec: Kind.New().(*Spec), o: o, dir: o.WorkDir}
	return b.probeForImage(ctx)
}
