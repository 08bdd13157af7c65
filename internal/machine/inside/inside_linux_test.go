package inside

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/vm"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// onHost starts a container on this host. Its place is a temporary directory, which onHost also returns.
func onHost(t *testing.T, s Spec) (iotax.Machine, string) {
	t.Helper()
	dir := t.TempDir()
	m, err := Kind.Open(t.Context(), &s, kind.Options{Name: "box", On: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDir, Path: dir}})
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make namespaces")
	}
}

func output(t *testing.T, m iotax.Machine, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := iotax.Output(ctx, m, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

func end(t *testing.T, m iotax.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestNamespaces runs the brief machine test suite in namespaces of this host. Killing their first process simulates a
// crash.
func TestNamespaces(t *testing.T) {
	needRoot(t)
	dirs := map[iotax.Machine]string{}
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		m, dir := onHost(t, Spec{Engine: namespaces})
		dirs[m] = dir
		return m
	}, machinetest.Options{Brief: true, Kill: func(m iotax.Machine) error {
		return exec.Command("pkill", "-KILL", "-f", "agent enclosed.* "+dirs[m]+"$").Run()
	}})
}

// A container whose image is a directory leaves no files in that directory. Links in the image lead to files of the
// image, not of the host.
func TestDirectoryAsImage(t *testing.T) {
	needRoot(t)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(busybox)
	image := t.TempDir()
	place, perr := os.MkdirTemp("/var/tmp", "iotax-test-") // not below /tmp, where the container has a file system of its own
	if err := errors.Join(err, perr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(place) })
	for _, d := range []string{"bin", "devices", "sys", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(image, d), 0o755))
	}
	if err := errors.Join(err, os.WriteFile(filepath.Join(image, "bin/busybox"), text, 0o755), os.Symlink("busybox", filepath.Join(image, "bin/sh")),
		os.Symlink("/devices", filepath.Join(image, "dev"))); err != nil {
		t.Fatal(err)
	}
	open := func() (iotax.Machine, error) {
		return Kind.Open(t.Context(), &Spec{Engine: namespaces, Image: image}, kind.Options{Name: "box", On: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDir, Path: place}})
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "needs a directory /proc") {
		t.Errorf("an image without /proc: %v", err)
	}
	if err := os.Mkdir(filepath.Join(image, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if out := output(t, m, "cd "+place+" && echo inside >file; test -c /dev/null; echo $?; busybox ls /"); out != "0\nbin\ndev\ndevices\nproc\nsys\ntmp\nvar" {
		t.Errorf("in the container: %s", out)
	}
	end(t, m)
	if b, err := os.ReadFile(filepath.Join(place, "file")); err != nil || string(b) != "inside\n" {
		t.Errorf("the place has %q, %v", b, err)
	}
	out, err := exec.Command("find", image, "-mindepth", "1", "-printf", "%P ").Output()
	if got := strings.Fields(string(out)); err != nil || len(got) != 8 {
		t.Errorf("the image has %q, %v", got, err)
	}
}

// TestEngines runs the brief suite through the command lines of real engines.
func TestEngines(t *testing.T) {
	const image = "localhost/iotax-test:1"
	for name, start := range map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman} {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			e.Load(t, image, false)
			words := strings.Join(e.Words(), " ")
			t.Run("suite", func(t *testing.T) {
				machinetest.Run(t, func(t *testing.T) iotax.Machine {
					m, _ := onHost(t, Spec{Engine: words, Image: image})
					return m
				}, machinetest.Options{Brief: true, Patience: 30 * time.Second})
			})

			m, dir := onHost(t, Spec{Engine: words, Image: image})
			output(t, m, "echo inside >"+dir+"/file")
			if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "inside\n" {
				t.Errorf("the place has %q, %v", b, err)
			}
			if f := m.Caps().Facts; f["container.version"] == "" || f["container.image"] != image {
				t.Errorf("facts %v", f)
			}
			if m.Caps().Forward != nil {
				t.Error("ports are reached in a network of its own")
			}
			end(t, m)
			if left := e.CLI(t, "ps", "-aq"); strings.TrimSpace(left) != "" {
				t.Errorf("left: %s", left)
			}
			_, err := Kind.Open(t.Context(), &Spec{Engine: words, Image: "localhost/none:1", Args: []string{"--pull=never"}},
				kind.Options{On: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDir, Path: dir}})
			if err == nil || !strings.Contains(err.Error(), "none:1") {
				t.Errorf("an image that is nowhere: %v", err)
			}
		})
	}
}

// A container in a guest has its own processes, mounts and host name. Its place is a directory in the guest. Its Caps
// list the processes of the guest's QEMU.
func TestInAGuest(t *testing.T) {
	long.Test(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := vm.Kind.New().(*vm.Spec)
	s.Memory, s.Accel = 256<<20, "tcg"
	shared := t.TempDir()
	g, err := vm.Kind.Open(ctx, s, kind.Options{Name: "guest", CacheDir: guesttest.CacheDir(t), WorkDir: t.TempDir(), Init: guesttest.Init(t),
		Devices: []iotax.Device{{ID: "share", Share: &iotax.Share{Path: shared, Type: "9p", Security: "none"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, g)
	output(t, g, "mkdir -p /mnt/share && mount -t 9p -o trans=virtio,version=9p2000.L share /mnt/share && hostname outside")
	m, err := Kind.Open(ctx, Kind.New(), kind.Options{Name: "box", On: g, Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/mnt/share"}})
	if err != nil {
		t.Fatal(err)
	}
	if iotax.Outside(m) != g {
		t.Error("it is not on the guest")
	}
	if f := m.Caps().Facts; !strings.Contains(f["container.limits"], "no control group") {
		t.Errorf("facts %v", f)
	}
	if len(m.Caps().Processes()["qemu"]) == 0 {
		t.Errorf("served by %v", m.Caps().Processes())
	}
	output(t, m, "echo inside >/mnt/share/file; hostname inside; mkdir /tmp/m; mount -t tmpfs tmpfs /tmp/m")
	if b, err := os.ReadFile(filepath.Join(shared, "file")); err != nil || string(b) != "inside\n" {
		t.Errorf("the place has %q, %v", b, err)
	}
	if name := output(t, g, "hostname"); name != "outside" {
		t.Errorf("the guest is called %s", name)
	}
	if n := output(t, m, "ls -d /proc/[0-9]* | wc -l"); len(n) > 1 {
		t.Errorf("%s processes in the container", n)
	}
	if in, out := output(t, m, "readlink /proc/self/ns/pid /proc/self/ns/mnt"), output(t, g, "readlink /proc/self/ns/pid /proc/self/ns/mnt"); in == out {
		t.Errorf("the namespaces are the guest's: %s", in)
	}
	var fio bytes.Buffer
	if err := m.Run(ctx, &iotax.Cmd{Args: []string{"fio", "--name=x", "--directory=/mnt/share", "--size=64k", "--rw=write", "--ioengine=psync"}, Stdout: &fio}); err != nil || !strings.Contains(fio.String(), "WRITE:") {
		t.Errorf("fio: %v, %s", err, &fio)
	}
	end(t, m)
	if left := output(t, g, "ls -d /tmp/iotax-* 2>/dev/null; grep -c iotax- /proc/mounts; true"); left != "0" {
		t.Errorf("left in the guest: %s", left)
	}
}

// A container's ports can be reached if the container uses the network of its machine.
func TestNetworkShared(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want bool
	}{
		{Spec{Engine: namespaces}, true},
		{Spec{Engine: "podman"}, false},
		{Spec{Engine: "podman", Args: []string{"--cpus=1", "--network=host"}}, true},
		{Spec{Engine: "sudo nerdctl", Args: []string{"--net", "host"}}, true},
		{Spec{Engine: "docker", Args: []string{"--network", "bridge", "--ipc", "host"}}, false},
		{Spec{Engine: "docker", Args: []string{"--network"}}, false},
	} {
		forward := (&container{Machine: remote.New(&remote.Exec{Name: "box"}, ""), on: host.Local(), network: c.spec.sharesNetwork()}).Caps().Forward
		got := forward != nil
		if got != c.want {
			t.Errorf("%v %v: %v", c.spec.Engine, c.spec.Args, got)
		}
		if got {
			if addr, err := forward(t.Context(), 80); err != nil || addr != "127.0.0.1:80" {
				t.Errorf("%v: %s, %v", c.spec.Args, addr, err)
			}
		}
	}
}

// If a container cannot be started, the error contains the cause and a hint.
func TestRefused(t *testing.T) {
	place := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	for what, c := range map[string]struct {
		place iotax.Place
		spec  Spec
		want  string
	}{
		"no engine":  {place, Spec{Engine: "/nonexistent/engine", Image: "x"}, "/nonexistent/engine"},
		"not a path": {iotax.Place{Kind: iotax.PlaceURL, Path: "nbd://x"}, Spec{Engine: namespaces}, "nbd://x"},
		"no root":    {place, Spec{Engine: namespaces, Image: "/nonexistent/root"}, "/nonexistent/root"},
	} {
		_, err := Kind.Open(t.Context(), &c.spec, kind.Options{On: host.Local(), Place: c.place})
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Caps keeps the machine's capabilities, except for the listed ones.
func TestCapsKept(t *testing.T) {
	changed := []string{"Local", "Outside", "Agent", "Facts", "Boot", "Started", "Restart", "BootFiles", "RunOnConsole", "HostPath", "Home"}
	c := &container{Machine: remote.New(&remote.Exec{Name: "box"}, ""), on: machinetest.Full{}, network: true, remove: []string{"rm"}}
	machinetest.Keeps(t, c, c.on, append(changed, "DeviceBytes")...)
	c.network = false
	machinetest.Keeps(t, c, c.on, append(changed, "DeviceBytes", "HostAddress", "Address", "LinkRate", "Forward")...)
	c.network, c.remove = true, nil
	machinetest.Keeps(t, c, c.on, append(changed, "Perishes")...)
}
