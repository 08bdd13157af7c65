//go:build unix

// Package sshtest provides an SSH server that runs in the process of a test. It simulates servers that are hard to set
// up with a real sshd: servers with other login shells, few sessions, no process groups, or passwords.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// A Server serves sessions on this host.
type Server struct {
	Shell       []string // login shell and its "-c"
	Env         []string // nil means the environment of the test
	SameGroup   bool     // commands run in the server's session, as with Dropbear
	MaxSessions int32    // on one connection; 0 means no limit
	Password    string   // "" accepts every client

	conns, pids sync.Map
}

// Start starts the server and returns its address and its host key. The server ends with the test.
func (s *Server) Start(t testing.TB) (addr string, hostKey ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: s.Password == ""}
	if s.Password != "" {
		config.PasswordCallback = func(_ ssh.ConnMetadata, got []byte) (*ssh.Permissions, error) {
			if string(got) != s.Password {
				return nil, errors.New("wrong password")
			}
			return nil, nil
		}
		config.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, errors.New("no answer")
			}
			return config.PasswordCallback(c, []byte(answers[0]))
		}
	}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		s.Drop()
		s.pids.Range(func(pid, _ any) bool { // kill commands that still run, for example because the test simulates a dead machine
			unix.Kill(-pid.(int), unix.SIGKILL)
			unix.Kill(pid.(int), unix.SIGKILL)
			return true
		})
		served.Wait()
	})
	served.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { s.serve(raw, config) })
		}
	})
	return l.Addr().String(), signer.PublicKey()
}

// Drop closes every connection.
func (s *Server) Drop() {
	s.conns.Range(func(c, _ any) bool {
		c.(net.Conn).Close()
		return true
	})
}

func (s *Server) serve(raw net.Conn, config *ssh.ServerConfig) {
	s.conns.Store(raw, true)
	conn, chans, reqs, err := ssh.NewServerConn(raw, config)
	if err != nil {
		raw.Close()
		return
	}
	defer conn.Close()
	go func() {
		for r := range reqs {
			r.Reply(false, nil)
		}
	}()
	var sessions atomic.Int32
	var running sync.WaitGroup
	defer running.Wait()
	for nc := range chans {
		if n := sessions.Add(1); s.MaxSessions > 0 && n > s.MaxSessions {
			sessions.Add(-1)
			nc.Reject(ssh.ConnectionFailed, "open failed")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			sessions.Add(-1)
			continue
		}
		running.Go(func() {
			defer sessions.Add(-1)
			s.session(ch, reqs)
		})
	}
}

func (s *Server) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	var cmd *exec.Cmd
	done := make(chan struct{})
	for {
		select {
		case <-done:
			ch.Close()
			return
		case r, ok := <-reqs:
			switch {
			case !ok:
				if cmd != nil {
					<-done // like OpenSSH: the session exists as long as its command
				}
				return
			case r.Type == "exec" && cmd == nil:
				var p struct{ Command string }
				ssh.Unmarshal(r.Payload, &p)
				cmd = exec.Command(s.Shell[0], append(s.Shell[1:len(s.Shell):len(s.Shell)], p.Command)...)
				cmd.Env = s.Env
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !s.SameGroup}
				cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
				in, err := cmd.StdinPipe()
				if err == nil {
					err = cmd.Start()
				}
				r.Reply(err == nil, nil)
				if err != nil {
					ch.Close()
					return
				}
				s.pids.Store(cmd.Process.Pid, true)
				go func() { io.Copy(in, ch); in.Close() }()
				go func() {
					defer close(done)
					err := cmd.Wait()
					s.pids.Delete(cmd.Process.Pid)
					s.exit(ch, err)
				}()
			case r.Type == "signal" && cmd != nil:
				var p struct{ Signal string }
				ssh.Unmarshal(r.Payload, &p)
				unix.Kill(-cmd.Process.Pid, unix.SignalNum("SIG"+p.Signal))
			case r.WantReply:
				r.Reply(false, nil)
			}
		}
	}
}

func (s *Server) exit(ch ssh.Channel, err error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name string
				Core bool
				Msg  string
				Lang string
			}{Name: unix.SignalName(w.Signal())[3:]}))
			return
		}
		ch.SendRequest("exit-status", false, ssh.Marshal(struct{ N uint32 }{uint32(exit.ExitCode())}))
		return
	}
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ N uint32 }{}))
}

// BusyboxPath makes a directory that contains only busybox's applets and returns its path.
func BusyboxPath(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	dir, err := os.MkdirTemp("", "busybox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if out, err := exec.Command(bin, "--install", "-s", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
