package sshx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/far"
	"iotax/internal/machine/internal/proc"
)

// A Lasting is a machine that is still there when the connection to it has broken: the next command makes the
// connection again. Commands that were under way fail, because nobody knows what became of them; they are ended
// over there before anything else runs. Commands that the server allows no session for on one connection go over
// further ones: servers of a run that are on one host run until its end, and may be more than that.
type Lasting struct {
	agent.Link

	dial func(ctx context.Context) (*Client, error)

	turn     chan struct{} // held while the connection is looked at or made again
	patience time.Duration
	refused  error // of the last attempt, which stands until then
	until    time.Time
	closed   bool

	mu     sync.Mutex
	now    *Client
	more   []*Client // beside it, in the order in which they were made
	remade []string
}

// maxMore is how many connections there are beside the first: more commands than ten times as many wait.
const maxMore = 9

// patience is how long a host may refuse connections before it counts as gone (its SSH server is started anew), and
// how long it then does: a trial is several commands, and each would wait for as long.
const patience = 10 * time.Second

// NewLasting returns the machine behind first. dial makes such a connection again, with all that is checked for the
// first one; it is never called twice at once.
func NewLasting(first *Client, dial func(ctx context.Context) (*Client, error)) *Lasting {
	return &Lasting{dial: dial, now: first, turn: make(chan struct{}, 1), patience: patience}
}

func (l *Lasting) current() *Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *Lasting) String() string { return l.current().name }

// SSH returns the connection, as it is now.
func (l *Lasting) SSH() *ssh.Client { return l.current().SSH() }

// Connection returns the connection for what is no command of Run, made again if the last one broke; op is what it is for.
func (l *Lasting) Connection(ctx context.Context, op string) (*ssh.Client, error) {
	c, err := l.holding(ctx, op)
	if err != nil {
		return nil, err
	}
	return c.SSH(), nil
}

// Run is Client.Run on a connection that holds.
func (l *Lasting) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if err := proc.Check(cmd, l.String()); err != nil {
		return err
	}
	for n := 0; ; n++ {
		c, last, err := l.lane(ctx, "run "+proc.Name(cmd), n)
		if err != nil {
			return err
		}
		if err := c.run(ctx, cmd, last); !errors.Is(err, errFull) {
			return err
		}
	}
}

// lane returns the n-th connection, from 0, on which to look for a session: made if there is none yet. last says that
// there will be none after it.
func (l *Lasting) lane(ctx context.Context, op string, n int) (c *Client, last bool, err error) {
	first, err := l.holding(ctx, op)
	if err != nil || n == 0 {
		return first, false, err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	var whole, broken []*Client
	for _, c := range l.beside() {
		if c.broken() == nil {
			whole = append(whole, c)
		} else {
			broken = append(broken, c)
		}
	}
	switch {
	case len(broken) == 0 && n <= len(whole):
		return whole[n-1], false, nil
	case l.closed || len(whole) == maxMore:
		return first, true, nil
	}
	c, err = l.dial(ctx)
	if err != nil {
		return nil, false, &iotax.Error{Op: op, On: "on " + first.name, Err: fmt.Errorf("the connection has no session left, and another cannot be made: %w", err),
			Hint: "raise MaxSessions, or see MaxStartups and the limits of logins, in its sshd_config"}
	}
	l.mu.Lock()
	l.more = append(whole, c)
	for _, old := range broken {
		l.remade = append(l.remade, fmt.Sprintf("%s: one of its connections was lost: %v", old.name, old.broken()))
	}
	l.mu.Unlock()
	for _, old := range broken {
		if err := c.reap(ctx, op, old); err != nil {
			return nil, false, err
		}
	}
	return c, false, nil
}

func (l *Lasting) beside() []*Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.more)
}

// Close closes the connections, and none is made again.
func (l *Lasting) Close(ctx context.Context) error {
	l.Hangup(ctx)
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.closed = true
	var errs []error
	for _, c := range append(l.beside(), l.current()) {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}

func (l *Lasting) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &l.Link, Reconnected: l.Reconnected}
}

// Reconnected tells of the connections that were made again since it was asked last.
func (l *Lasting) Reconnected() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.remade
	l.remade = nil
	return told
}

// holding returns a connection, made again if the last one broke.
func (l *Lasting) holding(ctx context.Context, op string) (*Client, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	old := l.current()
	why := old.broken()
	if why == nil || l.closed {
		return old, nil
	}
	fail := func(err error) error {
		return &iotax.Error{Op: op, On: "on " + old.name, Err: fmt.Errorf("connection lost: %w; it cannot be made again: %w", why, err)}
	}
	if time.Now().Before(l.until) {
		return nil, fail(l.refused)
	}
	began := time.Now()
	c, err := l.again(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l.refused, l.until = err, time.Now().Add(l.patience)
		return nil, fail(err)
	}
	l.mu.Lock()
	l.now = c
	l.remade = append(l.remade, fmt.Sprintf("%s: connection lost: %v; made again within %v", old.name, why, time.Since(began).Round(100*time.Millisecond)))
	l.mu.Unlock()
	if err := c.reap(ctx, op, old); err != nil {
		return nil, err
	}
	return c, nil
}

// reap ends what still runs of the commands of old, whose connection broke: with a network that was away, the other side may
// not know that yet.
func (c *Client) reap(ctx context.Context, op string, old *Client) error {
	for _, u := range old.stragglers() {
		left, err := c.script(ctx, op, far.EndScript(noGroup, u.tag))
		if err == nil && left != "" {
			err = proc.Survivors(u.cmd, old.name, "process "+left, old.broken())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again dials until the host answers or patience is over.
func (l *Lasting) again(ctx context.Context) (*Client, error) {
	for end := time.Now().Add(l.patience); ; {
		c, err := l.dial(ctx)
		var refused *net.OpError // whoever answers and says no would say it again
		if err == nil || !errors.As(err, &refused) || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// An underway is a command that was started.
type underway struct {
	cmd *iotax.Cmd
	tag string
}

// noGroup is a process group that nothing is in. What a lost connection left is found by its tag alone: if the host
// was restarted, its process ids are those of others now.
const noGroup = -1

// begun keeps u until it is finished, and for good when the connection breaks first.
func (c *Client) begun(u underway) (finished func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under = append(c.under, u)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.lost == nil {
			c.under = slices.DeleteFunc(c.under, func(o underway) bool { return o.tag == u.tag })
		}
	}
}

// stragglers are the commands that may still run where the connection led.
func (c *Client) stragglers() []underway {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.under)
}

// broken is why the connection ended, or nil.
func (c *Client) broken() error {
	select {
	case <-c.gone:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}
