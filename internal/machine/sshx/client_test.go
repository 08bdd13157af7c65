//go:build unix

package sshx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/sshx"
	"iotax/internal/testenv/machinetest"
	"iotax/internal/testenv/sshtest"
)

// conform runs the suite against a server that is made anew for each machine.
func conform(t *testing.T, make func() *sshtest.Server) {
	t.Parallel() // the suite waits more than it works
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		s := make()
		return &machine{sshx.New(s.Dial(t), "ssh://test"), s}
	}, machinetest.Options{Kill: func(m iotax.Machine) error {
		m.(*machine).server.Drop()
		return nil
	}})
}

type machine struct {
	*sshx.Client
	server *sshtest.Server
}

func TestBusybox(t *testing.T) {
	dir := sshtest.BusyboxPath(t)
	conform(t, func() *sshtest.Server {
		return &sshtest.Server{Shell: []string{dir + "/sh", "-c"}, Env: []string{"PATH=" + dir}, MaxSessions: 10}
	})
}

func TestBash(t *testing.T) {
	conform(t, func() *sshtest.Server { return &sshtest.Server{Shell: []string{"bash", "-c"}, MaxSessions: 10} })
}

// TestNoGroups is a server that leaves commands in its own process group. (When it is killed here,
// so are the tests.)
func TestNoGroups(t *testing.T) {
	conform(t, func() *sshtest.Server { return &sshtest.Server{Shell: []string{"sh", "-c"}, SameGroup: true} })
}

func open(t *testing.T, s *sshtest.Server, opts ...sshx.Option) *sshx.Client {
	t.Helper()
	c := sshx.New(s.Dial(t), "ssh://test", opts...)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestNoSetsid(t *testing.T) {
	dir := sshtest.BusyboxPath(t)
	if err := os.Remove(dir + "/setsid"); err != nil {
		t.Fatal(err)
	}
	// busybox's shell finds applets without PATH, so this one is dash.
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Skip("needs dash")
	}
	os.Remove(dir + "/sh")
	if err := os.Symlink(dash, dir+"/sh"); err != nil {
		t.Fatal(err)
	}
	c := open(t, &sshtest.Server{Shell: []string{"dash", "-c"}, SameGroup: true, Env: []string{"PATH=" + dir}})
	out, err := iotax.Output(t.Context(), c, "echo", "ran")
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "setsid") || len(out) > 0 {
		t.Errorf("got %q and %v, want a hint that speaks of setsid", out, err)
	}
}

// TestFewSessions has more commands at once than the server has sessions.
func TestFewSessions(t *testing.T) {
	for _, max := range []int32{1, 2, 5} {
		s := &sshtest.Server{Shell: []string{"sh", "-c"}, MaxSessions: max}
		c := open(t, s)
		errs := make(chan error)
		const n = 12
		for range n {
			go func() { errs <- c.Run(t.Context(), iotax.Command("sleep", "0.02")) }()
		}
		for range n {
			if err := <-errs; err != nil {
				t.Errorf("with %d sessions: %v", max, err)
			}
		}
		if m := s.Most.Load(); m > max {
			t.Errorf("%d sessions at once, want at most %d", m, max)
		}
	}
}

// TestOneSession ends a command where no second session is to be had for that.
func TestOneSession(t *testing.T) {
	t.Parallel()
	c := open(t, &sshtest.Server{Shell: []string{"sh", "-c"}, MaxSessions: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Run(ctx, iotax.Command("sleep", "1000")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := c.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestFrozen is a machine that stops answering and keeps the connection, as a guest that hangs.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := &sshtest.Server{Shell: []string{"sh", "-c"}}
	c := open(t, s, sshx.KeepAlive(50*time.Millisecond, 300*time.Millisecond))
	started := make(chan struct{})
	cmd := iotax.Command("sh", "-c", "echo up; sleep 2")
	cmd.Stdout = signal(started)
	done := make(chan error)
	go func() { done <- c.Run(t.Context(), cmd) }()
	<-started
	begin := time.Now()
	s.Frozen.Store(true)
	select {
	case err := <-done:
		if !strings.Contains(fmt.Sprint(err), "no sign of life") || !strings.Contains(err.Error(), "ssh://test") {
			t.Errorf("got %v, want that there is no sign of life", err)
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Run waits for ever")
	}
}

// A command on a frozen machine that ends with its connection is given up soon after its context is done.
func TestFrozenWhileEnding(t *testing.T) {
	t.Parallel()
	s := &sshtest.Server{Shell: []string{"sh", "-c"}}
	c := open(t, s, sshx.Silence(300*time.Millisecond))
	started := make(chan struct{})
	cmd := iotax.Command("sh", "-c", "echo up; sleep 2")
	cmd.Stdout = signal(started)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx, cmd) }()
	<-started
	s.Frozen.Store(true)
	begin := time.Now()
	cancel()
	select {
	case err := <-done:
		if !strings.Contains(fmt.Sprint(err), "no sign of life") {
			t.Errorf("got %v, want that there is no sign of life", err)
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("Run waits longer than the keep-alive would")
	}
}

type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	close(s)
	return len(p), nil
}

// TestNoShell is a login that runs no commands: what it says must reach the user.
func TestNoShell(t *testing.T) {
	c := open(t, &sshtest.Server{Shell: []string{"sh", "-c", `echo "This account is not available." >&2; exit 1`}})
	err := c.Run(t.Context(), iotax.Command("true"))
	var x *iotax.ExitError
	if err == nil || errors.As(err, &x) || !strings.Contains(err.Error(), "This account is not available.") {
		t.Errorf("got %v, want what the login shell said", err)
	}
}

// TestNoisyStderr is a start-up file that prints on standard error: that is not the command's.
func TestNoisyStderr(t *testing.T) {
	c := open(t, &sshtest.Server{Shell: []string{"sh", "-c", `echo "Welcome!" >&2; eval "$0"`}})
	var errs strings.Builder
	cmd := iotax.Command("sh", "-c", "echo mine >&2; exit 1")
	cmd.Stderr = &errs
	err := c.Run(t.Context(), cmd)
	var x *iotax.ExitError
	if !errors.As(err, &x) || x.Stderr != "mine\n" || errs.String() != "mine\n" {
		t.Errorf("got %v and %q, want the command's own words", err, errs.String())
	}
}

// TestSecret makes sure that no list of processes shows an environment variable's value.
func TestSecret(t *testing.T) {
	c := open(t, &sshtest.Server{Shell: []string{"bash", "-c"}})
	cmd := iotax.Command("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
	const secret = "correct-horse-battery-staple"
	cmd.Env = []string{"SECRET=" + secret}
	var out strings.Builder
	cmd.Stdout = &out
	// Some process may vanish while it is read.
	if err := c.Run(t.Context(), cmd); err != nil && out.Len() == 0 {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), secret) {
		t.Error("the value is in a command line")
	}
}

func TestClosed(t *testing.T) {
	c := sshx.New((&sshtest.Server{Shell: []string{"sh", "-c"}}).Dial(t), "ssh://test")
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	err := c.Run(t.Context(), iotax.Command("true"))
	if err == nil || !strings.Contains(err.Error(), "ssh://test") {
		t.Errorf("Run after Close: %v", err)
	}
}
