//go:build linux

package vm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// elsewhere returns a machine whose agent is another process on this host. The agent's cache and temporary files are in
// dir.
func elsewhere(t *testing.T, env ...string) (m iotax.Machine, dir string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.Mkdir(dir+"/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	lives := func(context.Context) error { return nil }
	far := agent.New(&agent.Exec{Name: "elsewhere", Run: agent.Through(host.Local(), append([]string{"env", "XDG_CACHE_HOME=" + dir, "TMPDIR=" + dir + "/tmp"}, env...), lives)}, program)
	t.Cleanup(func() {
		if err := far.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(dir + "/tmp/*"); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	})
	return far, dir
}

// nest opens a guest on the machine `on`.
func nest(t *testing.T, on iotax.Machine, log func(string, ...any), devices ...iotax.Device) (*nested, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := Kind.New().(*Spec)
	emulated(s)
	s.Memory = 256 << 20
	m, err := Kind.Open(ctx, s, kind.Options{Name: "guest", On: on, Devices: devices, CacheDir: guesttest.CacheDir(t), WorkDir: t.TempDir(), Log: log, Init: guesttest.Init(t)})
	if err != nil {
		return nil, err
	}
	return m.(*nested), nil
}

// qemus returns the number of running guests that boot from files in dir.
func qemus(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(string(words), "-kernel\x00"+dir) { // an error means that the process has ended
			n++
		}
	}
	return n
}

// A guest on another machine passes the test suite for machines. Its boot files are copied to the machine only once.
func TestQEMUNested(t *testing.T) {
	long.Test(t)
	on, dir := elsewhere(t)
	copied := 0
	log := func(format string, args ...any) {
		t.Logf(format, args...)
		if strings.HasPrefix(format, "copying %s for guests") {
			copied++
		}
	}
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		path := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(path, make([]byte, 32<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := nest(t, on, log, iotax.Device{ID: "data", Disk: &iotax.Disk{Path: path, Hot: true}})
		if err != nil {
			t.Fatal(err)
		}
		caps := g.Caps()
		for _, name := range []string{"init", "plugged", "ready"} {
			found := false
			for i, p := range caps.Boot {
				found = found || p.Name == name && p.At > 0 && p.At >= caps.Boot[i-1].At
			}
			if !found {
				t.Errorf("no %s in %v", name, caps.Boot)
			}
		}
		if f := caps.Facts; f["on"] != "elsewhere" || f["accel"] != "tcg" || f["qemu"] == "" || f["clocksource"] == "" {
			t.Errorf("facts %v", f)
		}
		return g
	}, machinetest.Options{Brief: true, Kill: func(m iotax.Machine) error { m.(*nested).release.Close(); return nil }})
	if copied != 3 {
		t.Errorf("%d files were copied", copied)
	}
	if left, err := filepath.Glob(dir + "/iotax/guest/.*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// If a nested guest dies, Run returns the reason, and no process remains on the other machine.
func TestQEMUNestedDies(t *testing.T) {
	long.Test(t)
	on, dir := elsewhere(t)
	g, err := nest(t, on, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if n := qemus(t, dir); n != 1 {
		t.Fatalf("%d guests run", n)
	}
	if _, err := iotax.Output(t.Context(), g, "sh", "-c", "echo c >/proc/sysrq-trigger"); err == nil || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("a panic: %v", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := qemus(t, dir); n != 0 {
		t.Errorf("%d guests run after a panic", n)
	}

	// Now the connection to the machine breaks.
	if g, err = nest(t, on, t.Logf); err != nil {
		t.Fatal(err)
	}
	on.(*agent.Machine).Caps().Agent.Hangup(t.Context())
	if _, err := iotax.Output(t.Context(), g, "true"); err == nil || !strings.Contains(err.Error(), "guest") {
		t.Errorf("without its machine: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); qemus(t, dir) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its guest goes on")
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// If the plan names a kernel that this host does not have, Open fails. No files are copied to a machine without QEMU.
func TestNestedRefuses(t *testing.T) {
	on, _ := elsewhere(t)
	s := Kind.New().(*Spec)
	s.Kernel = "/nonexistent/vmlinuz"
	_, err := Kind.Open(t.Context(), s, kind.Options{Name: "guest", On: on, CacheDir: t.TempDir(), WorkDir: t.TempDir(), Init: guesttest.Init(t)})
	if err == nil || !strings.Contains(err.Error(), "open the kernel for guests") {
		t.Errorf("a kernel that does not exist: %v", err)
	}

	bare, dir := elsewhere(t, "PATH=/nonexistent")
	if _, err := nest(t, bare, t.Logf); err == nil || !strings.Contains(err.Error(), "hint: install QEMU: apt install qemu-system-") {
		t.Errorf("without QEMU: %v", err)
	}
	if left, err := filepath.Glob(dir + "/iotax/guest"); err != nil || len(left) > 0 {
		t.Errorf("copied there: %q, %v", left, err)
	}
}

// Another machine, and programs in a guest, may report a boot with no phases or with any number of them.
func TestPhasesWithoutEnd(t *testing.T) {
	facts := map[string]string{"accel": "tcg"}
	for _, r := range []report{{}, {Facts: facts}, {Boot: []iotax.Phase{{Name: "ready"}}}, {Facts: facts, Boot: make([]iotax.Phase, 1000)}} {
		if r.check() == nil {
			t.Errorf("%d phases and %d facts are accepted", len(r.Boot), len(r.Facts))
		}
	}
	b := &booting{spawned: time.Now(), up: make(chan guest.Mark, 1)}
	for range 1000 {
		for _, name := range []string{"init", "network", "init"} {
			b.line(time.Now(), guest.Mark{Name: name}.String())
		}
	}
	var names []string
	for _, p := range b.phases {
		names = append(names, p.Name)
	}
	if want := []string{"kernel", "init", "network"}; !slices.Equal(names, want) {
		t.Errorf("%d phases, want %q", len(names), want)
	}
}
