package vm

import (
	"context"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
)

// Accelerator returns the accelerator for guests on this host. If this host may have a hardware accelerator, it boots a
// guest to test the accelerator, unless o.CacheDir contains the result of an earlier test. o.WorkDir must be set.
func Accelerator(ctx context.Context, o kind.Options) (qemu.Accelerator, error) {
	b := &booting{spec: Kind.New().(*Spec), o: o, dir: o.WorkDir}
	return b.probeForImage(ctx)
}

func (b *booting) probeForImage(ctx context.Context) (qemu.Accelerator, error) {
	if ok, why := qemu.MayAccelerate(); !ok {
		return qemu.Accelerator{Name: "tcg", Why: why}, nil
	}
	spec := *b.spec
	spec.Kernel = ""
	boots, err := bootsOf(ctx, &spec, b.o, false)
	if err != nil {
		return qemu.Accelerator{}, &iotax.Error{Op: "start machine", On: b.name, Err: err}
	}
	return qemu.Probe(ctx, qemu.Config{Binary: b.spec.Binary, Memory: minMemory, Kernel: boots.Kernel.Image, Initrd: boots.Initrd,
		Append: commandLine("kvm", guest.Boot{NoTools: true})}, boots.Kernel.Release, b.o.CacheDir, b.dir, isInit)
}
