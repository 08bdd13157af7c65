package volume

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
)

// A server is a program that serves a volume from the machine `host`.
type server struct {
	name string // base name of the program, and the key of its ID in the result of `processes`
	host iotax.Machine
	pid  int

	kill context.CancelFunc
	done chan struct{}
	err  error // the program's error; valid once done is closed

	stopped bool // stop was called while the program ran
}

// startServer starts args on host. It returns when the file `at` contains the process ID, when the program ends, or
// when ctx is done.
func startServer(ctx context.Context, host iotax.Machine, at string, env []string, args ...string) (*server, error) {
	// Empty the file: it contains a process ID if an earlier attempt failed because its port was in use.
	if err := agent.Put(ctx, host, strings.NewReader(""), at, 0o600); err != nil {
		return nil, err
	}
	s := newServer(ctx, host, args[0], func(ctx context.Context) error {
		return agent.Keep(ctx, host, agent.Kept{Args: args, Env: slices.Concat(env, leftover.Environ()), PIDFile: at})
	})
	for {
		f, err := on(ctx, quick, readFile.On, host, at)
		if pid, perr := strconv.Atoi(strings.TrimSpace(f.Text)); err == nil && perr == nil {
			s.pid = pid
			return s, nil
		}
		select {
		case <-s.done:
			return s, s.ended()
		case <-ctx.Done():
			return s, errors.Join(context.Cause(ctx), s.stop(context.WithoutCancel(ctx)))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// newServer calls `run` in a goroutine and returns the server, which is alive until `run` returns. The method `stop`
// cancels the context of `run`.
func newServer(ctx context.Context, host iotax.Machine, name string, run func(context.Context) error) *server {
	s := &server{name: path.Base(name), host: host, done: make(chan struct{})}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	s.kill = kill
	go func() {
		s.err = run(life)
		close(s.done)
	}()
	return s
}

func (s *server) alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// ended returns the error for a program that ended too early.
func (s *server) ended() error {
	err := s.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w", s.name, err)
}

// stop ends the program and waits until it exits, ctx is done, or 25 s have passed. It returns an error if the program
// has not exited.
func (s *server) stop(ctx context.Context) error {
	s.stopped = s.stopped || s.alive()
	s.kill()
	select {
	case <-s.done:
	case <-ctx.Done():
	case <-time.After(25 * time.Second):
	}
	var e *iotax.Error
	if s.alive() || errors.As(s.err, &e) && errors.Is(s.err, context.Canceled) { // the machine could not end it
		return &iotax.Error{Op: "end " + s.name, On: fmt.Sprintf("process %d on %v", s.pid, s.host), Err: errors.New("the process did not exit"), Hint: "end it by hand"}
	}
	return nil
}

func (s *server) processes() map[string][]int {
	if s == nil || s.pid == 0 || !iotax.IsLocal(s.host) || !s.alive() {
		return nil
	}
	return map[string][]int{s.name: {s.pid}}
}
