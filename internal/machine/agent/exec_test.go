//go:build unix

package agent_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/machinetest"
)

// A channel runs programs on this host as `docker exec` does: when the caller disconnects, the programs continue.
type channel struct {
	env     []string
	endless bool // programs do not receive the end of their standard input

	mu   sync.Mutex
	cuts []func()
	gone atomic.Pointer[error] // the error of all calls, after the target is gone
}

func newChannel(t *testing.T) *channel {
	return &channel{env: []string{"XDG_CACHE_HOME=" + t.TempDir()}}
}

var errCut = errors.New("the channel was cut")

// cut ends the streams of all programs.
func (c *channel) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.cuts {
		f()
	}
	c.cuts = nil
}

func (c *channel) run(ctx context.Context, args []string, s agent.Streams) (int, error) {
	if err := c.gone.Load(); err != nil {
		return 0, *err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), c.env...), s.Out, s.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe() // Wait does not wait for this pipe
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ctx, cut := context.WithCancelCause(ctx)
	c.mu.Lock()
	c.cuts = append(c.cuts, func() { cut(errCut) })
	c.mu.Unlock()
	go func() {
		io.Copy(in, s.In)
		if !c.endless {
			in.Close()
		}
	}()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		in.Close()
		if err := c.gone.Load(); err != nil {
			return 0, *err
		}
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func (c *channel) machine() *agent.Machine {
	return agent.New(&agent.Exec{Name: "box", Run: c.run, Hint: "use another image"}, "")
}

// TestExec runs the machine test suite through an agent behind a channel.
func TestExec(t *testing.T) {
	t.Parallel()
	channels := map[iotax.Machine]*channel{}
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		c := newChannel(t)
		m := c.machine()
		channels[m] = c
		return m
	}, machinetest.Options{Lasts: true, Kill: func(m iotax.Machine) error { channels[m].cut(); return nil }})
}

// Close ends the agent even if the end of standard input does not reach it.
func TestExecEndless(t *testing.T) {
	t.Parallel()
	c := newChannel(t)
	c.endless = true
	m := c.machine()
	if err := m.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// If the container ends, the running command and the next command fail. Each error contains the error of the
// container exactly once, and no hint.
func TestExecGone(t *testing.T) {
	t.Parallel()
	c := newChannel(t)
	m := c.machine()
	defer m.Close(context.Background())
	in, w := io.Pipe()
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(t.Context(), &iotax.Cmd{Args: []string{"cat"}, Stdin: in, Stdout: writer(func(p []byte) { close(started) })})
	}()
	go w.Write([]byte("x"))
	<-started
	gone := errors.New("the container ended: exit status 137")
	c.gone.Store(&gone)
	c.cut()
	for what, err := range map[string]error{"the command under way": <-ended, "the next command": m.Run(t.Context(), iotax.Command("true"))} {
		var e *iotax.Error
		if !errors.As(err, &e) || strings.Count(err.Error(), gone.Error()) != 1 || !strings.Contains(err.Error(), "on box: ") || e.Hint != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// If the agent cannot be started, the error contains the hint of the Exec.
func TestExecNoShell(t *testing.T) {
	t.Parallel()
	for what, run := range map[string]agent.Run{
		"exit status": func(context.Context, []string, agent.Streams) (int, error) { return 127, nil },
		"error": func(context.Context, []string, agent.Streams) (int, error) {
			return 0, errors.New(`exec: "sh": executable file not found in $PATH`)
		},
		"line": func(_ context.Context, _ []string, s agent.Streams) (int, error) {
			_, err := io.WriteString(s.Out, "OCI runtime exec failed: exec: \"sh\": executable file not found\r\n")
			return 126, err
		},
	} {
		m := agent.New(&agent.Exec{Name: "box", Run: run, Hint: "use another image"}, "")
		var e *iotax.Error
		if err := m.Begin(t.Context(), nil); !errors.As(err, &e) || e.Hint != "use another image" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An agent runs through a command of another machine. If that command fails, the error contains the reason from
// `lost`, the signal or the exit status.
func TestThrough(t *testing.T) {
	t.Parallel()
	alive := func(context.Context) error { return nil }
	open := func(lost func(context.Context) error, prefix ...string) *agent.Machine {
		return agent.New(&agent.Exec{Name: "through", Run: agent.Through(host.Local(), prefix, lost)}, "")
	}
	m := open(alive, "env", "XDG_CACHE_HOME="+t.TempDir())
	if out, err := iotax.Output(t.Context(), m, "sh", "-c", "echo $IOTAX_AGENT"); err != nil || !strings.Contains(string(out), ".") {
		t.Errorf("%q, %v", out, err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	lost := errors.New("its status is Stopped")
	for want, m := range map[string]*agent.Machine{
		lost.Error():                  open(func(context.Context) error { return lost }, "false"),
		"sh was ended by signal KILL": open(alive, "sh", "-c", "kill -9 $$"),
		"exit status 127":             open(alive, "/nonexistent"),
	} {
		if err := m.Begin(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
