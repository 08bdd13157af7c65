//go:build linux

// Package engine starts real container engines for tests. Each engine keeps its state in its own temporary directory.
// The package also makes images with a shell and, optionally, fio.
package engine

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An Engine is a container engine that runs until the test ends.
type Engine struct {
	Name string // docker or podman
	Host string // URL at which it listens, as in DOCKER_HOST
	Dir  string // directory of all its state

	env []string
	cli []string
}

// Docker starts dockerd without a bridge. dockerd ends with the test.
func Docker(t *testing.T) *Engine {
	e := prepare(t, "docker", "dockerd", "containerd", "runc")
	e.cli = []string{"docker", "--host", e.Host}
	e.start(t, exec.Command("dockerd", "--iptables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none",
		"--data-root", e.Dir+"/data", "--exec-root", e.Dir+"/exec", "--pidfile", e.Dir+"/pid", "--host", e.Host,
		// Negative OOM scores need a privilege that test machines may lack.
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--oom-score-adjust=0"))
	return e
}

// Podman starts Podman's Docker-compatible service. The service ends with the test.
func Podman(t *testing.T) *Engine {
	e := prepare(t, "podman", "podman", "conmon", "runc")
	conf := e.Dir + "/containers.conf"
	must(t, os.WriteFile(conf, []byte(`[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
oom_score_adj = 0
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
`), 0o600))
	must(t, os.WriteFile(e.Dir+"/policy.json", []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600))
	e.env = append(os.Environ(), "CONTAINERS_CONF="+conf)
	// crun refuses machines with both cgroup versions. runc accepts them.
	e.cli = []string{"podman", "--root", e.Dir + "/root", "--runroot", e.Dir + "/run", "--tmpdir", e.Dir + "/tmp",
		"--cgroup-manager", "cgroupfs", "--runtime", "runc"}
	e.start(t, exec.Command(e.cli[0], append(e.cli[1:], "system", "service", "--time=0", e.Host)...))
	return e
}

// prepare makes the directory of an engine. It skips the test if this process is not root, or if a tool is missing.
func prepare(t *testing.T, name string, tools ...string) *Engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("starting a container engine needs root")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: scripts/need test", tool)
		}
	}
	dir, err := os.MkdirTemp("", "iotax-"+name+"-")
	must(t, err)
	e := &Engine{Name: name, Dir: dir, Host: "unix://" + dir + "/sock"}
	t.Cleanup(func() {
		unmountBelow(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

// start starts the daemon and waits until it answers. The daemon ends with the test.
func (e *Engine) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(e.Dir + "/log")
	must(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, e.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		if ids := strings.Fields(e.CLI(t, "ps", "-aq")); len(ids) > 0 {
			t.Errorf("containers are left: %v", ids)
			e.CLI(t, append([]string{"rm", "-f"}, ids...)...)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s does not end", e.Name)
			cmd.Process.Kill()
			<-ended
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill child processes that the daemon left
	})
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.Host, "unix://"))
	}}, Timeout: time.Second}
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if r, err := client.Get("http://engine/_ping"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
		default:
			if time.Since(begin) < time.Minute {
				continue
			}
		}
		log, _ := os.ReadFile(e.Dir + "/log")
		t.Fatalf("%s does not answer; its log ends:\n%s", e.Name, log[max(0, len(log)-3000):])
	}
}

// CLI runs the engine's command-line client and returns its output.
func (e *Engine) CLI(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args = append(append([]string(nil), e.cli...), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = e.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v: %s", strings.Join(args, " "), err, &errs)
	}
	return out.String()
}

// unmountBelow removes the mounts that an engine left below dir, latest first.
func unmountBelow(t *testing.T, dir string) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	var points []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	for i := len(points) - 1; i >= 0; i-- {
		if err := syscall.Unmount(points[i], syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", points[i], err)
		}
	}
}

// Load loads an image with the host's busybox into the engine. If `fio` is true, the image also contains fio.
func (e *Engine) Load(t *testing.T, name string, fio bool) {
	t.Helper()
	file := filepath.Join(e.Dir, "image.tar")
	must(t, WriteImage(file, name, Content{Fio: fio}))
	e.CLI(t, "load", "-i", file)
	must(t, os.Remove(file))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// String returns the name of the engine and its URL.
func (e *Engine) String() string { return fmt.Sprintf("%s at %s", e.Name, e.Host) }

// Words returns the start of a command line that connects to the engine. The command line needs no environment
// variables.
func (e *Engine) Words() []string {
	return []string{e.Name, map[string]string{"docker": "--host", "podman": "--url"}[e.Name], e.Host}
}

// CLIFirst returns the first word of CLI's output.
func (e *Engine) CLIFirst(t *testing.T, args ...string) string {
	t.Helper()
	words := strings.Fields(e.CLI(t, args...))
	if len(words) == 0 {
		t.Fatalf("%s prints nothing", strings.Join(args, " "))
	}
	return words[0]
}
