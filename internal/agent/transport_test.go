//go:build unix

package agent_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"iotax/internal/agent"
)

// An agent ends after a minute without heartbeats, even if its connection stays open. While it receives heartbeats, it
// keeps running.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		way := &silencer{Conn: here}
		ended := make(chan error, 1)
		go func() { ended <- agent.Serve(t.Context(), nil, there, there) }()
		s, err := agent.Meet(here, way, here.Close)
		if err == nil {
			err = s.KeepAlive()
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ended) > 0 || s.Closed() {
			t.Fatalf("it ended while it got signs of life: %v", <-ended)
		}
		way.silent.Store(true)
		began := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 50*time.Second || took > 2*time.Minute {
			t.Errorf("it ended after %v", took)
		}
		here.Close()
		there.Close()

		// A session also ends if its agent stops answering. This check is not a separate test, because yamux reuses
		// timers, and a timer must not be used in two synctest bubbles.
		here, there = net.Pipe()
		way = &silencer{Conn: here}
		go func() { _ = agent.Serve(t.Context(), nil, there, there); there.Close() }()
		s, err = agent.Meet(here, way, here.Close)
		if err != nil {
			t.Fatal(err)
		}
		s.Watch()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.Closed() {
			t.Fatalf("it ended while the agent answered: %v", s.Lost(nil))
		}
		way.silent.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.Lost(errors.New("lost")); !s.Closed() || !strings.Contains(err.Error(), "no sign of life for 20s") {
			t.Errorf("a minute after the last answer: %v, %v", s.Closed(), err)
		}
	})
}

// A silencer discards writes while silent is set.
type silencer struct {
	net.Conn
	silent atomic.Bool
}

func (s *silencer) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

// A deadTransport starts a program that ends before it answers.
type deadTransport struct{ err error }

func (deadTransport) String() string { return "dead" }

func (deadTransport) Close(context.Context) error { return nil }

func (d deadTransport) Start(context.Context, []string) (*agent.Running, error) {
	r, w := io.Pipe()
	w.Close()
	in, out := io.Pipe()
	in.Close()
	return &agent.Running{Stdin: out, Stdout: r, Wait: func() error { return d.err }, Kill: func() {}}, nil
}

// If the transport fails, the agent's start fails with the same error.
func TestTransportFails(t *testing.T) {
	why := errors.New("the cable is cut")
	_, err := new(agent.Link).Over(t.Context(), deadTransport{why})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
