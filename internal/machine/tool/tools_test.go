//go:build linux

package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// opened opens a machine of kind k through its stand-in. At the end of the test, it checks that closing the machine
// removed its record.
func opened(t *testing.T, k kind.Kind, spec plan.Spec) (iotax.Machine, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	work := t.TempDir()
	m, err := k.Open(ctx, spec, kind.Options{Name: "a name", WorkDir: work, Log: t.Logf})
	if err == nil {
		t.Cleanup(func() { // runs after the machine is closed
			if notes, _ := filepath.Glob(work + "/made-*"); len(notes) > 0 {
				t.Errorf("noted for ever: %v", notes)
			}
		})
	}
	return m, err
}

func mustOpen(t *testing.T, k kind.Kind, spec plan.Spec) iotax.Machine {
	t.Helper()
	m, err := opened(t, k, spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// suite runs the common tests of all machine kinds, and returns after the machines are closed. Only kind lima gets all
// tests, because kind wsl runs commands as kind lima does, and kind tart as kind ssh does.
func suite(t *testing.T, brief bool, open func(t *testing.T) iotax.Machine) {
	t.Helper()
	t.Run("suite", func(t *testing.T) { machinetest.Run(t, open, machinetest.Options{Patience: time.Minute, Brief: brief}) })
}

func TestLima(t *testing.T) {
	long.Test(t)
	s := standIn(t)
	suite(t, false, func(t *testing.T) iotax.Machine {
		m := mustOpen(t, LimaKind, &Lima{Template: "template://debian", VMType: "qemu", MountType: "9p", Mounts: []string{"/srv/a"}, CPUs: 2, Memory: 1536 << 20})
		if b := m.Caps().Boot; len(b) != 2 || b[1].Name != "ready" || b[1].At <= b[0].At {
			t.Errorf("boot %v", b)
		}
		if f := m.Caps().Facts; f["lima.version"] != "limactl version 1.2.1" || f["lima.mount_type"] != "9p" || !strings.HasPrefix(f["lima.instance"], "iotax-") {
			t.Errorf("facts %v", f)
		}
		return m
	})
	s.left(t)
	calls := s.calls(t)
	if want := " --vm-type=qemu --mount-type=9p --mount=/srv/a:w --cpus=2 --memory=1.5 template://debian\n"; !strings.Contains(calls, want) {
		t.Errorf("no%sin\n%s", want, calls[:min(len(calls), 2000)])
	}
}

// iotax uses an existing instance as it is, and does not delete it.
func TestLimaInstance(t *testing.T) {
	s := standIn(t)
	_, err := opened(t, LimaKind, &Lima{Instance: "mine"})
	machinetest.WantHint(t, err, "no instance has this name", "limactl list")
	if err := s.create("mine"); err != nil {
		t.Fatal(err)
	}
	_, err = opened(t, LimaKind, &Lima{Instance: "mine"})
	machinetest.WantHint(t, err, `"Stopped"`, "limactl start mine")
	if err := s.start("mine"); err != nil {
		t.Fatal(err)
	}
	defer s.stop("mine")
	m := mustOpen(t, LimaKind, &Lima{Instance: "mine"})
	if m.Caps().Boot != nil {
		t.Error("it claims to be made for the run")
	}
	if out, err := iotax.Output(t.Context(), m, "sh", "-c", "id -u; pwd"); err != nil || string(out) != fmt.Sprintf("%d\n/\n", os.Getuid()) {
		t.Errorf("it said %q, %v", out, err)
	}
	// If the instance ends, Run returns an error from the machine, not an exit status of the command.
	if err := s.stop("mine"); err != nil {
		t.Fatal(err)
	}
	err = m.Run(t.Context(), iotax.Command("true"))
	var exit *iotax.ExitError
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "Stopped") {
		t.Errorf("a command on an instance that was stopped: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.exists("mine"); err != nil {
		t.Error(err)
	}
}

func TestWSL(t *testing.T) {
	s := standIn(t)
	if err := errors.Join(s.create("Debian"), s.start("Debian")); err != nil {
		t.Fatal(err)
	}
	defer s.stop("Debian")
	suite(t, true, func(t *testing.T) iotax.Machine {
		m := mustOpen(t, WSLKind, &WSL{Distribution: "Debian", User: "root"})
		if f := m.Caps().Facts; f["wsl.kernel"] == "" {
			t.Errorf("facts %v", f)
		}
		return m
	})
	_, err := opened(t, WSLKind, &WSL{Distribution: "Gentoo"})
	machinetest.WantHint(t, err, "There is no distribution with the supplied name.", "wsl.exe --list")
}

func TestTart(t *testing.T) {
	const ip = "127.88.0.22"
	if os.Geteuid() != 0 {
		t.Skip("needs root for port 22 of a loopback address")
	}
	s := standIn(t)
	t.Setenv("STANDIN_IP", ip)
	suite(t, true, func(t *testing.T) iotax.Machine {
		// The stand-in makes the clone's key. Copy the key to the spec's path as soon as it exists.
		key := filepath.Join(t.TempDir(), "key")
		go func() {
			for range 3000 {
				if all, _ := filepath.Glob(filepath.Join(s.dir, "iotax-*", "key")); len(all) == 1 {
					if b, err := os.ReadFile(all[0]); err == nil && len(b) > 0 {
						os.WriteFile(key, b, 0o600)
						return
					}
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		m := mustOpen(t, TartKind, &Tart{Image: "ghcr.io/someone/image:latest", User: "root", Identity: key, RootDiskOpts: "sync=none,caching=cached", CPUs: 2, Memory: 2 << 30, Dirs: []string{"work:/srv"}})
		if f := m.Caps().Facts; f["tart.root_disk_opts"] != "sync=none,caching=cached" || f["tart.version"] != "2.28.0" {
			t.Errorf("facts %v", f)
		}
		if got := m.Caps().Weakens("/var/tmp", "ext4"); got != iotax.FlushIgnored {
			t.Errorf("with sync=none its disk is %s", got)
		}
		return m
	})
	s.left(t)
	calls := s.calls(t)
	for _, want := range []string{"tart clone ghcr.io/someone/image:latest iotax-", " --cpu 2 --memory 2048\n",
		"tart run --no-graphics --root-disk-opts=sync=none,caching=cached --dir=work:/srv iotax-", "tart ip --wait 300 iotax-", "tart stop --timeout 10 iotax-", "tart delete iotax-"} {
		if !strings.Contains(calls, want) {
			t.Errorf("no %q in\n%s", want, calls)
		}
	}
}

// leftover.Find finds an instance of a crashed run by its record in that run's directory. The record remains until the
// instance is removed. Other instances stay.
func TestLeftInstances(t *testing.T) {
	s := standIn(t)
	// The record is written before the instance is made. Here, limactl can neither make nor remove the instance, so the
	// record remains.
	work := t.TempDir()
	if _, err := LimaKind.Open(t.Context(), &Lima{Template: "none"}, kind.Options{WorkDir: work}); err == nil {
		t.Fatal("a template that is none makes an instance")
	}
	if notes, _ := filepath.Glob(work + "/made-lima-iotax-*"); len(notes) != 1 {
		t.Errorf("notes: %v", notes)
	}

	base := t.TempDir()
	dir := base + "/iotax-died"
	l := leftover.Label{Run: "run-" + filepath.Base(base), Runner: leftover.Self()}
	l.Runner.Start++ // the runner counts as dead
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/"+leftover.Marker, []byte(l.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, note := range map[string]keeper{"iotax-0a": limas, "iotax-0b": tarts, "iotax-mine": {}} {
		if err := s.create(name); err != nil {
			t.Fatal(err)
		}
		if program := map[string]string{"lima": "limactl", "tart": "tart"}[note.kind]; program != "" {
			if _, err := note.note(dir, tool{program: program}, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	find := func() (items []leftover.Item) {
		all, err := leftover.Find(t.Context(), leftover.Place{Machine: host.Local(), Dirs: []string{base}, Also: Leftovers()})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			if i.Label == l {
				items = append(items, i)
			}
		}
		return items
	}
	items := find()
	if len(items) != 3 || items[0].Kind != "Lima instance" || items[0].Name != "iotax-0a" || items[1].Kind != "Tart machine" || items[1].Name != "iotax-0b" || items[2].Kind != "directory" {
		t.Fatalf("found %+v", items)
	}
	if err := items[2].Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "made-") {
		t.Errorf("the notes went before the instances: %v", err)
	}
	// Remove works with other values of LIMA_HOME, TART_HOME and PATH. It fails while the directory of the instances is
	// missing.
	t.Setenv("LIMA_HOME", t.TempDir())
	t.Setenv("TART_HOME", t.TempDir())
	t.Setenv("PATH", "/usr/bin:/bin")
	if err := os.Rename(s.dir, s.dir+".away"); err != nil {
		t.Fatal(err)
	}
	machinetest.WantHint(t, items[0].Remove(t.Context()), "no such file", "LIMA_HOME="+s.dir)
	if err := os.Rename(s.dir+".away", s.dir); err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if err := i.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if items := find(); len(items) > 0 || s.exists("iotax-0a") == nil || s.exists("iotax-0b") == nil || s.exists("iotax-mine") != nil {
		t.Errorf("left: %+v; %s", items, s.calls(t))
	}
}

// The error for a missing tool contains a hint. The error for an invalid spec names the field.
func TestToolsMissing(t *testing.T) {
	for _, c := range []struct {
		kind kind.Kind
		spec plan.Spec
		hint string
	}{
		{LimaKind, LimaKind.New(), "lima-vm.io"}, {TartKind, &Tart{Image: "x", User: "admin"}, "brew install"}, {WSLKind, WSLKind.New(), "wsl --install"},
	} {
		if _, err := exec.LookPath(map[string]string{"lima": "limactl", "tart": "tart", "wsl": "wsl.exe"}[c.kind.Name]); err == nil {
			continue
		}
		_, err := opened(t, c.kind, c.spec)
		machinetest.WantHint(t, err, "executable file not found", c.hint)
	}
	there := LimaKind.New().(*Lima)
	if there.Instance = "a"; there.Validate() != nil {
		t.Errorf("an instance: %v", there.Validate())
	}
	if there.Template = "template://debian"; there.Validate() == nil {
		t.Error("an instance with a template is accepted")
	}
	for field, spec := range map[string]plan.Spec{
		"instance":       &Lima{Instance: "a", VMType: "vz"},
		"template":       &Lima{Template: "-x"},
		"mounts":         &Lima{Template: "x", Mounts: []string{"relative"}},
		"distribution":   &WSL{Distribution: "--shutdown"},
		"image":          &Tart{User: "admin"},
		"root_disk_opts": &Tart{Image: "x", User: "admin", RootDiskOpts: "sync=sometimes"},
		"memory":         &Tart{Image: "x", User: "admin", Memory: 100},
	} {
		var fe *plan.FieldError
		if err := spec.Validate(); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Weakens depends on how the virtual machine handles a flush, and on the host's file system.
func TestToolsWeaken(t *testing.T) {
	for opts, want := range map[string]iotax.Durability{
		"": iotax.Durable, "caching=cached": iotax.Durable, "sync=full": iotax.Durable, "sync=fsync,caching=uncached": iotax.DriveCache,
		"sync=none": iotax.FlushIgnored, "sync=none,sync=full": iotax.FlushIgnored,
	} {
		s := &Tart{Image: "x", User: "admin", RootDiskOpts: opts}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		v := &tartVM{disk: s.durability()}
		if got := v.Weakens("/var/tmp", "ext4"); got != want {
			t.Errorf("%q: %s, want %s", opts, got, want)
		}
		if got := v.Weakens("/mnt/shared", "virtiofs"); got != iotax.DriveCache {
			t.Errorf("%q: a directory of the Mac is %s", opts, got)
		}
	}
	memory, err := os.MkdirTemp("/dev/shm", "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(memory)
	m := &limaInstance{home: memory}
	if got := m.Weakens("/var/tmp", "ext4"); got != iotax.Volatile {
		t.Errorf("an instance in memory: %s", got)
	}
	if m.home = t.TempDir(); m.Weakens(memory, "9p") != iotax.Volatile || m.Weakens("/var/tmp", "ext4") != probe.Durability(m.home) {
		t.Errorf("an instance on %s, with a mount in memory: %s, %s", m.home, m.Weakens("/var/tmp", "ext4"), m.Weakens(memory, "9p"))
	}
}

// The machines of this package pass on the capabilities of the machines that they wrap.
func TestCapsKept(t *testing.T) {
	x := remote.New(&remote.Exec{Name: "x"}, "")
	machinetest.Keeps(t, &limaMade{limaInstance: &limaInstance{Machine: x}}, x)
	machinetest.Keeps(t, &wslMachine{Machine: x}, x)
	full := named{machinetest.Full{}, "name"}
	machinetest.Keeps(t, full, full.Machine)
	machinetest.Keeps(t, &tartVM{Machine: full, dirs: true}, full, "Perishes", "Facts", "Boot", "Started", "Weakens")
}
