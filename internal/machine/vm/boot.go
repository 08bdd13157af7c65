package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
)

// again holds the options for a second instance of a guest. The zero value is for a first instance.
type again struct {
	name  string         // host name of the second micro-guest; "" for a first instance
	root  *iotax.Root    // root file system to switch to, or nil
	begun func(*qemu.VM) // called after QEMU has started; nil for a first instance
}

// boot starts a guest and connects to its agent.
func boot(ctx context.Context, s *Spec, o kind.Options, beside again) (iotax.Machine, error) {
	b, err := spawn(ctx, s, o, beside, nil)
	if err != nil {
		return nil, err
	}
	m, err := b.meetAgent(ctx)
	if err != nil {
		return nil, errors.Join(err, b.end(ctx))
	}
	return m, nil
}

// spawn starts QEMU. For a micro-guest, it returns when init is ready. Unless spawn fails, the caller must call `end` on
// the result. If `boots` is nil, spawn finds or makes the boot files on this host.
func spawn(ctx context.Context, s *Spec, o kind.Options, beside again, boots *Boots) (_ *booting, err error) {
	name := o.Name
	var pinned *pinning
	var nodes []int
	notPinned := ""
	if s.Pin == autoPin {
		if pinned, err = lastCPUs(s.CPUs); err != nil {
			notPinned = err.Error() // auto is best effort: continue without pinning
		}
	} else if s.Pin != "" {
		cpus, _ := parseCPUs(s.Pin) // Validate has checked it
		if pinned, err = newPinning(cpus); err != nil {
			return nil, &iotax.Error{Op: "pin machine", On: name, Err: err, Hint: "name other CPUs in pin:, or leave it out"}
		}
	}
	if s.PinMemory != "" {
		nodes, _ = parseCPUs(s.PinMemory)
	}
	c := qemu.Config{
		Nodes: nodes, Binary: s.Binary,
		Name: name, Machine: s.Machine, CPU: s.CPU, CPUs: s.CPUs, Memory: int64(s.Memory), Net: true, Extra: s.Args,
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
	// This directory may contain keys and sockets, so only this user may access it.
	dir, err := os.MkdirTemp(o.WorkDir, "vm-")
	if err != nil {
		return nil, &iotax.Error{Op: "start machine", On: name, Err: err}
	}
	b := &booting{spec: s, o: o, beside: beside, name: name, dir: dir, config: c, pinned: pinned, storage: extraDurability(s.Args),
		boots: boots, facts: map[string]string{}, up: make(chan guest.Mark, 16), timeout: time.Duration(s.BootTimeout)}
	defer func() {
		if err != nil {
			_ = b.end(ctx)
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
	if err := b.devices(ctx); err != nil {
		return nil, err
	}
	if b.timeout == 0 {
		b.timeout = microTimeout
		if s.Image != "" {
			b.timeout = imageTimeout
		}
	}
	prepare := b.micro
	if s.Image != "" {
		prepare = b.image
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	return b, b.start(ctx)
}

// booting is the state of a guest during its boot.
type booting struct {
	spec    *Spec
	o       kind.Options
	beside  again
	name    string
	dir     string
	sockets string
	config  qemu.Config
	pinned  *pinning // nil means not pinned
	facts   map[string]string
	files   []string         // files outside dir and sockets, to remove
	storage iotax.Durability // durability of disks that do not belong to a volume
	boots   *Boots           // files from another host; nil means this host's
	root    *iotax.Disk      // disk for the root file system; nil means that the root is in memory or in the image
	timeout time.Duration    // time limit of the boot

	identity string // private key file for the login to an image
	vm       *qemu.VM
	up       chan guest.Mark // marks of the micro-guest, in order
	mu       sync.Mutex
	phases   []iotax.Phase
	spawned  time.Time
}

// end ends the guest as a power cut would, and removes its files on this host.
func (b *booting) end(ctx context.Context) (err error) {
	if b.vm != nil {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = b.vm.Close(c)
	}
	if b.pinned != nil {
		err = errors.Join(err, b.pinned.undo())
	}
	for _, f := range b.files {
		err = errors.Join(err, os.RemoveAll(f))
	}
	for _, dir := range slices.Compact([]string{b.sockets, b.dir}) {
		if dir != "" {
			err = errors.Join(err, leftover.Remove(dir))
		}
	}
	return err
}

// devices adds the devices of the volumes to the configuration.
func (b *booting) devices(ctx context.Context) error {
	for _, d := range b.o.Devices {
		if d.Disk != nil && d.Disk.Root > 0 && b.beside.root == nil {
			if b.root != nil || b.spec.Image != "" {
				return &iotax.Error{Op: "start machine", On: b.name, Err: errors.New("it has a root already"), Hint: "leave filesystem: root out"}
			}
			b.root = d.Disk
			continue
		}
		if d.Disk != nil {
			disk := qemu.Disk{Disk: *d.Disk, ID: d.ID, Shared: b.beside.root != nil}
			if b.beside.root != nil && !disk.ReadOnly {
				// Give a second guest an overlay of the first guest's disk. The overlay is in the same directory as the
				// disk, so that flushes have the same effect.
				disk.Overlay = d.Disk.Path + "-" + filepath.Base(b.dir)
				b.files = append(b.files, disk.Overlay)
				if hint, err := overlay(ctx, d.Disk.Path, cmp.Or(d.Disk.Format, "raw"), disk.Overlay); err != nil {
					return &iotax.Error{Op: "start machine", On: b.name, Err: err, Hint: hint}
				}
			}
			b.config.Disks = append(b.config.Disks, disk)
			b.facts["device."+d.ID] = disk.Line()
			continue
		}
		share := qemu.Share{Share: *d.Share, ID: d.ID, Socket: filepath.Join(b.sockets, fmt.Sprintf("fs%d", len(b.config.Shares)))}
		b.config.Shares = append(b.config.Shares, share)
		b.facts["device."+d.ID] = share.Line()
	}
	b.config.QMP = filepath.Join(b.sockets, "qmp")
	return nil
}

// `line` handles one line of the console. If that line contains a mark, `line` sends the mark to b.up, and records
// the first mark of each boot phase in b.phases.
func (b *booting) line(at time.Time, line string) {
	m, ok := guest.ParseMark(line)
	if !ok {
		return
	}
	b.mu.Lock()
	// Record each phase once, because programs in the guest can print marks without end.
	isNew := !slices.ContainsFunc(b.phases, func(p iotax.Phase) bool { return p.Name == m.Name })
	if m.Name == "init" && isNew {
		// The kernel prints nothing when it starts. Compute the time of its start from the guest's clock.
		b.phases = append(b.phases, iotax.Phase{Name: "kernel", At: max(0, at.Sub(b.spawned)-m.At)})
	}
	if slices.Contains([]string{"init", "network", "mount", "root", "pivot"}, m.Name) && isNew {
		b.phases = append(b.phases, iotax.Phase{Name: m.Name, At: at.Sub(b.spawned)})
	}
	b.mu.Unlock()
	select {
	case b.up <- m:
	default:
	}
}

// start starts QEMU. For a micro-guest, it also waits until init is ready.
func (b *booting) start(ctx context.Context) error {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	b.mu.Lock()
	b.spawned = time.Now()
	vm, err := qemu.Start(ctx, b.config, b.line)
	if err == nil {
		b.spawned = vm.Started
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	b.vm = vm
	if b.beside.begun != nil {
		b.beside.begun(vm)
	}
	if b.pinned != nil {
		if err := b.pinned.pin(vm.Pid()); err != nil {
			return b.failed(err, "leave pin: out")
		}
		maps.Copy(b.facts, b.pinned.facts())
	}
	if b.spec.Image == "" {
		if err := b.awaitMicro(ctx); err != nil {
			return b.failed(err, b.hint(ctx))
		}
	}
	return b.describe(ctx)
}

func (b *booting) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("it was not ready within %v", b.timeout))
}

func (b *booting) failed(err error, hint string) error {
	return &iotax.Error{Op: "start machine", On: b.name, Err: err, Hint: hint}
}

// timeline returns the phases of the boot so far, followed by last.
func (b *booting) timeline(last iotax.Phase) []iotax.Phase {
	b.mu.Lock()
	phases := append([]iotax.Phase{{Name: "start"}}, b.phases...)
	b.mu.Unlock()
	if !b.vm.Plugged.IsZero() {
		phases = append(phases, iotax.Phase{Name: "plugged", At: b.vm.Plugged.Sub(b.vm.Started)})
		slices.SortStableFunc(phases, func(a, b iotax.Phase) int { return cmp.Compare(a.At, b.At) })
	}
	return append(phases, last)
}

// meetAgent connects to the agent of a guest on this host, and returns the machine.
func (b *booting) meetAgent(ctx context.Context) (iotax.Machine, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	last := iotax.Phase{Name: "ready"}
	var err error
	if b.beside.root != nil { // this guest is booted for the program on its root file system, not for the agent
		if last, err = b.awaitAnswer(ctx); err != nil {
			return nil, b.failed(err, "boot it by hand to see more: its command line is "+strings.Join(b.config.Args(), " "))
		}
	}
	conn, err := b.connect(ctx)
	if err != nil {
		hint := b.hint(ctx)
		if b.spec.Image != "" {
			hint = "the image must run an SSH server that lets user " + b.spec.User + " in: by cloud-init, or with identity:"
		}
		return nil, b.failed(err, hint)
	}
	if b.spec.Image != "" {
		// Boot jobs that continue after the SSH server has started would disturb the measurement.
		if err := settle(ctx, conn); err != nil {
			_ = conn.Close(ctx)
			return nil, b.failed(b.vm.Fail(fmt.Errorf("it does not come to rest: %w", err)), "")
		}
	}
	if b.beside.root == nil {
		last.At = time.Since(b.vm.Started)
	}
	g := &machine{Machine: conn, vm: b.vm, end: b.end, storage: b.storage, facts: b.facts, boot: b.timeline(last), again: b.again}
	describe(ctx, g, b.facts)
	return g, nil
}

// connect starts the agent's session: over SSH for an image, otherwise through the virtio port.
func (b *booting) connect(ctx context.Context) (*agent.Machine, error) {
	if b.spec.Image != "" {
		return b.login(ctx)
	}
	m, err := meet(ctx, &port{name: b.name, dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.vm.Config.Port.Socket)
	}, done: b.vm.Done(), why: b.vm.Err})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = b.vm.Fail(err)
	}
	return m, err
}

// again boots a second instance of the guest.
func (b *booting) again(ctx context.Context, beside again) (iotax.Machine, error) {
	o, root := b.o, beside.root
	o.Name = b.name + " again"
	if root != nil && b.spec.Image != "" {
		return nil, &iotax.Error{Op: "boot", On: o.Name, Err: errors.New("an image has its own root file system"), Hint: "leave image: out"}
	}
	o.Devices = slices.DeleteFunc(slices.Clone(o.Devices), func(d iotax.Device) bool {
		return d.Disk != nil && (root == nil || root.Source != "serial:"+d.ID)
	})
	return boot(ctx, b.spec, o, beside)
}
