package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"iotax"
	session "iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
)

// A machine is a running guest.
type machine struct {
	*agent.Machine
	vm      *qemu.VM
	end     func(context.Context) error
	storage iotax.Durability // durability of disks that do not belong to a volume
	facts   map[string]string
	boot    []iotax.Phase
	again   func(ctx context.Context, beside again) (iotax.Machine, error)

	mu     sync.Mutex
	beside []*qemu.VM // running guests that Restart started
}

// Caps returns the capabilities of the agent, and those that QEMU provides.
func (g *machine) Caps() iotax.MachineCaps {
	c := g.Machine.Caps()
	c.Perishes, c.Facts, c.Weakens, c.Processes = true, g.facts, g.Weakens, g.Processes
	c.Started, c.Boot, c.Restart, c.BootFiles = g.vm.Started, g.boot, g.Restart, g.BootFiles
	c.HostAddress, c.Forward, c.DiskTimes = guest.Gateway, g.Forward, g.vm.DiskTimes
	return c
}

// Weakens returns the durability of disks that do not belong to a volume, and iotax.Durable for file systems on shares.
func (g *machine) Weakens(_, fs string) iotax.Durability {
	if fs == "9p" || fs == "virtiofs" {
		return iotax.Durable // the volume reports the durability of this host's directory
	}
	return g.storage
}

// Processes returns the processes of the guest and of the guests that Restart started. It includes them from the start
// of QEMU, so that samples cover the boot.
func (g *machine) Processes() map[string][]int {
	all := g.vm.Processes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.beside = slices.DeleteFunc(g.beside, func(v *qemu.VM) bool {
		for label, pids := range v.Processes() {
			all[label] = append(all[label], pids...)
		}
		select {
		case <-v.Done():
			return true
		default:
			return false
		}
	})
	return all
}

// Restart boots a second instance of the guest. The instance has the disk that contains root, but not the other disks
// of volumes.
func (g *machine) Restart(ctx context.Context, root *iotax.Root) (iotax.Machine, error) {
	return g.again(ctx, again{name: "again", root: root, begun: func(v *qemu.VM) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.beside = append(g.beside, v)
	}})
}

// BootFiles returns the paths of the kernel, the initial RAM disk, the image, and the disk with the tools.
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

// Forward returns an address of this host that leads to the guest's port. QEMU's user network forwards it.
func (g *machine) Forward(ctx context.Context, port int) (string, error) {
	host, err := g.vm.Forward(ctx, port)
	if err != nil {
		return "", &iotax.Error{Op: fmt.Sprintf("forward port %d", port), On: "of " + g.String(), Err: err}
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(host)), nil
}

// Run runs cmd in the guest. If the guest ends before cmd, the error quotes the guest's console.
func (g *machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	err := g.Machine.Run(ctx, cmd)
	var exit *iotax.ExitError
	if err == nil || errors.As(err, &exit) || ctx.Err() != nil {
		return err
	}
	select {
	case <-g.vm.Done():
	case <-time.After(200 * time.Millisecond): // the connection often breaks shortly before the guest ends
		return err
	}
	return &iotax.Error{Op: "run " + cmd.Args[0], On: "on " + g.String(), Err: fmt.Errorf("the guest is gone: %w", g.vm.Err()), Hint: g.vm.Hint()}
}

func (g *machine) Close(ctx context.Context) error {
	// The guest ends first, as in a power cut, so that the broken connection is not an error.
	err := g.end(ctx)
	_ = g.Machine.Close(ctx)
	return err
}

// describe adds the facts about QEMU and its daemons.
func (b *booting) describe(ctx context.Context) error {
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
	known := ""
	for _, id := range slices.Sorted(maps.Keys(b.vm.Daemons)) {
		d, name := b.vm.Daemons[id], "virtiofsd"
		if known == d.Path {
			continue
		} else if known != "" { // a share has a different daemon
			name += "." + id
		}
		known = d.Path
		f[name] = d.String()
		if err := identify(ctx, d.Path, name, f); err != nil {
			return err
		}
	}
	path, err := c.Look()
	if err != nil {
		return err
	}
	return identify(ctx, path, "qemu", f)
}

// identify adds facts that identify the program at path.
func identify(ctx context.Context, path, name string, facts map[string]string) error {
	binary, err := session.Identify(ctx, path, "--version")
	if err != nil {
		return &iotax.Error{Op: "identify program", On: path, Err: err, Hint: "check that it can be read and started"}
	}
	binary.Facts(name, facts)
	return nil
}

// describe adds the facts that the guest itself reports, and its boot time.
func describe(ctx context.Context, g iotax.Machine, facts map[string]string) {
	if there, err := guest.Describe.On(ctx, g, struct{}{}); err == nil { // the facts are optional
		maps.Copy(facts, there)
	}
	facts["boot"] = time.Since(g.Caps().Started).Round(time.Millisecond).String()
}
