// Package execx runs commands through whatever starts a program elsewhere and carries its standard
// streams, as an iotax.Machine: the exec of a container engine or of Kubernetes. It asks of the other
// side a POSIX sh.
package execx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/far"
	"iotax/internal/machine/internal/proc"
)

// Streams are the standard streams of a program; none is nil.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// An Exec starts args on the other side, carries its streams, and returns its exit status when it has
// ended and all its output was written. An error means that this is not known: the program could not be
// started, or the other side died. Once ctx ends it lets go of the streams and returns; the
// program may go on over there. It is called from several goroutines at once.
type Exec func(ctx context.Context, args []string, s Streams) (code int, err error)

// A Machine runs commands through an Exec.
type Machine struct {
	agent.Link
	side far.Side
	exec Exec
	tag  string // the tags of its commands begin with it

	mu    sync.Mutex
	gone  bool
	busy  sync.WaitGroup
	guard *guard // nil when there is none
}

// New returns the machine behind exec; name is what String returns.
func New(name string, exec Exec) *Machine {
	m := &Machine{exec: exec, tag: proc.NewTag() + "."}
	m.side = far.Side{Name: name, NoShell: "there is no sh to start it with", Hint: "use an image that has a POSIX shell (busybox will do)",
		Script: m.script, Lost: func(string) error { return nil }}
	return m
}

func (m *Machine) String() string { return m.side.Name }

// Caps are those of a container, a pod, or a virtual machine on a laptop: iotax is its only user.
func (m *Machine) Caps() iotax.MachineCaps { return iotax.MachineCaps{Alone: true, Agent: &m.Link} }

// Close waits for what Run left to end, and refuses further commands.
func (m *Machine) Close(ctx context.Context) error {
	m.Hangup(ctx)
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.busy.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if m.guard != nil {
		m.guard.dismiss(ctx)
	}
	return err
}

var errClosed = errors.New("the machine was closed")

// begin counts a call until its done is called.
func (m *Machine) begin() (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil, errClosed
	}
	m.busy.Add(1)
	if m.guard == nil || m.guard.ended() {
		m.guard = m.watch()
	}
	return m.busy.Done, nil
}

// drain passes writes on and hides that they failed: the gate behind it has told the caller, and what
// still comes must be read for the process id to arrive.
type drain struct{ io.Writer }

func (d drain) Write(p []byte) (int, error) {
	_, _ = d.Writer.Write(p)
	return len(p), nil
}

// An outcome is what an Exec returned.
type outcome struct {
	code int
	err  error
}

// Run runs cmd through sh on the other side, as iotax.Machine promises. An exit status above 128 that
// is the number of a signal is taken for that signal, as a shell would: such channels tell no more.
func (m *Machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, m.side.Name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done, err := m.begin()
	if err != nil {
		return &iotax.Error{Op: "run " + proc.Name(cmd), On: "on " + m.side.Name, Err: err}
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	call := m.side.Call(cmd, m.tag+proc.NewTag(), cancel)
	defer call.Shut()

	// The channel outlives ctx: the command is ended through another one, and then this one ends with it.
	hold, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	in, feed := io.Pipe()
	finished := make(chan struct{})
	var end outcome
	go func() {
		end.code, end.err = m.exec(hold, []string{"sh", "-c", far.Script}, Streams{In: in, Out: drain{call.Out}, Err: drain{call.Report}})
		in.CloseWithError(io.ErrClosedPipe) // wakes a Feed that writes to a command that is gone
		close(finished)
	}()
	call.Feed(feed, far.Prologue(cmd, call.Tag), finished)

	select {
	case <-finished:
		call.Fed()
		switch stream := call.Stream(ctx); {
		case stream != nil:
			return stream
		case end.err == nil:
			return call.Result(end.code, far.Signal(end.code))
		case call.Begun(): // the channel is lost; the command may not be
			return endLost(ctx, call, finished, call.Failed(end.err))
		}
		return call.Failed(end.err)
	case <-ctx.Done():
	}
	if err := call.End(ctx, finished); err != nil {
		return err
	}
	select { // it ends with the command, unless something that is not the command's any more holds its output
	case <-finished:
	case <-time.After(time.Second):
		in.CloseWithError(io.ErrClosedPipe)
	}
	call.Fed()
	return call.Cause(ctx)
}

// endLost ends a command whose channel broke with err. When that cannot be done either because the other
// side is gone, the command is gone with it.
func endLost(ctx context.Context, call *far.Call, finished <-chan struct{}, err error) error {
	why := call.End(ctx, finished)
	var a, b *iotax.Error
	if errors.As(err, &a) && errors.As(why, &b) && a.Err.Error() == b.Err.Error() {
		return err
	}
	return errors.Join(err, why)
}

// scriptLimit is how much is kept of what the script that ends a command prints.
const scriptLimit = 64 << 10

// script runs a shell script and returns the rest of the line that starts with "left:".
func (m *Machine) script(ctx context.Context, op, text string) (string, error) {
	out, said := iotax.Capture{Limit: scriptLimit}, iotax.Capture{Limit: scriptLimit}
	_, err := m.exec(ctx, []string{"sh", "-c", text}, Streams{In: strings.NewReader(""), Out: &out, Err: &said})
	_, left, ok := strings.Cut(out.String(), "left:")
	if err == nil && !ok {
		err = fmt.Errorf("the script that ends it failed: %s", strings.TrimSpace(said.String()))
	}
	if err != nil {
		return "", &iotax.Error{Op: op, On: "on " + m.side.Name, Err: err}
	}
	return strings.TrimSpace(left), nil
}
