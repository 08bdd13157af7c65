// Package agent runs commands on a machine through the agent that a transport starts there.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/machine/internal/proc"
)

// A Machine runs commands through the agent at the other end of a transport. When the connection breaks, running
// commands fail, and their agent ends them. The next call connects again.
type Machine struct {
	// Bound is true for a machine that ends with its connection. The Machine then does not reconnect. Set Bound before
	// the first call.
	Bound bool

	link     agent.Link
	over     agent.Transport
	patience time.Duration // how long to retry a reconnection while the machine is unreachable

	mu      sync.Mutex
	last    *agent.Session
	refused error // the error of the last attempt to reconnect; calls return it until the time `until`
	until   time.Time
	closed  bool
	remade  []string

	identity string // identity of the current agent; "" if unknown
	asked    *agent.Session
	stale    string // identity of the previous agent, which may not have noticed that its connection broke
	asking   sync.WaitGroup
}

// patience is the default of Machine.patience. A restarting SSH server refuses connections for about this long. After a
// failed attempt to reconnect, calls fail immediately for the same time, so that not every command of a trial waits.
const patience = 10 * time.Second

// New returns the machine behind t and takes ownership of t. program is the path of iotax on the machine. If it is
// empty, iotax copies itself there.
func New(t agent.Transport, program string) *Machine {
	m := &Machine{over: t, patience: patience}
	m.link.Program, m.link.Start = program, m.start
	return m
}

// Begin starts the agent, so that errors appear before the first command. log receives progress messages for the user;
// it may be nil.
func (m *Machine) Begin(ctx context.Context, log func(format string, args ...any)) error {
	m.link.Log = log
	_, err := m.link.Session(ctx, m)
	return err
}

func (m *Machine) String() string { return m.over.String() }

// Close ends the agent and its commands, and closes the transport.
func (m *Machine) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.link.Hangup(ctx)
	err := m.over.Close(ctx)
	m.asking.Wait()
	return err
}

// System returns the operating system and the architecture of the machine, as in "windows/amd64". It returns "" if no
// agent has been started yet.
func (m *Machine) System() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return ""
	}
	return m.last.System
}

// Caps returns the agent's link and the function that reports reconnections.
func (m *Machine) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &m.link, Reconnected: m.reconnected}
}

// reconnected describes the reconnections since the last call.
func (m *Machine) reconnected() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.remade
	m.remade = nil
	return all
}

// start starts the agent, both initially and after the connection broke. Calls are not concurrent.
func (m *Machine) start(ctx context.Context) (*agent.Session, error) {
	m.mu.Lock()
	last, closed, refused := m.last, m.closed, m.refused
	if time.Now().After(m.until) {
		refused = nil
	}
	m.mu.Unlock()
	if closed {
		return nil, &iotax.Error{Op: "start the agent", On: "on " + m.String(), Err: errors.New("the connection was closed")}
	}
	if refused != nil {
		return nil, refused
	}
	var why error
	if last != nil {
		why = last.Lost(errors.New("the session ended"))
		if m.Bound {
			return nil, &iotax.Error{Op: "connect to", On: m.String(), Err: why}
		}
	}
	began := time.Now()
	s, err := m.open(ctx)
	for last != nil && errors.Is(err, agent.ErrUnreachable) && time.Since(began) < m.patience {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err = m.open(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil && last != nil:
		m.remade = append(m.remade, fmt.Sprintf("%s: %v; made again within %v", m.over, why, time.Since(began).Round(100*time.Millisecond)))
	case err != nil && last != nil && ctx.Err() == nil:
		if reason := strings.TrimPrefix(why.Error(), "the agent is gone: "); !strings.Contains(err.Error(), reason) {
			err = &iotax.Error{Op: "connect to", On: m.String(), Err: fmt.Errorf("%w; it cannot be made again: %w", why, err)}
		}
		m.refused, m.until = err, time.Now().Add(m.patience)
	}
	if err == nil {
		m.last = s
		m.identity, m.stale = "", cmp.Or(m.identity, m.stale)
	}
	return s, err
}

// tidy ends the processes of the previous agent. It queries the identity of the current agent in the background.
func (m *Machine) tidy(ctx context.Context, session *agent.Session) error {
	m.mu.Lock()
	stale, asked := m.stale, m.asked == session
	m.stale, m.asked = "", session
	m.mu.Unlock()
	if !asked && m.link.Program == "" { // an agent that the plan names has no identity
		m.asking.Go(func() {
			id, err := agent.Identity.On(context.WithoutCancel(ctx), m, struct{}{})
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil && m.last == session { // otherwise the id is unknown or belongs to an earlier session
				m.identity = id
			}
		})
	}
	if stale == "" {
		return nil
	}
	_, err := agent.EndOther.On(ctx, m, stale)
	return err
}

// open starts the agent once.
func (m *Machine) open(ctx context.Context) (*agent.Session, error) {
	s, err := m.link.Over(ctx, m.over)
	switch {
	case err == nil && m.Bound:
		s.Watch()
		return s, nil
	case err == nil:
		return s, s.KeepAlive()
	}
	var e, inner *iotax.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	var line *agent.Refused
	var exit *iotax.ExitError
	switch {
	case errors.As(e.Err, &inner): // the transport's own error is more specific
		return nil, inner
	case m.Bound:
		e.Hint = ""
	case m.link.Program != "":
		e.Err = fmt.Errorf("no iotax of this version answers there as %q: %w", m.link.Program, e.Err)
		e.Hint = "put this version of iotax there, into the PATH of this login, or give its path: agent: C:/tools/iotax.exe; " +
			"its start-up files must print nothing"
	case errors.As(e.Err, &line) && !strings.HasPrefix(line.Line, "iotax agent "):
		e.Err = fmt.Errorf("the login shell prints on its own: %.200q", line.Line)
		e.Hint = "make its start-up files (.bashrc, .zshenv) print nothing when the shell is not interactive"
	case errors.As(e.Err, &exit):
		e.Hint = "this login must be allowed to run commands, and its machine must have a POSIX sh (else see agent:)"
	}
	return nil, e
}

// fedTime is how long Run waits for a blocked Read of the caller's reader after the command has ended.
const fedTime = 500 * time.Millisecond

// Run runs cmd. When ctx is done, it closes the call and waits for a limited time until the agent reports that the
// command has ended.
func (m *Machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, m.String()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	op := "run " + proc.Name(cmd)
	session, err := m.link.Session(ctx, m)
	if err == nil && !m.Bound {
		err = m.tidy(ctx, session)
	}
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
		o.Env = append(o.Env[:len(o.Env):len(o.Env)], leftover.Environ()...)
		o.Data, o.Err = ss[1].StreamID(), ss[2].StreamID()
		err = agent.Send(ss[0], o)
	}
	if err != nil {
		return fail(session.Lost(err), "")
	}
	call, data, errs := ss[0], ss[1], ss[2]

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outGate, errGate := proc.Gates(cmd, cancel)
	defer outGate.Shut()
	defer errGate.Shut()
	var tail proc.Tail
	var outputs sync.WaitGroup
	outputs.Go(func() { _, _ = io.Copy(outGate, data) }) // a failing gate cancels ctx
	outputs.Go(func() { _, _ = io.Copy(io.MultiWriter(&tail, errGate), errs) })
	var r agent.Result
	var lost error
	done := make(chan struct{})
	go func() {
		if lost = agent.Receive(call, &r); lost == nil {
			outputs.Wait()
		}
		_ = data.SetWriteDeadline(time.Now()) // ends a Feed whose command has ended
		close(done)
	}()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		proc.Feed(data, cmd.Stdin, func(err error) { cancel(err); <-done })
	}()

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
	select { // the caller's reader may block, so do not wait for longer than fedTime
	case <-fed:
	case <-time.After(fedTime):
	}
	cause := context.Cause(ctx)
	var stream *proc.StreamError
	switch {
	case errors.As(cause, &stream):
		return fail(stream, "")
	case lost != nil && cause != nil:
		return cause
	case lost != nil:
		return fail(session.Lost(lost), "")
	}
	return m.wrap(op, cmd, r, cause, &tail)
}

// wrap converts the agent's result to the error of Run.
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
