package volume

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/node"
	"iotax/internal/plan"
	"iotax/internal/testenv/machinetest"
)

// nodes opens nodes of a lab that it makes for the test.
func nodes(t *testing.T, names ...string) []iotax.Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	var out []iotax.Machine
	work := fmt.Sprintf("/tmp/iotax-v%d", os.Getpid()%1e8)
	for _, n := range names {
		m, err := machine.Open(t.Context(), plan.Machine{Name: n, Kind: "node", Spec: &node.Spec{Name: n, Lab: "tnone", Rate: 1e9}}, machine.Options{WorkDir: work})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		out = append(out, m)
	}
	return out
}

// attached attaches a volume on m, served by server. It detaches and closes the volume at the end of the test.
func attached(t *testing.T, kind string, spec plan.Spec, server, m iotax.Machine) (iotax.Volume, iotax.Place) {
	t.Helper()
	v, err := prepare(t, kind, spec, Env{Server: server, Need: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(v.Detach(context.Background()), v.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	p, err := v.Attach(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return v, p
}

func nbdSpec(change func(*NBDSpec)) *NBDSpec {
	s := newSpec("nbd").(*NBDSpec)
	change(s)
	return s
}

func fioNBD(t *testing.T, m iotax.Machine, url string) ([]byte, error) {
	return iotax.Output(t.Context(), m, "fio", "--name=x", "--ioengine=nbd", "--uri="+url, "--size=8m", "--rw=randrw", "--bs=16k", "--iodepth=8",
		"--verify=crc32c", "--verify_state_save=0", "--number_ios=200", "--output-format=json")
}

func TestNBD(t *testing.T) {
	ms := nodes(t, "node01", "node02")
	far, near := ms[0], ms[1]
	for _, c := range []struct {
		name   string
		server iotax.Machine
		change func(*NBDSpec)
		scheme string
	}{
		{"another node", far, func(s *NBDSpec) {}, "nbd://10.77.0.1:"},
		{"the same node", near, func(s *NBDSpec) {}, "nbd+unix:///?socket="},
		{"the same node, tcp", near, func(s *NBDSpec) { s.Transport = "tcp" }, "nbd://127.0.0.1:"},
		{"qcow2", far, func(s *NBDSpec) { s.Format, s.Cache, s.AIO = "qcow2", "writeback", "threads" }, "nbd://"},
		{"nbdkit", far, func(s *NBDSpec) { s.Server, s.Threads = "nbdkit", 4 }, "nbd://"},
		{"nbdkit, unix", near, func(s *NBDSpec) { s.Server = "nbdkit" }, "nbd+unix://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, p := attached(t, "nbd", nbdSpec(c.change), c.server, near)
			if p.Kind != iotax.PlaceURL || !strings.HasPrefix(p.Path, c.scheme) || p.ReadOnly || p.Durability != iotax.Durable {
				t.Errorf("place %+v", p)
			}
			if want := c.server == far; (p.Facts["line.rate"] != "") != want {
				t.Errorf("facts %v", p.Facts)
			}
			out, err := fioNBD(t, near, p.Path)
			var r struct {
				Jobs []struct {
					Error       int
					Read, Write struct {
						TotalIOs int `json:"total_ios"`
					}
				}
			}
			if i := strings.IndexByte(string(out), '{'); err != nil || i < 0 || json.Unmarshal(out[i:], &r) != nil || len(r.Jobs) != 1 || r.Jobs[0].Error != 0 || r.Jobs[0].Read.TotalIOs == 0 || r.Jobs[0].Write.TotalIOs == 0 {
				t.Fatalf("%v: %s", err, out)
			}
			st, err := os.Stat(p.Backing)
			if err != nil || c.name != "qcow2" && (st.Size() != 8<<20 || blocks(st) < 8<<20) {
				t.Errorf("image %v: %v", st, err)
			}
			pids := v.Caps().Processes()[nbdProgram(c.change)]
			if len(pids) != 1 {
				t.Fatalf("processes %v", v.Caps().Processes())
			}
			if f := v.Caps().Findings(); len(f) > 0 {
				t.Errorf("findings of an export that serves: %v", f)
			}
			if err := v.Detach(t.Context()); err != nil {
				t.Error(err)
			}
			if err := syscall.Kill(pids[0], 0); err == nil {
				t.Error("the export still runs")
			}
			if _, err := os.Stat(p.Backing); !os.IsNotExist(err) {
				t.Errorf("%s: %v", p.Backing, err)
			}
			if f := v.Caps().Findings(); len(f) > 0 {
				t.Errorf("findings of an export that was ended: %v", f)
			}
		})
	}

	// After the NBD server is killed, fio fails, the volume returns a finding, and Detach works.
	t.Run("an export that dies", func(t *testing.T) {
		v, p := attached(t, "nbd", nbdSpec(func(*NBDSpec) {}), far, near)
		if err := syscall.Kill(v.Caps().Processes()["qemu-nbd"][0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-v.(*nbd).server.done
		if out, err := fioNBD(t, near, p.Path); err == nil {
			t.Errorf("fio works without an export: %s", out)
		}
		f := v.Caps().Findings()
		if len(f) != 1 || f[0].Rule != "server-died" || f[0].Severity != iotax.Invalid || !strings.Contains(f[0].Evidence, "node01") {
			t.Errorf("findings %v", f)
		}
	})
	// If the NBD server is killed during I/O, fio fails and does not wait for answers.
	t.Run("an export that dies under I/O", func(t *testing.T) {
		v, p := attached(t, "nbd", nbdSpec(func(*NBDSpec) {}), far, near)
		pid := v.Caps().Processes()["qemu-nbd"][0]
		if out, err := fioNBD(t, near, p.Path); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		type end struct {
			out []byte
			err error
		}
		done := make(chan end, 1)
		before := readBy(t, pid)
		go func() {
			out, err := iotax.Output(t.Context(), near, "fio", "--name=x", "--ioengine=nbd", "--uri="+p.Path, "--size=8m", "--rw=randread", "--bs=16k", "--iodepth=8", "--time_based", "--runtime=120")
			done <- end{out, err}
		}()
		for until := time.Now().Add(time.Minute); readBy(t, pid) < before+1<<20; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("fio reads nothing")
			}
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-done:
			if e.err == nil {
				t.Errorf("fio works without an export: %s", e.out)
			}
		case <-time.After(time.Minute):
			t.Error("fio waits for an export that is gone")
		}
		<-v.(*nbd).server.done
		if f := v.Caps().Findings(); len(f) != 1 || f[0].Rule != "server-died" || f[0].Severity != iotax.Invalid {
			t.Errorf("findings %v", f)
		}
		image := p.Backing
		if err := v.Detach(t.Context()); err != nil {
			t.Errorf("what is left cannot be taken down: %v", err)
		}
		if _, err := os.Stat(image); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", image, err)
		}
	})
	t.Run("an existing export is only read", func(t *testing.T) {
		_, p := attached(t, "nbd", nbdSpec(func(s *NBDSpec) { s.URL = "nbd://10.77.0.1:1/x" }), near, near)
		if !p.ReadOnly || p.Path != "nbd://10.77.0.1:1/x" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, c := range []struct {
			server      iotax.Machine
			m           iotax.Machine
			change      func(*NBDSpec)
			cause, hint string
		}{
			{far, here, func(*NBDSpec) {}, "only nodes of the same lab reach", "put the target on a node"},
			{near, near, func(s *NBDSpec) { s.Size = 1 << 20 }, "less than the 8 MiB", "8 MiB"},
			{near, near, func(s *NBDSpec) { s.Path = "/proc" }, "does not store files of users", "another directory"},
			{near, near, func(s *NBDSpec) { s.Path, s.Create = "/var/tmp/"+strings.Repeat("long/", 20), true }, "characters", "shorter path"},
			{near, near, func(s *NBDSpec) { s.Attach = "device" }, "", "attach: engine"},
		} {
			v, err := prepare(t, "nbd", nbdSpec(c.change), Env{Server: c.server, Need: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Attach(t.Context(), c.m)
			if _, devices := os.Stat("/sys/block/nbd0"); c.cause != "" || devices != nil { // if the kernel has NBD devices, the last case may succeed
				wantError(t, err, c.cause, c.hint)
			}
			if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a port that is taken", func(t *testing.T) {
		_, p := attached(t, "nbd", nbdSpec(func(s *NBDSpec) { s.Port = 20809 }), far, near)
		if !strings.HasSuffix(p.Path, ":20809") {
			t.Error(p.Path)
		}
		v, err := prepare(t, "nbd", nbdSpec(func(s *NBDSpec) { s.Port = 20809 }), Env{Server: far, ID: "t1", Need: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = v.Attach(t.Context(), near); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("got %v", err)
		}
		if err := v.Detach(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// readBy returns the number of bytes that a process has read from disks.
func readBy(t *testing.T, pid int) (n int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "read_bytes: %d", &n)
	}
	return n
}

func nbdProgram(change func(*NBDSpec)) string { return nbdSpec(change).Server }

func TestNBDSpecs(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*NBDSpec)
	}{
		{"", func(s *NBDSpec) {}},
		{"", func(s *NBDSpec) { s.URL = "nbd+unix:///?socket=/run/x" }},
		{"url", func(s *NBDSpec) { s.URL = "http://x" }},
		{"url", func(s *NBDSpec) { s.URL = "nbd://user:secret@x" }},
		{"url", func(s *NBDSpec) { s.URL, s.From = "nbd://x", "host" }},
		{"", func(s *NBDSpec) { s.URL, s.Attach = "nbd://x", "device" }},
		{"url", func(s *NBDSpec) { s.URL, s.Server = "nbd://x", "nbdkit" }},
		{"url", func(s *NBDSpec) { s.URL, s.Cache = "nbd://x", "directsync" }},
		{"url", func(s *NBDSpec) { s.URL, s.Create = "nbd://x", true }},
		{"aio", func(s *NBDSpec) { s.Server, s.AIO = "nbdkit", "threads" }},
		{"", func(s *NBDSpec) { s.Server = "nbdkit" }},
		{"transport", func(s *NBDSpec) { s.Transport, s.Port = "unix", 10809 }},
		{"aio", func(s *NBDSpec) { s.Cache = "writeback" }},
		{"cache", func(s *NBDSpec) { s.Server, s.Cache = "nbdkit", "unsafe" }},
		{"format", func(s *NBDSpec) { s.Server, s.Format = "nbdkit", "qcow2" }},
		{"threads", func(s *NBDSpec) { s.Threads = 3 }},
		{"size", func(s *NBDSpec) { s.Size = 512 }},
		{"port", func(s *NBDSpec) { s.Port = 70000 }},
		{"address", func(s *NBDSpec) { s.Address = "a/b" }},
		{"path", func(s *NBDSpec) { s.Path = "~/x" }},
	} {
		err := nbdSpec(c.change).Validate()
		var f *plan.FieldError
		if (c.field == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != c.field) {
			t.Errorf("%s: %v", c.field, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a secret is told: %v", err)
		}
	}
}

func TestNetworkVolume(t *testing.T) {
	ms := nodes(t, "node01", "node02")
	v, p := attached(t, "network", &NetworkSpec{To: "node01"}, ms[0], ms[1])
	if !strings.HasPrefix(p.Path, "tcp://10.77.0.1:") || p.Facts["line.rate"] == "" {
		t.Errorf("%+v", p)
	}
	_, port, _ := strings.Cut(p.Path, "10.77.0.1:")
	out, err := iotax.Output(t.Context(), ms[1], "iperf3", "-c", "10.77.0.1", "-p", port, "-t", "1", "-J")
	if err != nil || !strings.Contains(string(out), "bits_per_second") {
		t.Errorf("%v: %s", err, out)
	}
	pid := v.Caps().Processes()["iperf3"]
	if len(pid) != 1 {
		t.Fatal(pid)
	}
	if err := syscall.Kill(pid[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(v.Caps().Findings()) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if f := v.Caps().Findings(); len(f) != 1 {
		t.Errorf("findings %v", f)
	}
}

// Servers end with the process that started them, even if that process is killed.
func TestServersDoNotOutliveTheRunner(t *testing.T) {
	if os.Getenv("IOTAX_TEST_RUNNER") != "" {
		v, err := prepare(t, "nbd", nbdSpec(func(s *NBDSpec) { s.Path = os.Getenv("IOTAX_TEST_RUNNER") }), Env{Server: here, Need: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Attach(t.Context(), here); err != nil {
			t.Fatal(err)
		}
		fmt.Println("pid", v.Caps().Processes()["qemu-nbd"][0])
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestServersDoNotOutliveTheRunner$")
	c.Env = append(os.Environ(), "IOTAX_TEST_RUNNER="+t.TempDir())
	out, err := c.Output()
	var pid int
	if _, serr := fmt.Sscanf(string(out), "pid %d", &pid); serr != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the export outlives its runner")
		}
	}
}

// A write to the store's file system returns when all machines have stored the data. After the export of one machine is
// killed, the other machines still store new data.
func TestReplicatedStore(t *testing.T) {
	if bin, err := filepath.Abs("../../bin"); err == nil { // scripts/need builds the store there
		t.Setenv("PATH", os.Getenv("PATH")+":"+bin)
	}
	ms := nodes(t, "node01", "node02", "node03", "node04")
	spec := newSpec("bucket").(*BucketSpec)
	spec.From, spec.Replicas = "node01", []string{"node02", "node03"}
	v, err := prepare(t, "bucket", spec, Env{Server: ms[0], Peers: ms[1:3], Need: 8 << 20, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	down := func() error { return errors.Join(v.Detach(context.Background()), v.Close(context.Background())) }
	defer func() {
		if err := down(); err != nil {
			t.Error(err)
		}
	}()
	p, err := v.Attach(t.Context(), ms[3])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Facts["s3.copies"], "3, of which 2") || !strings.HasPrefix(p.Path, "s3://10.77.0.1:") {
		t.Errorf("place %+v", p)
	}
	homes := make([]string, 3)
	for i := range homes {
		homes[i] = homeOf(ms[i])
	}
	found, err := filepath.Glob(homes[0] + "/iotax-*/replicated/data")
	if err != nil || len(found) != 1 {
		t.Fatalf("the store's files lie at %q, %v", found, err)
	}
	// The exports write with O_DIRECT, so grep reads the text from the disk and not from the page cache.
	copies := func(text string) (n int) {
		t.Helper()
		if err := os.WriteFile(found[0]+"/"+text, bytes.Repeat([]byte(text+"\n"), 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, home := range homes {
			if out, err := exec.Command("sh", "-c", `cat "$0"/iotax-*/disk.raw | grep -acF "$1"`, home, text).Output(); err == nil && strings.TrimSpace(string(out)) != "0" {
				n++
			}
		}
		return n
	}
	if n := copies("kept-by-all-of-them"); n != 3 {
		t.Errorf("a write is on %d machines", n)
	}
	if f := v.Caps().Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
	// Each byte leaves the store's node twice, over a link of 125 MB/s.
	const large = 32 << 20
	data := make([]byte, large)
	rand.NewChaCha8([32]byte{1}).Read(data)
	begun := time.Now()
	if err := os.WriteFile(found[0]+"/large", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun).Seconds(); took < 2*large/125e6*.9 {
		t.Errorf("%d bytes took %v s: the copies are not written along", large, took)
	}
	exports := v.Caps().Processes()["qemu-nbd"]
	if len(exports) != 3 {
		t.Fatalf("the copies are exported by %v", exports)
	}
	if err := syscall.Kill(exports[2], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n := copies("kept-by-most-of-them"); n != 2 {
		t.Errorf("after a death a write is on %d machines", n)
	}
	for end := time.Now().Add(10 * time.Second); len(v.Caps().Findings()) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if f := v.Caps().Findings(); len(f) != 1 || !strings.Contains(f[0].Evidence, "a copy of the store on node03") {
		t.Errorf("findings %v", f)
	}
	if err := down(); err != nil {
		t.Error(err)
	}
	for _, home := range homes {
		if left, _ := filepath.Glob(home + "/iotax-*"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if mounts, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(mounts), homes[0]) {
		t.Errorf("still mounted: %s", mounts)
	}
	if out, _ := exec.Command("losetup", "-n", "-O", "BACK-FILE").Output(); strings.Contains(string(out), homes[0]) {
		t.Errorf("still a loop device: %s", out)
	}

	for field, change := range map[string]func(*BucketSpec){
		"":         func(*BucketSpec) {},
		"replicas": func(s *BucketSpec) { s.Replicas = []string{"node01"} },
		"url":      func(s *BucketSpec) { s.URL = "http://h:1/b" },
	} {
		s := *spec
		change(&s)
		var f *plan.FieldError
		if err := s.Validate(); (field == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// With `attach: device`, Attach connects the export to the kernel's first free NBD device. Detach disconnects it,
// unless another process has attached it since. The test uses a fake nbd-client, because kernels for guests and
// containers often lack NBD devices.
func TestNBDDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to bind a directory over /sys/block")
	}
	dir := t.TempDir()
	bin, said := dir+"/bin", dir+"/said"
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	client := func(status int) {
		t.Helper()
		if err := os.WriteFile(bin+"/nbd-client", fmt.Appendf(nil, `#!/bin/sh
echo "$*" >>%s
echo a word of its own
[ %d = 0 ] || exit %[2]d
case $1 in
-d) rm -f "/sys/block/${2##*/}/pid";;
*) for d; do :; done; { sleep 0.2; echo 4711 >"/sys/block/${d##*/}/pid"; } >/dev/null 2>&1 & # as the kernel, later
esac
`, said, status), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	kernel := func(name string, busy ...bool) machinetest.Kernel {
		t.Helper()
		sys := dir + "/" + name
		if err := os.Mkdir(sys, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, b := range busy {
			d := fmt.Sprintf("%s/nbd%d", sys, i)
			err := errors.Join(os.Mkdir(d, 0o700), os.WriteFile(d+"/size", []byte("0\n"), 0o600))
			if b {
				err = errors.Join(err, os.WriteFile(d+"/pid", []byte("1\n"), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return machinetest.Kernel{Machine: here, Sys: sys}
	}
	for _, c := range []struct {
		name, url   string
		m           machinetest.Kernel
		status      int
		want        string // expected arguments of nbd-client
		cause, hint string
		since       string // contents of the device's pid file before Detach; "" means unchanged
	}{
		{"a unix socket", "nbd+unix:///?socket=/run/x", kernel("free", false), 0, "-R -N  -unix /run/x /dev/nbd0\n-d /dev/nbd0\n", "", "", ""},
		{"tcp, the first is taken", "nbd://10.0.0.1:1234/disk", kernel("second", true, false), 0, "-R -N disk 10.0.0.1 1234 /dev/nbd1\n-d /dev/nbd1\n", "", "", ""},
		{"the usual port", "nbd://10.0.0.1", kernel("usual", false), 0, "-R -N  10.0.0.1 10809 /dev/nbd0\n-d /dev/nbd0\n", "", "", ""},
		{"all are taken", "nbd://h", kernel("taken", true, true), 0, "", "", "a device is free", ""},
		{"it refuses", "nbd://h", kernel("refuses", false), 1, "-R -N  h 10809 /dev/nbd0\n", "", "see that the export is there", ""},
		{"no devices", "nbd://h", kernel("none"), 0, "", "the kernel has no NBD devices", "attach: engine", ""},
		{"another's by now", "nbd://h", kernel("since", false), 0, "-R -N  h 10809 /dev/nbd0\n", "", "", "4712\n"},
	} {
		client(c.status)
		if err := os.WriteFile(said, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := prepare(t, "nbd", nbdSpec(func(s *NBDSpec) { s.URL, s.Attach = c.url, "device" }), Env{Server: c.m})
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.Attach(t.Context(), c.m)
		if c.hint != "" {
			wantError(t, err, c.cause, c.hint)
		} else if err != nil || p.Kind != iotax.PlaceDevice || !strings.HasPrefix(p.Path, "/dev/nbd") || !p.ReadOnly || p.Facts["nbd.attach"] != "device" {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
		notes := func() (all string) {
			files, _ := filepath.Glob("/run/iotax-*/" + leftover.NBDFile)
			for _, f := range files {
				b, _ := os.ReadFile(f)
				all += string(b)
			}
			return all
		}
		if noted := strings.Contains(notes(), p.Path+" 4711 "); err == nil && !noted {
			t.Errorf("%s: it is not written down that the device is the run's: %q", c.name, notes())
		}
		if c.since != "" {
			if err := os.WriteFile(c.m.Sys+"/nbd0/pid", []byte(c.since), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if err == nil && strings.Contains(notes(), p.Path+" 4711 ") {
			t.Errorf("%s: what was written down stays: %q", c.name, notes())
		}
		if b, err := os.ReadFile(said); err != nil || string(b) != c.want {
			t.Errorf("%s: nbd-client was told %q, want %q", c.name, b, c.want)
		}
	}
}

// A directory that a plan names for an image or a store gets the same checks as a `dir:` target.
func TestPathsOfServers(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	root := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", root); err != nil {
		t.Fatal(err)
	}
	far := elsewhere{here}
	onType(t, "nfs4")
	for _, c := range []struct {
		server      iotax.Machine
		path        string
		network     bool
		cause, hint string
	}{
		{here, root, false, "which is never used", "/var/tmp"},
		{here, home, false, "is a home directory", home + "/iotax"},
		{far, "/var/tmp", false, "network file system", "network: true"},
		{far, "/var/tmp", true, "", ""},
	} {
		for kind, spec := range map[string]plan.Spec{
			"nbd":    nbdSpec(func(s *NBDSpec) { s.Path, s.Network, s.Size = c.path, c.network, 1<<20 }),
			"bucket": &BucketSpec{Path: c.path, Network: c.network, Server: DefaultStore, Program: "false", Region: "us-east-1", Style: "auto"},
		} {
			v, err := prepare(t, kind, spec, Env{Server: c.server})
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Attach(t.Context(), c.server)
			switch {
			case c.cause != "":
				wantError(t, err, c.cause, c.hint)
			case err != nil && strings.Contains(err.Error(), "network file system"): // ignore other errors, because the servers may not start
				t.Errorf("%s: %v", kind, err)
			}
			if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
	for _, s := range []plan.Spec{nbdSpec(func(s *NBDSpec) { s.Path = "/" }), &BucketSpec{Path: "//", Server: DefaultStore, Style: "auto"}} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "/ itself is never used") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
