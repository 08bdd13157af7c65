package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
)

// kernelHash is the fact with the SHA-256 of the kernel that a guest booted.
const kernelHash = "kernel.sha256"

// micro prepares the boot of the micro-guest.
func (b *booting) micro(ctx context.Context) error {
	b.config.Port = qemu.Port{Name: guest.AgentPort, Socket: filepath.Join(b.sockets, "agent")}
	boots := b.boots
	if boots == nil {
		var err error
		if boots, err = bootsOf(ctx, b.spec, b.o, b.beside.root == nil); err != nil {
			return &iotax.Error{Op: "start machine", On: b.name, Err: err}
		}
	}
	kernel := boots.Kernel
	b.config.Kernel, b.config.Initrd = kernel.Image, boots.Initrd
	b.facts[iotax.FactKernel] = kernel.Release
	b.facts[iotax.FactKernelFile], b.facts[kernelHash] = kernel.Source, boots.SHA256
	why := "asked for"
	b.config.Accel = b.spec.Accel
	if b.spec.Accel == "auto" {
		probe := qemu.Config{Binary: b.spec.Binary, Memory: minMemory, Kernel: kernel.Image, Initrd: boots.Initrd, Machine: b.spec.Machine, CPU: b.spec.CPU,
			Append: commandLine("kvm", guest.Boot{NoTools: true})}
		a, err := qemu.Probe(ctx, probe, kernel.Release, b.o.CacheDir, b.dir, isInit)
		if err != nil {
			return err
		}
		b.config.Accel, why = a.Name, a.Why
	}
	b.facts[iotax.FactAccel], b.facts[iotax.FactAccelWhy] = b.config.Accel, why
	modules := b.config.Modules()
	if r := b.beside.root; r != nil { // load the file system's module first, so that the mount time does not include loading it
		modules = append(modules, cmp.Or(map[string]string{"nfs4": "nfsv4"}[r.Type], r.Type))
	}
	b.config.Append = commandLine(b.config.Accel, guest.Boot{Modules: modules,
		Name: b.beside.name, Root: b.beside.root, NoTools: b.beside.root != nil, OnDisk: b.root != nil})
	if b.spec.Append != "" {
		b.config.Append += " " + b.spec.Append
	}
	b.facts["cmdline"] = b.config.Append
	if b.beside.root != nil {
		return nil // the root file system contains its own tools
	}
	tools := iotax.Disk{Path: boots.Tools, Format: "raw", Bus: "virtio-blk", Cache: "writeback", AIO: "threads", ReadOnly: true}
	if b.root != nil {
		if err := b.writeRoot(ctx, boots.Tools); err != nil {
			return err
		}
		tools = *b.root
	}
	disk := qemu.Disk{ID: guest.ToolsSerial, Disk: tools}
	b.config.Disks = append(b.config.Disks, disk)
	b.facts["device."+guest.ToolsSerial] = disk.Line()
	return nil
}

// writeRoot writes the guest's root file system to its disk.
func (b *booting) writeRoot(ctx context.Context, tools string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("it was not written within 5 minutes"))
	defer cancel()
	file, err := guest.RootDisk(ctx, b.o.CacheDir, tools, b.root.Root)
	if err != nil {
		return err
	}
	if _, err := agent.Exec(ctx, "qemu-img", "convert", "-n", "-f", "raw", "-O", b.root.Format, file, b.root.Path); err != nil {
		return &iotax.Error{Op: "write the root of", On: b.name, Err: err, Hint: "install qemu-img there (Debian: qemu-utils)"}
	}
	return nil
}

// Boots contains the paths of the files that a micro-guest boots, on the host that starts QEMU.
type Boots struct {
	Kernel guest.Kernel
	SHA256 string // of the kernel's original file
	Initrd string
	Tools  string // the tools disk; "" means none
}

// bootsOf finds or makes the boot files of micro-guests on this host. If it finds no kernel, it downloads one. If tools
// is false, it omits the tools disk.
func bootsOf(ctx context.Context, s *Spec, o kind.Options, tools bool) (*Boots, error) {
	var g errgroup.Group
	var all Boots
	if tools {
		g.Go(func() (err error) {
			all.Tools, err = guest.Tools(ctx, o.CacheDir)
			return err
		})
	}
	k, err := guest.HaveKernel(ctx, o.CacheDir, s.Kernel, o.Logf)
	if err == nil {
		all.Kernel = *k
		if all.SHA256, err = agent.SHA256(k.Source); err == nil {
			all.Initrd, err = guest.Initramfs(ctx, o.CacheDir, k, o.Init)
		}
	}
	return &all, cmp.Or(err, g.Wait())
}

// isInit reports whether line is the first line that the micro-guest's init prints.
func isInit(line string) bool {
	m, ok := guest.ParseMark(line)
	return ok && m.Name == "init"
}

// commandLine returns the kernel command line for a micro-guest.
func commandLine(accel string, boot guest.Boot) string {
	console := "ttyS0"
	if runtime.GOARCH == "arm64" {
		console = "ttyAMA0"
	}
	// cryptomgr.notests skips self-tests of the crypto modules, which take 200 ms under emulation. panic=-1 with QEMU's
	// -no-reboot ends a guest at once when its kernel panics. rootfstype=ramfs avoids a tmpfs, which may use only half
	// of the memory: too little for iotax in a guest of 256 MiB.
	w := []string{"console=" + console, "quiet", "panic=-1", "audit=0", "random.trust_cpu=on", "cryptomgr.notests", "rootfstype=ramfs"}
	if accel == "tcg" {
		// Mitigations of CPU vulnerabilities do not protect an emulated guest.
		w = append(w, "mitigations=off")
		if khz := qemu.TSCKHz(); khz > 0 {
			w = append(w, "no_timer_check", fmt.Sprintf("tsc_early_khz=%d", khz))
		}
	}
	return strings.Join(append(w, boot.CommandLine()...), " ")
}

// awaitAnswer waits until the program in the guest's root file system has answered an HTTP request.
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
	// QEMU accepts connections before the guest listens, and then resets them. So each request uses a new connection.
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

// askEvery is the pause between requests to a starting program. Under emulation, a request costs the guest 0.5 ms.
const askEvery = 20 * time.Millisecond

// hint returns a hint for a micro-guest that did not start, or "".
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

// awaitMicro waits until the micro-guest is ready.
func (b *booting) awaitMicro(ctx context.Context) error {
	for {
		select {
		case m := <-b.up:
			switch m.Name {
			case "ready":
				return nil
			case "failed":
				return fmt.Errorf("its init gave up: %s\nlast lines of its console:\n%s", m.Detail, b.vm.Tail(15))
			}
		case <-b.vm.Done():
			return b.vm.Err()
		case <-ctx.Done():
			return b.vm.Fail(context.Cause(ctx))
		}
	}
}
