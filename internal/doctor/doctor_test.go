package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
)

// scripted is a machine that answers a command if its command line starts with one of the keys. It does not find any
// other command.
type scripted map[string]answer

type answer struct {
	out   string
	err   error
	sleep time.Duration
}

func (scripted) String() string              { return "host" }
func (scripted) Caps() iotax.MachineCaps     { return iotax.MachineCaps{Local: true} }
func (scripted) Close(context.Context) error { return nil }
func (s scripted) Run(ctx context.Context, c *iotax.Cmd) error {
	line := strings.Join(c.Args, " ")
	best := ""
	for k := range s {
		if strings.HasPrefix(line, k) && len(k) > len(best) {
			best = k
		}
	}
	a, ok := s[best]
	if !ok {
		return &iotax.ExitError{Args: c.Args, Code: 127, Stderr: "not found"}
	}
	select {
	case <-time.After(a.sleep):
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.Stdout != nil {
		io.WriteString(c.Stdout, a.out)
	}
	return a.err
}

func want(t *testing.T, what string, got Check, status Status, words ...string) {
	t.Helper()
	if got.Status != status {
		t.Errorf("%s: %+v, want status %q", what, got, status)
	}
	if status != OK && status != "" && got.Detail == "" {
		t.Errorf("%s: no detail", what)
	}
	for _, w := range words {
		if !strings.Contains(got.Detail+"\n"+got.Hint, w) {
			t.Errorf("%s: %q is not in %+v", what, w, got)
		}
	}
}

const fioJSON = `{"fio version":"fio-3.33","jobs":[{"jobname":"doctor","error":%d,"read":{},"write":{}}]}`

func TestFio(t *testing.T) {
	ctx := context.Background()
	broken := &iotax.ExitError{Args: []string{"fio"}, Code: 1, Stderr: "fio: cannot open shared object\nmore"}
	for _, x := range []struct {
		what   string
		host   scripted
		status Status
		words  []string
	}{
		{"none", scripted{}, Missing, []string{"not found", "install"}},
		{"new", scripted{"fio --version": {out: "fio-3.36-19-gb4d9\n"}}, OK, []string{"3.36-19-gb4d9"}},
		{"old", scripted{"fio --version": {out: "fio-2.21\n"}}, Warn, []string{"2.21 is too old"}},
		{"broken", scripted{"fio --version": {err: broken}}, Warn, []string{"cannot open shared object"}},
	} {
		e := &examiner{Options: Options{Host: x.host, TempDir: t.TempDir()}, root: t.TempDir()}
		want(t, x.what, e.fio(ctx), x.status, x.words...)
	}
	ok, bad := answer{out: fmt.Sprintf(fioJSON, 0)}, answer{out: fmt.Sprintf(fioJSON, 38)}
	run := "fio --name=doctor --ioengine="
	all := answer{out: "Available IO engines:\n\tio_uring\n\tlibaio\n\tposixaio\n\tpsync\n"}
	for _, x := range []struct {
		what   string
		host   scripted
		status Status
		words  []string
	}{
		{"no fio", scripted{}, "", nil},
		{"all work", scripted{"fio --enghelp": all, run: ok}, OK, []string{"io_uring, libaio, posixaio, psync"}},
		{"io_uring refused", scripted{"fio --enghelp": all, run: ok, run + "io_uring": {err: &iotax.ExitError{Code: 1, Stderr: "fio: io_queue_init failed\n"}}}, Warn, []string{"libaio, posixaio, psync; not: io_uring (fio: io_queue_init failed)", "seccomp"}},
		{"an error in the job", scripted{"fio --enghelp": all, run: ok, run + "libaio": bad}, OK, []string{"not: libaio (error 38)"}},
		{"not built in", scripted{"fio --enghelp": {out: "\tpsync\n"}, run: ok}, Warn, []string{"psync; not: io_uring (not in this fio)"}},
		{"none works", scripted{"fio --enghelp": all, run: bad}, Missing, []string{"not: io_uring (error 38)"}},
	} {
		dir := t.TempDir()
		e := &examiner{Options: Options{Host: x.host, TempDir: dir}, root: t.TempDir()}
		want(t, x.what, e.engines(ctx), x.status, x.words...)
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v behind", x.what, left)
		}
	}
}

func TestTools(t *testing.T) {
	ctx := context.Background()
	e := &examiner{root: t.TempDir()}
	e.Host = scripted{
		"qemu-system-": {out: "QEMU emulator version 7.2.22 (Debian)\nCopyright\n"}, "busybox": {out: "BusyBox v1.35.0 (Debian) multi-call binary.\n"},
		"iperf3": {out: "iperf 3.12 (cJSON 1.7.15)\nLinux\n"}, "/usr/sbin/mke2fs -V": {out: "mke2fs 1.47.0 (5-Feb-2023)\n\tUsing\n"},
		"qemu-nbd": {out: "qemu-nbd 7.2.22 (Debian 1:7.2)\nWritten by\n"}, "nbdcopy": {out: "nbdcopy 1.14.2\n"},
	}
	want(t, "qemu", e.qemu(ctx), OK, "7.2.22")
	want(t, "busybox", e.busybox(ctx), OK, "BusyBox v1.35.0 (Debian)")
	want(t, "iperf3", e.iperf3(ctx), OK, "3.12")
	want(t, "mke2fs", e.mke2fs(ctx), OK, "1.47.0")
	want(t, "nbd", e.nbd(ctx), OK, "qemu-nbd 7.2.22, nbdcopy 1.14.2")
	e.Host = scripted{"qemu-nbd": {out: "qemu-nbd 7.2.22\n"}}
	want(t, "no nbdcopy", e.nbd(ctx), Missing, "nbdcopy: not found", "install")
	e.Host = scripted{}
	for name, c := range map[string]Check{"qemu": e.qemu(ctx), "busybox": e.busybox(ctx), "iperf3": e.iperf3(ctx), "mke2fs": e.mke2fs(ctx), "nbd": e.nbd(ctx)} {
		want(t, "no "+name, c, Missing, "not found", "install")
	}
}

func TestContainerEngine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	down := errors.Join(&iotax.Error{Op: "connect to docker", Err: errors.New("no such file"), Hint: "start Docker"})
	for _, c := range Examine(t.Context(), Options{Host: scripted{}, TempDir: t.TempDir(),
		Docker:     func(context.Context) (string, error) { return "", down },
		Podman:     func(context.Context) (string, error) { return "5.1 at unix:///run/podman.sock", nil },
		Kubernetes: func(context.Context) (string, error) { return "", errors.New("no configuration") },
	}) {
		switch c.Name {
		case "docker":
			want(t, "no daemon", c, Missing, "no such file", "start Docker; or ", "install docker")
		case "podman":
			want(t, "daemon", c, OK, "5.1 at unix://")
		case "kubernetes":
			want(t, "no cluster", c, Missing, "no configuration")
		}
	}
}

func TestHostFiles(t *testing.T) {
	ctx := context.Background()
	with := func(files map[string]string) *examiner {
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return &examiner{Options: Options{Host: scripted{}}, root: root}
	}
	const uring, clock = "proc/sys/kernel/io_uring_disabled", "sys/devices/system/clocksource/clocksource0/current_clocksource"
	governor := func(n int) string { return fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", n) }
	for _, x := range []struct {
		what   string
		files  map[string]string
		run    func(*examiner) func(context.Context) Check
		status Status
		words  []string
	}{
		{"io_uring on", map[string]string{uring: "0\n"}, func(e *examiner) func(context.Context) Check { return e.ioUring }, OK, nil},
		{"io_uring off", map[string]string{uring: "2\n"}, func(e *examiner) func(context.Context) Check { return e.ioUring }, Warn, []string{"sysctl"}},
		{"io_uring unknown", nil, func(e *examiner) func(context.Context) Check { return e.ioUring }, "", nil},
		{"governor", map[string]string{governor(0): "performance\n", governor(1): "performance\n"}, func(e *examiner) func(context.Context) Check { return e.governor }, OK, []string{"performance"}},
		{"mixed governors", map[string]string{governor(0): "performance\n", governor(10): "schedutil\n"}, func(e *examiner) func(context.Context) Check { return e.governor }, Warn, []string{"performance, schedutil", "cpupower"}},
		{"no governor", nil, func(e *examiner) func(context.Context) Check { return e.governor }, "", nil},
		{"turbo", map[string]string{"sys/devices/system/cpu/intel_pstate/no_turbo": "0"}, func(e *examiner) func(context.Context) Check { return e.turbo }, OK, []string{"on"}},
		{"no turbo", map[string]string{"sys/devices/system/cpu/cpufreq/boost": "0"}, func(e *examiner) func(context.Context) Check { return e.turbo }, OK, []string{"off"}},
		{"tsc", map[string]string{clock: "tsc\n"}, func(e *examiner) func(context.Context) Check { return e.clockSource }, OK, []string{"tsc"}},
		{"hpet", map[string]string{clock: "hpet\n"}, func(e *examiner) func(context.Context) Check { return e.clockSource }, Warn, []string{"hpet", "dmesg"}},
		{"swapping", map[string]string{"proc/meminfo": "MemTotal: 100 kB\nSwapTotal: 2097148 kB\nSwapFree: 1000000 kB\n"}, func(e *examiner) func(context.Context) Check { return e.swap }, Warn, []string{"1.0 GiB of 2.0 GiB"}},
		{"swap", map[string]string{"proc/meminfo": "SwapTotal: 2097148 kB\nSwapFree: 2097148 kB\n"}, func(e *examiner) func(context.Context) Check { return e.swap }, OK, nil},
		{"little memory", map[string]string{"proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n"}, func(e *examiner) func(context.Context) Check { return e.memory }, Warn, []string{"488 MiB"}},
		{"no meminfo", map[string]string{"proc/meminfo": "x\n: kB\n"}, func(e *examiner) func(context.Context) Check { return e.memory }, "", nil},
		{"drop caches", map[string]string{"proc/sys/vm/drop_caches": ""}, func(e *examiner) func(context.Context) Check { return e.dropCaches }, OK, nil},
		{"no drop_caches", nil, func(e *examiner) func(context.Context) Check { return e.dropCaches }, Warn, []string{"--warm"}},
	} {
		want(t, x.what, x.run(with(x.files))(ctx), x.status, x.words...)
	}
	want(t, "no stage clock", (&examiner{Options: Options{TempDir: "/proc"}}).stageClocks(ctx), Warn, "below /proc", "iostats")
	want(t, "idle", judgeLoad("0.20 0.1 0.1 1/2 3", 4), OK, "0.2 on 4 CPUs")
	want(t, "busy", judgeLoad("2.10 0.1 0.1 1/2 3", 4), Warn, "2.1 on 4 CPUs")
	want(t, "no load", judgeLoad("", 4), "")
	want(t, "little space", judgeSpace("/x", 100<<20), Missing, "100 MiB free at /x")
	want(t, "some space", judgeSpace("/x", 2<<30), Warn)
	want(t, "space", judgeSpace("/x", 100<<30), OK)
	want(t, "metal", judgeVirtualisation(map[string]string{"hypervisor": "none"}), OK, "none")
	want(t, "guest", judgeVirtualisation(map[string]string{"hypervisor": "kvm", "container": "docker"}), Warn, "a virtual machine (kvm) and a container (docker)")
	want(t, "not known", judgeVirtualisation(nil), "")
	e := with(nil)
	missing := filepath.Join(e.root, "not/made/yet")
	want(t, "space for what is to be made", e.space(missing)(ctx), e.space(e.root)(ctx).Status, "free at "+missing)
}

func TestDeadline(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	start := time.Now()
	got := Examine(context.Background(), Options{
		Host: scripted{"fio --version": {out: "fio-3.33"}, "fio --enghelp": {sleep: time.Hour}}, TempDir: t.TempDir(), Limit: 300 * time.Millisecond,
		Kernel: func(context.Context) (string, error) { <-block; return "", nil }, // ignores the deadline
		Accel:  func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() },
		Virtiofsd: func(context.Context) (string, error) {
			return "", &iotax.Error{Op: "find virtiofsd", Err: errors.New("not there"), Hint: "install it"}
		},
	})
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s", took)
	}
	by := map[string]Check{}
	for _, c := range got {
		by[c.Name] = c
	}
	want(t, "fio", by["fio"], OK)
	want(t, "engines", by["fio engines"], Warn, "no answer")
	want(t, "kernel", by["guest kernel"], Warn, "no answer within 300ms")
	want(t, "acceleration", by["acceleration"], Warn, "no answer")
	if c := by["virtiofsd"]; c != (Check{"virtiofsd", Missing, "find virtiofsd: not there", "install it"}) {
		t.Errorf("virtiofsd: %+v", c)
	}
	if got[0].Name != "fio" || got[len(got)-1].Name == "fio" {
		t.Errorf("order: %v", got)
	}
}

func TestAcceleration(t *testing.T) {
	for detail, status := range map[string]Status{"kvm: /dev/kvm boots": OK, "tcg: there is no /dev/kvm": Warn} {
		for _, c := range Examine(context.Background(), Options{Host: scripted{}, TempDir: t.TempDir(),
			Accel: func(context.Context) (string, error) { return detail, nil }}) {
			if c.Name == "acceleration" {
				want(t, detail, c, status, detail)
			}
		}
	}
}

// On the real host, Examine returns in time. Every check has a name, a status and a detail, and leaves nothing behind.
func TestExamineHere(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	got := Examine(context.Background(), Options{Host: host.Local(), CacheDir: filepath.Join(dir, "cache"), TempDir: dir})
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s", took)
	}
	seen := map[string]bool{}
	for _, c := range got {
		t.Logf("%-8s %-15s %s (%s)", c.Status, c.Name, c.Detail, c.Hint)
		if c.Name == "" || seen[c.Name] || (c.Status != OK && c.Status != Warn && c.Status != Missing) || c.Detail == "" || strings.Contains(c.Detail+c.Hint, "\n") {
			t.Errorf("%+v", c)
		}
		if c.Status == Missing && c.Hint == "" {
			t.Errorf("no hint: %+v", c)
		}
		seen[c.Name] = true
	}
	for _, name := range []string{"fio", "qemu", "space", "cache"} {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Leftovers are reported even if the search was incomplete.
func TestLeftoversFoundDespiteErrors(t *testing.T) {
	c := leftovers(func(context.Context) (string, string, error) {
		return "2 directories of crashed runs", "s3://h/b", errors.New("the store is damaged")
	})(t.Context())
	for _, want := range []string{"the store is damaged", "2 directories", "s3://h/b was not asked"} {
		if c.Status != Warn || !strings.Contains(c.Detail, want) {
			t.Errorf("%+v does not say %q", c, want)
		}
	}
}

// fio does its I/O in the directory, even if the directory's name contains special characters.
func TestEngineInAnyDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a#b:c;d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (&examiner{Options: Options{Host: host.Local()}}).engine(t.Context(), "psync", dir); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(top); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 || all[0].Name() != "psync" {
		t.Errorf("%v, %v", all, err)
	}
}

// One check names all missing tools and gives one command line that installs them.
func TestLacking(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"apt-get", "there"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	found := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	tools := []Tool{{Name: "there"}, {Name: "nbdcopy"}, {Name: "no-such-tool"}, {Name: "nbdinfo"}, {Name: "hidden", Find: found(nil)}, {Name: "built", Find: found(os.ErrNotExist), Get: "make built"}}
	c := Lacking(t.Context(), tools)
	if c.Status != Missing || c.Detail != "this host lacks nbdcopy, no-such-tool, nbdinfo, built" || c.Hint != "apt-get install libnbd-bin no-such-tool && make built" {
		t.Errorf("%+v", c)
	}
	if c := Lacking(t.Context(), []Tool{tools[0], tools[4]}); c.Status != OK || c.Hint != "" {
		t.Errorf("%+v", c)
	}
}

// openFiles warns if the soft limit of a child process is low.
func TestOpenFiles(t *testing.T) {
	e := &examiner{Options: Options{Host: host.Local()}}
	if c := e.openFiles(t.Context()); c.Status == "" || c.Detail == "" {
		t.Errorf("this host: %+v", c)
	}
	for limits, status := range map[string]Status{
		"Max open files            1024                 524288               files": OK,
		"Max open files            unlimited            unlimited            files": OK,
		"Max open files            256                  524288               files": Warn,
		"": "",
	} {
		e.Host = scripted{"cat /proc/self/limits": {out: "Limit Soft Hard Units\n" + limits + "\n"}}
		want(t, limits, e.openFiles(t.Context()), status)
	}
}
