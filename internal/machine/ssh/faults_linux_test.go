package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/testenv/sshtest"
)

// agentID returns the process id of the agent.
var agentID = agent.New("test agent id", func(context.Context, struct{}) (int, error) { return os.Getpid(), nil })

// begin starts a command with a child on m. It returns the process ids of both, and a channel with the result of Run.
func begin(t *testing.T, m iotax.Machine, stdin io.Reader) (ids []int, ended chan error) {
	t.Helper()
	r, w := io.Pipe()
	cmd := iotax.Command("sh", "-c", "sleep 1010 & echo $$ $!; cat >/dev/null; wait")
	cmd.Stdin, cmd.Stdout = stdin, w
	ended = make(chan error, 1)
	go func() {
		err := m.Run(context.WithoutCancel(t.Context()), cmd)
		w.CloseWithError(err)
		ended <- err
	}()
	var sh, sleep int
	if _, err := fmt.Fscanln(r, &sh, &sleep); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return []int{sh, sleep}, ended
}

// gone waits up to 10 s for the processes to exit.
func gone(t *testing.T, ids ...int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := ""
		for _, id := range ids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
			if err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
				left += " " + strconv.Itoa(id)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Errorf("processes%s are left", left)
			return
		}
	}
}

// one checks that err is an *iotax.Error that contains `says` exactly once.
func one(t *testing.T, err error, says string) {
	t.Helper()
	var e *iotax.Error
	var exit *iotax.ExitError
	if !errors.As(err, &e) || errors.As(err, &exit) || strings.Count(err.Error(), says) != 1 {
		t.Errorf("got %v (%T), want one *iotax.Error with %q", err, err, says)
	}
	t.Log(err)
}

// A command that a fault interrupts fails with one clear error. After the fault, no process remains on the host, and
// commands soon work again.
func TestSSHFaults(t *testing.T) {
	t.Parallel()
	blocks, open := io.Pipe()
	defer open.Close()
	for _, c := range []struct {
		name, says string
		stdin      io.Reader
		harm       func(p *delayed, agent int)
	}{
		{"connection breaks", "connection lost: ", blocks, func(p *delayed, _ int) { p.cut() }},
		{"agent killed", "signal KILL ended it there", blocks, func(_ *delayed, agent int) { _ = syscall.Kill(agent, syscall.SIGKILL) }},
		{"agent ended", "terminated signal received", blocks, func(_ *delayed, agent int) { _ = syscall.Kill(agent, syscall.SIGTERM) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startSSHD(t)
			p := delay(t, s.addr(), 0)
			spec := s.spec(t)
			spec.Port = p.port()
			write(t, spec.KnownHosts, strings.Replace(knownLine(s.addr(), s.host), strconv.Itoa(s.port), strconv.Itoa(p.port()), 1))
			m := works(t, spec)
			pid, err := agentID.On(t.Context(), m, struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			ids, ended := begin(t, m, c.stdin)
			c.harm(p, pid)
			one(t, <-ended, c.says)
			gone(t, append(ids, pid)...)
			for end := time.Now().Add(10 * time.Second); ; { // wait until this side has also noticed the fault
				if out, err := iotax.Output(t.Context(), m, "echo", "again"); err == nil && string(out) == "again\n" {
					break
				} else if time.Now().After(end) {
					t.Fatalf("after it: %q, %v", out, err)
				}
			}
			if told := m.Caps().Reconnected(); len(told) != 1 || !strings.Contains(told[0], "made again") {
				t.Errorf("told %q", told)
			}
		})
	}
}

// The connection breaks silently: the server does not detect the break. When iotax connects again, it ends the old
// processes.
func TestSSHCutSilently(t *testing.T) {
	t.Parallel()
	s := startSSHD(t)
	p := delay(t, s.addr(), 0)
	spec := s.spec(t)
	spec.Port = p.port()
	write(t, spec.KnownHosts, knownLine("127.0.0.1:"+strconv.Itoa(p.port()), s.host))
	spec.Config = filepath.Join(t.TempDir(), "config")
	write(t, spec.Config, "Host *\n\tServerAliveInterval 1\n\tServerAliveCountMax 2\n")
	m := works(t, spec)
	pid, err := agentID.On(t.Context(), m, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	ids, ended := begin(t, m, nil)
	p.silence()
	one(t, <-ended, "connection lost: Timeout, server ")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", ids[1])); err != nil {
		t.Fatal("the command ended with its connection: there is nothing to be ended")
	}
	if err := m.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Error(err)
	}
	gone(t, append(ids, pid)...)
}

// If the host has no directory from which the agent can run, Open fails and the error contains the reason.
func TestSSHNoPlaceForTheAgent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	for name, c := range map[string]struct{ options, says string }{
		"noexec":    {"noexec", "no directory of this user may run programs and holds"},
		"full disk": {"size=2m", "no directory of this user may run programs and holds"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			mount := "mount -t tmpfs -o " + c.options + " none /var/tmp && mount -t tmpfs -o " + c.options + " none /run && mount -t tmpfs -o " + c.options + " none " + home
			srv := &sshtest.Server{Shell: []string{"unshare", "--mount", "sh", "-c", mount + ` && exec sh -c "$0"`},
				Env: append(os.Environ(), "XDG_CACHE_HOME="+home+"/cache", "TMPDIR="+home+"/tmp")}
			addr, key := srv.Start(t)
			known := filepath.Join(t.TempDir(), "known")
			write(t, known, knownLine(addr, key))
			fails(t, &Spec{Host: "test@" + addr, Config: "none", KnownHosts: known}, c.says, "XDG_CACHE_HOME")
		})
	}
}

// If another version of iotax is at the agent's path, Open fails.
func TestSSHAgentOfAnotherVersion(t *testing.T) {
	cache := t.TempDir()
	srv := &sshtest.Server{Shell: []string{"sh", "-c"}, Env: append(os.Environ(), "XDG_CACHE_HOME="+cache)}
	addr, key := srv.Start(t)
	known := filepath.Join(t.TempDir(), "known")
	write(t, known, knownLine(addr, key))
	spec := &Spec{Host: "test@" + addr, Config: "none", KnownHosts: known}
	works(t, spec)
	copies, err := filepath.Glob(cache + "/iotax/iotax-*")
	if err != nil || len(copies) != 1 {
		t.Fatal(copies, err)
	}
	if err := os.Remove(copies[0]); err != nil { // the running agent keeps its open file
		t.Fatal(err)
	}
	write(t, copies[0], "#!/bin/sh\necho iotax agent 1 linux/amd64\n")
	if err := os.Chmod(copies[0], 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, spec, "no iotax of this version answers: iotax agent 1 linux/amd64", "")
}

// iotax retries when the server refuses a connection briefly. After a refusal that is not temporary, it does not
// connect again for each command.
func TestSSHRefusedAgain(t *testing.T) {
	t.Parallel()
	s := &sshtest.Server{Shell: []string{"sh", "-c"}}
	addr, key := s.Start(t)
	p := delay(t, addr, 0)
	known := filepath.Join(t.TempDir(), "known")
	spec := &Spec{Host: "test@127.0.0.1", Port: p.port(), Config: "none", KnownHosts: known}
	write(t, known, knownLine("127.0.0.1:"+strconv.Itoa(p.port()), key))
	m := works(t, spec)
	pid, err := agentID.On(t.Context(), m, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	ids, ended := begin(t, m, nil)
	p.refuse(3)
	p.cut()
	one(t, <-ended, "connection lost: ")
	if _, err := iotax.Output(t.Context(), m, "true"); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	gone(t, append(ids, pid)...)

	write(t, known, knownLine("127.0.0.1:"+strconv.Itoa(p.port()), newKey(t, filepath.Join(t.TempDir(), "other"), "")))
	before := p.accepted()
	_, ended = begin(t, m, nil)
	p.cut()
	one(t, <-ended, "connection lost: ")
	for range 3 {
		_, err := iotax.Output(t.Context(), m, "true")
		one(t, err, "its host key has changed")
	}
	if n := p.accepted() - before; n != 1 {
		t.Errorf("%d attempts", n)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Run(t.Context(), iotax.Command("true")); err == nil || !strings.Contains(err.Error(), "was closed") {
		t.Errorf("Run after Close: %v", err)
	}
}

// iotax asks ssh's questions at the user's terminal, and does not echo the password.
func TestAskpass(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal := "/dev/pts/" + strconv.Itoa(n)
	user, err := os.OpenFile(terminal, os.O_RDWR|unix.O_NOCTTY, 0) // reading the master fails while no process has the terminal open
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	s := &sshtest.Server{Shell: []string{"sh", "-c"}, Password: "open sesame"}
	addr, _ := s.Start(t)
	spec := &Spec{Host: "test@" + addr, Config: "none", KnownHosts: filepath.Join(t.TempDir(), "known")}
	shown := make(chan string, 100)
	go func() {
		var b [1000]byte
		for {
			n, err := master.Read(b[:])
			if err != nil {
				return
			}
			shown <- string(b[:n])
		}
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTransport(t.Context(), spec, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	tr.env = []string{"SSH_ASKPASS=" + self, "SSH_ASKPASS_REQUIRE=force", "DISPLAY=:0", terminalVariable + "=" + terminal}
	for i, a := range tr.args {
		if a == "BatchMode=yes" {
			tr.args[i] = "BatchMode=no"
		}
	}
	done := make(chan error, 1)
	go func() {
		c, err := tr.Start(t.Context(), []string{"true"})
		if err == nil {
			c.Stdin.Close()
			_, _ = io.Copy(io.Discard, c.Stdout)
			err = c.Wait()
		}
		done <- err
	}()
	all := ""
	until := func(text string) {
		t.Helper()
		for late := time.After(time.Minute); !strings.Contains(all, text); {
			select {
			case s := <-shown:
				all += s
			case err := <-done:
				t.Fatalf("ssh ended: %v, shown %q", err, all)
			case <-late:
				t.Fatalf("shown %q, want %q", all, text)
			}
		}
	}
	until("(yes/no")
	fmt.Fprintln(master, "yes")
	until("assword: ")
	fmt.Fprintln(master, "open sesame")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(all, "sesame") {
		t.Errorf("the terminal shows %q", all)
	}
}

// A jump host whose name or question contains the target's login does not get the target's password.
func TestPasswordOfAnotherHost(t *testing.T) {
	for question, want := range map[string]bool{
		"admin@db's password: ":            true,
		"(admin@db) Password: ":            true,
		"(admin@db) Verification code: ":   false,
		"admin@db-gw's password: ":         false,
		"(u@jump) admin@db password: ":     false,
		"Enter passphrase for admin@db: ":  false,
		"(xadmin@db) admin@db's password:": false,
	} {
		if got := isPasswordOf(question, "admin@db"); got != want {
			t.Errorf("%q: %v", question, got)
		}
	}
}
