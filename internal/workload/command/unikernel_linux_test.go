package command

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
)

// bootable returns the parts of a micro-guest: kernel, initial RAM disk, and the disk with its tools.
func bootable(t *testing.T, ctx context.Context) (kernel, initrd, tools string) {
	t.Helper()
	cache := guesttest.CacheDir(t)
	k, err := guest.FindKernel(ctx, cache)
	if err != nil {
		if k, err = guest.FetchKernel(ctx, cache, t.Logf); err != nil {
			t.Fatal(err)
		}
	}
	if initrd, err = guest.Initramfs(ctx, cache, k, guesttest.Init(t)); err != nil {
		t.Fatal(err)
	}
	if tools, err = guest.Tools(ctx, cache); err != nil {
		t.Fatal(err)
	}
	return k.Image, initrd, tools
}

// A unikernel has no shell. It reads its command from the kernel command line, and prints its output to the serial
// port. The workload `command` runs QEMU with the unikernel. In this test, a micro-guest acts as the unikernel.
func TestUnikernel(t *testing.T) {
	long.Test(t)
	const qemu = "qemu-system-x86_64"
	if _, err := exec.LookPath(qemu); err != nil {
		t.Skip("needs " + qemu)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	kernel, initrd, tools := bootable(t, ctx)
	machineLine := []string{qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512M",
		"-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
		"-drive", "if=none,id=d,file=" + tools + ",format=raw,readonly=on", "-device", "virtio-blk-pci,drive=d,serial=" + guest.ToolsSerial}
	boots := func(command string) string {
		return iotax.QuoteAll(append(machineLine, "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check iotax.guest=1 IOTAX_GUEST=1 -- "+command))
	}
	s := commandOf(boots("fio --name=x --directory=/tmp --size=4m --rw=randread --bs=4k --ioengine=psync --minimal"))
	s.Values = map[string]string{
		"boot":      `iotax-boot: ready (?<s>[0-9.]+)`,
		"read.iops": `3;fio-[0-9.]+;x;0;0;\d+;\d+;(?<per_s>\d+);`,
		"exit":      `iotax-boot: exit [0-9.]+ (?<count>\d+)`,
	}
	s.Timeout = plan.Duration(3 * time.Minute)
	out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), t.TempDir()))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Raw)
	}
	worktest.Want(t, out, "boot", 0.1, 180)
	worktest.Want(t, out, "read.iops", 1, 1e7)
	worktest.Want(t, out, "exit", 0, 0)

	// A command that fails prints no result, so the trial fails.
	s.Run = boots("fio --no-such-option")
	if out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), t.TempDir())); err == nil {
		t.Errorf("a command that fails has values %v", out.Values)
	}
}

// In this test, the unikernel is a machine of kind qemu with the key `console:`. iotax reads the boot line, the results
// between two marker lines, and the status from the console.
func TestConsole(t *testing.T) {
	long.Test(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("needs qemu-system-x86_64")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	kernel, initrd, tools := bootable(t, ctx)
	var kind machine.Kind
	for _, k := range machine.Kinds() {
		if k.Name == "qemu" {
			kind = k
		}
	}
	open := func(change func(*vm.Spec)) iotax.Machine {
		s := kind.New().(*vm.Spec)
		s.Memory, s.Accel, s.Kernel, s.Initrd = 512<<20, "tcg", kernel, initrd
		s.Args = []string{"-drive", "if=none,id=d,file=" + tools + ",format=raw,readonly=on", "-device", "virtio-blk-pci,drive=d,serial=" + guest.ToolsSerial}
		s.Console = vm.Console{Command: "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check iotax.guest=1 IOTAX_GUEST=1 -- {command}",
			Boot: `iotax-boot: ready (?<s>[0-9.]+)`, Begin: `iotax-boot: ready`, End: `iotax-boot: exit`, Status: `iotax-boot: exit [0-9.]+ ([0-9]+)`}
		if change != nil {
			change(s)
		}
		m, err := machine.Open(ctx, plan.Machine{Name: "unikernel", Kind: "qemu", Spec: s}, machine.Options{CacheDir: guesttest.CacheDir(t), WorkDir: t.TempDir(), Init: guesttest.Init(t), Log: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	m := open(nil)
	tgt := &iotax.Target{Name: "unikernel", Machine: m, Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/", Facts: map[string]string{}}}
	s := commandOf("fio --name=x --directory=/tmp --size=4m --rw=randread --bs=4k --ioengine=psync --minimal")
	s.Values = map[string]string{"read.iops": `3;fio-[0-9.]+;x;0;0;\d+;\d+;(?<per_s>\d+);`}
	out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), tgt)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Raw)
	}
	worktest.Want(t, out, "read.iops", 1, 1e7)
	boot, _ := out.Value("boot.duration")
	d, _ := out.Value("duration")
	if !(boot.Value > 0.05) || !(d.Value > 0) {
		t.Errorf("booted in %v of %v", boot, d)
	}
	worktest.Want(t, out, "cpu.host", 0.01, 64)
	if strings.Contains(string(out.Raw), "iotax-boot:") {
		t.Errorf("what stands around the results is among them:\n%s", out.Raw)
	}

	// A status other than 0 fails the trial, and so does a console without an expected line.
	var exit *iotax.ExitError
	if out, err := worktest.Attempt(t, worktest.Made(t, Kind, commandOf("fio --no-such-option")), tgt); !errors.As(err, &exit) || exit.Code == 0 {
		t.Errorf("a command that fails: %v, %v", out.Values, err)
	}
	mute := open(func(s *vm.Spec) { s.Console.Boot = `Booted up in (?<ms>[0-9.]+) ms` })
	if _, err := worktest.Attempt(t, worktest.Made(t, Kind, commandOf("true")), &iotax.Target{Name: "mute", Machine: mute, Place: tgt.Place}); err == nil || !strings.Contains(err.Error(), "the time of booting") {
		t.Errorf("a console without the line: %v", err)
	}

	// The guest can run only one command. Check rejects a shell and hooks before anything is booted.
	for _, change := range []func(*Command){func(c *Command) { c.Shell = true }, func(c *Command) { c.Setup = "true" }} {
		c := commandOf("true")
		change(c)
		if err := worktest.Made(t, Kind, c).Check(ctx, tgt); err == nil || !strings.Contains(err.Error(), "no shell") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := m.Run(ctx, iotax.Command("sh", "-c", "true")); err == nil || !strings.Contains(err.Error(), "no shell") {
		t.Errorf("a shell: %v", err)
	}
}
