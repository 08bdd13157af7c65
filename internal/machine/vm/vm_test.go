//go:build linux

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	session "iotax/internal/agent"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// The test binary also serves as the agent in images.
func TestMain(m *testing.M) {
	session.Main(host.Local())
	os.Exit(m.Run())
}

// tryGuest boots a guest for t. It returns the guest or the error, and the guest's working directory.
func tryGuest(t *testing.T, ctx context.Context, change func(*Spec), devices ...iotax.Device) (iotax.Machine, string, error) {
	t.Helper()
	s := Kind.New().(*Spec)
	if change != nil {
		change(s)
	}
	work := t.TempDir()
	m, err := Kind.Open(ctx, s, kind.Options{Name: "guest", Devices: devices, CacheDir: guesttest.CacheDir(t), WorkDir: work, Log: t.Logf, Init: guesttest.Init(t)})
	return m, work, err
}

// openGuest boots a guest for t.
func openGuest(t *testing.T, change func(*Spec), devices ...iotax.Device) *machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m, _, err := tryGuest(t, ctx, change, devices...)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*machine)
}

// emulated selects tcg, so that a test does not probe the accelerator.
func emulated(s *Spec) { s.Accel = "tcg" }

func closeGuest(t *testing.T, g *machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}

func guestOut(t *testing.T, m iotax.Machine, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := iotax.Output(ctx, m, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", e.Name())
	}
}

func TestQEMUSuite(t *testing.T) {
	long.Test(t)
	machinetest.Run(t, func(t *testing.T) iotax.Machine { return openGuest(t, emulated) }, machinetest.Options{
		Kill:     func(m iotax.Machine) error { return syscall.Kill(m.(*machine).vm.Pid(), syscall.SIGKILL) },
		Patience: 30 * time.Second,
	})
}

// reach connects from the guest to a port of this host, and from this host to a port of the guest.
func reach(t *testing.T, g *machine) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintln(c, "from the host")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if got := guestOut(t, g, "busybox nc "+g.Caps().HostAddress+" "+port+" </dev/null"); got != "from the host" {
		t.Errorf("the guest read %q", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go iotax.Output(ctx, g, "busybox", "nc", "-l", "-p", "8080", "-e", "busybox", "echo", "from the guest")
	first, err := g.Forward(ctx, 8080)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := g.Forward(ctx, 8080); err != nil || again != first {
		t.Errorf("forwarded to %s, then to %s (%v)", first, again, err)
	}
	var got []byte
	for len(got) == 0 && ctx.Err() == nil { // retry until the guest listens
		if c, err := net.Dial("tcp", first); err == nil {
			got, _ = io.ReadAll(c)
			c.Close()
		}
	}
	if string(got) != "from the guest\n" {
		t.Errorf("the host read %q", got)
	}
}

// private checks that neither other users of this host nor its network can reach the guest's agent.
func private(t *testing.T, g *machine) {
	t.Helper()
	st, err := os.Stat(filepath.Dir(g.vm.Config.Port.Socket))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket: %v, %v", st.Mode(), err)
	}
	if said, err := g.vm.Monitor.Human(t.Context(), "info usernet"); err != nil || strings.Contains(said, "HOST_FORWARD") {
		t.Errorf("%v, %s", err, said)
	}
}

// reaped checks that init waits for orphaned processes, and does not consume the exit status of other processes'
// children.
func reaped(t *testing.T, g *machine) {
	t.Helper()
	got := guestOut(t, g, `sh -c 'sleep 0.1 & echo $!' >/tmp/orphan; for i in 1 2 3 4 5 6 7 8 9; do sh -c 'exit 3'; [ $? = 3 ] || echo lost; done
		read -r p </tmp/orphan; for i in $(seq 100); do [ -e /proc/$p ] || { echo reaped; exit; }; sleep 0.1; done`)
	if got != "reaped" {
		t.Errorf("an orphan in the guest: %q", got)
	}
}

// restart boots a second instance of the guest while the first instance runs.
func restart(t *testing.T, g *machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	type restarted struct {
		m   iotax.Machine
		err error
	}
	done := make(chan restarted, 1)
	go func() {
		m, err := g.Restart(ctx, nil)
		done <- restarted{m, err}
	}()
	// Processes includes the second QEMU during its boot, but not after its end.
	early := 0
	var r restarted
	for booting := true; booting; {
		select {
		case r = <-done:
			booting = false
		case <-time.After(10 * time.Millisecond):
			early = max(early, len(g.Processes()["qemu"]))
		}
	}
	m, err := r.m, r.err
	if err != nil {
		t.Fatal(err)
	}
	if early < 2 || !slices.Contains(g.Processes()["qemu"], m.(*machine).vm.Pid()) {
		t.Errorf("%d processes while it boots, and then %v", early, g.Processes())
	}
	again := m.(*machine)
	if again.vm.Pid() == g.vm.Pid() || len(again.boot) != len(g.boot) || again.String() == g.String() {
		t.Errorf("%s (%d) booted again is %s (%d): %v", g, g.vm.Pid(), again, again.vm.Pid(), again.boot)
	}
	if guestOut(t, again, "cat /proc/sys/kernel/random/boot_id") == guestOut(t, g, "cat /proc/sys/kernel/random/boot_id") {
		t.Error("it is the same boot")
	}
	if err := again.Close(ctx); err != nil {
		t.Error(err)
	}
	if all := g.Processes()["qemu"]; slices.Contains(all, again.vm.Pid()) || !slices.Contains(all, g.vm.Pid()) {
		t.Errorf("processes are %v once %d has gone", all, again.vm.Pid())
	}
	if guestOut(t, g, "echo alive") != "alive" {
		t.Error("the first one did not survive")
	}
	files := g.BootFiles()
	if len(files) != 3 {
		t.Errorf("it boots from %v", files)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

// TestQEMUSmall boots the smallest guest with the accelerator of this host, and checks its facts and functions.
func TestQEMUSmall(t *testing.T) {
	s := Kind.New().(*Spec)
	s.Memory = 256 << 20
	work := t.TempDir()
	m, err := Kind.Open(context.Background(), s, kind.Options{Name: "little", CacheDir: guesttest.CacheDir(t), WorkDir: work, Log: t.Logf, Init: guesttest.Init(t)})
	if err != nil {
		t.Fatal(err)
	}
	g := m.(*machine)
	if m.String() != "little" {
		t.Errorf("its name is %q", m)
	}
	f := g.facts
	for _, k := range []string{"accel", "accel.why", "qemu", "kernel", "kernel.file", "machine", "cpu", "cpus", "memory", "clocksource", "cmdline", "boot"} {
		if f[k] == "" {
			t.Errorf("no fact %s", k)
		}
	}
	if f["memory"] != "256MiB" {
		t.Errorf("memory is %q", f["memory"])
	}
	t.Logf("%v, because %s; boot %v", f["accel"], f["accel.why"], g.boot)
	var names []string
	last := time.Duration(-1)
	for _, p := range g.boot {
		names = append(names, p.Name)
		if p.At < last {
			t.Errorf("phase %s at %v comes before %v", p.Name, p.At, last)
		}
		last = p.At
	}
	if !slices.Equal(names, []string{"start", "kernel", "init", "network", "ready"}) {
		t.Errorf("phases are %v", names)
	}
	ps := g.Processes()
	if len(ps["qemu"]) == 0 || len(ps) != 1 {
		t.Errorf("processes are %v", ps)
	}
	// The memory of the guest must also suffice for fio's file.
	out := guestOut(t, g, "cd /tmp && fio --name=x --size=4m --rw=randread --bs=4k --ioengine=psync --time_based --runtime=1 --output-format=json")
	if iops := fioIOPS(t, out); iops <= 0 {
		t.Errorf("fio did %v IOPS", iops)
	}
	if got := guestOut(t, g, "command -v mkfs.ext4 mount cat && cat /run/iotax/boot"); !strings.Contains(got, "ready") {
		t.Errorf("got %s", got)
	}
	private(t, g)
	reach(t, g)
	reaped(t, g)
	restart(t, g)
	if got := guestOut(t, g, "modprobe loop && modprobe -q fs-overlay && grep -c -e ^loop -e ^overlay /proc/modules"); got != "2" {
		t.Errorf("modprobe: %s", got)
	}
	if err := g.Run(context.Background(), iotax.Command("modprobe", "no-such-thing")); err == nil {
		t.Error("modprobe of nothing succeeded")
	}
	closeGuest(t, g)
	empty(t, work)
}

// fioIOPS returns the read IOPS of the first job in fio's JSON output.
func fioIOPS(t *testing.T, out string) float64 {
	t.Helper()
	var r struct {
		Jobs []struct {
			Error int
			Read  struct{ IOPS float64 }
		}
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r); err != nil || len(r.Jobs) == 0 {
		t.Fatalf("fio: %v\n%s", err, out)
	}
	if r.Jobs[0].Error != 0 {
		t.Fatalf("fio: error %d\n%s", r.Jobs[0].Error, out)
	}
	return r.Jobs[0].Read.IOPS
}

// TestQEMUDevices uses disks and shares of several types in one guest.
func TestQEMUDevices(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	raw := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, bytes.Repeat([]byte(name+"\n"), 8<<20/(len(name)+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, 8<<20); err != nil {
			t.Fatal(err)
		}
		return p
	}
	qcow := filepath.Join(dir, "q,w.qcow2") // a comma is special in QEMU's options
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", qcow, "8M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	share := filepath.Join(dir, "share")
	if err := os.Mkdir(share, 0o755); err != nil {
		t.Fatal(err)
	}
	g := openGuest(t, emulated,
		iotax.Device{ID: "blk", Disk: &iotax.Disk{Path: raw("blk"), Format: "raw", Bus: "virtio-blk", Cache: "none", AIO: "native", IOThread: true}},
		iotax.Device{ID: "scsi", Disk: &iotax.Disk{Path: raw("scsi"), Format: "raw", Bus: "virtio-scsi", Cache: "writeback", AIO: "threads", IOThread: true}},
		iotax.Device{ID: "nvme", Disk: &iotax.Disk{Path: raw("nvme"), Format: "raw", Bus: "nvme", Cache: "unsafe", AIO: "io_uring"}},
		iotax.Device{ID: "qcow", Disk: &iotax.Disk{Path: qcow, Format: "qcow2", Bus: "virtio-blk", Cache: "directsync", AIO: "threads"}},
		iotax.Device{ID: "a-serial-of-20-bytes", Disk: &iotax.Disk{Path: raw("long"), Format: "raw", ReadOnly: true}},
		iotax.Device{ID: "fs", Share: &iotax.Share{Path: share, Type: "virtiofs", Cache: "auto"}},
		iotax.Device{ID: "plan9", Share: &iotax.Share{Path: share, Type: "9p", Security: "mapped-xattr"}},
	)
	defer closeGuest(t, g)
	for _, id := range []string{"virtio-blk", "scsi-scsi", "nvme-nvme", "virtio-qcow", "virtio-a-serial-of-20-bytes"} {
		p := "/dev/disk/by-id/" + id
		bus, serial, _ := strings.Cut(id, "-")
		_ = bus
		if got := guestOut(t, g, "for i in 1 2 3 4 5 6 7 8 9; do [ -b "+p+" ] && break; sleep 0.2; done; blockdev --getsize64 "+p); got != fmt.Sprint(8<<20) {
			t.Errorf("%s has %s bytes", id, got)
		}
		if serial != "qcow" && serial != "a-serial-of-20-bytes" {
			if got := guestOut(t, g, "head -n 1 "+p); got != serial {
				t.Errorf("%s begins with %q", id, got)
			}
		}
		out := guestOut(t, g, "fio --name=x --filename="+p+" --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync --time_based --runtime=0.3 --output-format=json")
		if iops := fioIOPS(t, out); iops <= 0 {
			t.Errorf("%s: %v IOPS", id, iops)
		}
	}
	if err := g.Run(context.Background(), iotax.Command("sh", "-c", "echo x >/dev/disk/by-id/virtio-a-serial-of-20-bytes")); err == nil {
		t.Error("a read-only disk was written to")
	}
	guestOut(t, g, "mkfs.ext4 -q /dev/disk/by-id/virtio-qcow && mkdir /mnt/q && mount -t ext4 /dev/disk/by-id/virtio-qcow /mnt/q && echo hello >/mnt/q/f && umount /mnt/q")
	guestOut(t, g, "mkdir /mnt/fs /mnt/9 && mount -t virtiofs fs /mnt/fs && mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072 plan9 /mnt/9")
	guestOut(t, g, "echo from the guest >/mnt/fs/f && cmp /mnt/fs/f /mnt/9/f")
	if b, err := os.ReadFile(filepath.Join(share, "f")); err != nil || string(b) != "from the guest\n" {
		t.Errorf("the host sees %q, %v", b, err)
	}
	for _, d := range []string{"/mnt/fs", "/mnt/9"} {
		out := guestOut(t, g, "fio --name=x --directory="+d+" --size=1m --rw=randread --bs=4k --ioengine=psync --time_based --runtime=0.3 --output-format=json")
		if iops := fioIOPS(t, out); iops <= 0 {
			t.Errorf("%s: %v IOPS", d, iops)
		}
	}
	ps := g.Processes()
	if len(ps["virtiofsd"]) < 1 || len(ps["qemu"]) < 1 {
		t.Errorf("processes are %v", ps)
	}
	f := g.facts
	if f["virtiofsd"] == "" || !strings.Contains(f["device.blk"], "aio=native") || !strings.Contains(f["device.plan9"], "mapped-xattr") || !strings.Contains(f["device.fs"], "vhost-user-fs") {
		t.Errorf("facts are %v", f)
	}
	all := slices.Concat(ps["virtiofsd"], ps["qemu"])
	closeGuest(t, g)
	gonePids(t, all)
}

// A guest with its root on a disk can write to the root, load modules and run the tools. It detects a disk that was
// hot-plugged during the boot. iotax writes the root again before each boot. After a power cut, the hot-plugged disk
// still contains the guest's files.
func TestQEMURoot(t *testing.T) {
	long.Test(t)
	const rootSize, dataSize = 256 << 20, 32 << 20
	disk := func(size int64) *iotax.Disk {
		path := filepath.Join(t.TempDir(), "disk")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		return &iotax.Disk{Path: path, Format: "raw", Bus: "virtio-blk", Cache: "none", AIO: "threads"}
	}
	root, data := disk(rootSize), disk(dataSize)
	root.Root, data.Hot = rootSize, true
	boot := func() *machine {
		return openGuest(t, emulated, iotax.Device{ID: "root", Disk: root}, iotax.Device{ID: "data", Disk: data})
	}
	const device = "/dev/disk/by-id/virtio-data"
	g := boot()
	if got := guestOut(t, g, `awk '$2 == "/" && $3 == "ext4" { print $1 }' /proc/mounts | tail -n 1`); !strings.HasPrefix(got, "/dev/vd") {
		t.Errorf("the root is %q", got)
	}
	guestOut(t, g, "for i in $(seq 100); do [ -b "+device+" ] && exit; sleep 0.2; done; exit 1")
	if got := guestOut(t, g, "blockdev --getsize64 "+device); got != fmt.Sprint(dataSize) {
		t.Errorf("the plugged disk has %s bytes", got)
	}
	guestOut(t, g, "modprobe nbd && echo lost >/var/tmp/lost && sync && fio --version && mkfs.ext4 -q "+device+" && mount "+device+" /mnt && echo there >/mnt/f && sync")
	var plugged, ready bool
	for _, p := range g.boot {
		plugged = plugged || p.Name == "plugged" && p.At > 0 && !ready
		ready = ready || p.Name == "ready"
	}
	if !plugged || g.vm.Started.IsZero() {
		t.Errorf("phases are %v since %v", g.boot, g.vm.Started)
	}
	closeGuest(t, g)

	g = boot()
	defer closeGuest(t, g)
	guestOut(t, g, "for i in $(seq 100); do [ -b "+device+" ] && exit; sleep 0.2; done; exit 1")
	if got := guestOut(t, g, "mount "+device+" /mnt && ls /var/tmp && cat /mnt/f"); got != "there" {
		t.Errorf("after a power cut: %q", got)
	}
	root.Root = 16 << 20
	for devices, want := range map[int]string{1: "a larger size:", 2: "it has a root already"} {
		_, _, err := tryGuest(t, t.Context(), emulated, slices.Repeat([]iotax.Device{{ID: "root", Disk: root}}, devices)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d roots of 16 MiB: %v", devices, err)
		}
	}
}

// A second guest that boots from the first guest's disk gets an overlay in the same directory. The overlay is deleted
// afterwards. QEMU performs flushes on the overlay.
func TestQEMUBesideDisk(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "disk, raw")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	patient := func(s *Spec) { emulated(s); s.BootTimeout = plan.Duration(5 * time.Minute) }
	g := openGuest(t, patient, iotax.Device{ID: "data", Disk: &iotax.Disk{Path: file, Format: "raw", Bus: "virtio-blk", Cache: "writeback", AIO: "threads"}})
	defer closeGuest(t, g)
	const disk = "/dev/disk/by-id/virtio-data"
	guestOut(t, g, "for i in $(seq 100); do [ -b "+disk+" ] && break; sleep 0.2; done; mkfs.ext4 -q "+disk+" && mount "+disk+" /mnt && mkdir -p /mnt/r/bin /mnt/r/dev /mnt/r/proc /mnt/r/sys /mnt/r/tmp /mnt/r/run /mnt/r/root && "+
		"b=$(readlink -f $(command -v busybox)) && cp $b /mnt/r/bin/busybox && ln -s busybox /mnt/r/bin/sh && umount /mnt && sync")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m, err := g.Restart(ctx, &iotax.Root{Type: "ext4", Source: "serial:data", Path: "r", Port: 8000,
		Run: []string{"/bin/sh", "-c", `/bin/busybox touch /made; /bin/busybox sync; exec /bin/busybox nc -ll -p 8000 -e /bin/sh -c 'read x; printf "HTTP/1.0 200 OK\r\n\r\nhello"'`}})
	if err != nil {
		t.Fatal(err)
	}
	second := m.(*machine)
	type block struct {
		Device   string
		Inserted struct {
			File  string
			Cache map[string]bool
		}
	}
	var blocks []block
	if err := second.vm.Monitor.Do(ctx, "query-block", nil, &blocks); err != nil {
		t.Error(err)
	}
	i := slices.IndexFunc(blocks, func(b block) bool { return b.Device == "d-data" })
	if i < 0 || filepath.Dir(blocks[i].Inserted.File) != dir || blocks[i].Inserted.File == file {
		t.Errorf("its disk is %+v", blocks)
	} else if no, told := blocks[i].Inserted.Cache["no-flush"]; no || !told {
		t.Errorf("flushes of its disk are ignored: %+v", blocks[i])
	}
	closeGuest(t, second)
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the disk was written to: %v", err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// Weakens takes into account the file system and the QEMU options of the guest's own disks.
func TestQEMUWeakens(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(memory)
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, image, work string
		args              []string
		want              iotax.Durability
	}{
		{"an image", file, t.TempDir(), nil, probe.Durability(t.TempDir())},
		{"an overlay in memory", file, memory, nil, iotax.Volatile},
		{"an initial RAM disk alone", "", t.TempDir(), []string{"-device", "virtio-rng-pci"}, iotax.Volatile},
		{"a drive", "", t.TempDir(), []string{"-drive", "file=x"}, iotax.Durable},
		{"a drive without flushes", "", t.TempDir(), []string{"-drive", "file=x,cache=unsafe"}, iotax.FlushIgnored},
		{"a node without flushes", "", t.TempDir(), []string{"-blockdev", `{"driver": "file", "cache": {"no-flush": true}}`}, iotax.FlushIgnored},
	} {
		s := Kind.New().(*Spec)
		emulated(s)
		s.Kernel, s.Image, s.Args, s.Console.Command = file, c.image, c.args, "{command}"
		m, err := Kind.Open(t.Context(), s, kind.Options{Name: "guest", WorkDir: c.work})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Caps().Weakens("/", ""); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		empty(t, c.work)
	}
	if d := (&machine{storage: iotax.Volatile}); d.Weakens("/mnt", "9p") != iotax.Durable || d.Weakens("/", "ext4") != iotax.Volatile {
		t.Error("a share is as weak as the disk")
	}
}

// gonePids waits up to 10 s for the processes to exit.
func gonePids(t *testing.T, pids []int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var left []int
		for _, p := range pids {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p)); err == nil && !strings.Contains(string(b), ") Z ") {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("processes %v still run", left)
		}
	}
}

// If a guest does not boot, the error contains the reason and, where one is known, a hint. No files remain.
func TestQEMUNoBoot(t *testing.T) {
	long.Test(t)
	cases := []struct {
		name   string
		change func(*Spec)
		device []iotax.Device
		want   []string
	}{
		{"panic", func(s *Spec) { s.Append = "rdinit=/none root=/dev/none rootfstype=ext4" }, nil, []string{"start machine guest: ", "kernel panicked: VFS: Unable to mount root fs", "hint: read the console above"}},
		{"init gives up", func(s *Spec) { s.Append = "iotax.root=%" }, nil, []string{"init gave up", "iotax.root"}},
		{"hang", func(s *Spec) { s.Args = []string{"-S"}; s.BootTimeout = plan.Duration(time.Second) }, nil, []string{"within 1s", "hint: leave out append: and args:"}},
		{"wrong argument", func(s *Spec) { s.Args = []string{"-no-such-thing"} }, nil, []string{"QEMU printed", "-no-such-thing"}},
		{"no kernel there", func(s *Spec) { s.Kernel = "/nonexistent/vmlinuz" }, nil, []string{"/nonexistent/vmlinuz", "hint:"}},
		{"accelerator that is not there", func(s *Spec) { s.Accel = "hvf" }, nil, []string{"QEMU printed", "hvf"}},
		{"no image there", func(s *Spec) { s.Image = "/nonexistent/disk.qcow2" }, nil, []string{"/nonexistent/disk.qcow2", "hint:"}},
		{"disk that is not there", nil, []iotax.Device{{ID: "d", Disk: &iotax.Disk{Path: "/nonexistent/disk"}}}, []string{"QEMU printed", "/nonexistent/disk"}},
		{"directory that is not there", nil, []iotax.Device{{ID: "d", Share: &iotax.Share{Path: "/nonexistent/dir", Type: "virtiofs"}}}, []string{"virtiofsd", "/nonexistent/dir"}},
		{"combination", nil, []iotax.Device{{ID: "d", Disk: &iotax.Disk{Path: "/dev/null", Cache: "writeback", AIO: "native"}}}, []string{"QEMU printed", "aio=native"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			m, work, err := tryGuest(t, context.Background(), func(s *Spec) {
				emulated(s)
				if c.change != nil {
					c.change(s)
				}
			}, c.device...)
			if err == nil {
				m.Close(context.Background())
				t.Fatal("it came up")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in: %v", w, err)
				}
			}
			var ie *iotax.Error
			if !errors.As(err, &ie) {
				t.Errorf("%T is no *iotax.Error", err)
			}
			if d := time.Since(start); d > 50*time.Second {
				t.Errorf("that took %v", d)
			}
			empty(t, work)
			t.Log(err)
		})
	}
}

func TestQEMUCancelBoot(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(700*time.Millisecond, cancel)
	m, work, err := tryGuest(t, ctx, emulated, iotax.Device{ID: "d", Share: &iotax.Share{Path: t.TempDir(), Type: "virtiofs"}})
	if err == nil {
		m.Close(context.Background())
		t.Fatal("it came up within 0.7 s")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not say that it was cancelled", err)
	}
	empty(t, work)
}

// If the guest dies, the error of the running command quotes the guest's console.
func TestQEMUDeath(t *testing.T) {
	g := openGuest(t, emulated)
	defer closeGuest(t, g)
	err := g.Run(context.Background(), iotax.Command("sh", "-c", "echo c >/proc/sysrq-trigger; sleep 20"))
	var exit *iotax.ExitError
	if err == nil || errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	for _, w := range []string{"on guest", "kernel panicked: sysrq triggered crash", "last lines of its console"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in: %v", w, err)
		}
	}
}

// If the guest hangs, the running command and the next command return an error.
func TestQEMUFrozen(t *testing.T) {
	g := openGuest(t, emulated)
	defer closeGuest(t, g)
	up := make(chan struct{})
	c := iotax.Command("sh", "-c", "echo up; exec sleep 1000")
	c.Stdout = signal(up)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(t.Context(), c) }()
	<-up
	if err := g.vm.Monitor.Do(t.Context(), "stop", nil, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "no sign of life") || !strings.Contains(err.Error(), "guest") {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the command does not end")
	}
	if err := g.Run(t.Context(), iotax.Command("true")); err == nil || !strings.Contains(err.Error(), "no sign of life") {
		t.Errorf("the next command: %v", err)
	}
}

type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	close(s)
	return len(p), nil
}

// No guest remains after its runner is killed. The test starts itself as another process and kills that process.
func TestQEMURunnerKilled(t *testing.T) {
	if os.Getenv("IOTAX_TEST_RUNNER") != "" {
		g := openGuest(t, emulated, iotax.Device{ID: "d", Share: &iotax.Share{Path: t.TempDir(), Type: "virtiofs"}})
		b, _ := json.Marshal(g.Processes())
		fmt.Printf("PROCESSES %s\n", b)
		time.Sleep(time.Minute)
		closeGuest(t, g)
		return
	}
	guesttest.Init(t) // build init before the process is killed
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The path is short, so that the sockets are also in this directory: a killed process does not remove them.
	tmp, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command(exe, "-test.run=^TestQEMURunnerKilled$")
	cmd.Env = append(os.Environ(), "IOTAX_TEST_RUNNER=1", "TMPDIR="+tmp)
	out := &firstLine{want: "PROCESSES ", found: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	select {
	case l := <-out.found:
		var ps map[string][]int
		if err := json.Unmarshal([]byte(l), &ps); err != nil {
			t.Error(err)
		}
		pids = slices.Concat(ps["qemu"], ps["virtiofsd"])
	case <-time.After(time.Minute):
		t.Error("no guest came up")
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(pids) < 2 {
		t.Fatalf("processes %v: %s", pids, out.all.String())
	}
	gonePids(t, pids)
}

// firstLine searches the output for `want`, and sends the rest of that line to `found`.
type firstLine struct {
	want  string
	all   bytes.Buffer
	found chan string
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.all.Write(b)
	if _, l, ok := strings.Cut(f.all.String(), f.want); ok {
		if l, _, ok := strings.Cut(l, "\n"); ok {
			select {
			case f.found <- l:
			default:
			}
		}
	}
	return len(b), nil
}

// The numbers in the schema and in doctor match the code.
func TestQEMUClaims(t *testing.T) {
	claims := map[string]string{
		"Memory":      "the micro-guest needs " + plan.Size(minMemory).String(),
		"BootTimeout": fmt.Sprintf("0 means %v, or %v with an image", plan.Duration(microTimeout), plan.Duration(imageTimeout)),
	}
	for name, want := range claims {
		f, _ := reflect.TypeFor[Spec]().FieldByName(name)
		if doc := f.Tag.Get("doc"); !strings.Contains(doc, want) {
			t.Errorf("%s: the schema has %q, the code has %q", name, doc, want)
		}
	}
	text, err := os.ReadFile("../../doctor/host.go")
	if want := fmt.Sprintf("a guest takes %v GiB by default (memory: %v)", int64(Kind.New().(*Spec).Memory)>>30, plan.Size(minMemory)); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("doctor does not have %q: %v", want, err)
	}
	for memory, ok := range map[int64]bool{minMemory: true, minMemory - 1<<20: false} {
		s := Kind.New().(*Spec)
		s.Memory = plan.Size(memory)
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
}

func TestQEMUValidate(t *testing.T) {
	good := func() *Spec { return Kind.New().(*Spec) }
	if err := good().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for field, change := range map[string]func(*Spec){
		"memory":       func(s *Spec) { s.Memory = 100 << 20 },
		"cpus":         func(s *Spec) { s.CPUs = 0 },
		"accel":        func(s *Spec) { s.Accel = "xen" },
		"initrd":       func(s *Spec) { s.Initrd = "x" },
		"append":       func(s *Spec) { s.Image = "x"; s.Append = "y" },
		"identity":     func(s *Spec) { s.Identity = "x" },
		"user":         func(s *Spec) { s.Image = "x"; s.User = "a b" },
		"boot_timeout": func(s *Spec) { s.BootTimeout = -1 },
	} {
		s := good()
		change(s)
		var fe *plan.FieldError
		if err := s.Validate(); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	a := agent.New(&port{name: "guest"}, "")
	machinetest.Keeps(t, &machine{Machine: a, vm: new(qemu.VM)}, a)
}

// An error while the files of a guest are removed is reported once, also if its sockets are in the same directory.
func TestEndReportsOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file") // not a directory, which cannot be removed
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&booting{dir: file, sockets: file}).end(t.Context())
	if err == nil || strings.Count(err.Error(), "remove working directory") != 1 {
		t.Error(err)
	}
}
