package vm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"iotax"
	session "iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
)

// An order is the request to start a guest on this machine for another host.
type order struct {
	ID, Name string
	Spec     Spec
	Devices  []iotax.Device
	Boots    *Boots
}

// A report describes a guest that has booted. The other host receives it.
type report struct {
	Socket string        // the socket of the guest's agent
	Age    time.Duration // time since QEMU was started
	Boot   []iotax.Phase
	Facts  map[string]string
}

// maxPhases limits the phases in a report. The boot of a guest has at most nine.
const maxPhases = 16

// check returns an error if r has no facts, no phases or more than maxPhases. Such a report does not come from iotax's
// agent.
func (r *report) check() error {
	if len(r.Boot) == 0 || len(r.Boot) > maxPhases || len(r.Facts) == 0 {
		return fmt.Errorf("the report of its boot has %d phases and %d facts", len(r.Boot), len(r.Facts))
	}
	return nil
}

// An outcome is a report, or the error of the boot.
type outcome struct {
	report
	err error
}

// outcomes maps the id of an order to the channel between `hold` and `await`.
var outcomes sync.Map

func outcomeOf(id string) chan outcome {
	c, _ := outcomes.LoadOrStore(id, make(chan outcome, 1))
	return c.(chan outcome)
}

var (
	// look finds QEMU on the machine, before iotax copies files there.
	look = session.New("vm look", func(_ context.Context, c qemu.Config) (string, error) { return c.Look() })

	// hold starts a guest. It ends the guest at the end of `until` or when the caller disconnects. If the guest ends
	// earlier, hold returns an error.
	hold = session.NewTaker("vm hold", func(ctx context.Context, o order, until io.Reader) (none struct{}, err error) {
		up := outcomeOf(o.ID)
		work, err := leftover.MkdirTemp("")
		if err != nil {
			up <- outcome{err: err}
			return none, err
		}
		defer func() { err = errors.Join(err, leftover.Remove(work)) }()
		with := kind.Options{Name: o.Name, Devices: o.Devices, CacheDir: iotax.CacheDir(), WorkDir: work}
		b, err := spawn(ctx, &o.Spec, with, again{}, o.Boots)
		if err != nil {
			up <- outcome{err: err}
			return none, err
		}
		defer func() { err = errors.Join(err, b.end(ctx)) }()
		r := report{Socket: b.config.Port.Socket, Facts: b.facts, Age: time.Since(b.vm.Started)}
		r.Boot = b.timeline(iotax.Phase{Name: "ready"})
		up <- outcome{report: r}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = io.Copy(io.Discard, until) // only the end of the stream is relevant, not its error
		}()
		select {
		case <-b.vm.Done():
			return none, &iotax.Error{Op: "run", On: b.name, Err: b.vm.Err(), Hint: b.vm.Hint()}
		case <-over:
			return none, nil
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	})

	// await waits until `hold` has started the guest, and returns the guest's report.
	await = session.New("vm await", func(ctx context.Context, id string) (report, error) {
		defer outcomes.Delete(id)
		select {
		case o := <-outcomeOf(id):
			return o.report, o.err
		case <-ctx.Done():
			return report{}, context.Cause(ctx)
		}
	})
)

// own wraps a machine and gives it a separate agent for one guest. The agent runs in the machine's network namespace.
type own struct {
	iotax.Machine
	link session.Link
}

func (m *own) Caps() iotax.MachineCaps {
	c := m.Machine.Caps()
	c.Local, c.Agent = false, &m.link
	return c
}

// nested is a guest on another machine.
type nested struct {
	*agent.Machine
	on      *own
	release *io.PipeWriter // ends the guest
	ended   chan struct{}  // closed when the guest has ended
	end     error          // the result of hold
	caps    iotax.MachineCaps
}

func (g *nested) Caps() iotax.MachineCaps {
	c := g.Machine.Caps()
	c.Perishes, c.Facts, c.Weakens, c.Started, c.Boot = true, g.caps.Facts, g.caps.Weakens, g.caps.Started, g.caps.Boot
	return c
}

// why returns the reason for the end of the guest. Call it only after g.ended is closed.
func (g *nested) why() error { return cmp.Or(g.end, errors.New("it ended")) }

func (g *nested) Close(ctx context.Context) error {
	died := false
	select {
	case <-g.ended:
		died = true // commands on the guest return the reason (see the method why)
	default:
	}
	g.release.Close()
	select {
	case <-g.ended:
	case <-ctx.Done():
	}
	if g.Machine != nil {
		_ = g.Machine.Close(ctx) // the guest has ended
	}
	g.on.link.Hangup(ctx)
	<-g.ended
	if died {
		return nil
	}
	return g.end
}

// openOn starts a micro-guest on another machine. The guest boots files of this host, if possible (see bring).
func openOn(ctx context.Context, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	on := &own{Machine: o.On}
	if on.link.Program, err = session.Program(ctx, o.On); err != nil {
		return nil, err
	}
	if _, err := look.On(ctx, on, qemu.Config{Name: o.Name, Binary: s.Binary}); err != nil {
		return nil, err
	}
	boots, err := bring(ctx, on, s, o)
	if err != nil {
		return nil, err
	}
	w := order{ID: rand.Text(), Name: o.Name, Spec: *s, Devices: o.Devices, Boots: boots}
	w.Spec.Kernel = ""
	until, release := io.Pipe()
	g := &nested{on: on, release: release, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		_, g.end = hold.On(context.WithoutCancel(ctx), on, w, until)
	}()
	defer func() {
		if err != nil {
			on.link.Hangup(context.WithoutCancel(ctx)) // closing release has no effect while the guest boots
			_ = g.Close(context.WithoutCancel(ctx))    // err already contains the cause
		}
	}()
	r, err := await.On(ctx, on, w.ID)
	if err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, &iotax.Error{Op: "start machine", On: o.Name, Err: err}
	}
	started := time.Now().Add(-r.Age)
	g.caps = iotax.MachineCaps{Facts: r.Facts, Started: started, Weakens: (&machine{storage: extraDurability(s.Args)}).Weakens}
	g.Machine, err = meet(ctx, &port{name: o.Name, done: g.ended, why: g.why, dial: func(ctx context.Context) (net.Conn, error) {
		return session.Dial(ctx, on, "unix", r.Socket)
	}})
	if err != nil {
		return nil, &iotax.Error{Op: "start machine", On: o.Name, Err: err}
	}
	r.Boot[len(r.Boot)-1].At = time.Since(started)
	g.caps.Boot = r.Boot
	describe(ctx, g, r.Facts)
	r.Facts["on"] = o.On.String()
	return g, nil
}

// bring makes the guest's boot files on this host and copies them to the machine. If this host cannot make the files,
// bring returns nil, and the machine makes its own files. If the plan names a kernel, bring returns an error instead.
func bring(ctx context.Context, on *own, s *Spec, o kind.Options) (*Boots, error) {
	system, err := session.System(ctx, on)
	if err != nil {
		return nil, err
	}
	boots := &Boots{}
	if here := runtime.GOOS + "/" + runtime.GOARCH; system != here {
		err = fmt.Errorf("it runs %s, and this host %s", system, here)
	} else {
		boots, err = bootsOf(ctx, s, o, true)
	}
	switch {
	case err != nil && (s.Kernel != "" || ctx.Err() != nil):
		return nil, &iotax.Error{Op: "start machine", On: o.Name, Err: err}
	case err != nil:
		o.Logf("%s starts %s from files of its own: %v", o.On, o.Name, err)
		return nil, nil
	case iotax.IsLocal(o.On): // a node of a lab has this host's files
		return boots, nil
	}
	there, err := guest.Carry(ctx, on, o.Log, boots.Kernel.Image, boots.Initrd, boots.Tools)
	if err == nil {
		boots.Kernel.Image, boots.Initrd, boots.Tools = there[0], there[1], there[2]
	}
	return boots, err
}
