package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/machine/internal/proc"
	"iotax/machine/sshx"
)

// Command is how iotax is called as an agent, behind its own name.
const Command = "agent commands"

// A Machine runs commands by an iotax at the other end of an SSH connection.
type Machine struct {
	conn    *sshx.Lasting
	program string
	slots   chan struct{}

	mu    sync.Mutex
	hello hello
}

// maxSessions keeps below what OpenSSH allows on one connection (MaxSessions).
const maxSessions = 9

// New returns the machine behind conn, which from now on belongs to it. program is iotax over there: a name in its PATH, or
// a path without spaces.
func New(conn *sshx.Lasting, program string) *Machine {
	return &Machine{conn: conn, program: program, slots: make(chan struct{}, maxSessions)}
}

func (m *Machine) String() string { return m.conn.String() }

// SSH returns the connection.
func (m *Machine) SSH() *ssh.Client { return m.conn.SSH() }

// Close closes the connection; agents end what they run then.
func (m *Machine) Close(ctx context.Context) error { return m.conn.Close(ctx) }

// Facts tells what the agent is.
func (m *Machine) Facts() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]string{"ssh.agent": m.program, "ssh.agent.system": m.hello.OS + "/" + m.hello.Arch}
}

// Run runs cmd by an agent of its own. Once ctx is done it asks the agent to end it, which answers when it is gone.
func (m *Machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, m.String()); err != nil {
		return err
	}
	op := "run " + proc.Name(cmd)
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.slots }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fail := func(err error, mend string) error {
		return &iotax.Error{Op: op, On: "on " + m.String(), Err: err, Mend: mend}
	}
	conn, err := m.conn.Connection(ctx, op)
	if err != nil {
		return err
	}
	s, err := conn.NewSession()
	if err != nil {
		return fail(fmt.Errorf("no session: %w", err), "see that the server still runs, and allows ten sessions on a connection (MaxSessions)")
	}
	defer s.Close()
	in, err := s.StdinPipe()
	if err != nil {
		return fail(err, "")
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return fail(err, "")
	}
	var said proc.Tail // by the login shell: the agent writes none
	s.Stderr = &said
	if err := s.Start(m.program + " " + Command); err != nil {
		return fail(fmt.Errorf("the server does not run commands: %w", err), "this login must be allowed to run commands")
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exchange{to: &sender{w: in}, credit: credit{left: window, more: make(chan struct{}, 1)}, done: make(chan struct{}), cancel: cancel}
	outGate, errGate := proc.Gates(cmd, cancel)
	defer outGate.Shut()
	defer errGate.Shut()
	x.out, x.err = outGate, io.MultiWriter(&x.tail, errGate)
	go x.listen(out)
	env := cmd.Env
	for _, name := range proc.LabelNames { // what a run that died has left is found by them
		if v := os.Getenv(name); v != "" {
			env = append(env[:len(env):len(env)], name+"="+v)
		}
	}
	if err := x.to.say(frameCommand, order{bytesOf(cmd.Args), bytesOf(env), []byte(cmd.Dir)}); err == nil {
		go x.feed(cmd.Stdin)
	}

	select {
	case <-x.done:
	case <-ctx.Done():
		// It may not be there to be asked; the patience is that for one that is.
		_ = x.to.send(frameEnd, nil)
		select {
		case <-x.done:
		case <-time.After(proc.Grace + 3*proc.Patience):
			return fail(fmt.Errorf("it was not ended within %v: %w", proc.Grace+3*proc.Patience, context.Cause(ctx)), "look at it over there")
		}
		if x.result != nil {
			return m.wrap(op, cmd, x.result, context.Cause(ctx), &x.tail)
		}
	}
	var stream *proc.StreamError
	if errors.As(context.Cause(ctx), &stream) {
		return fail(stream, "")
	}
	if x.result == nil {
		_ = s.Wait() // for the last words of the shell; what it ended with is no news
		return m.lost(ctx, op, x, strings.TrimSpace(said.String()))
	}
	m.mu.Lock()
	m.hello = x.hello
	m.mu.Unlock()
	return m.wrap(op, cmd, x.result, nil, &x.tail)
}

// lost is the error of an exchange that ended without a result.
func (m *Machine) lost(ctx context.Context, op string, x *exchange, said string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &iotax.Error{Op: op, On: "on " + m.String(), Err: fmt.Errorf("the agent is gone: %w", x.broken)}
	if x.hello.Version != version { // it never was there
		e.Err = fmt.Errorf("no iotax answers there as %q: %w", m.program, x.broken)
		if said != "" {
			e.Err = fmt.Errorf("no iotax answers there as %q: %s", m.program, said)
		}
		e.Mend = "put an iotax of this version there, into the PATH of this login, or say where it is: agent: C:/tools/iotax.exe"
	}
	return e
}

// wrap turns a result into the error of Run.
func (m *Machine) wrap(op string, cmd *iotax.Cmd, r *result, cause error, tail *proc.Tail) error {
	var stream *proc.StreamError
	switch {
	case errors.As(cause, &stream):
		return &iotax.Error{Op: op, On: "on " + m.String(), Err: stream}
	case r.Error != "" && (cause == nil || !r.Ended):
		if r.Op != "" {
			op = r.Op
		}
		err := errors.New(r.Error)
		if cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		on := r.On
		if on == "" {
			on = "on "
		}
		return &iotax.Error{Op: op, On: on + m.String(), Err: err, Mend: r.Mend}
	case cause != nil:
		return cause
	case r.Exit != nil:
		e := *r.Exit
		e.Args = cmd.Args
		if e.Stderr == "" {
			e.Stderr = tail.String()
		}
		return &e
	}
	return nil
}

// An exchange is one command under way.
type exchange struct {
	to       *sender
	out, err io.Writer
	tail     proc.Tail
	credit   credit
	cancel   context.CancelCauseFunc

	done   chan struct{} // closed after these were set
	hello  hello
	result *result
	broken error
}

// listen reads what the agent says, to the end.
func (x *exchange) listen(r io.Reader) {
	defer close(x.done)
	for {
		kind, rest, err := receive(r)
		if errors.Is(err, errNoFrame) {
			more, _ := io.ReadAll(io.LimitReader(r, 2<<10)) // what there is explains it
			err = fmt.Errorf("it says %q", strings.TrimSpace(string(rest)+string(more)))
		}
		switch {
		case err != nil:
			x.broken = err
			return
		case kind == frameReady:
			if err := json.Unmarshal(rest, &x.hello); err != nil || x.hello.Version != version {
				x.broken = fmt.Errorf("it is of another version (%d here, %d there)", version, x.hello.Version)
				return
			}
		case kind == frameOutput:
			_, _ = x.out.Write(rest) // a gate has told the caller, and ends the command
		case kind == frameError:
			_, _ = x.err.Write(rest)
		case kind == frameTaken && len(rest) == 4:
			x.credit.give(int(binary.BigEndian.Uint32(rest)))
		case kind == frameResult:
			x.result = &result{}
			if err := json.Unmarshal(rest, x.result); err != nil {
				x.result, x.broken = nil, err
			}
			return
		}
	}
}

// feed sends the standard input as far as the agent takes it.
func (x *exchange) feed(r io.Reader) {
	if r == nil {
		_ = x.to.send(frameInput, nil) // its end; an agent that is gone is found by listen
		return
	}
	proc.Feed(feeder{x}, r, func(err error) { x.cancel(err); <-x.done })
}

// A feeder is the far end of a command's standard input.
type feeder struct{ x *exchange }

func (f feeder) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := f.x.credit.take(min(len(p)-done, chunkSize))
		if n == 0 {
			select {
			case <-f.x.credit.more:
				continue
			case <-f.x.done:
				return done, io.ErrClosedPipe
			}
		}
		if err := f.x.to.send(frameInput, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (f feeder) Close() error { return f.x.to.send(frameInput, nil) }

// A credit is how many bytes of input may still be sent.
type credit struct {
	mu   sync.Mutex
	left int
	more chan struct{} // holds a word when there may be more
}

func (c *credit) give(n int) {
	c.mu.Lock()
	c.left += n
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// take takes n, or as many as there are.
func (c *credit) take(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	return n
}
