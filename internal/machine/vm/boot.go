package vm

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
	"iotax/internal/machine/sshx"
)

// again says what is special about a guest that is booted beside the first one of a run.
type again struct {
	name  string         // host name of the micro-guest; "" for the first one
	root  *iotax.Root    // to go on with, or nil
	begun func(*qemu.VM) // is told once QEMU runs; nil for the first one
}

func boot(ctx context.Context, s *Spec, o kind.Options, beside again) (_ iotax.Machine, err error) {
	name := cmp.Or(o.Name, "guest")
	for _, d := range o.Devices {
		if err := qemu.Check(d); err != nil {
			var de *qemu.DeviceError
			_ = errors.As(err, &de)
			return nil, &iotax.Error{Op: "start machine", On: name, Err: err, Hint: de.Hint}
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
			return nil, &iotax.Error{Op: "pin machine", On: name, Err: err, Hint: "name other CPUs in pin:, or leave it out"}
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
	b := &booting{spec: s, o: o, beside: beside, name: name, dir: dir, config: c, pinned: pinned, storage: extraDurability(s.Args), facts: map[string]string{}, up: make(chan guest.Mark, 16), began: time.Now()}
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
	if err := b.devices(ctx); err != nil {
		return nil, err
	}
	timeout := time.Duration(s.BootTimeout)
	if timeout == 0 {
		timeout = microTimeout
		if s.Image != "" {
			timeout = imageTimeout
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
	files   []string         // made outside of dir and sockets
	storage iotax.Durability // of disks that no volume gives
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
	for _, f := range append(b.files, b.sockets, b.dir) {
		_ = os.RemoveAll(f)
	}
}

// devices adds what the volumes need.
func (b *booting) devices(ctx context.Context) error {
	for _, d := range b.o.Devices {
		if d.Disk != nil {
			disk := qemu.Disk{Disk: *d.Disk, ID: d.ID, Shared: b.beside.root != nil}
			if b.beside.root != nil && !disk.ReadOnly {
				// Beside another guest, a disk is a copy of what that one has on it now, and is lost. It lies where the disk
				// does, so that a flush means the same.
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

// key makes the key that lets iotax in, for this boot alone. It is never written anywhere.
func (b *booting) key() error {
	private, err := newKey()
	if err == nil {
		b.signer, err = ssh.NewSignerFromKey(private)
	}
	return err
}

// newKey makes a key; tests look at those that were made.
var newKey = func() (ed25519.PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return private, err
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
	fail := func(err error, hint string) (iotax.Machine, error) {
		return nil, &iotax.Error{Op: "start machine", On: b.name, Err: err, Hint: hint}
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
	if b.beside.begun != nil {
		b.beside.begun(vm)
	}
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
			return fail(err, b.hint(ctx))
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
		hint := b.hint(ctx)
		if b.spec.Image != "" {
			hint = "the image must run an SSH server that lets user " + b.spec.User + " in: by cloud-init, or with identity:"
		}
		return fail(err, hint)
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
	g := &machine{Client: client, name: b.name, vm: vm, dirs: append(b.files, b.dir, b.sockets), storage: b.storage, facts: b.facts, boot: phases, again: b.again, pinned: b.pinned}
	if b.spec.Image == "" {
		g.Link.Program = "/proc/1/exe" // its init is this iotax
	}
	b.describe(ctx, g)
	return g, nil
}

// again boots the same guest beside the first one.
func (b *booting) again(ctx context.Context, beside again) (iotax.Machine, error) {
	o, root := b.o, beside.root
	o.Name = b.name + " again"
	if root != nil && b.spec.Image != "" {
		return nil, &iotax.Error{Op: "boot", On: o.Name, Err: errors.New("the root of an image of yours is its own"), Hint: "leave image: out"}
	}
	o.Devices = slices.DeleteFunc(slices.Clone(o.Devices), func(d iotax.Device) bool {
		return d.Disk != nil && (root == nil || root.Source != "serial:"+d.ID)
	})
	return boot(ctx, b.spec, o, beside)
}
