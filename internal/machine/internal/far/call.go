package far

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"iotax"
	"iotax/internal/machine/internal/proc"
)

// A Side is what is alike for all commands on one machine behind such a channel.
type Side struct {
	Name string // of the machine

	// NoShell is what it means that a channel ended well or badly and no process id was told, Hint what can be done.
	NoShell, Hint string

	// Late is what can be done when no process id comes at all.
	Late string

	// Script runs a script of EndScript through another channel and returns what stands behind "left:".
	Script func(ctx context.Context, op, text string) (left string, err error)

	// Lost is the error of op when the machine is lost, else nil.
	Lost func(op string) error
}

// A Call is one command on the other side, from before it is begun until it is gone.
type Call struct {
	Tag    string
	Op     string     // for errors
	Out    *proc.Gate // takes its standard output
	Report *Report    // takes its standard error
	errs   *proc.Gate // behind Report
	tail   proc.Tail  // of standard error
	cmd    *iotax.Cmd
	side   *Side
	fed    chan struct{} // closed when Feed has ended
	cancel func(error)   // with what failed of the caller's own streams
}

// Call makes ready to run cmd. When a stream of the caller fails, cancel is called with a *proc.StreamError.
func (s *Side) Call(cmd *iotax.Cmd, tag string, cancel context.CancelCauseFunc) *Call {
	c := &Call{Tag: tag, Op: "run " + proc.Name(cmd), cmd: cmd, side: s, cancel: cancel}
	c.Out, c.errs = proc.Gates(cmd, cancel)
	c.Report = NewReport(tag, io.MultiWriter(&c.tail, c.errs))
	return c
}

// Shut ends the passing of outputs: what arrives later is nobody's.
func (c *Call) Shut() {
	c.Out.Shut()
	c.errs.Shut()
}

// Feed writes the line that begins the command and then its standard input to w, and closes w, in a goroutine of its
// own. finished is closed when the command's channel has ended.
func (c *Call) Feed(w io.WriteCloser, prologue string, finished <-chan struct{}) {
	c.fed = make(chan struct{})
	go func() {
		defer close(c.fed)
		if _, err := io.WriteString(w, prologue); err != nil {
			w.Close()
			return
		}
		proc.Feed(w, c.cmd.Stdin, func(err error) { c.cancel(err); <-finished })
	}()
}

// fedTime is how long a reader of the caller may take to give what it was asked for before the command ended.
const fedTime = 500 * time.Millisecond

// Fed waits until Feed has let go of the caller's reader. The channel is closed by then, so that only a reader that
// blocks is still asked; that one is left in its Read.
func (c *Call) Fed() {
	select {
	case <-c.fed:
	case <-time.After(fedTime):
	}
}

// Failed is the error of Run for err.
func (c *Call) Failed(err error) error {
	return &iotax.Error{Op: c.Op, On: "on " + c.side.Name, Err: err}
}

// Stream is the error of what failed of the caller's own streams, or nil.
func (c *Call) Stream(ctx context.Context) error {
	var stream *proc.StreamError
	if errors.As(context.Cause(ctx), &stream) {
		return c.Failed(stream)
	}
	return nil
}

// Cause is why the command was ended, as the error of Run.
func (c *Call) Cause(ctx context.Context) error {
	if err := c.Stream(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Begun says whether the command told its process id.
func (c *Call) Begun() bool {
	pid, _, _ := c.Report.Get()
	return pid != 0
}

// Result turns the exit status of a channel that has ended into the error of Run. signal is the one that ended the
// command, "" is none.
func (c *Call) Result(code int, signal string) error {
	pid, state, said := c.Report.Get()
	switch {
	case pid == 0:
		how := "it ended without an error"
		if code != 0 {
			how = fmt.Sprintf("exit status %d", code)
		}
		if said != "" {
			how += ": " + said
		}
		return &iotax.Error{Op: c.Op, On: "on " + c.side.Name, Err: fmt.Errorf("%s: %s", c.side.NoShell, how), Hint: c.side.Hint}
	case state != "":
		return Refused(c.cmd, c.Op, c.side.Name, state, said)
	case code == 0 && signal == "":
		return nil
	}
	return &iotax.ExitError{Args: c.cmd.Args, Code: code, Signal: signal, Stderr: c.tail.String()}
}

// End ends the command over there and returns nil once it is gone. finished is closed when its channel has ended.
func (c *Call) End(ctx context.Context, finished <-chan struct{}) error {
	op := "end " + proc.Name(c.cmd)
	late := time.NewTimer(proc.Patience)
	defer late.Stop()
	select {
	case <-c.Report.Seen:
	case <-finished:
		// Without a report it never began; with one, what it left behind is still to be ended.
		if !c.Begun() {
			return c.side.Lost(op)
		}
	case <-late.C:
		return &iotax.Error{Op: op, On: "on " + c.side.Name, Err: fmt.Errorf("it has not reported its process id for %v", proc.Patience), Hint: c.side.Late}
	}
	pid, _, _ := c.Report.Get()
	// The caller's context is done, and ending must go on; what bounds it is the script's own patience. And many
	// that end at once on a small guest share its time.
	ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proc.Grace+6*proc.Patience)
	defer cancel()
	left, err := c.side.Script(ectx, op, EndScript(pid, c.Tag))
	if err == nil && left != "" {
		err = proc.Survivors(c.cmd, c.side.Name, "process "+left, context.Cause(ctx))
	}
	return err
}
