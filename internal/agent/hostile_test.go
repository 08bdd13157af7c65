//go:build unix

package agent_test

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// hostile is a machine whose agent answers each call with the value `answer`.
type hostile struct {
	iotax.Machine
	agent.Link
}

func (h *hostile) Caps() iotax.MachineCaps { return iotax.MachineCaps{Agent: &h.Link} }
func (*hostile) String() string            { return "hostile" }

func newHostile(t *testing.T, answer any) *hostile {
	t.Helper()
	h := &hostile{}
	h.Start = func(context.Context) (*agent.Session, error) {
		here, there := net.Pipe()
		go func() {
			fmt.Fprintln(there, "iotax agent 5 linux/amd64 /agent")
			mux, err := yamux.Server(there, yamux.DefaultConfig())
			if err != nil {
				return
			}
			for {
				stream, err := mux.AcceptStream()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(stream, make([]byte, 1))
				go func() { _, _ = io.Copy(io.Discard, stream) }()
				_ = gob.NewEncoder(stream).Encode(answer)
			}
		}()
		return agent.Meet(bufio.NewReader(here), here, here.Close)
	}
	t.Cleanup(func() { h.Hangup(context.Background()) })
	return h
}

// A machine that runs a program other than iotax's agent may answer with errors that wrap each other without end.
func TestErrorsWithoutEnd(t *testing.T) {
	type nested struct {
		Structured bool
		Op         string
		Cause      *nested
	}
	type flat struct {
		Structured bool
		Op         string
	}
	var deep *nested
	for range 100_000 {
		deep = &nested{true, "x", deep}
	}
	for name, answer := range map[string]any{
		"nested": struct{ Err *nested }{deep},
		"listed": struct{ Err []flat }{make([]flat, 100_000)},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := id.On(ctx, newHostile(t, answer), none{})
		depth := 0
		for e := err; e != nil; e = errors.Unwrap(e) {
			depth++
		}
		if err == nil || ctx.Err() != nil || depth > 100 {
			t.Errorf("%s: %d errors in one", name, depth)
		}
	}
}

// Dial rejects an answer that exceeds the size limit.
func TestDialAnswerWithoutEnd(t *testing.T) {
	h := newHostile(t, struct{ Err []struct{ Msg string } }{[]struct{ Msg string }{{strings.Repeat("x", 65<<20)}}})
	_, err := agent.Dial(t.Context(), h, "tcp", "127.0.0.1:1")
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
	}
}

// A function that only copies its stream on this host ends when its context is done.
func TestTakerCanceled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := copied.On(ctx, host.Local(), os.DevNull, endless{})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on without its caller")
	}
}

// A machine may request a copy of the agent only once.
func TestCopyWithoutEnd(t *testing.T) {
	f, _ := newFar(t)
	tools := t.TempDir()
	// This sh prints requests for the copy in place of the bootstrap script.
	text := "#!/bin/sh\nfor a; do case $a in *:*:*) a=${a#*:}; hash=${a%:*};; esac; done\nwhile :; do echo \"iotax bootstrap: copy $hash\"; done 2>/dev/null | head -n 1000\nexec cat >/dev/null\n"
	if err := os.WriteFile(filepath.Join(tools, "sh"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	f.env = append(f.env, "PATH="+tools+":"+os.Getenv("PATH"))
	copies := 0
	f.Log = func(string, ...any) { copies++ }
	f.Patience = 2 * time.Second
	if _, err := id.On(t.Context(), f, none{}); err == nil || copies != 1 {
		t.Errorf("%d copies: %v", copies, err)
	}
}
