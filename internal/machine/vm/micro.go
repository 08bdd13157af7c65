package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/machine/qemu"
)

// micro makes ready to boot the built-in guest.
func (b *booting) micro(ctx context.Context) error {
	if err := b.key(); err != nil {
		return err
	}
	var g errgroup.Group
	var tools string
	if b.o.RootDisk == nil && b.beside.root == nil { // those have their own
		g.Go(func() (err error) {
			tools, err = guest.Tools(ctx, b.o.CacheDir)
			return err
		})
	}
	kernel, err := b.kernel(ctx)
	if err != nil {
		return err
	}
	initrd, err := guest.Initramfs(ctx, b.o.CacheDir, kernel, b.o.Init)
	if err != nil {
		return err
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b.config.Kernel, b.config.Initrd = kernel.Image, initrd
	b.facts[iotax.FactKernel] = kernel.Release
	b.facts[iotax.FactKernelFile] = kernel.Source
	why := "asked for"
	b.config.Accel = b.spec.Accel
	if b.spec.Accel == "auto" {
		probe := qemu.Config{Memory: minMemory, Kernel: kernel.Image, Initrd: initrd, Machine: b.spec.Machine, CPU: b.spec.CPU,
			Append: commandLine("kvm", guest.Boot{NoTools: true})}
		a, err := qemu.Probe(ctx, probe, kernel.Release, b.o.CacheDir, b.dir, isInit)
		if err != nil {
			return err
		}
		b.config.Accel, why = a.Name, a.Why
	}
	b.facts[iotax.FactAccel], b.facts[iotax.FactAccelWhy] = b.config.Accel, why
	modules := b.config.Modules()
	if r := b.beside.root; r != nil { // that a module is loaded first is not the mount's time
		modules = append(modules, cmp.Or(map[string]string{"nfs4": "nfsv4"}[r.Type], r.Type))
	}
	b.config.Append = commandLine(b.config.Accel, guest.Boot{Key: b.signer.PublicKey(), Modules: modules,
		Name: b.beside.name, Root: b.beside.root, NoTools: b.beside.root != nil, OnDisk: b.o.RootDisk != nil})
	if b.spec.Append != "" {
		b.config.Append += " " + b.spec.Append
	}
	b.facts["cmdline"] = b.config.Append
	if b.beside.root != nil {
		return nil // it has its own
	}
	if b.o.RootDisk != nil {
		root := qemu.Disk{ID: guest.ToolsSerial, Disk: *b.o.RootDisk}
		b.config.Disks = append(b.config.Disks, root)
		b.facts["device."+guest.ToolsSerial] = root.Line()
		return nil
	}
	b.config.Disks = append(b.config.Disks, qemu.Disk{ID: guest.ToolsSerial,
		Disk: iotax.Disk{Path: tools, Format: "raw", Bus: "virtio-blk", Cache: "writeback", AIO: "threads", ReadOnly: true}})
	return nil
}

// isInit recognises the first line of the micro-guest's init.
func isInit(line string) bool {
	m, ok := guest.ParseMark(line)
	return ok && m.Name == "init"
}

// kernel finds the guest's kernel, and fetches one if this host has none.
func (b *booting) kernel(ctx context.Context) (*guest.Kernel, error) {
	k, err := guest.HaveKernel(ctx, b.o.CacheDir, b.spec.Kernel, b.o.Logf)
	if err != nil {
		return nil, &iotax.Error{Op: "start machine", On: b.name, Err: err}
	}
	return k, nil
}

// commandLine is the kernel command line of a micro-guest.
func commandLine(accel string, boot guest.Boot) string {
	console := "ttyS0"
	if runtime.GOARCH == "arm64" {
		console = "ttyAMA0"
	}
	// The self-tests of the crypto modules take a fifth of a second under emulation.
	// panic=-1 with QEMU's -no-reboot ends a guest that panics at once.
	// As a tmpfs the root might fill half of the memory only, which is too little for iotax in a guest of 256 MiB.
	w := []string{"console=" + console, "quiet", "panic=-1", "audit=0", "random.trust_cpu=on", "cryptomgr.notests", "rootfstype=ramfs"}
	if accel == "tcg" {
		// Defences against the CPU's own leaks are the emulator's matter, not its guest's.
		w = append(w, "mitigations=off")
		if khz := qemu.TSCKHz(); khz > 0 {
			w = append(w, "no_timer_check", fmt.Sprintf("tsc_early_khz=%d", khz))
		}
	}
	return strings.Join(append(w, boot.CommandLine()...), " ")
}

// awaitAnswer returns when the program on the guest's root has answered its first request.
func (b *booting) awaitAnswer(ctx context.Context) (iotax.Phase, error) {
	port, err := b.vm.Forward(ctx, b.beside.root.Port)
	if err != nil {
		return iotax.Phase{}, b.vm.Fail(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for {
			select {
			case m := <-b.up:
				if m.Name == "failed" {
					cancel(errors.New(m.Detail))
				}
			case <-b.vm.Done():
				cancel(b.vm.Err())
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	// QEMU accepts before anyone in the guest listens, and resets the connection then.
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			return iotax.Phase{}, err
		}
		if r, err := client.Do(req); err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if err == nil && r.StatusCode < 500 {
				return iotax.Phase{Name: "answer", At: time.Since(b.vm.Started)}, nil
			}
		}
		select {
		case <-ctx.Done():
			return iotax.Phase{}, b.vm.Fail(fmt.Errorf("no answer from %s: %w", strings.Join(b.beside.root.Run, " "), context.Cause(ctx)))
		case <-time.After(askEvery):
		}
	}
}

// askEvery is the pause between two requests to a program that starts. Under emulation each one costs the
// guest about half a millisecond, which the program then lacks.
const askEvery = 20 * time.Millisecond

// hint is what can be done about a micro-guest that did not come up.
func (b *booting) hint(ctx context.Context) string {
	switch m := b.vm.Hint(); {
	case m != "":
		return m
	case b.spec.Append != "" || len(b.spec.Args) > 0:
		return "leave out append: and args:"
	case ctx.Err() != nil:
		return "give it more time, as in {qemu: {boot_timeout: 5m}}, or find out what keeps this host busy"
	}
	return ""
}

// awaitMicro waits until the micro-guest says that it is ready, and returns its host key.
func (b *booting) awaitMicro(ctx context.Context) (hostKey string, err error) {
	for {
		select {
		case m := <-b.up:
			switch m.Name {
			case "hostkey":
				hostKey = m.Detail
			case "ready":
				return hostKey, nil
			case "failed":
				return "", fmt.Errorf("its init gave up: %s\nlast lines of its console:\n%s", m.Detail, b.vm.Tail(15))
			}
		case <-b.vm.Done():
			return "", b.vm.Err()
		case <-ctx.Done():
			return "", b.vm.Fail(context.Cause(ctx))
		}
	}
}
