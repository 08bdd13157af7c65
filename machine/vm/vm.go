// Package vm is the guests of QEMU that are started for a run: the built-in micro-guest, an image of the user's, a
// guest without a shell.
package vm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kdomanski/iso9660"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"iotax"
	"iotax/guest"
	"iotax/leftover"
	"iotax/machine/kind"
	"iotax/machine/qemu"
	"iotax/machine/sshx"
	"iotax/plan"
)

// Spec is that of kind qemu: a guest that is started for the run and gone after it. Without an
// image it is the built-in micro-guest.
type Spec struct {
	Memory      plan.Size     `yaml:"memory" doc:"memory of the guest; the micro-guest needs 512MiB"`
	CPUs        int           `yaml:"cpus" doc:"virtual CPUs"`
	Accel       string        `yaml:"accel" doc:"auto takes kvm or hvf where a guest really boots with it, else tcg (emulation); kvm, hvf or tcg insist"`
	Machine     string        `yaml:"machine" doc:"QEMU machine type; empty is q35 or virt"`
	CPU         string        `yaml:"cpu" doc:"QEMU CPU model; empty is max under emulation, host otherwise"`
	Image       string        `yaml:"image" doc:"disk image of your own (qcow2 or raw) to boot instead of the micro-guest; it is never written to"`
	User        string        `yaml:"user" doc:"login name in the image; cloud-init gives it a key made for the boot. Disks and shares need root"`
	Identity    string        `yaml:"identity" doc:"private key file that the image lets in, for images without cloud-init"`
	Kernel      string        `yaml:"kernel" doc:"kernel to boot instead of the host's own (micro-guest) or the image's"`
	Initrd      string        `yaml:"initrd" doc:"initial RAM disk to go with kernel and image"`
	Append      string        `yaml:"append" doc:"words to add to the kernel's command line"`
	Args        []string      `yaml:"args" doc:"arguments to add to QEMU's command line"`
	Pin         string        `yaml:"pin" doc:"CPUs of this host for the guest, as in 2-3, or auto: as many as it has, from the last on; the load generator and the servers of shares get the others"`
	PinMemory   string        `yaml:"pin_memory" doc:"NUMA nodes of this host that the guest's memory is taken from, as in 0"`
	Fresh       bool          `yaml:"fresh" doc:"boot the guest anew for each trial, with its places made and its files written anew; else one guest serves the whole run"`
	Console     Console       `yaml:"console" doc:"of a guest without a shell: how it is given its command and tells its results"`
	BootTimeout plan.Duration `yaml:"boot_timeout" doc:"how long the guest may take until it can be logged into; 0 is 1m, or 5m with an image"`
}

// Kind is kind qemu.
var Kind = kind.Of("qemu", "a virtual machine that is started for the run: the built-in micro-guest, or an image of yours",
	Spec{Memory: 1 << 30, CPUs: 1, Accel: "auto", User: "root"}, open)

// minMemory is what the micro-guest needs: the kernel holds the initramfs twice while it unpacks it.
const minMemory = 256 << 20

// Validate finds what is wrong without starting anything.
func (s *Spec) Validate() error {
	switch {
	case s.Memory%(1<<20) != 0:
		return &plan.FieldError{Field: "memory", Msg: "is not a whole number of MiB", Mend: "as in 512MiB"}
	case s.Image == "" && s.Console == (Console{}) && s.Memory < minMemory:
		return &plan.FieldError{Field: "memory", Msg: fmt.Sprintf("%v is too little for the micro-guest", s.Memory), Mend: "256MiB or more"}
	case s.Memory <= 0:
		return &plan.FieldError{Field: "memory", Msg: "must be more than nothing", Mend: "as in 1GiB"}
	case s.CPUs < 1 || s.CPUs > 255:
		return &plan.FieldError{Field: "cpus", Msg: fmt.Sprintf("%d is not a number from 1 to 255", s.CPUs)}
	case s.Accel != "auto" && s.Accel != "kvm" && s.Accel != "hvf" && s.Accel != "tcg":
		return &plan.FieldError{Field: "accel", Msg: fmt.Sprintf("%q is not one of auto, kvm, hvf, tcg", s.Accel)}
	case s.Console != (Console{}):
		return s.validateConsole()
	case s.Initrd != "" && (s.Image == "" || s.Kernel == ""):
		return &plan.FieldError{Field: "initrd", Msg: "goes with an image and a kernel", Mend: "the micro-guest brings its own"}
	case s.Append != "" && s.Image != "" && s.Kernel == "":
		return &plan.FieldError{Field: "append", Msg: "needs a kernel: that of the image has its own command line", Mend: "name kernel: too"}
	case s.Identity != "" && s.Image == "":
		return &plan.FieldError{Field: "identity", Msg: "goes with an image", Mend: "the micro-guest gets a key made for the boot"}
	case s.Image != "" && (s.User == "" || strings.ContainsAny(s.User, " \t\n:\"'\\")):
		return &plan.FieldError{Field: "user", Msg: fmt.Sprintf("%q is no login name", s.User)}
	case s.Pin != "" && s.Pin != autoPin && firstErr(parseCPUs(s.Pin)) != nil:
		return &plan.FieldError{Field: "pin", Msg: firstErr(parseCPUs(s.Pin)).Error(), Mend: "as in 2-3"}
	case s.PinMemory != "" && firstErr(parseCPUs(s.PinMemory)) != nil:
		return &plan.FieldError{Field: "pin_memory", Msg: firstErr(parseCPUs(s.PinMemory)).Error(), Mend: "as in 0"}
	case s.BootTimeout < 0:
		return &plan.FieldError{Field: "boot_timeout", Msg: "must not be negative"}
	}
	return nil
}

// EachTrial is what a plan.Renewer tells.
func (s *Spec) EachTrial() bool { return s.Fresh }

// A machine is a guest that runs.
type machine struct {
	*sshx.Client
	name  string
	vm    *qemu.VM
	dirs  []string // everything it has on the host; one directory may be there twice
	facts map[string]string
	boot  []iotax.Phase
	again func(ctx context.Context, root *iotax.Root) (iotax.Machine, error)

	pinned *pinning
}

var (
	_ iotax.Machine    = (*machine)(nil)
	_ iotax.Booter     = (*machine)(nil)
	_ iotax.Accountant = (*machine)(nil)
	_ iotax.Describer  = (*machine)(nil)
	_ iotax.Reacher    = (*machine)(nil)
	_ iotax.Forwarder  = (*machine)(nil)
	_ iotax.Restarter  = (*machine)(nil)
)

func (g *machine) Boot() []iotax.Phase         { return g.boot }
func (g *machine) Started() time.Time          { return g.vm.Started } // what Boot counts from
func (g *machine) Processes() map[string][]int { return g.vm.Processes() }
func (g *machine) Facts() map[string]string    { return g.facts }
func (g *machine) HostAddress() string         { return guest.Gateway }

// Restart boots the same guest once more, without the disks of volumes but that of root.
func (g *machine) Restart(ctx context.Context, root *iotax.Root) (iotax.Machine, error) {
	return g.again(ctx, root)
}

// BootFiles are the kernel, the initial RAM disk, and the disks that iotax itself gave the guest.
func (g *machine) BootFiles() []string {
	var files []string
	for _, f := range []string{g.vm.Config.Kernel, g.vm.Config.Initrd, g.facts["image"]} {
		if f != "" {
			files = append(files, f)
		}
	}
	for _, d := range g.vm.Config.Disks {
		if d.ID == guest.ToolsSerial {
			files = append(files, d.Path)
		}
	}
	return files
}

// Forward lets QEMU's user network forward a port that the system chooses.
func (g *machine) Forward(ctx context.Context, port int) (string, error) {
	host, err := g.vm.Forward(ctx, port)
	if err != nil {
		return "", &iotax.Error{Op: fmt.Sprintf("forward port %d", port), On: "of " + g.name, Err: err}
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(host)), nil
}

// Run runs cmd in the guest. When the guest dies under it, the error quotes the guest's console.
func (g *machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	err := g.Client.Run(ctx, cmd)
	var exit *iotax.ExitError
	if err == nil || errors.As(err, &exit) || ctx.Err() != nil {
		return err
	}
	select {
	case <-g.vm.Done():
	case <-time.After(200 * time.Millisecond): // the connection often breaks first
		return err
	}
	return &iotax.Error{Op: "run " + cmd.Args[0], On: "on " + g.name, Err: fmt.Errorf("the guest is gone: %w", g.vm.Err()), Mend: g.vm.Mend()}
}

func (g *machine) Close(ctx context.Context) error {
	// A connection that broke is no error: the guest is ended either way.
	_ = g.Client.Close(ctx)
	err := g.vm.Close(ctx)
	if g.pinned != nil {
		err = errors.Join(err, g.pinned.undo())
	}
	for _, d := range g.dirs {
		err = errors.Join(err, os.RemoveAll(d))
	}
	return err
}

func open(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	if s.Console.Command != "" {
		o.Name = cmp.Or(o.Name, "guest")
		return openConsole(ctx, s, o)
	}
	return boot(ctx, s, o, again{})
}

// again says what is special about a guest that is booted beside the first one of a run.
type again struct {
	name string      // host name of the micro-guest; "" for the first one
	root *iotax.Root // to go on with, or nil
}

func boot(ctx context.Context, s *Spec, o kind.Options, beside again) (_ iotax.Machine, err error) {
	name := cmp.Or(o.Name, "guest")
	for _, d := range o.Devices {
		if err := qemu.Check(d); err != nil {
			var de *qemu.DeviceError
			_ = errors.As(err, &de)
			return nil, &iotax.Error{Op: "start machine", On: name, Err: err, Mend: de.Mend}
		}
	}
	var pinned *pinning
	var nodes []int
	notPinned := ""
	if s.Pin == autoPin {
		if pinned, err = lastCPUs(s.CPUs); err != nil {
			notPinned = err.Error() // what was asked for was the best there is
		}
	} else if s.Pin != "" {
		cpus, _ := parseCPUs(s.Pin) // Validate has read it
		if pinned, err = newPinning(cpus); err != nil {
			return nil, &iotax.Error{Op: "pin machine", On: name, Err: err, Mend: "name other CPUs in pin:, or leave it out"}
		}
	}
	if s.PinMemory != "" {
		nodes, _ = parseCPUs(s.PinMemory)
	}
	c := qemu.Config{
		Nodes: nodes,
		Name:  name, Machine: s.Machine, CPU: s.CPU, CPUs: s.CPUs, Memory: int64(s.Memory), Net: true, Extra: s.Args,
	}
	if _, err := c.Look(); err != nil {
		return nil, err
	}
	if o.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, &iotax.Error{Op: "start machine", On: name, Err: err}
		}
		o.CacheDir = filepath.Join(user, "iotax")
	}
	// Sockets and keys must be nobody else's, and the paths of sockets must be short.
	dir, err := os.MkdirTemp(o.WorkDir, "vm-")
	if err != nil {
		return nil, &iotax.Error{Op: "start machine", On: name, Err: err}
	}
	b := &booting{spec: s, o: o, beside: beside, name: name, dir: dir, config: c, pinned: pinned, facts: map[string]string{}, up: make(chan guest.Mark, 16), began: time.Now()}
	defer func() {
		if err != nil {
			b.undo(ctx)
		}
	}()
	if notPinned != "" {
		b.facts["pin.guest"] = "none: " + notPinned
	}
	if len(dir) > 80 {
		if b.sockets, err = leftover.MkdirTemp("/tmp"); err != nil {
			return nil, &iotax.Error{Op: "start machine", On: name, Err: err}
		}
	} else {
		b.sockets = dir
	}
	b.devices()
	timeout := time.Duration(s.BootTimeout)
	if timeout == 0 {
		timeout = time.Minute
		if s.Image != "" {
			timeout = 5 * time.Minute
		}
	}
	prepare := b.micro
	if s.Image != "" {
		prepare = b.image
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	return b.start(ctx, timeout)
}

// booting is a guest on its way.
type booting struct {
	spec    *Spec
	o       kind.Options
	beside  again
	name    string
	dir     string
	sockets string
	config  qemu.Config
	pinned  *pinning // nil is none
	facts   map[string]string
	began   time.Time

	signer  ssh.Signer // logs in
	vm      *qemu.VM
	up      chan guest.Mark // of the micro-guest, as they come
	mu      sync.Mutex
	phases  []iotax.Phase
	spawned time.Time
}

func (b *booting) undo(ctx context.Context) {
	if b.vm != nil {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = b.vm.Close(c)
	}
	if b.pinned != nil {
		_ = b.pinned.undo()
	}
	_ = os.RemoveAll(b.sockets)
	_ = os.RemoveAll(b.dir)
}

// devices adds what the volumes need.
func (b *booting) devices() {
	for _, d := range b.o.Devices {
		if d.Disk != nil {
			// Beside another guest, a disk is a copy of what that one has on it now, and is lost.
			disk := qemu.Disk{Disk: *d.Disk, ID: d.ID, Snapshot: b.beside.root != nil, Shared: b.beside.root != nil}
			b.config.Disks = append(b.config.Disks, disk)
			b.facts["device."+d.ID] = disk.Line()
			continue
		}
		share := qemu.Share{Share: *d.Share, ID: d.ID, Socket: filepath.Join(b.sockets, fmt.Sprintf("fs%d", len(b.config.Shares)))}
		b.config.Shares = append(b.config.Shares, share)
		b.facts["device."+d.ID] = share.Line()
	}
	b.config.QMP = filepath.Join(b.sockets, "qmp")
}

// key makes the key that lets iotax in. It is never written anywhere.
func (b *booting) key() error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		b.signer, err = ssh.NewSignerFromKey(private)
	}
	return err
}

// micro makes ready to boot the built-in guest.
func (b *booting) micro(ctx context.Context) error {
	if err := b.key(); err != nil {
		return err
	}
	var g errgroup.Group
	var tools string
	g.Go(func() (err error) {
		tools, err = guest.Tools(ctx, b.o.CacheDir)
		return err
	})
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
	b.facts["kernel"] = kernel.Release
	b.facts["kernel.file"] = kernel.Source
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
	b.facts["accel"], b.facts["accel.why"] = b.config.Accel, why
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
	if b.spec.Kernel != "" {
		k, err := guest.OpenKernel(b.o.CacheDir, b.spec.Kernel, "")
		if err != nil {
			return nil, &iotax.Error{Op: "start machine", On: b.name, Err: err,
				Mend: "the micro-guest needs a kernel with its modules: …/boot/vmlinuz-RELEASE beside …/lib/modules/RELEASE"}
		}
		return k, nil
	}
	k, err := guest.FindKernel(ctx, b.o.CacheDir, b.o.Logf)
	if err == nil {
		return k, nil
	}
	k, ferr := guest.FetchKernel(ctx, b.o.CacheDir, b.o.Logf)
	if ferr != nil {
		_, missing := splitMend(err)
		mend, failed := splitMend(ferr) // fetching one is no mend any more
		return nil, &iotax.Error{Op: "start machine", On: b.name, Err: fmt.Errorf("%w; and none could be had: %w", missing, failed), Mend: mend}
	}
	return k, nil
}

// splitMend takes the mend off an error, for one that tells several.
func splitMend(err error) (mend string, bare error) {
	var e *iotax.Error
	if !errors.As(err, &e) {
		return "", err
	}
	c := *e
	c.Mend = ""
	return e.Mend, &c
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

// image makes ready to boot an image of the user's.
func (b *booting) image(ctx context.Context) error {
	s := b.spec
	fail := func(err error, mend string) error {
		return &iotax.Error{Op: "start machine", On: b.name, Err: err, Mend: mend}
	}
	image, err := filepath.Abs(s.Image)
	if err != nil {
		return fail(err, "")
	}
	format, err := imageFormat(image)
	if err != nil {
		return fail(err, "image: must be the path of a qcow2 or raw disk image on this host")
	}
	// The image stays as it is: writes go to an overlay of this boot. QEMU's own snapshot=on would
	// ignore flushes, and so report a durability that is not there.
	overlay := filepath.Join(b.dir, "overlay.qcow2")
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		return fail(err, "install it: apt install qemu-utils")
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(limited, tool, "create", "-q", "-f", "qcow2", "-F", format, "-b", image, overlay).CombinedOutput(); err != nil {
		return fail(fmt.Errorf("qemu-img create: %w: %s", err, bytes.TrimSpace(out)), "")
	}
	root := qemu.Disk{ID: "iotax-root", Disk: iotax.Disk{Path: overlay, Format: "qcow2", Cache: "writeback", AIO: "threads"}}
	b.config.Disks = append([]qemu.Disk{root}, b.config.Disks...)
	b.facts["image"] = image
	b.facts["device.iotax-root"] = root.Line()
	if s.Identity != "" {
		pem, err := os.ReadFile(s.Identity)
		if err == nil {
			b.signer, err = ssh.ParsePrivateKey(pem)
		}
		if err != nil {
			return fail(fmt.Errorf("%s: %w", s.Identity, err), "identity: must be a private key without a passphrase")
		}
	} else {
		if err := b.key(); err != nil {
			return fail(err, "")
		}
		seed := filepath.Join(b.dir, "seed.iso")
		if err := writeSeed(seed, s.User, b.signer.PublicKey()); err != nil {
			return fail(err, "")
		}
		b.config.Disks = append(b.config.Disks, qemu.Disk{ID: "iotax-seed",
			Disk: iotax.Disk{Path: seed, Format: "raw", Cache: "writeback", AIO: "threads", ReadOnly: true}})
	}
	if s.Kernel != "" {
		if err := firstErr(os.Stat(s.Kernel)); err != nil {
			return fail(err, "kernel: must be the path of a kernel on this host")
		}
		b.config.Kernel, b.config.Initrd = s.Kernel, s.Initrd
		b.config.Append = cmp.Or(s.Append, "root=/dev/vda console=ttyS0")
		b.facts["cmdline"] = b.config.Append
	}
	b.config.Accel = s.Accel
	b.facts["accel.why"] = "asked for"
	if s.Accel == "auto" {
		// The image itself cannot tell quickly whether an accelerator works; the micro-guest can.
		a, err := b.probeForImage(ctx)
		if err != nil {
			return err
		}
		b.config.Accel, b.facts["accel.why"] = a.Name, a.Why
	}
	b.facts["accel"] = b.config.Accel
	return nil
}

func firstErr[T any](_ T, err error) error { return err }

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

// imageFormat tells qcow2 from raw by its first bytes.
func imageFormat(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if string(magic) == "QFI\xfb" {
		return "qcow2", nil
	}
	return "raw", nil
}

// writeSeed writes the disk from which cloud-init (data source NoCloud) takes its orders.
func writeSeed(path, user string, key ssh.PublicKey) error {
	w, err := iso9660.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Cleanup() }()
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	for name, text := range seedFiles(user, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), hex.EncodeToString(id)) {
		if err := w.AddFile(strings.NewReader(text), name); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(w.WriteTo(f, "cidata"), f.Close())
}

// seedFiles are the files of the seed disk. The instance is a new one at each boot, so that
// cloud-init does its work again.
func seedFiles(user, key, instance string) map[string]string {
	var u strings.Builder
	u.WriteString("#cloud-config\n")
	if user == "root" {
		u.WriteString("disable_root: false\nssh_authorized_keys:\n  - " + key + "\n")
	} else {
		fmt.Fprintf(&u, "users:\n  - name: %q\n    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n    shell: /bin/sh\n    lock_passwd: true\n    ssh_authorized_keys:\n      - %s\n", user, key)
	}
	u.WriteString("ssh_pwauth: false\npackage_update: false\npackage_upgrade: false\n")
	return map[string]string{
		"user-data":      u.String(),
		"meta-data":      "instance-id: iotax-" + instance + "\nlocal-hostname: guest\n",
		"network-config": "version: 2\nethernets:\n  all:\n    match: {name: \"e*\"}\n    dhcp4: true\n",
	}
}

// line takes one line of the console.
func (b *booting) line(at time.Time, line string) {
	m, ok := guest.ParseMark(line)
	if !ok {
		return
	}
	b.mu.Lock()
	if m.Name == "init" {
		// The kernel itself says nothing; the guest's clock tells when it started.
		b.phases = append(b.phases, iotax.Phase{Name: "kernel", At: max(0, at.Sub(b.spawned)-m.At)})
	}
	if slices.Contains([]string{"init", "network", "mount", "root", "pivot"}, m.Name) {
		b.phases = append(b.phases, iotax.Phase{Name: m.Name, At: at.Sub(b.spawned)})
	}
	b.mu.Unlock()
	select {
	case b.up <- m:
	default:
	}
}

func (b *booting) start(ctx context.Context, timeout time.Duration) (iotax.Machine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it could not be logged into within %v", timeout))
	defer cancel()
	fail := func(err error, mend string) (iotax.Machine, error) {
		return nil, &iotax.Error{Op: "start machine", On: b.name, Err: err, Mend: mend}
	}
	b.mu.Lock()
	b.spawned = time.Now()
	vm, err := qemu.Start(ctx, b.config, b.line)
	if err == nil {
		b.spawned = vm.Started
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b.vm = vm
	if b.pinned != nil {
		if err := b.pinned.pin(vm.Pid()); err != nil {
			return fail(err, "leave pin: out")
		}
		maps.Copy(b.facts, b.pinned.facts())
	}
	port, err := vm.HostPort(ctx)
	if err != nil {
		return fail(vm.Fail(err), "")
	}
	var hostKey string
	if b.spec.Image == "" {
		if hostKey, err = b.awaitMicro(ctx); err != nil {
			return fail(err, b.mend(ctx))
		}
	}
	var answered iotax.Phase
	if b.beside.root != nil {
		if answered, err = b.awaitAnswer(ctx); err != nil {
			return fail(err, "boot it by hand to see more: its command line is "+strings.Join(b.config.Args(), " "))
		}
	}
	conn, err := b.login(ctx, port, hostKey)
	if err != nil {
		mend := b.mend(ctx)
		if b.spec.Image != "" {
			mend = "the image must run an SSH server that lets user " + b.spec.User + " in: by cloud-init, or with identity:"
		}
		return fail(err, mend)
	}
	b.mu.Lock()
	phases := append([]iotax.Phase{{Name: "start"}}, b.phases...)
	b.mu.Unlock()
	if !vm.Plugged.IsZero() {
		phases = append(phases, iotax.Phase{Name: "plugged", At: vm.Plugged.Sub(vm.Started)})
		slices.SortStableFunc(phases, func(a, b iotax.Phase) int { return cmp.Compare(a.At, b.At) })
	}
	if b.beside.root != nil {
		phases = append(phases, answered) // logging in is not what it was booted for
	} else {
		phases = append(phases, iotax.Phase{Name: "ready", At: time.Since(vm.Started)})
	}
	client := sshx.New(conn, b.name, sshx.Silence(5*time.Second))
	if b.spec.Image != "" {
		// What still goes on when the SSH server is up would be measured along.
		if _, err := iotax.Output(ctx, client, "sh", "-c", settled); err != nil {
			_ = client.Close(ctx)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fail(vm.Fail(fmt.Errorf("it does not come to rest: %w", err)), "")
		}
		phases[len(phases)-1].At = time.Since(vm.Started)
	}
	g := &machine{Client: client, name: b.name, vm: vm, dirs: []string{b.dir, b.sockets}, facts: b.facts, boot: phases, again: b.again, pinned: b.pinned}
	b.describe(ctx, g)
	return g, nil
}

// again boots the same guest beside the first one.
func (b *booting) again(ctx context.Context, root *iotax.Root) (iotax.Machine, error) {
	o := b.o
	o.Name = b.name + " again"
	if root != nil && b.spec.Image != "" {
		return nil, &iotax.Error{Op: "boot", On: o.Name, Err: errors.New("the root of an image of yours is its own"), Mend: "leave image: out"}
	}
	o.Devices = slices.DeleteFunc(slices.Clone(o.Devices), func(d iotax.Device) bool {
		return d.Disk != nil && (root == nil || root.Source != "serial:"+d.ID)
	})
	return boot(ctx, b.spec, o, again{name: "again", root: root})
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

// mend is what can be done about a micro-guest that did not come up.
func (b *booting) mend(ctx context.Context) string {
	switch m := b.vm.Mend(); {
	case m != "":
		return m
	case b.spec.Append != "" || len(b.spec.Args) > 0:
		return "leave out append: and args:"
	case ctx.Err() != nil:
		return "give it more time, as in {qemu: {boot_timeout: 5m}}, or find out what keeps this host busy"
	}
	return ""
}

// settled waits until a user's image has booted, where it can tell. Whether all went well there is the
// image's own matter.
const settled = `if command -v cloud-init >/dev/null; then cloud-init status --wait; fi >/dev/null 2>&1
if command -v systemctl >/dev/null; then systemctl is-system-running --wait; fi >/dev/null 2>&1
true`

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

// login connects to the guest's SSH server. An image may take its time to have one.
func (b *booting) login(ctx context.Context, port int, hostKey string) (*ssh.Client, error) {
	user := "root"
	if b.spec.Image != "" {
		user = b.spec.User
	}
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(b.signer)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			// The port is one that QEMU, which is ours, listens on, so an image whose host key
			// nobody knows can be no other.
			if hostKey != "" && strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) != hostKey {
				return errors.New("the host key is not the one that the guest wrote to its console")
			}
			return nil
		},
	}
	if b.spec.Image == "" {
		// Ciphers that real CPUs have instructions for cost an emulated one twice as much as this
		// one does; and the post-quantum key exchange is lost on a loopback interface.
		config.KeyExchanges = []string{ssh.KeyExchangeCurve25519}
		if b.config.Accel == "tcg" {
			config.Ciphers = []string{ssh.CipherChaCha20Poly1305}
		}
	}
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	// QEMU accepts before anyone in the guest listens, and what was sent then may be lost: an image is
	// tried with little patience first.
	patience := 30 * time.Second
	if b.spec.Image != "" {
		patience = 2 * time.Second
	}
	for ; ; patience = min(patience*3/2, 30*time.Second) {
		conn, err := dialSSH(ctx, addr, patience, config)
		if err == nil {
			return conn, nil
		}
		if b.spec.Image == "" {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, b.vm.Fail(err)
		}
		select {
		case <-b.vm.Done():
			return nil, b.vm.Err()
		case <-ctx.Done():
			return nil, b.vm.Fail(fmt.Errorf("%w: %w", context.Cause(ctx), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func dialSSH(ctx context.Context, addr string, patience time.Duration, config *ssh.ClientConfig) (*ssh.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, config)
	if !stop() && err == nil {
		c.Close()
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// describe collects the facts that only a running guest can tell.
func (b *booting) describe(ctx context.Context, g *machine) {
	f := b.facts
	f["qemu"] = b.vm.Monitor.Version
	c := b.config
	f["cpus"] = fmt.Sprint(c.CPUs)
	f["memory"] = plan.Size(c.Memory).String()
	args := c.Args()
	for i := 0; i+1 < len(args); i++ {
		switch args[i] {
		case "-machine":
			f["machine"] = args[i+1]
		case "-cpu":
			f["cpu"] = args[i+1]
		}
	}
	if b.vm.Daemons != "" {
		f["virtiofsd"] = b.vm.Daemons
	}
	// A guest that cannot tell is still a guest.
	out, err := iotax.Output(ctx, g, "sh", "-c", "uname -r; cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err == nil {
		if l := strings.Fields(string(out)); len(l) == 2 {
			f["kernel"], f["clocksource"] = l[0], l[1]
		}
	}
	f["boot"] = time.Since(b.vm.Started).Round(time.Millisecond).String()
}
