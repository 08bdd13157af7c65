// Package agent runs commands on a machine through an iotax there, which an SSH server starts: on hosts without a POSIX
// shell.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/sshx"
)

// A Machine runs commands through an iotax at the other end of an SSH connection.
type Machine struct {
	conn    *sshx.Lasting
	program string

	link agent.Link

	mu     sync.Mutex
	system string // "windows/amd64"
}

// New returns the machine behind conn and takes conn over. program is iotax there: a name in its PATH, or a path without
// spaces.
func New(conn *sshx.Lasting, program string) *Machine {
	m := &Machine{conn: conn, program: program}
	m.link.Start = m.start
	return m
}

func (m *Machine) String() string { return m.conn.String() }

// SSH returns the connection.
func (m *Machine) SSH() *ssh.Client { return m.conn.SSH() }

// Close closes the connection. The agent then kills what it runs.
func (m *Machine) Close(ctx context.Context) error {
	m.link.Hangup(ctx)
	return m.conn.Close(ctx)
}

// Caps are those of the connection. The agent and the facts are those of the iotax there.
func (m *Machine) Caps() iotax.MachineCaps {
	c := m.conn.Caps()
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Agent, c.Facts = &m.link, map[string]string{"ssh.agent": m.program, "ssh.agent.system": m.system}
	return c
}

// start starts the agent.
func (m *Machine) start(ctx context.Context) (*agent.Session, error) {
	const op = "start the agent"
	conn, err := m.conn.Connection(ctx, op)
	if err != nil {
		return nil, err
	}
	fail := func(err error, hint string) (*agent.Session, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &iotax.Error{Op: op, On: "on " + m.String(), Err: err, Hint: hint}
	}
	s, err := conn.NewSession()
	if err != nil {
		return fail(fmt.Errorf("no session: %w", err), "check that the server still runs")
	}
	in, err := s.StdinPipe()
	if err != nil {
		return fail(err, "")
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return fail(err, "")
	}
	var tail proc.Tail // of the login shell: the agent writes nothing there
	s.Stderr = &tail
	if err := s.Start(m.program + " " + agent.Command); err != nil {
		s.Close()
		return fail(fmt.Errorf("the server does not run commands: %w", err), "this login must be allowed to run commands")
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	session, err := agent.Meet(out, in, s.Close)
	if err != nil {
		text := fmt.Sprint(err)
		s.Close()
		_ = s.Wait() // for the rest of the shell's message
		if said := strings.TrimSpace(tail.String()); said != "" {
			text = said
		}
		var line *agent.Refused
		if errors.As(err, &line) {
			text = line.Line
		}
		return fail(fmt.Errorf("no iotax of this version answers there as %q: %s", m.program, text),
			"put this version of iotax there, into the PATH of this login, or give its path: agent: C:/tools/iotax.exe; its start-up files must print nothing")
	}
	m.mu.Lock()
	m.system = session.System
	m.mu.Unlock()
	return session, nil
}

// Run runs cmd. Once ctx is done it closes the call, and the agent answers when the command is gone.
func (m *Machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, m.String()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	op := "run " + proc.Name(cmd)
	session, err := m.link.Session(ctx, m)
	if err != nil {
		return err
	}
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: op, On: "on " + m.String(), Err: err, Hint: hint}
	}
	ss, err := session.Streams()
	defer func() {
		for _, s := range ss {
			s.Close()
		}
	}()
	o := agent.Order{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}
	if err == nil {
		for _, name := range proc.LabelNames { // leftovers of a crashed run are found by them
			if v := os.Getenv(name); v != "" {
				o.Env = append(o.Env[:len(o.Env):len(o.Env)], name+"="+v)
			}
		}
		o.Data, o.Err = ss[1].StreamID(), ss[2].StreamID()
		err = agent.Send(ss[0], o)
	}
	if err != nil {
		return fail(fmt.Errorf("the agent is gone: %w", err), "")
	}
	call, data, errs := ss[0], ss[1], ss[2]

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outGate, errGate := proc.Gates(cmd, cancel)
	defer outGate.Shut()
	defer errGate.Shut()
	var tail proc.Tail
	var outputs sync.WaitGroup
	outputs.Go(func() { _, _ = io.Copy(outGate, data) }) // a gate that fails cancels ctx
	outputs.Go(func() { _, _ = io.Copy(io.MultiWriter(&tail, errGate), errs) })
	var r agent.Result
	var lost error
	done := make(chan struct{})
	go func() {
		if lost = agent.Receive(call, &r); lost == nil {
			outputs.Wait()
		}
		_ = data.SetWriteDeadline(time.Now()) // wakes a Feed whose command is gone
		close(done)
	}()
	go proc.Feed(data, cmd.Stdin, func(err error) { cancel(err); <-done })

	select {
	case <-done:
	case <-ctx.Done():
		call.Close()
		limit := proc.Grace + 3*proc.Patience
		select {
		case <-done:
		case <-time.After(limit):
			return fail(fmt.Errorf("it did not end within %v: %w", limit, context.Cause(ctx)), "look for it there")
		}
	}
	cause := context.Cause(ctx)
	var stream *proc.StreamError
	switch {
	case errors.As(cause, &stream):
		return fail(stream, "")
	case lost != nil && cause != nil:
		return cause
	case lost != nil:
		return fail(fmt.Errorf("the agent is gone: %w", lost), "")
	}
	return m.wrap(op, cmd, r, cause, &tail)
}

// wrap turns a result into the error of Run.
func (m *Machine) wrap(op string, cmd *iotax.Cmd, r agent.Result, cause error, tail *proc.Tail) error {
	switch {
	case r.Msg != "" && (cause == nil || !r.Canceled):
		if r.Op != "" {
			op = r.Op
		}
		err := errors.New(r.Msg)
		if cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		on := r.On
		if on == "" {
			on = "on "
		}
		return &iotax.Error{Op: op, On: on + m.String(), Err: err, Hint: r.Hint}
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
