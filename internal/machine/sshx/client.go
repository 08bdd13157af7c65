// Package sshx runs commands over an established SSH connection, as an iotax.Machine. It asks of the
// other side a POSIX sh and nothing of iotax: any OpenSSH server will do, and so does the small
// server of the built-in guest.
package sshx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/far"
	"iotax/internal/machine/internal/proc"
)

// A Client runs commands over one SSH connection.
type Client struct {
	agent.Link

	conn *ssh.Client
	name string
	side far.Side

	every, deadline time.Duration
	silence         time.Duration // that is borne while a command is ended; 0 is deadline

	slots chan struct{} // sessions that commands may hold at once
	ender chan struct{} // one more, so that a command can be ended when all slots are taken

	mu   sync.Mutex
	open int // sessions held
	lost error

	gone   chan struct{} // closed when the connection is
	closed sync.WaitGroup
}

// An Option changes a Client from its defaults.
type Option func(*Client)

// KeepAlive asks the server for a sign of life in every interval, and gives the connection up when
// none arrives within deadline. The defaults, 5 s and 20 s, bear a guest that is short of CPU.
func KeepAlive(every, deadline time.Duration) Option {
	return func(c *Client) { c.every, c.deadline = every, deadline }
}

// Silence bounds how long the other side may be silent while a command is ended there, before the
// connection is given up. It is for machines that end with their connection: on others the command
// stays.
func Silence(limit time.Duration) Option {
	return func(c *Client) { c.silence = limit }
}

// errNoSession says that the server does not allow one session more.
var errNoSession = errors.New("no session to be had")

// maxSessions is what OpenSSH allows on one connection unless told otherwise (MaxSessions).
const maxSessions = 10

// New returns the machine behind conn, which from now on belongs to it: Close closes it. name is
// what String returns.
func New(conn *ssh.Client, name string, opts ...Option) *Client {
	c := &Client{
		conn: conn, name: name,
		every: 5 * time.Second, deadline: 20 * time.Second,
		slots: make(chan struct{}, maxSessions-1),
		ender: make(chan struct{}, 1),
		gone:  make(chan struct{}),
	}
	c.side = far.Side{Name: name, NoShell: "the login shell did not start sh",
		Hint: "this login must be allowed to run commands, and its shell must be a POSIX shell",
		Late: "look at what the login shell's start-up files do there", Script: c.script, Lost: c.goneFor}
	for _, o := range opts {
		o(c)
	}
	c.closed.Go(func() {
		err := conn.Wait()
		c.lose(err)
		close(c.gone)
	})
	c.closed.Go(c.keepAlive)
	return c
}

func (c *Client) String() string { return c.name }

func (c *Client) Caps() iotax.MachineCaps { return iotax.MachineCaps{Agent: &c.Link} }

// Close closes the connection. Commands under way fail as if the machine had died.
func (c *Client) Close(ctx context.Context) error {
	c.Hangup(ctx)
	c.lose(errors.New("the connection was closed"))
	err := c.conn.Close()
	c.closed.Wait()
	if errors.Is(err, io.EOF) || strings.Contains(fmt.Sprint(err), "closed network connection") {
		return nil // it was gone already
	}
	return err
}

// lose keeps the first reason for which the connection ended.
func (c *Client) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("the other side closed the connection")
		}
		c.lost = err
	}
}

func (c *Client) keepAlive() {
	t := time.NewTicker(c.every)
	defer t.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-t.C:
		}
		c.signOfLife(c.deadline)
	}
}

// signOfLife waits for one, and gives the connection up when none comes within limit.
func (c *Client) signOfLife(limit time.Duration) {
	answer := make(chan struct{})
	go func() {
		// Any answer will do, and servers that do not know the request refuse it, which is one.
		_, _, _ = c.conn.SendRequest("keepalive@openssh.com", true, nil)
		close(answer)
	}()
	select {
	case <-answer:
	case <-c.gone:
	case <-time.After(limit):
		c.lose(fmt.Errorf("no sign of life for %v", limit))
		c.conn.Close()
	}
}

// dead is the error of something that failed because the connection ended.
func (c *Client) dead(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &iotax.Error{Op: op, On: "on " + c.name, Err: fmt.Errorf("connection lost: %w", c.lost)}
}

// isGone waits a moment for the end of the connection to be known: a channel often learns first.
func (c *Client) isGone() bool {
	select {
	case <-c.gone:
		return true
	case <-time.After(500 * time.Millisecond):
		return false
	}
}

// goneFor is dead when the connection has ended, else nil.
func (c *Client) goneFor(op string) error {
	if c.isGone() {
		return c.dead(op)
	}
	return nil
}

// session opens a session within a slot; release gives both back. While other commands have them all it waits.
func (c *Client) session(ctx context.Context, slot chan struct{}, op string) (s *ssh.Session, release func(), err error) {
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	case <-c.gone:
		return nil, nil, c.dead(op)
	}
	var alone time.Time // since when refused although no command can be keeping the session from us
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		answered := c.answers(ctx)
		s, err = c.conn.NewSession()
		answered()
		if err == nil {
			c.hold(1)
			return s, sync.OnceFunc(func() {
				s.Close()
				c.hold(-1)
				<-slot
			}), nil
		}
		var refused *ssh.OpenChannelError
		switch {
		case !errors.As(err, &refused):
			<-slot
			if c.isGone() {
				return nil, nil, c.dead(op)
			}
			return nil, nil, &iotax.Error{Op: op, On: "on " + c.name, Err: err}
		case refused.Reason == ssh.UnknownChannelType:
			<-slot
			return nil, nil, &iotax.Error{Op: op, On: "on " + c.name, Err: fmt.Errorf("the server has no sessions: %w", err)}
		}
		// The server allows fewer sessions than we thought, or has not yet noticed that one ended.
		if c.hold(0) > 0 && slot != c.ender {
			alone = time.Time{}
		} else if alone.IsZero() {
			alone = time.Now()
		} else if time.Since(alone) > 5*time.Second {
			<-slot
			return nil, nil, &iotax.Error{Op: op, On: "on " + c.name, Err: fmt.Errorf("%w: %w", errNoSession, err),
				Hint: "the server refuses to open a session; look at MaxSessions in its sshd_config and at its log"}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			<-slot
			return nil, nil, context.Cause(ctx)
		case <-c.gone:
			<-slot
			return nil, nil, c.dead(op)
		}
	}
}

// answers gives the connection up when ctx ends and the server has not answered a request within proc.Patience after
// that. The caller calls answered once it has.
func (c *Client) answers(ctx context.Context) (answered func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-c.gone:
		case <-time.After(proc.Patience):
			c.lose(fmt.Errorf("the server did not answer within %v", proc.Patience))
			c.conn.Close()
		}
	})
	return func() { stop(); close(done) }
}

func (c *Client) hold(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	return c.open
}

// Run runs cmd through sh on the other side. Beyond what iotax.Machine promises: when the
// connection ends under the command the error is no *iotax.ExitError, and the command may still be
// running over there. More than nine commands at once wait for each other.
func (c *Client) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, c.name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call := c.side.Call(cmd, proc.NewTag(), cancel)
	defer call.Shut()
	s, release, err := c.session(ctx, c.slots, call.Op)
	if err != nil {
		return err
	}
	defer release()

	s.Stderr = call.Report
	if cmd.Stdout != nil {
		s.Stdout = call.Out
	}
	stdin, err := s.StdinPipe()
	if err == nil {
		answered := c.answers(ctx)
		err = s.Start(far.Bootstrap)
		answered()
	}
	if err != nil {
		if c.isGone() {
			return c.dead(call.Op)
		}
		return &iotax.Error{Op: call.Op, On: "on " + c.name, Err: fmt.Errorf("the server does not run commands: %w", err), Hint: c.side.Hint}
	}
	finished := make(chan struct{})
	call.Feed(stdin, far.Prologue(cmd, call.Tag), finished)
	var result error
	go func() {
		result = s.Wait()
		close(finished)
	}()

	select {
	case <-finished:
	case <-ctx.Done():
		if c.silence > 0 {
			c.closed.Go(func() { c.signOfLife(c.silence) })
		}
		err := c.end(ctx, s, call, finished)
		if err == nil {
			// Its channel ends with it, unless something that is no longer to be recognised as the
			// command's holds its output.
			select {
			case <-finished:
			case <-time.After(time.Second):
			}
			err = call.Cause(ctx)
		}
		release()
		call.Fed()
		return err
	}
	release() // wakes a Feed that writes to a command that is gone
	call.Fed()
	if err := call.Stream(ctx); err != nil {
		return err
	}
	return c.result(call, result)
}

// result turns what the session ended with into the error of Run.
func (c *Client) result(call *far.Call, err error) error {
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case err == nil:
		return call.Result(0, "")
	case errors.As(err, &exit):
		return call.Result(exit.ExitStatus(), exit.Signal())
	case c.isGone():
		return c.dead(call.Op)
	case errors.As(err, &missing):
		err = errors.New("the server ended the session without an exit status")
	}
	return call.Failed(err)
}

// end ends the command over there and returns nil once it is gone.
func (c *Client) end(ctx context.Context, s *ssh.Session, call *far.Call, finished <-chan struct{}) error {
	err := call.End(ctx, finished)
	if !errors.Is(err, errNoSession) {
		return err
	}
	// A server with MaxSessions 1. What is left is to ask it to signal the group itself, which it may refuse, and to
	// see the leader gone.
	for _, sig := range []ssh.Signal{ssh.SIGTERM, ssh.SIGKILL} {
		_ = s.Signal(sig)
		select {
		case <-finished:
			return nil
		case <-time.After(proc.Grace):
		}
	}
	return err
}

// scriptLimit is how much is kept of what the script that ends a command prints.
const scriptLimit = 64 << 10

// script runs a shell script in the session that is kept for it and returns the rest of the line
// that starts with "left:".
func (c *Client) script(ctx context.Context, op, text string) (string, error) {
	s, release, err := c.session(ctx, c.ender, op)
	if err != nil {
		return "", err
	}
	defer release()
	out := iotax.Capture{Limit: scriptLimit}
	s.Stdin = strings.NewReader(text)
	s.Stdout = &out
	done := make(chan error, 1)
	go func() { done <- s.Run("exec sh") }()
	select {
	case err = <-done:
	case <-ctx.Done():
		return "", &iotax.Error{Op: op, On: "on " + c.name, Err: context.Cause(ctx)}
	}
	_, left, ok := strings.Cut(out.String(), "left:")
	if !ok {
		if c.isGone() {
			return "", c.dead(op)
		}
		return "", &iotax.Error{Op: op, On: "on " + c.name, Err: fmt.Errorf("the script that ends it failed: %v", err)}
	}
	return strings.TrimSpace(left), nil
}
