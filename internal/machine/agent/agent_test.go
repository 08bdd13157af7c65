//go:build unix

package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/testenv/machinetest"
	"iotax/internal/testenv/sshtest"
	"iotax/internal/volume"
	"iotax/internal/workload"
	"iotax/internal/workload/fiojob"
)

// The test binary also serves as the iotax agent, and as the login shell of a host without a POSIX shell. That shell
// accepts only the syntax that cmd.exe and PowerShell have in common.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "plain-shell":
		plainShell(os.Args[len(os.Args)-1])
	case "iotax":
		if strings.Join(os.Args[1:], " ") != agent.Command {
			fmt.Fprintln(os.Stderr, "iotax: unknown command", os.Args[1:])
			os.Exit(2)
		}
		if err := agent.Serve(context.Background(), host.Local(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	agent.Main(host.Local())
	os.Exit(m.Run())
}

// plainShell runs a line of plain words. It rejects any shell syntax.
func plainShell(line string) {
	words := strings.Fields(line)
	if len(words) == 0 || strings.ContainsAny(line, "'\"$;&|<>(){}`\\\n") {
		fmt.Fprintf(os.Stderr, "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", line)
		os.Exit(1)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", words[0])
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(path, words, os.Environ()))
	os.Exit(1)
}

// server returns an SSH server whose login shell is plainShell. Its PATH contains only iotax, the shell and the given
// programs.
func server(t *testing.T, programs ...string) *sshtest.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, home := t.TempDir(), t.TempDir()
	for name, file := range map[string]string{"plain-shell": self, "iotax": self} {
		if err := os.Symlink(file, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		file, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, filepath.Join(bin, filepath.Base(p))); err != nil {
			t.Fatal(err)
		}
	}
	return &sshtest.Server{Shell: []string{filepath.Join(bin, "plain-shell")}, Env: []string{"PATH=" + bin, "HOME=" + home, "TMPDIR=" + home}}
}

// open opens the server's machine with the system's ssh.
func open(t *testing.T, s *sshtest.Server, program string) (iotax.Machine, error) {
	t.Helper()
	addr, key := s.Start(t)
	known := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(known, []byte(knownhosts.Line([]string{addr}, key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return ssh.Kind.Open(t.Context(), &ssh.Spec{Host: addr, Config: "none", KnownHosts: known, Agent: program}, kind.Options{Name: "far"})
}

func mustOpen(t *testing.T, s *sshtest.Server, program string) iotax.Machine {
	t.Helper()
	m, err := open(t, s, program)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func end(t *testing.T, m iotax.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestMachine runs the machine test suite through an agent in the PATH of an SSH host.
func TestMachine(t *testing.T) {
	servers := map[iotax.Machine]*sshtest.Server{}
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		s := server(t)
		s.Env = append(os.Environ(), "PATH="+filepath.Dir(s.Shell[0])+":"+os.Getenv("PATH"))
		m := mustOpen(t, s, "iotax")
		servers[m] = s
		return m
	}, machinetest.Options{Patience: 30 * time.Second, Lasts: true,
		Kill: func(m iotax.Machine) error { servers[m].Drop(); return nil }})
}

// If the agent's program does not exist, the error contains the shell's message and a hint.
func TestNobodyThere(t *testing.T) {
	_, err := open(t, server(t), "C:/tools/iotax.exe")
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "is not recognized") || !strings.Contains(e.Hint, "agent:") {
		t.Errorf("got %v", err)
	}
}

// A command ends when the connection of its caller ends.
func TestEndsWithTheConnection(t *testing.T) {
	s := server(t, "sleep")
	m := mustOpen(t, s, "iotax")
	failed := make(chan error, 1)
	go func() {
		_, err := iotax.Output(context.Background(), m, "sleep", "571")
		failed <- err
	}()
	alive := func() bool {
		out, err := exec.Command("pgrep", "-f", "^sleep 571$").Output()
		return err == nil && len(out) > 0
	}
	wait := func(want bool) bool {
		for range 1000 {
			if alive() == want {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	}
	if !wait(true) {
		t.Fatal("it does not begin")
	}
	s.Drop()
	if !wait(false) {
		t.Error("it goes on")
	}
	if err := <-failed; err == nil {
		t.Error("no error")
	}
	_ = m.Close(context.Background())
}

// More commands can run at the same time than an SSH server allows sessions per connection, even if one caller does
// not read the output of its command.
func TestManyCommands(t *testing.T) {
	m := mustOpen(t, server(t, "cat", "yes", "true"), "iotax")
	defer end(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	stuck, release := make(chan error, 1), make(chan struct{})
	go func() { stuck <- m.Run(ctx, &iotax.Cmd{Args: []string{"yes"}, Stdout: blocked(release)}) }()
	var all sync.WaitGroup
	here := make(chan struct{}) // closed when all writers of input have started
	var begun atomic.Int32
	for i := range 30 {
		all.Go(func() {
			in, w := io.Pipe()
			go func() {
				if begun.Add(1) == 30 {
					close(here)
				}
				<-here
				fmt.Fprintln(w, i)
				w.Close()
			}()
			var out strings.Builder
			if err := m.Run(t.Context(), &iotax.Cmd{Args: []string{"cat"}, Stdin: in, Stdout: &out}); err != nil || out.String() != fmt.Sprintln(i) {
				t.Errorf("command %d: %q, %v", i, out.String(), err)
			}
		})
	}
	all.Wait()
	close(release)
	cancel()
	if err := <-stuck; !errors.Is(err, context.Canceled) {
		t.Errorf("the command that was canceled: %v", err)
	}
}

// blocked is a writer whose Write returns only after the channel is closed.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) { <-b; return len(p), nil }

// Canceling the context ends an agent whose input stays open.
func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, w := io.Pipe()
	defer w.Close()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- agent.Serve(ctx, host.Local(), in, said) }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNoShell prepares a directory and runs a fio job on a host that has only the programs iotax and fio.
func TestNoShell(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := mustOpen(t, server(t, "fio"), "iotax")
	defer end(t, m)
	if _, err := iotax.Output(ctx, m, "ls"); err == nil || !strings.Contains(err.Error(), "127") {
		t.Fatalf("there is an ls: %v", err)
	}
	base := filepath.Join(t.TempDir(), "not", "yet")
	v, err := volume.Prepare(ctx, plan.Target{Name: "far", Kind: "dir", Spec: &volume.DirSpec{Path: base, Create: true}}, volume.Env{Host: host.Local(), ID: "t0", Need: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	place, err := v.Attach(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(place.Path, ".iotax")); err != nil {
		t.Errorf("the place %s is not marked: %v", place.Path, err)
	}
	w, err := workload.New(plan.Workload{Name: "read", Kind: "fio", Spec: &fiojob.Fio{Command: "fio --name=read --rw=randread --bs=4k --size=1m --ioengine=psync"}}, workload.Env{CacheDir: t.TempDir(), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	target := &iotax.Target{Name: "far", Machine: m, Place: place}
	if err := w.Check(ctx, target); err != nil {
		t.Fatal(err)
	}
	if err := w.Prepare(ctx, target); err != nil {
		t.Fatal(err)
	}
	out := &iotax.Trial{Length: 300 * time.Millisecond, Seed: 1, Facts: map[string]string{}}
	if err := w.Run(ctx, target, out); err != nil {
		t.Fatal(err)
	}
	if v, ok := out.Value("read.iops"); !ok || v.Value <= 0 {
		t.Errorf("read.iops %v", v)
	}
	if facts, err := probe.Environment(ctx, m); err != nil || facts["os"] == "" || facts["cpu.count"] == "" {
		t.Errorf("environment %v, %v", facts, err)
	}
	if err := errors.Join(w.Cleanup(ctx, target), v.Detach(ctx), v.Close(ctx)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(base)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", filepath.Dir(base), err)
	}
}
