package workload

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"iotax"
	"iotax/guest"
	"iotax/guest/guesttest"
	"iotax/machine"
	"iotax/plan"
)

// A unikernel has no shell to log into: its command stands on its kernel's command line, and what it has to
// say comes over the serial port. To the kind command it is a program of this host like any other. The
// micro-guest plays the part: a boot line with its time, a command, its output, and the end.
func TestUnikernel(t *testing.T) {
	const qemu = "qemu-system-x86_64"
	if _, err := exec.LookPath(qemu); err != nil {
		t.Skip("needs " + qemu)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cache := guesttest.CacheDir(t)
	kernel, err := guest.FindKernel(ctx, cache, t.Logf)
	if err != nil {
		if kernel, err = guest.FetchKernel(ctx, cache, t.Logf); err != nil {
			t.Fatal(err)
		}
	}
	initrd, err := guest.Initramfs(ctx, cache, kernel, guesttest.Init(t))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := guest.Tools(ctx, cache)
	if err != nil {
		t.Fatal(err)
	}
	machineLine := []string{qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512M",
		"-serial", "stdio", "-kernel", kernel.Image, "-initrd", initrd,
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
	s.Headline = "read.iops"
	s.Timeout = plan.Duration(3 * time.Minute)
	out, err := attempt(t, made(t, "command", s), target(machine.Local(), t.TempDir()))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Raw)
	}
	want(t, out, "boot", 0.1, 180)
	want(t, out, "read.iops", 1, 1e7)
	want(t, out, "exit", 0, 0)

	// One that fails prints no result: the trial says what is missing.
	s.Run = boots("fio --no-such-option")
	if out, err := attempt(t, made(t, "command", s), target(machine.Local(), t.TempDir())); err == nil {
		t.Errorf("a command that fails has values %v", out.Values)
	}
}
