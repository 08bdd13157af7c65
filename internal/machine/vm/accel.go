package vm

import (
	"context"

	"iotax/internal/guest"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
)

// Accelerator finds how guests run on this host, by booting one where an accelerator is present; the
// answer is kept in o.CacheDir. It needs o.WorkDir.
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
	micro := &booting{spec: &spec, o: b.o, name: b.name}
	kernel, err := micro.kernel(ctx)
	if err != nil {
		return qemu.Accelerator{}, err
	}
	initrd, err := guest.Initramfs(ctx, b.o.CacheDir, kernel, b.o.Init)
	if err != nil {
		return qemu.Accelerator{}, err
	}
	return qemu.Probe(ctx, qemu.Config{Memory: minMemory, Kernel: kernel.Image, Initrd: initrd,
		Append: commandLine("kvm", guest.Boot{NoTools: true})}, kernel.Release, b.o.CacheDir, b.dir, isInit)
}
