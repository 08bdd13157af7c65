package qemu

import (
	"bufio"
	"context"
	"encoding/json"
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

	"iotax"
	"iotax/internal/leftover/proctable"
)

func TestArgs(t *testing.T) {
	plain := Config{Arch: "amd64", Memory: 512 << 20, QMP: "/run/x/qmp"}
	cases := []struct {
		name   string
		change func(*Config)
		want   []string // each must appear as consecutive arguments
		not    []string
	}{
		{"defaults", func(*Config) {}, []string{
			"-name guest=guest,debug-threads=on", "-machine q35 -accel tcg,thread=multi -cpu max -smp 1,maxcpus=2 -m 512M",
			"-chardev stdio,id=console,signal=off -serial chardev:console", "-qmp unix:/run/x/qmp,server=on,wait=off",
			"-nodefaults -no-user-config -display none -no-reboot",
		}, []string{"-kernel", "-netdev", "-object", "-drive", "-fsdev"}},
		{"arm", func(c *Config) { c.Arch = "arm64" }, []string{"-machine virt"}, nil},
		{"kvm", func(c *Config) { c.Accel = "kvm"; c.CPUs = 4 }, []string{"-accel kvm -cpu host -smp 4"}, nil},
		{"own words", func(c *Config) {
			c.Machine, c.CPU, c.Name, c.Extra = "pc", "qemu64", "a,b", []string{"-rtc", "base=utc"}
		},
			[]string{"-name guest=a,,b,debug-threads=on", "-machine pc", "-cpu qemu64", "-rtc base=utc"}, nil},
		{"kernel", func(c *Config) { c.Kernel, c.Initrd, c.Append = "/k", "/i", "console=ttyS0 quiet" },
			[]string{"-kernel /k -initrd /i -append", "console=ttyS0 quiet"}, nil},
		{"net", func(c *Config) { c.Net = true },
			[]string{"-netdev user,id=net -device virtio-net-pci,netdev=net,romfile="}, nil},
		{"port", func(c *Config) { c.Port = Port{"x", "/run/a,b"} }, []string{"-chardev socket,id=port,path=/run/a,,b,server=on,wait=off " +
			"-device virtio-serial-pci,max_ports=2 -device virtserialport,chardev=port,name=x"}, nil},
		{"disk by default", func(c *Config) { c.Disks = []Disk{{ID: "a", Disk: iotax.Disk{Path: "/d"}}} },
			[]string{"-drive if=none,id=d-a,file=/d,format=raw,cache=none,aio=threads -device virtio-blk-pci,drive=d-a,serial=a"}, []string{"iothread"}},
		{"virtio-blk", func(c *Config) {
			c.Disks = []Disk{{ID: "a", Disk: iotax.Disk{Path: "/d,1", Format: "qcow2", Bus: "virtio-blk", Cache: "directsync", AIO: "native", IOThread: true, ReadOnly: true}}}
		}, []string{"-drive if=none,id=d-a,file=/d,,1,format=qcow2,cache=directsync,aio=native,readonly=on -object iothread,id=t-a -device virtio-blk-pci,drive=d-a,serial=a,iothread=t-a"}, nil},
		{"overlay", func(c *Config) {
			c.Disks = []Disk{{ID: "a", Overlay: "/o,1", Shared: true, Disk: iotax.Disk{Path: "/d,1", Format: "raw"}}}
		}, []string{"-drive if=none,id=d-a,file=/o,,1,format=qcow2,cache=none,aio=threads,backing.driver=raw,backing.file.driver=file,backing.file.filename=/d,,1,backing.file.locking=off -device"}, []string{"snapshot"}},
		{"virtio-scsi", func(c *Config) {
			c.Disks = []Disk{{ID: "a", Disk: iotax.Disk{Path: "/d", Bus: "virtio-scsi", Cache: "writeback", AIO: "io_uring", IOThread: true}}}
		}, []string{"-drive if=none,id=d-a,file=/d,format=raw,cache=writeback,aio=io_uring -object iothread,id=t-a -device virtio-scsi-pci,id=c-a,iothread=t-a -device scsi-hd,bus=c-a.0,drive=d-a,serial=a"}, nil},
		{"nvme", func(c *Config) {
			c.Disks = []Disk{{ID: "a", Disk: iotax.Disk{Path: "/d", Bus: "nvme", Cache: "unsafe", IOPS: 620}}}
		},
			[]string{"cache=unsafe,aio=threads,throttling.iops-total=620 -device nvme,drive=d-a,serial=a"}, nil},
		{"options", func(c *Config) {
			c.Disks = []Disk{
				{ID: "a", Disk: iotax.Disk{Path: "/a", Drive: []string{"discard=unmap", "detect-zeroes=unmap"}, Device: []string{"num-queues=2", "queue-size=64"}, IOThread: true}},
				{ID: "b", Disk: iotax.Disk{Path: "/b", Bus: "virtio-scsi", Device: []string{"num_queues=2"}}},
				{ID: "c", Disk: iotax.Disk{Path: "/c", IOThreads: 2, Device: []string{"num-queues=2"}}},
			}
		}, []string{"aio=threads,discard=unmap,detect-zeroes=unmap -object iothread,id=t-a -device virtio-blk-pci,drive=d-a,serial=a,iothread=t-a,num-queues=2,queue-size=64",
			"-device virtio-scsi-pci,id=c-b,num_queues=2 -device scsi-hd", `-object iothread,id=t-c-0 -object iothread,id=t-c-1 -device ` +
				`{"drive":"d-c","driver":"virtio-blk-pci","iothread-vq-mapping":[{"iothread":"t-c-0"},{"iothread":"t-c-1"}],"num-queues":2,"serial":"c"}`}, nil},
		{"exports, one later", func(c *Config) {
			c.Disks = []Disk{{ID: "r", Disk: iotax.Disk{Path: "nbd://h:1"}}, {ID: "d", Disk: iotax.Disk{Path: "nbd://h:2", Hot: true}}}
		}, []string{"file=nbd://h:1,format=raw,cache=none,aio=threads -device virtio-blk-pci", "-device pcie-root-port,id=p-d,chassis=1,slot=1"}, []string{"-drive if=none,id=d-d"}},
		{"order of disks", func(c *Config) {
			c.Disks = []Disk{{ID: "b", Disk: iotax.Disk{Path: "/b"}}, {ID: "a", Disk: iotax.Disk{Path: "/a", Cache: "writethrough"}}}
		}, []string{"serial=b -drive if=none,id=d-a,file=/a,format=raw,cache=writethrough"}, nil},
		{"virtiofs", func(c *Config) { c.Shares = []Share{{ID: "s", Socket: "/run/x/fs0", Share: iotax.Share{Path: "/dir"}}} },
			[]string{"-machine q35,memory-backend=mem", "-object memory-backend-memfd,id=mem,size=512M,share=on",
				"-chardev socket,id=s-s,path=/run/x/fs0 -device vhost-user-fs-pci,chardev=s-s,tag=s,queue-size=1024"}, []string{"/dir"}},
		{"9p", func(c *Config) {
			c.Shares = []Share{{ID: "s", Share: iotax.Share{Path: "/a,b", Type: "9p", Security: "none", ReadOnly: true}}}
		}, []string{"-fsdev local,id=f-s,path=/a,,b,security_model=none,multidevs=remap,readonly=on -device virtio-9p-pci,fsdev=f-s,mount_tag=s"}, []string{"memfd"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := plain
			c.change(&cfg)
			if err := cfg.Validate(); err != nil {
				t.Errorf("it is refused: %v", err)
			}
			line := " " + strings.Join(cfg.Args(), " ") + " "
			for _, w := range c.want {
				if !strings.Contains(line, w) {
					t.Errorf("no %q in\n%s", w, line)
				}
			}
			for _, w := range c.not {
				if strings.Contains(line, " "+w) {
					t.Errorf("%q in\n%s", w, line)
				}
			}
		})
	}
}

// QEMU accepts the command line of Args, and answers on QMP.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	c := Config{Memory: 64 << 20, Net: true, QMP: filepath.Join(dir, "q"), Port: Port{"x", filepath.Join(dir, "p")}}
	caches := []string{"none", "writeback", "writethrough"}
	for i, bus := range []string{"virtio-blk", "virtio-scsi", "nvme"} {
		file := filepath.Join(dir, bus)
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Disks = append(c.Disks, Disk{ID: bus, Disk: iotax.Disk{Path: file, Bus: bus, ReadOnly: i == 0, Cache: caches[i], IOThread: bus != "nvme"}})
	}
	hot := filepath.Join(dir, "hot")
	if err := os.WriteFile(hot, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Disks = append(c.Disks, Disk{ID: "hot", Disk: iotax.Disk{Path: hot, Hot: true}})
	c.Shares = []Share{{ID: "p", Share: iotax.Share{Path: dir, Type: "9p"}}}
	c.Extra = []string{"-S"}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	v, err := Start(ctx, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid := v.Pid()
	port, err := v.Forward(ctx, 22)
	if again, err2 := v.Forward(ctx, 22); err != nil || err2 != nil || port <= 0 || again != port {
		t.Errorf("port %d, %v, then %d, %v", port, err, again, err2)
	}
	if c, err := net.Dial("unix", v.Config.Port.Socket); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	var status struct{ Running bool }
	if err := v.Monitor.Do(ctx, "query-status", nil, &status); err != nil || status.Running {
		t.Errorf("status %+v, %v", status, err)
	}
	var blocks []struct {
		Device   string
		Inserted struct {
			Image struct {
				Size int64 `json:"virtual-size"`
			}
		}
	}
	if err := v.Monitor.Do(ctx, "query-block", nil, &blocks); err != nil || v.Plugged.Before(v.Started) {
		t.Errorf("plugged at %v, %v", v.Plugged, err)
	}
	for i, b := range blocks {
		if b.Device == "d-hot" && b.Inserted.Image.Size == 1<<20 {
			break
		}
		if i == len(blocks)-1 {
			t.Errorf("no hot disk of 1 MiB among %+v", blocks)
		}
	}
	if err := v.Monitor.Do(ctx, "no-such-command", nil, nil); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("a wrong command yields %v", err)
	}
	if v.Err() != nil {
		t.Errorf("it runs, but Err is %v", v.Err())
	}
	if !slices.Contains(v.Processes()["qemu"], pid) {
		t.Errorf("processes are %v, QEMU is %d", v.Processes(), pid)
	}
	if err := v.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.QMP); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if len(v.Processes()) != 0 || v.Err() == nil {
		t.Errorf("after Close: %v, %v", v.Processes(), v.Err())
	}
	if err := v.Close(ctx); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{QMP: "/" + strings.Repeat("x", 110)}, {Shares: []Share{{Socket: strings.Repeat("x", 110)}}}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestModules(t *testing.T) {
	c := Config{Disks: []Disk{{Disk: iotax.Disk{Bus: "nvme"}}, {Disk: iotax.Disk{Bus: "nvme"}}, {}}, Shares: []Share{{}, {Share: iotax.Share{Type: "9p"}}}}
	if got := strings.Join(c.Modules(), " "); got != "9p 9pnet_virtio nvme virtiofs" {
		t.Errorf("got %s", got)
	}
}

func TestHostPort(t *testing.T) {
	const said = "Hub -1 (net):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
		"  TCP[HOST_FORWARD]  13       127.0.0.1 45719       10.0.2.15    22     0     0\r\n"
	if p, err := hostPort(said, 22); err != nil || p != 45719 {
		t.Errorf("got %d, %v", p, err)
	}
	if _, err := hostPort("", 22); err == nil {
		t.Error("nothing is accepted")
	}
}

func TestDaemonVersion(t *testing.T) {
	for said, want := range map[string]struct {
		version string
		rust    bool
	}{
		"virtiofsd version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022 Fabrice Bellard": {"7.2.22", false},
		"virtiofsd 1.13.0\n": {"1.13.0", true},
		"virtiofsd 1.10.1":   {"1.10.1", true},
	} {
		if v, rust := daemonVersion(said); v != want.version || rust != want.rust {
			t.Errorf("%q: got %s, %v", said, v, rust)
		}
	}
}

func TestVirtiofsdArgs(t *testing.T) {
	s := Share{ID: "s", Socket: "/s", Share: iotax.Share{Path: "/d", Cache: "none", ReadOnly: true}}
	for _, c := range []struct {
		d    Virtiofsd
		root bool
		want string
	}{
		{Virtiofsd{}, true, "--socket-path=/s -o source=/d -o cache=none"},
		{Virtiofsd{Rust: true}, true, "--socket-path /s --shared-dir /d --cache never --readonly"},
		{Virtiofsd{Rust: true}, false, "--socket-path /s --shared-dir /d --cache never --sandbox none --readonly"},
	} {
		if got := strings.Join(c.d.Args(s, c.root), " "); got != c.want {
			t.Errorf("got %s\nnot %s", got, c.want)
		}
	}
	s = Share{ID: "s", Socket: "/s", Share: iotax.Share{Path: "/d", Args: []string{"--tag=x"},
		Options: map[string]string{"thread-pool-size": "4", "writeback": "on", "allow-direct-io": "on", "readdirplus": "off", "announce-submounts": "on"}}}
	for _, c := range []struct {
		rust bool
		want string
	}{
		{false, "-o cache=auto --thread-pool-size=4 -o writeback -o allow_direct_io -o no_readdirplus -o announce_submounts --tag=x"},
		{true, "--cache auto --thread-pool-size=4 --writeback --allow-direct-io --no-readdirplus --announce-submounts --tag=x"},
	} {
		if got := strings.Join((&Virtiofsd{Rust: c.rust}).Args(s, true), " "); !strings.HasSuffix(got, " "+c.want) {
			t.Errorf("got %s\nnot %s", got, c.want)
		}
	}
}

// `Check` and `refuses` return an error for options that the installed QEMU or virtiofsd lacks.
func TestUnknownOptions(t *testing.T) {
	refused := func(err error, cause, hint string) {
		t.Helper()
		var ie *iotax.Error
		if !errors.As(err, &ie) || !strings.Contains(err.Error(), cause) || !strings.Contains(ie.Hint, hint) {
			t.Errorf("got %v, not %s with a hint on %s", err, cause, hint)
		}
	}
	d, err := FindVirtiofsd(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	with := func(options map[string]string, cache string) error {
		return d.refuses(t.Context(), Share{Share: iotax.Share{Path: "/d", Cache: cache, Options: options}})
	}
	if err := with(map[string]string{"thread-pool-size": "4", "writeback": "on", "allow-direct-io": "on", "readdirplus": "off", "announce-submounts": "on"}, "always"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		options map[string]string
		cache   string
		cause   string
	}{
		{map[string]string{"inode-file-handles": "prefer"}, "", "has no option inode-file-handles=prefer"},
		{nil, "metadata", "has no option cache=metadata"},
	} {
		if err := with(c.options, c.cache); !d.Rust {
			refused(err, c.cause, "binary:")
		} else if err != nil {
			t.Error(err)
		}
	}
	old := filepath.Join(t.TempDir(), "virtiofsd")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho --cache --thread-pool-size\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d = &Virtiofsd{Path: old, Version: "1.0", Rust: true}
	refused(with(map[string]string{"thread-pool-size": "4", "allow-direct-io": "on"}, ""), "version 1.0 (rust) has no option --allow-direct-io", "binary:")

	disk := func(d iotax.Disk) error { return Check(t.Context(), "", iotax.Device{ID: "a", Disk: &d}) }
	for _, d := range []iotax.Disk{{}, {Bus: "virtio-scsi", Device: []string{"num_queues=2", "virtqueue_size=64"}}, {Bus: "nvme", Device: []string{"max_ioqpairs=2"}}, {Device: []string{"num-queues=2", "queue-size=64"}}} {
		if err := disk(d); err != nil {
			t.Error(err)
		}
	}
	refused(disk(iotax.Disk{Device: []string{"queue-size=64", "magic=on"}}), "virtio-blk-pci has no property magic", "binary:")
	help, err := exec.Command(Binary(), "-device", "virtio-blk-pci,help").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := disk(iotax.Disk{IOThreads: 2}); !strings.Contains(string(help), vqMapping) {
		refused(err, "virtio-blk-pci has no property "+vqMapping, "binary:")
	} else if err != nil {
		t.Error(err)
	}
	share := func(s iotax.Share) error { return Check(t.Context(), "", iotax.Device{ID: "s", Share: &s}) }
	refused(share(iotax.Share{Type: "virtiofs", Window: 1 << 30}), "vhost-user-fs-pci has no property cache-size", "dax:")
	refused(share(iotax.Share{Type: "virtiofs", Binary: old, Options: map[string]string{"writeback": "on"}}), "has no option", "binary:")
	if err := share(iotax.Share{Type: "9p"}); err != nil {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	_, err := Config{Binary: "qemu-system-none"}.Look()
	var ie *iotax.Error
	if !errors.As(err, &ie) || !strings.Contains(ie.Hint, "binary:") {
		t.Errorf("without the QEMU that is asked for: %v", err)
	}
	if _, err = FindVirtiofsd(context.Background(), "/nonexistent/virtiofsd"); !errors.As(err, &ie) || !strings.Contains(ie.Hint, "binary:") {
		t.Errorf("without the virtiofsd that is asked for: %v", err)
	}
	t.Setenv("PATH", "/nonexistent")
	if _, err = (Config{}).Look(); !errors.As(err, &ie) || !strings.Contains(ie.Hint, "apt install") {
		t.Errorf("without QEMU: %v", err)
	}
	defer func(d []string) { daemons = d }(daemons)
	daemons = []string{"/nonexistent/virtiofsd"}
	_, err = FindVirtiofsd(context.Background(), "")
	if !errors.As(err, &ie) || !strings.Contains(ie.Hint, "apt install") {
		t.Errorf("without virtiofsd: %v", err)
	}
}

func TestLog(t *testing.T) {
	var lines []string
	l := &Log{line: func(_ time.Time, s string) { lines = append(lines, s) }}
	for i := range 1000 {
		fmt.Fprintf(l, "line %d\r\n\n", i)
	}
	io.WriteString(l, "\x1b[31mred\x1b[0m\x07 par")
	io.WriteString(l, "tial")
	if len(lines) != 2000 || lines[0] != "line 0" {
		t.Errorf("%d lines, the first %q", len(lines), lines[0])
	}
	if got := l.Tail(2); got != "line 999\nred partial" {
		t.Errorf("the tail is %q", got)
	}
	if len(l.lines) > keepLines {
		t.Errorf("%d lines are kept", len(l.lines))
	}
	io.WriteString(l, strings.Repeat("x", 200<<10))
	if len(l.part) > 64<<10 {
		t.Errorf("a line without an end grows to %d bytes", len(l.part))
	}
}

// Dial or Do returns an error if the server closes the connection, sends invalid data or does not answer.
func TestMonitor(t *testing.T) {
	const greeting = `{"QMP":{"version":{"qemu":{"micro":1,"minor":2,"major":9},"package":""},"capabilities":[]}}` + "\n"
	serve := func(t *testing.T, answer func(net.Conn, *bufio.Scanner)) string {
		path := filepath.Join(t.TempDir(), "q")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			if err == nil {
				answer(c, bufio.NewScanner(c))
				c.Close()
			}
		}()
		return path
	}
	ok := func(c net.Conn, s *bufio.Scanner) {
		io.WriteString(c, greeting)
		for s.Scan() {
			var q struct {
				Execute string
				ID      int
			}
			if json.Unmarshal(s.Bytes(), &q) != nil || q.Execute == "break" {
				return
			}
			if q.Execute != "silent" {
				fmt.Fprintf(c, "{\"event\":\"RESET\",\"data\":{\"guest\":true}}\n{\"return\":{\"n\":%d},\"id\":%d}\n", q.ID, q.ID)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	t.Run("talk", func(t *testing.T) {
		events := make(chan Event, 10)
		m, err := Dial(ctx, serve(t, ok), func(e Event) { events <- e })
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if m.Version != "9.2.1" {
			t.Errorf("version %q", m.Version)
		}
		var r struct{ N int }
		if err := m.Do(ctx, "x", nil, &r); err != nil || r.N != 2 {
			t.Errorf("got %v, %v", r, err)
		}
		if e := <-events; e.Name != "RESET" {
			t.Errorf("event %+v", e)
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := m.Do(short, "silent", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no answer yields %v", err)
		}
		if err := m.Do(ctx, "break", nil, nil); err == nil {
			t.Error("a broken connection is no error")
		}
		if err := m.Do(ctx, "x", nil, nil); err == nil {
			t.Error("a dead connection is no error")
		}
	})
	for name, answer := range map[string]func(net.Conn, *bufio.Scanner){
		"nonsense": func(c net.Conn, _ *bufio.Scanner) { io.WriteString(c, "HTTP/1.1 400\r\n") },
		"other":    func(c net.Conn, _ *bufio.Scanner) { io.WriteString(c, "{}\n") },
		"nothing":  func(net.Conn, *bufio.Scanner) {},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Dial(ctx, serve(t, answer), nil); err == nil {
				t.Error("it is taken for QEMU")
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := Dial(short, filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// The measured rate agrees with a measurement over a longer window.
func TestTSCKHz(t *testing.T) {
	if TSCKHz() == 0 {
		t.Skip("needs a time stamp counter")
	}
	if k := TSCKHz(); k < 500_000 || k > 10_000_000 {
		t.Errorf("%d kHz", k)
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(b), "constant_tsc") {
		t.Skip("needs a CPU with a constant time stamp counter")
	}
	long := measureTSC(100 * time.Millisecond)
	if r := float64(TSCKHz()) / float64(long); r < 0.99 || r > 1.01 {
		t.Errorf("%d kHz in short, %d in long", TSCKHz(), long)
	}
}

// `end` kills a spawned child that ignores SIGTERM. The child does not get iotax's own secrets.
func TestSpawn(t *testing.T) {
	t.Setenv("IOTAX_TOKEN", "secret")
	log := &Log{}
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo up $IOTAX_TOKEN; sleep 60 & wait; sleep 60")
	cmd.Stdout = log
	p, err := spawn(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for end := time.Now().Add(10 * time.Second); len(pids) < 2 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		pids = proctable.Tree(cmd.Process.Pid)
	}
	if len(pids) < 2 || log.Tail(1) != "up" {
		t.Errorf("the tree is %v; it said %q", pids, log.Tail(1))
	}
	p.end(100 * time.Millisecond)
	select {
	case <-p.done:
	default:
		t.Error("it has not ended")
	}
	if _, err := spawn(exec.Command("/nonexistent/program")); err == nil {
		t.Error("a program that is not there starts")
	}
}

// Probe caches that QEMU refuses the accelerator, but not that the host lacks memory or space. The latter is an error,
// because the guests of a run must not differ in their accelerator.
func TestProbeCachesNoShortage(t *testing.T) {
	accel, _ := mayAccelerate()
	if accel == "" {
		t.Skip("this host has no accelerator")
	}
	dir := t.TempDir()
	probe := func(text, work string) (Accelerator, error) {
		t.Helper()
		binary := filepath.Join(dir, "qemu")
		if err := os.WriteFile(binary, []byte("#!/bin/sh\necho '"+text+"' >&2\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return Probe(t.Context(), Config{Binary: binary, Memory: 64 << 20}, "6.1", dir, work, func(string) bool { return false })
	}
	for text, work := range map[string]string{"cannot set up guest memory: Cannot allocate memory": dir, "never started": filepath.Join(dir, "gone")} {
		a, err := probe(text, work)
		if err == nil || !strings.Contains(err.Error(), "test "+accel) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
		if _, tested := Known(dir); tested {
			t.Errorf("%s: the result is cached", text)
		}
	}
	a, err := probe("failed to initialize it: Permission denied", dir)
	if err != nil || a.Name != "tcg" || !strings.Contains(a.Why, "Permission denied") {
		t.Errorf("refused: %+v, %v", a, err)
	}
	if name, tested := Known(dir); name != "tcg" || !tested {
		t.Errorf("refused: the cache has %q, %v", name, tested)
	}
}

func TestPassing(t *testing.T) {
	slow := errors.New("no guest booted within 5s")
	many := float64(2 * runtime.NumCPU())
	for _, c := range []struct {
		err  error
		used time.Duration
		load float64
		want bool
	}{
		{slow, 4 * time.Second, many, false}, {slow, 100 * time.Millisecond, 0, false}, {slow, 100 * time.Millisecond, many, true},
		{errors.New("QEMU ended: signal: killed"), time.Second, 0, true}, {errors.New("QEMU ended: exit status 1"), 0, many, false},
		{errors.New("QEMU ended: exit status 1\nlast lines of its console:\n  pci: Cannot allocate memory"), 0, 0, false},
		{errors.New("ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy"), 0, 0, true},
	} {
		if got := passing(c.err, c.used, c.load); got != c.want {
			t.Errorf("%v after %v of CPU time, load %v: %v", c.err, c.used, c.load, got)
		}
	}
}
