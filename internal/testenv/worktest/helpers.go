// Package worktest contains helpers for the tests of workloads.
package worktest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/volume"
	"iotax/internal/workload/support"
)

// Cache is the cache directory that all tests of a package share.
var Cache string

// Shared contains the state that all workloads of a run share. All tests of a package use the same value.
var Shared = new(support.Shared)

// RunTests implements TestMain for a package.
func RunTests(m *testing.M) int {
	agent.Main(host.Local())
	var err error
	if Cache, err = os.MkdirTemp("", "iotax-test-cache-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(Cache)
	return m.Run()
}

func Target(m iotax.Machine, dir string) *iotax.Target {
	return &iotax.Target{Name: "here", Machine: m, Place: iotax.Place{Kind: iotax.PlaceDir, Path: dir}, Facts: map[string]string{}}
}

func CtxFor(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// OnDisk returns a temporary directory on a disk. t.TempDir may be in memory.
func OnDisk(t testing.TB) string { return TempIn(t, "/var/tmp") }

func TempIn(t testing.TB, parent string) string {
	t.Helper()
	d, err := os.MkdirTemp(parent, "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

// Elsewhere presents this host as a remote machine with its own environment.
type Elsewhere struct {
	iotax.Machine
	agent.Link
	Name string
	Env  []string
	// Without lists the engines for which fio fails, as on a kernel that does not support them.
	Without []string
	ran     []string
}

func (e *Elsewhere) String() string          { return e.Name }
func (e *Elsewhere) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (e *Elsewhere) Run(ctx context.Context, c *iotax.Cmd) error {
	e.ran = append(e.ran, c.String())
	if i := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--ioengine=") }); i >= 0 && !slices.Contains(c.Args, "--parse-only") &&
		slices.Contains(e.Without, strings.TrimPrefix(c.Args[i], "--ioengine=")) {
		if c.Stderr != nil {
			fmt.Fprintln(c.Stderr, "fio: pid=1, err=38/file:engines/io_uring.c:1, func=io_queue_init, error=Function not implemented")
		}
		return &iotax.ExitError{Args: c.Args, Code: 1}
	}
	d := *c
	d.Env = slices.Concat([]string{"XDG_CACHE_HOME=" + Cache}, e.Env, c.Env) // all tests share one copy of the agent, unless e.Env sets another directory
	return e.Machine.Run(ctx, &d)
}

// Bare returns a machine with the usual tools except leaveOut, and without fio.
func Bare(t *testing.T, name string, leaveOut ...string) *Elsewhere {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range []string{"sh", "cat", "mkdir", "mv", "rm", "chmod", "df", "id", "tail", "tar", "gzip", "uname", "stat", "mktemp", "grep", "hostname", "getconf", "env", "head", "wc", "sha256sum", "touch", "find"} {
		if slices.Contains(leaveOut, tool) {
			continue
		}
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("needs %s", tool)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return &Elsewhere{Machine: host.Local(), Name: name, Env: []string{"PATH=" + bin, "XDG_CACHE_HOME=" + OnDisk(t), "LD_LIBRARY_PATH="}}
}

// Attempt runs all steps of a workload once, as a run does.
func Attempt(t *testing.T, w iotax.Workload, tgt *iotax.Target) (*iotax.Trial, error) {
	t.Helper()
	ctx := CtxFor(t)
	if err := w.Check(ctx, tgt); err != nil {
		return nil, err
	}
	defer func() {
		if err := w.Cleanup(ctx, tgt); err != nil {
			t.Error(err)
		}
	}()
	if err := w.Prepare(ctx, tgt); err != nil {
		return nil, err
	}
	return Again(t, w, tgt)
}

func Again(t *testing.T, w iotax.Workload, tgt *iotax.Target) (*iotax.Trial, error) {
	t.Helper()
	ctx := CtxFor(t)
	out, can := &iotax.Trial{Seed: 7, Facts: map[string]string{}}, w.Caps()
	if can.Limit == 0 {
		out.Length = 300 * time.Millisecond
	}
	if can.Stage != nil {
		if err := can.Stage(ctx, tgt, out); err != nil {
			return out, err
		}
		defer func() {
			if err := can.Unstage(ctx, tgt, out); err != nil {
				t.Error(err)
			}
		}()
	}
	return out, w.Run(ctx, tgt, out)
}

// Made makes a workload of a kind from a spec that the test filled in.
func Made(t testing.TB, k support.Kind, spec plan.Spec) iotax.Workload {
	t.Helper()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := k.New(plan.Workload{Name: "test", Kind: k.Name, Spec: spec}, support.Env{CacheDir: Cache, Shared: Shared, Log: t.Logf, Lodge: Lodge})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Lodge creates a directory on m. Tests use it as the field Lodge of support.Env.
func Lodge(ctx context.Context, m iotax.Machine, l support.Lodging) (string, func(context.Context) error, error) {
	return volume.OwnDir(ctx, m, l.In, l.Need, l.Network, l.Create)
}

// Want checks that a value of a trial is within [lo, hi].
func Want(t *testing.T, out *iotax.Trial, name string, lo, hi float64) {
	t.Helper()
	if v, ok := out.Value(name); !ok || v.Value < lo || v.Value > hi {
		t.Errorf("%s is %g (%v), not from %g to %g", name, v.Value, ok, lo, hi)
	}
}
