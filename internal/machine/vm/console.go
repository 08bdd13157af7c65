package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// Console describes a guest without a shell (a unikernel). The kernel command line contains the guest's command, and the
// guest prints the results on the serial port.
type Console struct {
	Command string `yaml:"command" doc:"kernel command line, with {command} for the command to run. With this key the guest has no shell and is booted for each command"`
	Boot    string `yaml:"boot" doc:"regular expression for the line with the boot time, with a group named after the unit, as in 'Booted up in (?<ms>[0-9.]+) ms'"`
	Begin   string `yaml:"begin" doc:"regular expression for the line before the results; empty: they begin with the first line"`
	End     string `yaml:"end" doc:"regular expression for the line after the results; empty: they end with the guest"`
	Status  string `yaml:"status" doc:"regular expression for the line with the exit status, which is its one group; empty: every command succeeds"`
}

// consolePatterns contains the compiled patterns of a Console. A pattern is nil if its text is empty.
type consolePatterns struct{ boot, begin, end, status *regexp.Regexp }

// bootUnits maps the possible names of the group in Boot to units.
var bootUnits = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

func (c Console) compile() (p consolePatterns, err error) {
	for _, f := range []struct {
		key, text string
		to        **regexp.Regexp
	}{{"boot", c.Boot, &p.boot}, {"begin", c.Begin, &p.begin}, {"end", c.End, &p.end}, {"status", c.Status, &p.status}} {
		if f.text == "" {
			continue
		}
		if *f.to, err = regexp.Compile(f.text); err != nil {
			return p, &plan.FieldError{Field: "console." + f.key, Msg: err.Error(), Hint: "the syntax is that of RE2"}
		}
	}
	if p.boot != nil && !slices.ContainsFunc(p.boot.SubexpNames(), func(n string) bool { return bootUnits[n] > 0 }) {
		return p, &plan.FieldError{Field: "console.boot", Msg: "it has no group that is called ns, us, ms or s", Hint: "as in 'Booted up in (?<ms>[0-9.]+) ms'"}
	}
	if p.status != nil && p.status.NumSubexp() != 1 {
		return p, &plan.FieldError{Field: "console.status", Msg: "it needs one group, around the number", Hint: "as in 'exit status ([0-9]+)'"}
	}
	return p, nil
}

// validateConsole returns an error for an invalid Console, or for settings that a guest without a shell does not
// support.
func (s *Spec) validateConsole() error {
	_, err := s.Console.compile()
	switch {
	case s.Console == (Console{}):
		return nil
	case s.Console.Command == "":
		return &plan.FieldError{Field: "console.command", Msg: "the kernel's command line is not set", Hint: "as in command: '--verbose {command}'"}
	case !strings.Contains(s.Console.Command, "{command}"):
		return &plan.FieldError{Field: "console.command", Msg: "the command has no place in it", Hint: "put {command} where it belongs"}
	case s.Kernel == "":
		return &plan.FieldError{Field: "console.command", Msg: "there is no kernel that has a command line", Hint: "name kernel: too"}
	case s.Append != "" || s.Identity != "" || s.Fresh || s.Pin != "" || s.PinMemory != "":
		return &plan.FieldError{Field: "console.command", Msg: "such a guest is booted for each command, and is neither logged into nor pinned", Hint: "leave out append, identity, fresh, pin and pin_memory"}
	}
	return err
}

// A consoleGuest is a guest without a shell. iotax boots it for each command.
type consoleGuest struct {
	name     string
	config   qemu.Config // without the command
	command  string
	patterns consolePatterns
	timeout  time.Duration
	facts    map[string]string
	dirs     []string
	storage  iotax.Durability

	mu sync.Mutex
	vm *qemu.VM // QEMU of the running command; nil if no command runs
}

// openConsole prepares a guest without a shell. It does not boot the guest.
func openConsole(ctx context.Context, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	fail := func(err error, hint string) (iotax.Machine, error) {
		return nil, &iotax.Error{Op: "make ready machine", On: o.Name, Err: err, Hint: hint}
	}
	patterns, err := s.Console.compile()
	if err != nil {
		return fail(err, "")
	}
	if len(o.Devices) > 0 {
		return fail(errors.New("a guest without a shell cannot mount disks or shares"), "name its disks in image: and args:, and give its target own: {}")
	}
	g := &consoleGuest{name: o.Name, command: s.Console.Command, patterns: patterns, timeout: time.Duration(s.BootTimeout), facts: map[string]string{}, storage: extraDurability(s.Args),
		config: qemu.Config{Binary: s.Binary, Name: o.Name, Machine: s.Machine, CPU: s.CPU, CPUs: s.CPUs, Memory: int64(s.Memory), Extra: s.Args, Initrd: s.Initrd}}
	if g.timeout == 0 {
		g.timeout = imageTimeout
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close(ctx))
		}
	}()
	for _, f := range []struct{ key, path string }{{"kernel", s.Kernel}, {"initrd", s.Initrd}, {"image", s.Image}} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			return fail(err, f.key+": must be the path of a file on this host")
		}
		g.facts[f.key] = f.path
	}
	if _, err := g.config.Look(); err != nil {
		return nil, err
	}
	g.config.Kernel = s.Kernel
	if s.Image != "" {
		format, err := imageFormat(s.Image)
		if err != nil {
			return fail(err, "image: must be the path of a qcow2 or raw disk image on this host")
		}
		if hint, err := checkChain(ctx, s.Image, format); err != nil {
			return fail(err, hint)
		}
		dir, err := os.MkdirTemp(o.WorkDir, "vm-")
		if err != nil {
			return fail(err, "")
		}
		g.dirs = append(g.dirs, dir)
		g.config.Disks = []qemu.Disk{{ID: "iotax-image", Overlay: filepath.Join(dir, "overlay.qcow2"), Disk: iotax.Disk{Path: s.Image, Format: format, Cache: "writeback", AIO: "threads"}}}
		g.facts["device.iotax-image"] = g.config.Disks[0].Line()
		g.storage = iotax.Weakest(g.storage, probe.Durability(dir))
	} else if !slices.ContainsFunc(s.Args, disks.MatchString) {
		g.storage = iotax.Volatile // the guest has only its initial RAM disk
	}
	g.config.Accel, g.facts[iotax.FactAccelWhy] = s.Accel, "asked for"
	if s.Accel == "auto" {
		// Test the accelerator with the micro-guest, because the console output of a unikernel is unknown.
		if o.CacheDir == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				return fail(err, "")
			}
			o.CacheDir = filepath.Join(user, "iotax")
		}
		dir, err := os.MkdirTemp(o.WorkDir, "vm-")
		if err != nil {
			return fail(err, "")
		}
		g.dirs = append(g.dirs, dir)
		a, err := (&booting{spec: s, o: o, name: o.Name, dir: dir}).probeForImage(ctx)
		if err != nil {
			return nil, err
		}
		g.config.Accel, g.facts[iotax.FactAccelWhy] = a.Name, a.Why
	}
	g.facts[iotax.FactAccel] = g.config.Accel
	// The path of the control socket must be short, so the socket is below /tmp.
	sockets, err := leftover.MkdirTemp("/tmp")
	if err != nil {
		return fail(err, "")
	}
	g.dirs, g.config.QMP = append(g.dirs, sockets), filepath.Join(sockets, "qmp")
	return g, nil
}

// disks matches QEMU arguments that add storage to the guest.
var disks = regexp.MustCompile(`^--?(drive|blockdev|hd[abcd]|sd|fsdev|virtfs)$|vhost-user-(blk|fs)|vfio`)

// Weakens returns the weakest durability of the image's overlay and of the disks in the plan key "args". If the guest
// has neither, Weakens returns iotax.Volatile.
func (g *consoleGuest) Weakens(_, _ string) iotax.Durability { return g.storage }

func (g *consoleGuest) String() string { return g.name }

func (g *consoleGuest) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Facts: g.facts, Weakens: g.Weakens, Processes: g.Processes, RunOnConsole: g.RunOnConsole}
}

// Run always fails: its callers need a shell, files or an exit status.
func (g *consoleGuest) Run(_ context.Context, cmd *iotax.Cmd) error {
	return &iotax.Error{Op: "run " + strings.Join(cmd.Args, " "), On: "on " + g.name, Err: errors.New("the guest has no shell: it is booted for one command"), Hint: "use the workload command for it, without shell:"}
}

// Processes returns the processes of the running guest, or nil.
func (g *consoleGuest) Processes() map[string][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vm == nil {
		return nil
	}
	return g.vm.Processes()
}

func (g *consoleGuest) Close(context.Context) error {
	var errs []error
	for _, d := range g.dirs {
		errs = append(errs, leftover.Remove(d))
	}
	return errors.Join(errs...)
}

// RunOnConsole boots the guest with the command and waits until the guest ends.
func (g *consoleGuest) RunOnConsole(ctx context.Context, args []string) (out iotax.ConsoleRun, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.timeout, fmt.Errorf("it did not end within %v", g.timeout))
	defer cancel()
	config := g.config
	config.Append = strings.ReplaceAll(g.command, "{command}", iotax.QuoteAll(args))
	r := &consoleReader{p: g.patterns, inside: g.patterns.begin == nil}
	fail := func(err error) (iotax.ConsoleRun, error) {
		out.Output, out.Boot = r.read()
		return out, &iotax.Error{Op: "run " + strings.Join(args, " "), On: "on " + g.name, Err: err, Hint: "boot it by hand: its command line is " + config.Append}
	}
	for _, disk := range config.Disks {
		if _, err := overlay(ctx, disk.Path, disk.Format, disk.Overlay); err != nil {
			return fail(err)
		}
	}
	begun := time.Now()
	vm, err := qemu.Start(ctx, config, r.line)
	if err != nil {
		return fail(err)
	}
	g.mu.Lock()
	g.vm = vm
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.vm = nil
		g.mu.Unlock()
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, vm.Close(clean))
	}()
	select {
	case <-vm.Done():
	case <-ctx.Done():
		return fail(vm.Fail(context.Cause(ctx)))
	}
	out.Took, out.CPU = time.Since(begun), vm.CPU()
	out.Output, out.Boot = r.read()
	switch missing := r.missing(); {
	case missing != "":
		return fail(fmt.Errorf("%s was not found on its console: %w", missing, vm.Err()))
	case r.status != 0:
		return out, &iotax.ExitError{Args: args, Code: r.status, Stderr: vm.Tail(15)}
	}
	return out, nil
}

// A consoleReader parses the results on a console. The goroutine that reads QEMU's output calls the method `line` for
// each line.
type consoleReader struct {
	p      consolePatterns
	mu     sync.Mutex
	out    bytes.Buffer
	inside bool // the begin line was found, or no pattern for it is set
	ended  bool
	booted bool
	exited bool // the status line was found
	boot   time.Duration
	status int
}

// consoleLimit limits the kept results, in bytes.
const consoleLimit = 16 << 20

func (r *consoleReader) line(_ time.Time, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.p.boot; p != nil && !r.booted {
		if m := p.FindStringSubmatch(line); m != nil {
			for i, name := range p.SubexpNames() {
				if x, err := strconv.ParseFloat(m[i], 64); err == nil && bootUnits[name] > 0 {
					r.boot, r.booted = time.Duration(x*float64(bootUnits[name])), true
				}
			}
		}
	}
	if p := r.p.status; p != nil {
		if m := p.FindStringSubmatch(line); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				r.status, r.exited = n, true
			}
		}
	}
	switch {
	case r.ended:
	case !r.inside:
		r.inside = r.p.begin.MatchString(line)
	case r.p.end != nil && r.p.end.MatchString(line):
		r.ended = true
	case r.out.Len() < consoleLimit:
		r.out.WriteString(line + "\n")
	}
}

func (r *consoleReader) read() ([]byte, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.out.Bytes()), r.boot
}

// missing returns the first expected part that was not found on the console, or "".
func (r *consoleReader) missing() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range []struct {
		asked, found bool
		what         string
	}{{r.p.boot != nil, r.booted, "the time of booting (console: boot)"}, {r.p.begin != nil, r.inside, "the beginning of the results (console: begin)"},
		{r.p.end != nil, r.ended, "the end of the results (console: end)"}, {r.p.status != nil, r.exited, "the exit status (console: status)"}} {
		if c.asked && !c.found {
			return c.what
		}
	}
	return ""
}
