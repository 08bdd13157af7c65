// Package fake provides a machine for tests.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// A Machine runs commands on Under, and delays them, fails or dies as configured. Set its fields before the first Run.
type Machine struct {
	link agent.Link

	Name  string        // the result of String; "" means "fake"
	Under iotax.Machine // runs the commands; nil means this host

	// Delay is the pause before every command. If Sleep is nil, the pause takes real time.
	Delay time.Duration
	Sleep func(ctx context.Context, d time.Duration) error

	// FailAt is called before the n-th command (from 0). If it returns an error, Run returns that error and does not
	// run the command.
	FailAt func(n int, c *iotax.Cmd) error

	// DieAt reports whether the machine dies during the n-th command (from 0). Later commands fail.
	DieAt func(n int, c *iotax.Cmd) bool

	// Forgets disables the log, which grows in a long run.
	Forgets bool

	mu     sync.Mutex
	ran    int // commands so far
	log    []string
	dead   chan struct{}
	closed bool
}

// errDied is the error of commands on a dead machine. It is neither a context error nor an ExitError.
var errDied = errors.New("the machine died")

func (f *Machine) String() string {
	if f.Name == "" {
		return "fake"
	}
	return f.Name
}

// Log returns the commands so far in the order of their Run calls, quoted for a shell.
func (f *Machine) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Die makes the machine die now. Running commands fail.
func (f *Machine) Die() {
	ch := f.death()
	f.mu.Lock()
	select {
	case <-ch:
	default:
		close(ch)
	}
	f.mu.Unlock()
	f.link.Hangup(context.Background())
}

func (f *Machine) death() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead == nil {
		f.dead = make(chan struct{})
	}
	return f.dead
}

// Closed reports whether Close was called.
func (f *Machine) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Caps returns the capabilities of Under, without Local. The agent runs in this process and ends with the machine.
func (f *Machine) Caps() (c iotax.MachineCaps) {
	if f.Under != nil {
		c = f.Under.Caps()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link.Start == nil {
		f.link.Start = func(ctx context.Context) (*agent.Session, error) {
			dead := f.death()
			select {
			case <-dead:
				return nil, &iotax.Error{Op: "start the agent on", On: f.String(), Err: errDied}
			default:
			}
			return agent.InProcess(ctx)
		}
	}
	c.Local, c.Agent = false, &f.link
	return c
}

func (f *Machine) Close(ctx context.Context) error {
	f.link.Hangup(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &iotax.Error{Op: "close", On: f.Name, Err: errors.New("it was closed before")}
	}
	f.closed = true
	return nil
}

func (f *Machine) Run(ctx context.Context, c *iotax.Cmd) error {
	if err := proc.Check(c, f.String()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dead := f.death()
	f.mu.Lock()
	n := f.ran
	f.ran++
	if !f.Forgets {
		f.log = append(f.log, c.String())
	}
	closed := f.closed
	f.mu.Unlock()
	died := func(err error) error {
		return &iotax.Error{Op: "run " + proc.Name(c), On: "on " + f.String(), Err: err}
	}
	if closed {
		return died(errors.New("the machine is closed"))
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-dead:
			cancel(errDied)
		case <-stop:
		}
	}()
	select {
	case <-dead:
		return died(errDied)
	default:
	}
	if f.Delay > 0 {
		sleep := f.Sleep
		if sleep == nil {
			sleep = sleepFor
		}
		if err := sleep(ctx, f.Delay); err != nil {
			if errors.Is(err, errDied) {
				return died(errDied)
			}
			return err
		}
	}
	if f.FailAt != nil {
		if err := f.FailAt(n, c); err != nil {
			return err
		}
	}
	dies := f.DieAt != nil && f.DieAt(n, c)
	if dies {
		// Wait until the command has started: a real machine dies while the command runs.
		t := time.AfterFunc(10*time.Millisecond, f.Die)
		defer t.Stop()
		defer f.Die()
	}
	under := f.Under
	if under == nil {
		under = host.Local()
	}
	err := under.Run(ctx, c)
	if dies || errors.Is(err, errDied) {
		return died(errDied) // even if the command finished first: a dead machine reports no result
	}
	return err
}

func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Spec is the spec of kind fake.
type Spec struct {
	Delay     plan.Duration `yaml:"delay" doc:"pause before every command"`
	DieAfter  int           `yaml:"die_after" doc:"the machine dies under the command after so many; 0 means never"`
	FailAfter int           `yaml:"fail_after" doc:"commands after so many fail with exit status 1; 0 means never"`
}

func (s *Spec) Traits() plan.Traits { return plan.Traits{} }

// Validate returns an error for negative numbers.
func (s *Spec) Validate() error {
	for _, f := range []struct {
		name string
		v    int64
	}{{"delay", int64(s.Delay)}, {"die_after", int64(s.DieAfter)}, {"fail_after", int64(s.FailAfter)}} {
		if f.v < 0 {
			return &plan.FieldError{Field: f.name, Msg: "must not be negative", Hint: "leave it out for none"}
		}
	}
	return nil
}

// Kind defines the machine kind fake.
var Kind = kind.Of("fake", "this host with scripted faults, for tests", Spec{}, func(_ context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	f := &Machine{Name: o.Name, Delay: time.Duration(s.Delay), Forgets: true}
	if s.DieAfter > 0 {
		f.DieAt = func(n int, _ *iotax.Cmd) bool { return n >= s.DieAfter }
	}
	if s.FailAfter > 0 {
		f.FailAt = func(n int, c *iotax.Cmd) error {
			if n < s.FailAfter {
				return nil
			}
			return &iotax.ExitError{Args: c.Args, Code: 1, Stderr: fmt.Sprintf("scripted failure of command %d", n)}
		}
	}
	return f, nil
})
