package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/sshx"
)

// A Machine runs commands through an iotax at the other end of an SSH connection.
type Machine struct {
	conn    *sshx.Lasting
	program string

	turn   chan struct{} // held while an agent starts
	mu     sync.Mutex
	mux    *yamux.Session
	system string // "windows/amd64"
}

// New returns the machine behind conn and takes conn over. program is iotax there: a name in its PATH, or a path without
// spaces.
func New(conn *sshx.Lasting, program string) *Machine {
	return &Machine{conn: conn, program: program, turn: make(chan struct{}, 1)}
}

func (m *Machine) String() string { return m.conn.String() }

// SSH returns the connection.
func (m *Machine) SSH() *ssh.Client { return m.conn.SSH() }

// Close closes the connection. The agent then kills what it runs.
func (m *Machine) Close(ctx context.Context) error { return m.conn.Close(ctx) }

// Facts returns the program and the system of the agent.
func (m *Machine) Facts() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]string{"ssh.agent": m.program, "ssh.agent.system": m.system}
}

// session returns the session with the agent, which it starts where none runs.
func (m *Machine) session(ctx context.Context, op string) (*yamux.Session, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-m.turn }()
	conn, err := m.conn.Connection(ctx, op)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	mux := m.mux
	m.mu.Unlock()
	if mux != nil && !mux.IsClosed() {
		return mux, nil
	}
	fail := func(err error, hint string) (*yamux.Session, error) {
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
	if err := s.Start(m.program + " " + Command); err != nil {
		s.Close()
		return fail(fmt.Errorf("the server does not run commands: %w", err), "this login must be allowed to run commands")
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	from := bufio.NewReaderSize(out, 256)
	line, err := from.ReadSlice('\n')
	system, ok := strings.CutPrefix(strings.TrimSpace(string(line)), greeting)
	if err != nil || !ok {
		text := strings.TrimSpace(string(line))
		s.Close()
		_ = s.Wait() // for the rest of the shell's message
		if text == "" {
			text = strings.TrimSpace(tail.String())
		}
		if text == "" {
			text = fmt.Sprint(err)
		}
		return fail(fmt.Errorf("no iotax of this version answers there as %q: %s", m.program, text),
			"put this version of iotax there, into the PATH of this login, or give its path: agent: C:/tools/iotax.exe; its start-up files must print nothing")
	}
	mux, err = yamux.Client(duplex{from, in, s.Close}, config())
	if err != nil {
		s.Close()
		return fail(err, "")
	}
	m.mu.Lock()
	m.mux, m.system = mux, system
	m.mu.Unlock()
	return mux, nil
}

// streams opens n streams of mux; the first is the call.
func streams(mux *yamux.Session, n int) (all []*yamux.Stream, err error) {
	for i := range n {
		s, err := mux.OpenStream()
		if err != nil {
			return all, err
		}
		all = append(all, s)
		kind := byte(kindData)
		if i == 0 {
			kind = kindCall
		}
		if _, err := s.Write([]byte{kind}); err != nil {
			return all, err
		}
	}
	return all, nil
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
	mux, err := m.session(ctx, op)
	if err != nil {
		return err
	}
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: op, On: "on " + m.String(), Err: err, Hint: hint}
	}
	ss, err := streams(mux, 3)
	defer func() {
		for _, s := range ss {
			s.Close()
		}
	}()
	o := order{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}
	if err == nil {
		for _, name := range proc.LabelNames { // leftovers of a crashed run are found by them
			if v := os.Getenv(name); v != "" {
				o.Env = append(o.Env[:len(o.Env):len(o.Env)], name+"="+v)
			}
		}
		o.Data, o.Err = ss[1].StreamID(), ss[2].StreamID()
		err = send(ss[0], o)
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
	var r result
	var lost error
	done := make(chan struct{})
	go func() {
		if lost = receive(call, &r); lost == nil {
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
func (m *Machine) wrap(op string, cmd *iotax.Cmd, r result, cause error, tail *proc.Tail) error {
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
