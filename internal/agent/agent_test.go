//go:build unix

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// This test program also acts as the agent that is copied to other machines.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}

type question struct {
	Word string
	N    *int
}

type none struct{}

var (
	repeat = agent.New("test repeat", func(_ context.Context, q question) (string, error) { return strings.Repeat(q.Word, *q.N), nil })
	id     = agent.New("test id", func(context.Context, none) (int, error) { return os.Getpid(), nil })
	size   = agent.New("test size", func(_ context.Context, path string) (int64, error) {
		st, err := os.Stat(path)
		if err != nil {
			return 0, &iotax.Error{Op: "look at", On: path, Err: err, Hint: "make it"}
		}
		return st.Size(), nil
	})
	plain = agent.New("test plain", func(context.Context, none) (none, error) {
		return none{}, fmt.Errorf("behind it: %w", &iotax.ExitError{Args: []string{"true"}, Code: 3, Stderr: "no"})
	})
	nothing = agent.New("test nothing", func(context.Context, none) (map[string]string, error) { return nil, nil })
	// linger makes a file, waits until its context is done, removes the file, and returns the cause.
	linger = agent.New("test linger", func(ctx context.Context, path string) (none, error) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return none{}, err
		}
		<-ctx.Done()
		return none{}, errors.Join(os.Remove(path), context.Cause(ctx))
	})
	// upper returns the first bytes of its stream, at most limit, in upper case.
	upper = agent.NewTaker("test upper", func(_ context.Context, limit int64, from io.Reader) (string, error) {
		text, err := io.ReadAll(io.LimitReader(from, limit))
		return string(bytes.ToUpper(text)), err
	})
	// copied writes its stream to a file and returns the number of bytes.
	copied = agent.NewTaker("test copied", func(_ context.Context, path string, from io.Reader) (int64, error) {
		f, err := os.Create(path)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(f, from)
		return n, errors.Join(err, f.Close())
	})
	// child runs a command and kills it when the context is done.
	child = agent.New("test child", func(ctx context.Context, args []string) (none, error) {
		return none{}, exec.CommandContext(ctx, args[0], args[1:]...).Run()
	})
)

// far presents this host as another machine, whose agent is a separate process.
type far struct {
	iotax.Machine
	agent.Link
	env  []string
	mu   sync.Mutex
	runs int
}

func (f *far) Caps() iotax.MachineCaps { return iotax.MachineCaps{Agent: &f.Link} }
func (*far) String() string            { return "far" }

func (f *far) Run(ctx context.Context, c *iotax.Cmd) error {
	f.mu.Lock()
	f.runs++
	f.mu.Unlock()
	with := *c
	with.Env = append(f.env, c.Env...)
	return f.Machine.Run(ctx, &with)
}

func newFar(t *testing.T, env ...string) (f *far, cache string) {
	t.Helper()
	cache = t.TempDir()
	f = &far{Machine: host.Local(), env: append([]string{"XDG_CACHE_HOME=" + cache}, env...)}
	t.Cleanup(func() { f.Hangup(context.Background()) })
	return f, cache
}

func TestCall(t *testing.T) {
	f, cache := newFar(t)
	n := 3
	for _, m := range []iotax.Machine{host.Local(), f} {
		if got, err := repeat.On(t.Context(), m, question{"ab", &n}); got != "ababab" || err != nil {
			t.Errorf("%v: %q, %v", m, got, err)
		}
		if got, err := nothing.On(t.Context(), m, none{}); len(got) > 0 || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	here, _ := id.On(t.Context(), host.Local(), none{})
	there, err := id.On(t.Context(), f, none{})
	if err != nil || here != os.Getpid() || there == here {
		t.Errorf("processes %d and %d: %v", here, there, err)
	}
	if f.runs != 1 {
		t.Errorf("%d commands", f.runs)
	}
	copies, _ := filepath.Glob(cache + "/iotax/*")
	if len(copies) != 1 {
		t.Errorf("copies %q", copies)
	}
	// A new session reuses the copy.
	f.Hangup(t.Context())
	before, _ := os.Stat(copies[0])
	if _, err := id.On(t.Context(), f, none{}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(copies[0]); err != nil || !os.SameFile(before, after) || f.runs != 2 {
		t.Errorf("copied again: %v", err)
	}
	if p, err := agent.Program(t.Context(), f); err != nil || p != copies[0] {
		t.Errorf("program %q, %v", p, err)
	}
}

type linkless struct{ iotax.Machine }

func (linkless) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

// A machine without a link gets a new session for each call.
func TestWithoutLink(t *testing.T) {
	f, _ := newFar(t)
	m := linkless{f}
	for range 2 {
		if p, err := id.On(t.Context(), m, none{}); err != nil || p == os.Getpid() {
			t.Errorf("process %d, %v", p, err)
		}
	}
	if f.runs != 2 {
		t.Errorf("%d commands", f.runs)
	}
}

func TestErrors(t *testing.T) {
	f, _ := newFar(t)
	for _, m := range []iotax.Machine{host.Local(), f} {
		_, err := size.On(t.Context(), m, "/nonexistent/file")
		var e *iotax.Error
		if !errors.As(err, &e) || e.Op != "look at" || e.On != "/nonexistent/file" || e.Hint != "make it" || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v: %#v", m, err)
		}
		if want := "look at /nonexistent/file: stat /nonexistent/file: no such file or directory\n  hint: make it"; fmt.Sprint(err) != want {
			t.Errorf("%v: %v", m, err)
		}
		_, err = plain.On(t.Context(), m, none{})
		var exit *iotax.ExitError
		if !errors.As(err, &exit) || exit.Code != 3 || exit.Stderr != "no" || !strings.HasPrefix(err.Error(), "behind it: ") {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// appears waits until the file exists if want is true, or until it no longer exists if want is false.
func appears(t *testing.T, path string, want bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); (err == nil) == want {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: want it there: %v", path, want)
		}
	}
}

func TestCancel(t *testing.T) {
	f, cache := newFar(t)
	mark := filepath.Join(cache, "mark")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		appears(t, mark, true)
		cancel(why)
	}()
	if _, err := linger.On(ctx, f, mark); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	appears(t, mark, false) // linger removes the file when it ends
	if _, err := id.On(t.Context(), f, none{}); err != nil || f.runs != 1 {
		t.Errorf("the session does not go on: %v, %d commands", err, f.runs)
	}
}

func TestAtOnce(t *testing.T) {
	f, cache := newFar(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { _, _ = linger.On(ctx, f, fmt.Sprint(cache, "/", i)) })
	}
	for i := range 20 {
		appears(t, fmt.Sprint(cache, "/", i), true)
	}
	if f.runs != 1 {
		t.Errorf("%d commands", f.runs)
	}
	cancel()
	all.Wait()
}

func TestKilled(t *testing.T) {
	f, cache := newFar(t)
	pid, err := id.On(t.Context(), f, none{})
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(cache, "mark")
	failed := make(chan error)
	go func() {
		_, err := linger.On(context.Background(), f, mark)
		failed <- err
	}()
	appears(t, mark, true)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the agent is gone") || !strings.Contains(err.Error(), "exit status 137") {
		t.Errorf("got %v", err)
	}
	if again, err := id.On(t.Context(), f, none{}); err != nil || again == pid {
		t.Errorf("process %d, %v", again, err)
	}
}

// When its input ends, the agent ends its functions and their commands.
func TestInputEnds(t *testing.T) {
	in, w := io.Pipe()
	r, out := io.Pipe()
	ended := make(chan error, 1)
	cmd := exec.Command(os.Args[0], strings.Fields(agent.Command)...)
	cmd.Stdin, cmd.Stdout = in, out
	go func() {
		ended <- cmd.Run()
		out.Close()
	}()
	s, err := agent.Meet(r, w, w.Close)
	if err != nil {
		t.Fatal(err)
	}
	f, cache := newFar(t)
	f.Start = func(context.Context) (*agent.Session, error) { return s, nil }
	mark := filepath.Join(cache, "mark")
	go func() { _, _ = linger.On(context.Background(), f, mark) }()
	pid := filepath.Join(cache, "pid")
	go func() {
		_, _ = child.On(context.Background(), f, []string{"sh", "-c", "echo $$ >$0.part; mv $0.part $0; exec sleep 1000", pid})
	}()
	appears(t, mark, true)
	appears(t, pid, true)
	w.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	appears(t, mark, false)
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	appears(t, "/proc/"+strings.TrimSpace(string(text)), false)
}

// A call fails with a hint if the machine cannot run the agent, or if the program is not an agent of this version.
func TestRefused(t *testing.T) {
	tools := t.TempDir()
	tool := func(name, text string) {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tool("uname", `[ "$1" = -s ] && echo Linux || echo ${MACHINE:-$(/bin/uname -m)}`)
	tool("df", `echo "f 1 2 ${FREE:-999999999} 5 /"`)
	tool("head", `if [ -n "$SHORT" ]; then dd bs=1000 count=1 2>/dev/null; else exec /usr/bin/head "$@"; fi`)
	path := "PATH=" + tools + ":" + os.Getenv("PATH")
	for _, c := range []struct {
		name, want string
		env        []string
	}{
		{"other architecture", "it runs Linux/riscv64, and this iotax has agents for linux/", []string{"MACHINE=riscv64"}},
		{"full disk", "no directory of this user may run programs and holds", []string{"FREE=10"}},
		{"short copy", "bytes of", []string{"SHORT=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, cache := newFar(t, append(c.env, path)...)
			_, err := id.On(t.Context(), f, none{})
			var e *iotax.Error
			if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if left, _ := filepath.Glob(cache + "/iotax/.*iotax*"); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
	t.Run("other hash", func(t *testing.T) {
		f, cache := newFar(t)
		if _, err := id.On(t.Context(), f, none{}); err != nil {
			t.Fatal(err)
		}
		f.Hangup(t.Context())
		copies, _ := filepath.Glob(cache + "/iotax/iotax-*")
		for _, text := range []string{"not a program", "#!/bin/sh\necho hello\n", "#!/bin/sh\necho iotax agent 1 linux/amd64\n"} {
			if err := os.Remove(copies[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copies[0], []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := id.On(t.Context(), f, none{}); err == nil || !strings.Contains(err.Error(), "hint:") {
				t.Errorf("%q: %v", text, err)
			} else {
				t.Log(err)
			}
		}
	})
}

// The agent's start fails if the machine prints nothing within Patience.
func TestSilent(t *testing.T) {
	f, _ := newFar(t)
	f.Patience = 50 * time.Millisecond
	m := &silent{f}
	if _, err := id.On(t.Context(), m, none{}); err == nil || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Errorf("got %v", err)
	}
}

type silent struct{ *far }

func (s *silent) Run(ctx context.Context, _ *iotax.Cmd) error {
	<-ctx.Done()
	return ctx.Err()
}

// A copy that is damaged in transit is detected and removed.
func TestDamaged(t *testing.T) {
	f, cache := newFar(t)
	m := &damaging{far: f}
	_, err := id.On(t.Context(), m, none{})
	if err == nil || !strings.Contains(err.Error(), "another SHA-256") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(cache + "/iotax/*iotax*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

type damaging struct{ *far }

func (d *damaging) Run(ctx context.Context, c *iotax.Cmd) error {
	with := *c
	with.Stdin = damage{c.Stdin}
	return d.far.Run(ctx, &with)
}

type damage struct{ io.Reader }

func (d damage) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	copy(p[:n], bytes.ToUpper(p[:n]))
	return n, err
}

func TestDuplicate(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	agent.New("test id", func(context.Context, none) (int, error) { return 0, nil })
}

// A Taker's function can read the complete stream. If reading the stream fails, the call returns the error.
func TestTaker(t *testing.T) {
	f, cache := newFar(t)
	for _, m := range []iotax.Machine{host.Local(), f} {
		if got, err := upper.On(t.Context(), m, 100, strings.NewReader("hello")); got != "HELLO" || err != nil {
			t.Errorf("%v: %q, %v", m, got, err)
		}
		if got, err := upper.On(t.Context(), m, 100, strings.NewReader("")); got != "" || err != nil {
			t.Errorf("%v: %q, %v", m, got, err)
		}
		// The stream is larger than any window or buffer, and the function reads only its start.
		if got, err := upper.On(t.Context(), m, 3, io.LimitReader(endless{}, 1<<30)); got != "XXX" || err != nil {
			t.Errorf("%v: %q, %v", m, got, err)
		}
		path := filepath.Join(cache, "copy")
		if n, err := copied.On(t.Context(), m, path, io.LimitReader(endless{}, 100<<20)); n != 100<<20 || err != nil {
			t.Errorf("%v: %d, %v", m, n, err)
		}
		broken := errors.New("the disk is damaged")
		if _, err := upper.On(t.Context(), m, 100, io.MultiReader(strings.NewReader("hello"), failing{broken})); !errors.Is(err, broken) {
			t.Errorf("%v: %v", m, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer r.Close()
	path := filepath.Join(cache, "half")
	go func() {
		_, _ = w.Write([]byte("half"))
		appears(t, path, true)
		cancel()
	}()
	if _, err := copied.On(ctx, f, path, r); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if f.runs != 1 {
		t.Errorf("%d commands", f.runs)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

func TestAlone(t *testing.T) {
	f, _ := newFar(t)
	session, err := id.On(t.Context(), f, none{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []iotax.Machine{host.Local(), f} {
		pid, err := id.Alone(t.Context(), m, none{})
		if err != nil || pid == os.Getpid() || pid == session {
			t.Errorf("%v: process %d, %v", m, pid, err)
		}
		appears(t, fmt.Sprint("/proc/", pid), false)
	}
	var exit *iotax.ExitError
	if _, err := plain.Alone(t.Context(), host.Local(), none{}); !errors.As(err, &exit) {
		t.Errorf("got %v", err)
	}
	if again, err := id.On(t.Context(), f, none{}); err != nil || again != session {
		t.Errorf("the session of the machine: process %d, %v", again, err)
	}
}

// Each side of a connection reads EOF when the other side stops sending.
func TestDial(t *testing.T) {
	f, cache := newFar(t)
	path := filepath.Join(cache, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "welcome ") // the server sends first
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(bytes.ToUpper(text))
			conn.Close()
		}
	}()
	for _, m := range []iotax.Machine{host.Local(), f} {
		c, err := agent.Dial(t.Context(), m, "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if text, err := io.ReadAll(c); string(text) != "welcome HELLO" || err != nil {
			t.Errorf("%v: %q, %v", m, text, err)
		}
		c.Close()
		if _, err := agent.Dial(t.Context(), m, "unix", path+"-not"); err == nil || !strings.Contains(err.Error(), path+"-not") {
			t.Errorf("%v: nothing listens: %v", m, err)
		}
	}
}

// When a new copy is made, copies of other versions are removed if nothing has started them for a week.
func TestOldCopies(t *testing.T) {
	f, cache := newFar(t)
	dir := filepath.Join(cache, "iotax")
	if err := os.MkdirAll(filepath.Join(dir, "fio-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-8 * 24 * time.Hour)
	for name, at := range map[string]time.Time{"iotax-old": old, ".iotax.123": old, "iotax-other": time.Now(), "fio-1/fio": old} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o700), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := id.On(t.Context(), f, none{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"iotax-old": false, ".iotax.123": false, "iotax-other": true, "fio-1/fio": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: want it there: %v", name, want)
		}
	}
	// Starting the copy updates its modification time.
	mine, _ := filepath.Glob(dir + "/iotax-????????????????????*")
	if len(mine) != 1 {
		t.Fatalf("copies %q", mine)
	}
	f.Hangup(t.Context())
	if err := os.Chtimes(mine[0], old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := id.On(t.Context(), f, none{}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(mine[0]); err != nil || time.Since(st.ModTime()) > time.Hour {
		t.Errorf("the copy was not touched: %v", err)
	}
}
