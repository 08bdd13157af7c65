package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"iotax"
)

// A Virtiofsd is a virtio-fs daemon of this host. The C daemon of QEMU before version 8 and its successor in Rust have
// different options.
type Virtiofsd struct {
	Path    string
	Version string // as the daemon prints it
	Rust    bool
}

// daemons lists the paths at which distributions install the daemon outside the PATH.
var daemons = []string{"/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd"}

// FindVirtiofsd finds the daemon `binary`. If binary is empty, it searches the PATH, then the paths of distributions.
// Its errors are *iotax.Error.
func FindVirtiofsd(ctx context.Context, binary string) (*Virtiofsd, error) {
	var places []string
	if p, err := exec.LookPath(cmp.Or(binary, "virtiofsd")); err == nil {
		places = append(places, p)
	} else if binary != "" {
		return nil, &iotax.Error{Op: "share by virtio-fs", On: binary, Err: err, Hint: "binary: must be a virtiofsd of this host"}
	}
	if binary == "" {
		places = append(places, daemons...)
	}
	var errs []error
	for _, p := range places {
		if st, err := os.Stat(p); err != nil || st.IsDir() {
			continue
		}
		v := &Virtiofsd{Path: p}
		c, cancel := context.WithTimeout(ctx, 10*time.Second)
		out, err := iotax.ExecOutput(exec.CommandContext(c, p, "--version"))
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s --version: %w: %s", p, err, strings.TrimSpace(string(out))))
			continue
		}
		v.Version, v.Rust = daemonVersion(string(out))
		return v, nil
	}
	err := errors.Join(errs...)
	if err == nil {
		err = errors.New("this host has no virtiofsd")
	}
	return nil, &iotax.Error{Op: "share by virtio-fs", Err: err,
		Hint: "install it: apt install virtiofsd (Debian 13, Ubuntu 23.04 and later) or qemu-system-common (before)"}
}

// daemonVersion parses the output of `virtiofsd --version`. The C daemon prints "virtiofsd version 7.2.22 (Debian …)",
// and the Rust daemon "virtiofsd 1.13.0".
func daemonVersion(out string) (version string, rust bool) {
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	line = strings.TrimSpace(line)
	f := strings.Fields(line)
	rust = len(f) >= 2 && f[0] == "virtiofsd" && f[1] != "version"
	if f := strings.Fields(strings.Replace(line, "version ", "", 1)); len(f) >= 2 {
		return f[1], rust
	}
	return line, rust
}

// String returns the version, followed by "(rust)" for the Rust daemon.
func (v *Virtiofsd) String() string {
	if v.Rust {
		return v.Version + " (rust)"
	}
	return v.Version
}

// forms maps the values of an option to the daemon's arguments. The key "" is for all other values, and %s in its
// arguments is replaced with the value. If a value has no key and the key "" does not exist, the daemon does not
// support the value.
type forms map[string]string

// daemonOptions lists the options with their syntax in both daemons. nil means that the daemon lacks the option.
var daemonOptions = []struct {
	name    string
	c, rust forms
}{
	{"cache", forms{"none": "-o cache=none", "auto": "-o cache=auto", "always": "-o cache=always"},
		forms{"none": "--cache never", "metadata": "--cache metadata", "auto": "--cache auto", "always": "--cache always"}},
	{"thread-pool-size", forms{"": "--thread-pool-size=%s"}, forms{"": "--thread-pool-size=%s"}},
	{"writeback", forms{"on": "-o writeback"}, forms{"on": "--writeback"}},
	{"allow-direct-io", forms{"on": "-o allow_direct_io"}, forms{"on": "--allow-direct-io"}},
	{"inode-file-handles", nil, forms{"": "--inode-file-handles=%s"}},
	{"readdirplus", forms{"on": "-o readdirplus", "off": "-o no_readdirplus"}, forms{"on": "", "off": "--no-readdirplus"}},
	{"announce-submounts", forms{"on": "-o announce_submounts", "off": ""}, forms{"on": "--announce-submounts", "off": "--no-announce-submounts"}},
}

// options returns the arguments for the options of s, and the first option that the daemon lacks, or "".
func (v *Virtiofsd) options(s Share) (args []string, lacks string) {
	for _, o := range daemonOptions {
		value, all := s.Options[o.name], o.c
		if v.Rust {
			all = o.rust
		}
		if o.name == "cache" {
			value = s.Cache
		}
		if value == "" {
			continue
		}
		form, ok := all[value]
		if every, takes := all[""]; !ok && takes {
			form, ok = fmt.Sprintf(every, value), true
		}
		if !ok && lacks == "" {
			lacks = o.name + "=" + value
		}
		args = append(args, strings.Fields(form)...)
	}
	return args, lacks
}

// refuses returns an error if the daemon lacks an option of s. It checks daemonOptions and the daemon's --help output.
func (v *Virtiofsd) refuses(ctx context.Context, s Share) error {
	s = s.fill()
	args, lacks := v.options(s)
	if lacks == "" {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		help, err := iotax.ExecOutput(exec.CommandContext(ctx, v.Path, "--help"))
		if err != nil {
			return &iotax.Error{Op: "list options", On: v.Path, Err: err}
		}
		for _, a := range args {
			word, _, _ := strings.Cut(a, "=")
			if a != "-o" && !strings.Contains(string(help), strings.TrimPrefix(word, "no_")) {
				lacks = a
			}
		}
	}
	if lacks == "" {
		return nil
	}
	return &iotax.Error{Op: "check options", On: v.Path, Err: fmt.Errorf("version %s has no option %s", v, lacks),
		Hint: "leave the option out, or name another virtiofsd with binary:"}
}

// Args returns the daemon's arguments for s. A Rust daemon that does not run as root cannot use its default sandbox, so
// Args disables it.
func (v *Virtiofsd) Args(s Share, root bool) []string {
	s = s.fill()
	options, _ := v.options(s)
	if !v.Rust {
		// Extended attributes and POSIX ACLs need no option: both daemons disable them by default.
		return slices.Concat([]string{"--socket-path=" + s.Socket, "-o", "source=" + s.Path}, options, s.Args)
	}
	a := append([]string{"--socket-path", s.Socket, "--shared-dir", s.Path}, options...)
	if !root {
		a = append(a, "--sandbox", "none")
	}
	if s.ReadOnly {
		a = append(a, "--readonly")
	}
	return append(a, s.Args...)
}

// serve starts the daemon for s and returns when its socket exists.
func (v *Virtiofsd) serve(ctx context.Context, s Share) (*process, *Log, error) {
	log := &Log{}
	fail := func(err error, hint string) (*process, *Log, error) {
		if t := log.Tail(10); t != "" {
			err = fmt.Errorf("%w\n%s", err, t)
		}
		return nil, nil, &iotax.Error{Op: "start " + v.Path, On: s.Path, Err: err, Hint: hint}
	}
	if !v.Rust && strings.ContainsRune(s.Path, ',') {
		return fail(errors.New("virtiofsd does not accept a comma in the path"), "")
	}
	cmd := exec.Command(v.Path, v.Args(s, os.Geteuid() == 0)...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := spawn(cmd)
	if err != nil {
		return fail(err, "")
	}
	deadline := time.After(10 * time.Second)
	for {
		if _, err := os.Stat(s.Socket); err == nil {
			return p, log, nil
		}
		select {
		case <-p.done:
			hint := ""
			if os.Geteuid() != 0 && !v.Rust {
				hint = "this old daemon needs root: run as root, install the one in Rust, or share by 9p"
			}
			return fail(fmt.Errorf("it ended: %w", errOr(p.err, errors.New("exit status 0"))), hint)
		case <-ctx.Done():
			p.end(time.Second)
			return fail(ctx.Err(), "")
		case <-deadline:
			p.end(time.Second)
			return fail(errors.New("it did not listen within 10 s"), "")
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func errOr(err, or error) error {
	if err != nil {
		return err
	}
	return or
}

// pidFile returns the path of the lock file that the C daemon leaves behind, or "" for the Rust daemon.
func (v *Virtiofsd) pidFile(socket string) string {
	if v.Rust {
		return ""
	}
	abs, err := filepath.Abs(socket)
	if err != nil {
		return ""
	}
	return "/run/virtiofsd/" + strings.ReplaceAll(abs, "/", ".") + ".pid"
}
