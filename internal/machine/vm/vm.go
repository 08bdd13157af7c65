// Package vm starts QEMU guests for a run: the built-in micro-guest, a user's image, or a guest without a shell.
package vm

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
)

// Spec is the spec of kind qemu: a guest that is started for the run and ended afterwards. Without an image and a
// console, the guest is the built-in micro-guest.
type Spec struct {
	Memory      plan.Size     `yaml:"memory" doc:"memory of the guest; the micro-guest needs 256MiB"`
	CPUs        int           `yaml:"cpus" doc:"virtual CPUs"`
	Accel       string        `yaml:"accel" doc:"auto uses kvm or hvf if a guest boots with it, else tcg (emulation); kvm, hvf and tcg allow only that one"`
	Binary      string        `yaml:"binary" doc:"QEMU to start, a program or a path, as in /opt/qemu-9.2/bin/qemu-system-x86_64; empty means the one in PATH"`
	Machine     string        `yaml:"machine" doc:"QEMU machine type; empty means q35 or virt"`
	CPU         string        `yaml:"cpu" doc:"QEMU CPU model; empty means max under emulation, host otherwise"`
	Image       string        `yaml:"image" doc:"disk image of your own (qcow2 or raw) to boot instead of the micro-guest; it is never written to"`
	User        string        `yaml:"user" doc:"login name in the image; cloud-init installs a key made for the boot. Disks and shares need root"`
	Identity    string        `yaml:"identity" doc:"private key file that the image accepts, for images without cloud-init"`
	Kernel      string        `yaml:"kernel" doc:"kernel to boot instead of the host's own (micro-guest) or the image's"`
	Initrd      string        `yaml:"initrd" doc:"initial RAM disk to boot with kernel and image"`
	Append      string        `yaml:"append" doc:"arguments to add to the kernel's command line"`
	Args        []string      `yaml:"args" doc:"arguments to add to QEMU's command line"`
	Pin         string        `yaml:"pin" doc:"CPUs of this host that the guest is pinned to, as in 2-3; auto takes the last ones, one for each virtual CPU. The load generator and the servers of shares get the other CPUs"`
	PinMemory   string        `yaml:"pin_memory" doc:"NUMA nodes of this host that the guest's memory is taken from, as in 0"`
	Fresh       bool          `yaml:"fresh" doc:"boot a new guest for each trial, and make its places and files again; otherwise one guest serves the whole run"`
	Console     Console       `yaml:"console" doc:"for a guest without a shell: how it receives its command and prints its results"`
	BootTimeout plan.Duration `yaml:"boot_timeout" doc:"time limit until the guest's agent answers, or of each command with a console; 0 means 1m, or 5m with an image or a console"`
}

func (s *Spec) Traits() plan.Traits {
	can := plan.Traits{
		Tools:     []string{cmp.Or(s.Binary, qemu.Binary())},
		HostFiles: []*string{&s.Image, &s.Identity, &s.Kernel, &s.Initrd},
		SetImage:  s.setImage,
		EachTrial: s.Fresh,
		Nests:     s.Image == "" && s.Console == (Console{}),
	}
	if plan.IsPath(s.Binary) {
		can.HostFiles = append(can.HostFiles, &s.Binary)
	}
	if s.Image != "" {
		can.Tools = append(can.Tools, "qemu-img", "ssh")
	}
	return can
}

// Kind defines the machine kind qemu.
var Kind = kind.Of("qemu", "a virtual machine started for the run: the built-in micro-guest, or your own image",
	Spec{Memory: 1 << 30, CPUs: 1, Accel: "auto", User: "root"}, open).WithCheck(check)

// check returns an error if QEMU on this host, or virtiofsd, lacks an option that the device needs.
func check(ctx context.Context, spec plan.Spec, d iotax.Device) error {
	return qemu.Check(ctx, spec.(*Spec).Binary, d)
}

// These are the time limits of a boot if boot_timeout is 0. The schema states both values.
const (
	microTimeout = time.Minute
	imageTimeout = 5 * time.Minute
)

// minMemory is the minimum memory of the micro-guest. While the kernel unpacks the initramfs, it needs twice the
// initramfs's size.
const minMemory = 256 << 20

// Validate checks the spec without starting a guest.
func (s *Spec) Validate() error {
	switch {
	case s.Memory%(1<<20) != 0:
		return &plan.FieldError{Field: "memory", Msg: "is not a whole number of MiB", Hint: "as in 512MiB"}
	case s.Image == "" && s.Console == (Console{}) && s.Memory < minMemory:
		return &plan.FieldError{Field: "memory", Msg: fmt.Sprintf("%v is too little for the micro-guest", s.Memory), Hint: fmt.Sprintf("%v or more", plan.Size(minMemory))}
	case s.Memory <= 0:
		return &plan.FieldError{Field: "memory", Msg: "must be more than nothing", Hint: "as in 1GiB"}
	case slices.Contains(s.Args, "-snapshot") || slices.Contains(s.Args, "--snapshot"):
		return &plan.FieldError{Field: "args", Msg: "with -snapshot the writes to every disk go elsewhere, and flushes are ignored", Hint: "leave it out: an image is never written to"}
	case s.CPUs < 1 || s.CPUs > 255:
		return &plan.FieldError{Field: "cpus", Msg: fmt.Sprintf("%d is not a number from 1 to 255", s.CPUs)}
	case s.Accel != "auto" && s.Accel != "kvm" && s.Accel != "hvf" && s.Accel != "tcg":
		return &plan.FieldError{Field: "accel", Msg: fmt.Sprintf("%q is not one of auto, kvm, hvf, tcg", s.Accel)}
	case s.Console != (Console{}):
		return s.validateConsole()
	case s.Initrd != "" && (s.Image == "" || s.Kernel == ""):
		return &plan.FieldError{Field: "initrd", Msg: "goes with an image and a kernel", Hint: "the micro-guest brings its own"}
	case s.Append != "" && s.Image != "" && s.Kernel == "":
		return &plan.FieldError{Field: "append", Msg: "needs a kernel: that of the image has its own command line", Hint: "name kernel: too"}
	case s.Identity != "" && s.Image == "":
		return &plan.FieldError{Field: "identity", Msg: "goes with an image", Hint: "the micro-guest needs no key"}
	case s.Image != "" && (s.User == "" || strings.ContainsAny(s.User, " \t\n:\"'\\")):
		return &plan.FieldError{Field: "user", Msg: fmt.Sprintf("%q is not a login name", s.User)}
	case s.Pin != "" && s.Pin != autoPin && firstErr(parseCPUs(s.Pin)) != nil:
		return &plan.FieldError{Field: "pin", Msg: firstErr(parseCPUs(s.Pin)).Error(), Hint: "as in 2-3"}
	case s.PinMemory != "" && firstErr(parseCPUs(s.PinMemory)) != nil:
		return &plan.FieldError{Field: "pin_memory", Msg: firstErr(parseCPUs(s.PinMemory)).Error(), Hint: "as in 0"}
	case s.BootTimeout < 0:
		return &plan.FieldError{Field: "boot_timeout", Msg: "must not be negative"}
	}
	return nil
}

// dropsFlushes matches QEMU arguments that make QEMU acknowledge flushes without performing them.
var dropsFlushes = regexp.MustCompile(`cache=unsafe|snapshot=on|no-flush"?[=:] *"?(on|true)`)

// extraDurability returns the best durability that a flush can provide on the disks in args.
func extraDurability(args []string) iotax.Durability {
	if slices.ContainsFunc(args, dropsFlushes.MatchString) {
		return iotax.FlushIgnored
	}
	return iotax.Durable
}

// setImage applies the flag --image. path is relative to the working directory, not to the plan file.
func (s *Spec) setImage(path string) {
	s.Image = path
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		s.Image = abs
	}
}

func open(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	o.Name = cmp.Or(o.Name, "guest")
	switch {
	case o.On != nil:
		return openOn(ctx, s, o)
	case s.Console.Command != "":
		return openConsole(ctx, s, o)
	}
	return boot(ctx, s, o, again{})
}

func firstErr[T any](_ T, err error) error { return err }
