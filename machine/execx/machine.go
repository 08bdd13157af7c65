// Package execx runs commands through whatever starts a program elsewhere and carries its standard
// streams, as an iotax.Machine: the exec of a container engine or of Kubernetes. It asks of the other
// side a POSIX sh.
package execx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/machine/internal/far"
	"iotax/machine/internal/proc"
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
	name string
	exec Exec
	tag  string // the tags of its commands begin with it

	mu    sync.Mutex
	gone  bool
	busy  sync.WaitGroup
	guard *guard // nil when there is none
}

// New returns the machine behind exec; name is what String returns.
func New(name string, exec Exec) *Machine {
	return &Machine{name: name, exec: exec, tag: proc.NewTag() + "."}
}

func (m *Machine) String() string { return m.name }

// Close waits for what Run left to end, and refuses further commands.
func (m *Machine) Close(ctx context.Context) error {
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
	if err := proc.Check(cmd, m.name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	op := "run " + proc.Name(cmd)
	done, err := m.begin()
	if err != nil {
		return &iotax.Error{Op: op, On: "on " + m.name, Err: err}
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	tag := m.tag + proc.NewTag()
	var tail proc.Tail
	out, errs := proc.Gates(cmd, cancel)
	defer out.Shut()
	defer errs.Shut()
	rep := far.NewReport(tag, io.MultiWriter(&tail, errs))

	// The channel outlives ctx: the command is ended through another one, and then this one ends with it.
	hold, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	in, feed := io.Pipe()
	finished := make(chan struct{})
	var end outcome
	go func() {
		end.code, end.err = m.exec(hold, []string{"sh", "-c", far.Script}, Streams{In: in, Out: drain{out}, Err: drain{rep}})
		in.CloseWithError(io.ErrClosedPipe) // wakes a Feed that writes to a command that is gone
		close(finished)
	}()
	go func() {
		if _, err := io.WriteString(feed, far.Prologue(cmd, tag)); err != nil {
			return
		}
		proc.Feed(feed, cmd.Stdin, func(err error) { cancel(err); <-finished })
	}()

	select {
	case <-finished:
		if stream := streamError(ctx); stream != nil {
			return &iotax.Error{Op: op, On: "on " + m.name, Err: stream}
		}
		err := m.result(cmd, op, end, rep, &tail)
		if pid, _, _ := rep.Get(); end.err != nil && pid != 0 { // the channel is lost; the command may not be
			err = m.endLost(ctx, cmd, rep, tag, finished, err)
		}
		return err
	case <-ctx.Done():
	}
	if err := m.end(ctx, cmd, rep, tag, finished); err != nil {
		return err
	}
	select { // it ends with the command, unless something that is not the command's any more holds its output
	case <-finished:
	case <-time.After(time.Second):
	}
	if stream := streamError(ctx); stream != nil {
		return &iotax.Error{Op: op, On: "on " + m.name, Err: stream}
	}
	return context.Cause(ctx)
}

// endLost ends a command whose channel broke with err. When that cannot be done either because the other
// side is gone, the command is gone with it.
func (m *Machine) endLost(ctx context.Context, cmd *iotax.Cmd, rep *far.Report, tag string, finished <-chan struct{}, err error) error {
	why := m.end(ctx, cmd, rep, tag, finished)
	var a, b *iotax.Error
	if errors.As(err, &a) && errors.As(why, &b) && a.Err.Error() == b.Err.Error() {
		return err
	}
	return errors.Join(err, why)
}

// streamError is what failed of the caller's own streams.
func streamError(ctx context.Context) *proc.StreamError {
	var stream *proc.StreamError
	errors.As(context.Cause(ctx), &stream)
	return stream
}

// result turns what the channel ended with into the error of Run.
func (m *Machine) result(cmd *iotax.Cmd, op string, o outcome, rep *far.Report, tail *proc.Tail) error {
	if o.err != nil {
		return &iotax.Error{Op: op, On: "on " + m.name, Err: o.err}
	}
	pid, state, said := rep.Get()
	switch {
	case pid == 0:
		how := fmt.Sprintf("exit status %d", o.code)
		if said != "" {
			how += ": " + said
		}
		return &iotax.Error{Op: op, On: "on " + m.name, Err: fmt.Errorf("there is no sh to start it with: %s", how),
			Mend: "use an image that has a POSIX shell (busybox will do)"}
	case state != "":
		return far.Refused(cmd, op, m.name, state, said)
	case o.code == 0:
		return nil
	}
	return &iotax.ExitError{Args: cmd.Args, Code: o.code, Signal: far.Signal(o.code), Stderr: tail.String()}
}

// end ends the command over there and returns nil once it is gone.
func (m *Machine) end(ctx context.Context, cmd *iotax.Cmd, rep *far.Report, tag string, finished <-chan struct{}) error {
	op := "end " + proc.Name(cmd)
	late := time.NewTimer(proc.Patience)
	defer late.Stop()
	select {
	case <-rep.Seen:
	case <-finished:
		if pid, _, _ := rep.Get(); pid == 0 {
			return nil // it never began
		}
	case <-late.C:
		return &iotax.Error{Op: op, On: "on " + m.name, Err: fmt.Errorf("it has not reported its process id for %v", proc.Patience)}
	}
	pid, _, _ := rep.Get()
	// The caller's context is done, and ending must go on; what bounds it is the script's own patience.
	// And many that end at once on a small guest share its time.
	ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proc.Grace+6*proc.Patience)
	defer cancel()
	var out, said bytes.Buffer
	_, err := m.exec(ectx, []string{"sh", "-c", far.EndScript(pid, tag)}, Streams{In: strings.NewReader(""), Out: &out, Err: &said})
	_, left, ok := strings.Cut(out.String(), "left:")
	switch {
	case err != nil:
		return &iotax.Error{Op: op, On: "on " + m.name, Err: err}
	case !ok:
		return &iotax.Error{Op: op, On: "on " + m.name, Err: fmt.Errorf("the script that ends it failed: %s", strings.TrimSpace(said.String()))}
	}
	if left = strings.TrimSpace(left); left != "" {
		return proc.Survivors(cmd, m.name, "process "+left, context.Cause(ctx))
	}
	return nil
}
