package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
)

// up creates a lab, and removes it when the test ends. If c has no name, the lab gets a unique name.
func up(t *testing.T, c Config) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("t%d", os.Getpid()%1e9)
	}
	l, err := Up(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(context.Background(), c.Name); err != nil {
			t.Error(err)
		}
		gone(t, l)
	})
	return l
}

// gone fails the test if a namespace, a directory, a mount or the record of l still exists.
func gone(t *testing.T, l *Lab) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(namespaces, prefix(l.Name)+"*"))
	for _, path := range append(left, l.Dir, l.file()) {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left", path)
		}
	}
	if m := mounts(l.Dir); len(m) > 0 {
		t.Errorf("%v are mounted", m)
	}
}

func start(t *testing.T, n Node, args ...string) *exec.Cmd {
	t.Helper()
	line, err := Enter(n, args)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(line[0], line[1:]...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// rate returns the throughput of one TCP stream from a to b in bytes per second. The receiver first discards about as
// much as the buffers on the way hold, and then measures the mean rate of n bytes.
func rate(t *testing.T, a, b Node, n int64) float64 {
	t.Helper()
	inNode := func(node Node, f func() error) error {
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine, so nothing else runs in the namespace
			fd, err := unix.Open(filepath.Join(namespaces, node.Namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWNET)
			}
			if err == nil {
				err = f()
			}
			done <- err
		}()
		return <-done
	}
	var listener net.Listener
	if err := inNode(b, func() (err error) { listener, err = net.Listen("tcp", b.Address+":0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conn net.Conn
	if err := inNode(a, func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const ahead = 4 << 20
	var took time.Duration
	got := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			defer c.Close()
			_, err = io.CopyN(io.Discard, c, ahead)
		}
		began := time.Now()
		if err == nil {
			_, err = io.CopyN(io.Discard, c, n)
		}
		took = time.Since(began)
		got <- err
	}()
	if _, err := io.CopyN(conn, zeroes{}, ahead+n); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	return float64(n) / took.Seconds()
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

// A shaped link reaches its rate in each direction, and does not exceed it. An unshaped link is much faster. On a busy
// machine, two of three attempts may be outside the limits, because a delayed receiver lets tokens accumulate.
func TestRate(t *testing.T) {
	const n = 12 << 20
	l := up(t, Config{Nodes: 2, Rate: 80e6}) // 10 MB/s
	for _, pair := range [][2]Node{{l.Nodes[0], l.Nodes[1]}, {l.Nodes[1], l.Nodes[0]}} {
		var got []float64
		within := func(r float64) bool { return r >= .85 && r <= 1.05 }
		for len(got) < 3 && !slices.ContainsFunc(got, within) {
			got = append(got, rate(t, pair[0], pair[1], n)/l.Rate.BytesPerSecond())
		}
		if !slices.ContainsFunc(got, within) {
			t.Errorf("%s to %s: %.3f of the link's rate", pair[0].Name, pair[1].Name, got)
		}
	}
	free := up(t, Config{Name: "tfree", Nodes: 2})
	if got := rate(t, free.Nodes[0], free.Nodes[1], 4*n); got < 3*l.Rate.BytesPerSecond() {
		t.Errorf("an unshaped link carries %.0f B/s", got)
	}
}

func TestUpAgain(t *testing.T) {
	l := up(t, Config{Nodes: 2, Rate: 1e9})
	note := filepath.Join(l.Nodes[0].Dir, "note")
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Up(t.Context(), Config{Name: l.Name, Nodes: 2, Rate: 1e9})
	if err != nil || len(again.Nodes) != 2 {
		t.Fatal(again, err)
	}
	if _, err := os.Stat(note); err != nil {
		t.Errorf("the lab was made anew: %v", err)
	}
	var e *iotax.Error
	if _, err := Up(t.Context(), Config{Name: l.Name, Nodes: 3, Rate: 1e9}); !errors.As(err, &e) || !strings.Contains(e.Hint, "lab down") {
		t.Errorf("other nodes were taken for the same lab: %v", err)
	}

	// Up recreates a lab that a crash damaged.
	if out, err := exec.Command("ip", "netns", "del", l.Nodes[1].Namespace).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := Look(l); err == nil {
		t.Error("a namespace is gone, and nothing is missing")
	}
	if _, err := Up(t.Context(), Config{Name: l.Name, Nodes: 2, Rate: 1e9}); err != nil {
		t.Fatal(err)
	}
	if err := Look(l); err != nil {
		t.Error(err)
	}
}

// Down also removes a lab that is not recorded, and ends processes that still run in it.
func TestDownAfterCrash(t *testing.T) {
	l := up(t, Config{Nodes: 2})
	c := start(t, l.Nodes[1], "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for len(Processes(l)["node02"]) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(l.file()); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), l.Name); err != nil {
		t.Fatal(err)
	}
	gone(t, l)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("a process of the lab is still there")
	}
	if err := Down(t.Context(), l.Name); err != nil {
		t.Errorf("nothing to remove is an error: %v", err)
	}
}

// After a reboot, only the directory of a lab is left. Up replaces it, even if Config.Dir is not the default.
func TestUpAfterReboot(t *testing.T) {
	c := Config{Nodes: 1, Dir: t.TempDir()}
	l := up(t, c)
	if err := os.Rename(l.Dir, l.Dir+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), l.Name); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.Dir+".kept", l.Dir); err != nil {
		t.Fatal(err)
	}
	up(t, c)
}

func TestOwnFileSystems(t *testing.T) {
	// Even if Config.Dir is a link, Up and Down find the mounts in the lab's directory, and Down unmounts them.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/var/tmp", link); err != nil {
		t.Fatal(err)
	}
	l := up(t, Config{Nodes: 2, Size: 64 << 20, Dir: link})
	if n := len(mounts(l.Dir)); n != 2 {
		t.Errorf("%d file systems are mounted", n)
	}
	for _, n := range l.Nodes {
		var st unix.Statfs_t
		if err := unix.Statfs(n.Dir, &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC || int64(st.Blocks)*st.Bsize > 64<<20 {
			t.Errorf("%s: %v, type %x, %d blocks", n.Dir, err, st.Type, st.Blocks)
		}
	}
	if _, err := Up(t.Context(), Config{Name: "tbig", Nodes: 2, Size: 1 << 50}); err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("file systems larger than the disk: %v", err)
	}
	gone(t, Config{Name: "tbig", Nodes: 2, Dir: defaultDir}.plan(time.Now()))
}

// Up does not use a directory that already exists, and does not remove it.
func TestStrangeDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	base := t.TempDir()
	dir := filepath.Join(base, "iotax-lab-tstrange")
	if err := os.MkdirAll(filepath.Join(dir, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), Config{Name: "tstrange", Nodes: 1, Dir: base}); err == nil {
		t.Error("a directory that was there is taken")
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), "tstrange"); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Name: "a-b"}, "not a name of a lab"},
		{Config{Name: "../../etc"}, "not a name of a lab"},
		{Config{Nodes: 100}, "1 to 99"},
		{Config{Nodes: -1}, "1 to 99"},
		{Config{Size: 1}, "too few"},
		{Config{Dir: "relative"}, "not the full path"},
	} {
		if _, err := Up(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	for _, f := range []func() error{
		func() error { return Down(t.Context(), "../x") },
		func() error { _, err := Get("../x"); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "not a name of a lab") {
			t.Error(err)
		}
	}
	if _, err := Get("tnone"); !errors.Is(err, ErrDown) {
		t.Errorf("a lab that is not up: %v", err)
	}
}

// Without root, Up and Down return an error with a hint.
func TestNeedsRoot(t *testing.T) {
	defer func(f func() int) { euid = f }(euid)
	euid = func() int { return 1000 }
	for _, err := range []error{func() error { _, err := Up(t.Context(), Config{}); return err }(), Down(t.Context(), "tnone")} {
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(e.Err.Error(), "need root") || !strings.Contains(e.Hint, "sudo") {
			t.Errorf("got %v", err)
		}
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]Rate{"384mbit": 384e6, "1gbit": 1e9, "2.5Gbit": 25e8, "100 kbit": 1e5, "none": 0, "1500bit": 1500} {
		r, err := ParseRate(text)
		if err != nil || r != want {
			t.Errorf("%q is %d (%v), want %d", text, r, err, want)
		}
		if back, err := ParseRate(r.String()); err != nil || back != r {
			t.Errorf("%d is written as %q", r, r)
		}
	}
	for _, text := range []string{"", "384", "-1mbit", "1e99gbit", "fast", "0mbit", "10bit", "NaNgbit", "384MiB"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q is %d", text, r)
		}
	}
}

// A signal from the terminal, such as Ctrl-C, must not end a command that removes a lab.
func TestCommandInOwnGroup(t *testing.T) {
	if err := do(t.Context(), "", "sh", "-c", `ps -o pgid= -p $$; test $(ps -o pgid= -p $$) = $$`); err != nil {
		t.Error(err)
	}
}
