package command

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

func appOf(run string, spec func(*App)) *App {
	s := NewApp().(*App)
	s.Run = run
	if spec != nil {
		spec(s)
	}
	return s
}

// slowServer is a web server that waits before it listens.
const slowServer = `sleep 0.5; exec python3 -u -m http.server --bind {address} {port}`

// The duration ends with the first answer. After the trial, the program no longer runs.
func TestApp(t *testing.T) {
	dir := t.TempDir()
	w := worktest.Made(t, AppKind, appOf(slowServer, func(s *App) { s.Shell = true }))
	out, err := worktest.Attempt(t, w, worktest.Target(host.Local(), dir))
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "duration", 0.5, 60)
	port := out.Facts["command"][strings.LastIndex(out.Facts["command"], " ")+1:]
	if _, err := iotax.Output(worktest.CtxFor(t), host.Local(), "pgrep", "-f", "http.server --bind 127.0.0.1 "+strings.Trim(port, "'")); err == nil {
		t.Error("it still runs")
	}
}

func TestAppThatSaysItIsReady(t *testing.T) {
	w := worktest.Made(t, AppKind, appOf(`echo begin; sleep 0.3; printf 'Started in '; echo 12 ms; exec sleep 60`, func(s *App) { s.Shell, s.Ready = true, `^Started in \d+ ms` }))
	out, err := worktest.Attempt(t, w, worktest.Target(far{host.Local(), 0}, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "duration", 0.3, 30)
	if !strings.Contains(string(out.Raw), "Started in 12 ms") {
		t.Errorf("it said %s", out.Raw)
	}
}

// Before a program is ready, it may print more output than iotax keeps, and may print a line in several pieces.
func TestReadyAfterMuchOutput(t *testing.T) {
	out := &saying{pattern: regexp.MustCompile(`(?m)^Started in \d+ ms`), found: make(chan struct{})}
	line := []byte("not Started in 9 ms: " + strings.Repeat("x", 1000) + "\n")
	for range 2 * support.RawLimit / len(line) {
		_, _ = out.Write(line)
	}
	_, _ = out.Write([]byte("Started "))
	if out.seen {
		t.Error("ready too early")
	}
	_, _ = out.Write([]byte("in 12 ms\n"))
	if !out.seen || len(out.text()) != support.RawLimit || len(out.tail) > 2*longestMatch {
		t.Errorf("seen: %v, %d bytes kept, tail of %d bytes", out.seen, len(out.text()), len(out.tail))
	}
}

func TestAppThatFails(t *testing.T) {
	here := worktest.Target(host.Local(), t.TempDir())
	_, err := worktest.Attempt(t, worktest.Made(t, AppKind, appOf(`echo no such class >&2; exit 3`, func(s *App) { s.Shell, s.Ready = true, "ready" })), here)
	if err == nil || !strings.Contains(err.Error(), "ended before it was ready") || !strings.Contains(err.Error(), "no such class") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("one that ends: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err = worktest.Made(t, AppKind, appOf("sleep 60 {port}", func(s *App) { s.Run = "sh -c 'sleep 60' {port}" })).Run(ctx, here, &iotax.Trial{})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 30*time.Second {
		t.Errorf("one that never answers: %v after %v", err, time.Since(begun))
	}
	if _, err := worktest.Attempt(t, worktest.Made(t, AppKind, appOf("server {port}", nil)), worktest.Target(far{host.Local(), 0}, t.TempDir())); err == nil || !strings.Contains(err.Error(), "no way to its ports") {
		t.Errorf("a machine without a way to its ports: %v", err)
	}
	// For a container with its own network, the hint contains the option that makes it use the host's network.
	var refused *iotax.Error
	if _, err := worktest.Attempt(t, worktest.Made(t, AppKind, appOf("server {port}", nil)), worktest.Target(boxed{far{host.Local(), 0}}, t.TempDir())); !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--network=host") {
		t.Errorf("a container without a way to its ports: %v", err)
	}
	for _, bad := range []*App{appOf("server", nil), appOf("", nil), appOf("server {port}", func(s *App) { s.Path = "x" }), appOf("server", func(s *App) { s.Ready = "(" }),
		appOf("server", func(s *App) { s.Ready, s.Path = "ready", "/health" })} {
		var fe *plan.FieldError
		if err := bad.Validate(); !errors.As(err, &fe) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// boxed is a container on this host with its own network.
type boxed struct{ far }

func (boxed) Caps() iotax.MachineCaps { return iotax.MachineCaps{Outside: host.Local()} }
