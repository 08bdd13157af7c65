//go:build unix

package sshx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/machine/sshx"
	"iotax/internal/testenv/sshtest"
)

// lasting is a machine at s. Each further connection is preceded by before, which may refuse it.
func lasting(t *testing.T, s *sshtest.Server, before func() error) *sshx.Lasting {
	t.Helper()
	addr, key := s.Start(t)
	dial := func(context.Context) (*sshx.Client, error) {
		conn, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{User: "test", HostKeyCallback: ssh.FixedHostKey(key)})
		if err != nil {
			return nil, err
		}
		return sshx.New(conn, "ssh://test"), nil
	}
	first, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := sshx.NewLasting(first, func(ctx context.Context) (*sshx.Client, error) {
		if err := before(); err != nil {
			return nil, err
		}
		return dial(ctx)
	})
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// cut breaks the connection under a command and returns the command's process id.
func cut(t *testing.T, l *sshx.Lasting, s *sshtest.Server) int {
	t.Helper()
	var out firstLine
	out.whole = make(chan struct{})
	cmd := iotax.Command("sh", "-c", "echo $$; exec sleep 1009")
	cmd.Stdout = &out
	done := make(chan error)
	go func() { done <- l.Run(t.Context(), cmd) }()
	<-out.whole
	s.Drop()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Fatalf("under a command: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

type firstLine struct {
	strings.Builder
	whole chan struct{}
}

func (f *firstLine) Write(p []byte) (int, error) {
	n, err := f.Builder.Write(p)
	if strings.HasSuffix(f.String(), "\n") {
		close(f.whole)
	}
	return n, err
}

// runs reports whether pid is that of a process which has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ")
}

// The next command finds the machine again, also when it refuses for a moment, and what ran there is gone by then.
func TestLasting(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	s := &sshtest.Server{Shell: []string{"sh", "-c"}}
	l := lasting(t, s, func() error {
		if tries.Add(1) < 3 {
			return fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errors.New("refused")})
		}
		return nil
	})
	pid := cut(t, l, s)
	if !runs(pid) {
		t.Fatal("the command ended with its connection: there is nothing to be ended")
	}
	errs := make(chan error)
	for range 4 { // all of them on one connection
		go func() { errs <- l.Run(t.Context(), iotax.Command("true")) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Errorf("after it: %v", err)
		}
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("%d attempts", n)
	}
	if runs(pid) {
		t.Error("the command of the broken connection still runs")
	}
	if told := l.Reconnected(); len(told) != 1 || !strings.HasPrefix(told[0], "ssh://test: connection lost: ") {
		t.Errorf("told: %q", told)
	}
	if told := l.Reconnected(); len(told) > 0 {
		t.Errorf("told twice: %q", told)
	}
}

// More commands run at once than the server allows sessions on a connection, the servers of a run on one host among them; when all
// connections break, none of them is left.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	l := lasting(t, &sshtest.Server{Shell: []string{"sh", "-c"}, MaxSessions: 4}, func() error { dials.Add(1); return nil })
	const n = 13
	ctx, cancel := context.WithCancel(t.Context())
	var outs [n]firstLine
	errs := make(chan error, n)
	for i := range outs {
		outs[i].whole = make(chan struct{})
		cmd := iotax.Command("sh", "-c", "echo $$; exec sleep 1009")
		cmd.Stdout = &outs[i]
		go func() { errs <- l.Run(ctx, cmd) }()
	}
	for i := range outs { // all of them have begun while all of them run
		<-outs[i].whole
	}
	if got := dials.Load(); got < 3 || got > 9 {
		t.Errorf("%d further connections for 13 commands of 4 sessions each", got)
	}
	made := dials.Load()
	if err := l.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Error(err)
	}
	cancel()
	for range n {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for i := range outs {
		if pid, err := strconv.Atoi(strings.TrimSpace(outs[i].String())); err != nil || runs(pid) {
			t.Errorf("command %d still runs (%v)", i, err)
		}
	}
	if err := l.Run(t.Context(), iotax.Command("true")); err != nil || dials.Load() > made+1 {
		t.Errorf("after it: %v, %d connections more", err, dials.Load()-made)
	}
}

// A further connection that breaks is told, and what ran on it is gone before the next command needs one.
func TestManyAtOnceLost(t *testing.T) {
	t.Parallel()
	s := &sshtest.Server{Shell: []string{"sh", "-c"}, MaxSessions: 2}
	l := lasting(t, s, func() error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 4)
	fill := func() { // the first connection
		for range 2 {
			begun := firstLine{whole: make(chan struct{})}
			cmd := iotax.Command("sh", "-c", "echo $$; exec sleep 1009")
			cmd.Stdout = &begun
			go func() { errs <- l.Run(ctx, cmd) }()
			<-begun.whole
		}
	}
	fill()
	pid := cut(t, l, s) // on a second one; both break
	for range 2 {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("on the first connection: %v", err)
		}
	}
	fill()
	if err := l.Run(t.Context(), iotax.Command("true")); err != nil { // wants a second connection
		t.Error(err)
	}
	if runs(pid) {
		t.Error("the command of the broken connection still runs")
	}
	if told := strings.Join(l.Reconnected(), "\n"); !strings.Contains(told, "one of its connections was lost") || !strings.Contains(told, "made again") {
		t.Errorf("told: %q", told)
	}
	cancel()
	for range 2 {
		<-errs
	}
}

// Who answers and says no is not asked over and over; the command says why it could not run.
func TestLastingRefused(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	s := &sshtest.Server{Shell: []string{"sh", "-c"}}
	l := lasting(t, s, func() error {
		tries.Add(1)
		return &iotax.Error{Op: "verify host", On: "test", Err: errors.New("another key"), Hint: "look"}
	})
	cut(t, l, s)
	began := time.Now()
	for range 3 {
		err := l.Run(t.Context(), iotax.Command("true"))
		if err == nil || !strings.Contains(err.Error(), "connection lost: ") || !strings.Contains(err.Error(), "another key") {
			t.Errorf("after it: %v", err)
		}
	}
	if n := tries.Load(); n != 1 && time.Since(began) < 5*time.Second {
		t.Errorf("%d attempts", n)
	}
	if told := l.Reconnected(); len(told) > 0 {
		t.Errorf("told: %q", told)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	n := tries.Load()
	if err := l.Run(t.Context(), iotax.Command("true")); err == nil || tries.Load() != n {
		t.Errorf("Run after Close: %v, %d attempts", err, tries.Load()-n)
	}
}
