package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
)

// Tart is the spec of kind tart: a virtual machine of Tart on macOS, cloned for the run.
type Tart struct {
	Image        string    `yaml:"image" doc:"image of a registry, or local virtual machine, to clone"`
	RootDiskOpts string    `yaml:"root_disk_opts" doc:"options of the root disk, as in sync=none,caching=cached"`
	Dirs         []string  `yaml:"dirs" doc:"directories of this host to share, in Tart's form name:/path[:ro]"`
	CPUs         int       `yaml:"cpus" doc:"number of CPUs; 0 means the image's"`
	Memory       plan.Size `yaml:"memory" doc:"memory; 0 means the image's"`
	User         string    `yaml:"user" doc:"login name in the image"`
	PasswordFile string    `yaml:"password_file" doc:"file whose first line is the password; the environment variable IOTAX_SSH_PASSWORD also works"`
	Identity     string    `yaml:"identity" doc:"private key file that the image accepts"`
	Program      string    `yaml:"program" doc:"path of tart; empty searches the PATH"`
}

// TartKind defines the machine kind tart.
var TartKind = kind.Of("tart", "a Tart virtual machine on macOS, cloned for the run and deleted afterwards",
	Tart{User: "admin"}, openTart).WithoutDevices()

// SetScalar sets the image, as in `tart: ghcr.io/cirruslabs/macos-sonoma-base:latest`.
func (s *Tart) SetScalar(v string) error { s.Image = v; return nil }

func (s *Tart) Traits() plan.Traits {
	return plan.Traits{
		HostFiles: append(programFile(&s.Program), &s.PasswordFile, &s.Identity),
		SetImage:  func(image string) { s.Image = image },
	}
}

// Validate checks the spec without running Tart.
func (s *Tart) Validate() error {
	fail := func(field, msg, hint string) error { return &plan.FieldError{Field: field, Msg: msg, Hint: hint} }
	switch {
	case s.Image == "" || strings.HasPrefix(s.Image, "-"):
		return fail("image", fmt.Sprintf("%q is not an image", s.Image), "as in ghcr.io/cirruslabs/macos-sonoma-base:latest")
	case s.User == "" || strings.HasPrefix(s.User, "-"):
		return fail("user", fmt.Sprintf("%q is not a login name", s.User), "Tart's own images have admin")
	case s.Memory%(1<<20) != 0 || s.Memory < 0:
		return fail("memory", "is not a whole number of MiB", "as in 8GiB")
	case s.CPUs < 0:
		return fail("cpus", "must not be negative", "")
	}
	for o := range strings.SplitSeq(s.RootDiskOpts, ",") {
		key, value, _ := strings.Cut(o, "=")
		switch {
		case o == "", o == "ro":
		case key == "sync" && (value == "none" || value == "full" || value == "fsync"):
		case key == "caching" && (value == "cached" || value == "uncached" || value == "automatic"):
		default:
			return fail("root_disk_opts", fmt.Sprintf("%q is not known", o), "sync=none|fsync|full and caching=automatic|cached|uncached, separated by commas")
		}
	}
	return nil
}

// durability returns the effect of a flush in the guest. Virtualization.framework flushes the drive's cache in mode
// full, which is the default of Tart. It calls fsync(2) in mode fsync, and does nothing in mode none.
func (s *Tart) durability() iotax.Durability {
	d := iotax.Durable
	for o := range strings.SplitSeq(s.RootDiskOpts, ",") {
		switch o {
		case "sync=none":
			d = iotax.Weakest(d, iotax.FlushIgnored)
		case "sync=fsync":
			d = iotax.Weakest(d, iotax.DriveCache)
		}
	}
	return d
}

// set returns the arguments of tart set, or nil if the spec sets neither CPUs nor memory.
func (s *Tart) set(name string) (a []string) {
	if s.CPUs > 0 {
		a = append(a, "--cpu", strconv.Itoa(s.CPUs))
	}
	if s.Memory > 0 {
		a = append(a, "--memory", strconv.FormatInt(int64(s.Memory)>>20, 10))
	}
	if len(a) == 0 {
		return nil
	}
	return append([]string{"set", name}, a...)
}

// start returns the arguments of tart run.
func (s *Tart) start(name string) []string {
	a := []string{"run", "--no-graphics"}
	if s.RootDiskOpts != "" {
		a = append(a, "--root-disk-opts="+s.RootDiskOpts)
	}
	for _, d := range s.Dirs {
		a = append(a, "--dir="+d)
	}
	return append(a, name)
}

// tartVM is a running clone.
type tartVM struct {
	iotax.Machine
	tart   tool
	name   string
	facts  map[string]string
	began  time.Time
	boot   []iotax.Phase
	dirs   bool               // directories of this host are shared
	disk   iotax.Durability   // durability of the root disk
	forget func() error       // removes the record of the machine
	known  string             // temporary directory of its known_hosts file
	kill   context.CancelFunc // ends tart run
	ended  chan struct{}
	err    error // error of tart run; valid once ended is closed
}

// Caps returns the capabilities of a machine that is deleted after the run. With shared directories, the target's files
// may be on this host, where they remain.
func (v *tartVM) Caps() iotax.MachineCaps {
	c := v.Machine.Caps()
	c.Facts, c.Started, c.Boot, c.Weakens, c.Perishes = v.facts, v.began, v.boot, v.Weakens, !v.dirs
	return c
}

// Weakens returns the durability of the root disk. For a shared directory, it returns iotax.DriveCache, because macOS
// leaves the data in the drive's cache.
func (v *tartVM) Weakens(_, fs string) iotax.Durability {
	if fs == "virtiofs" {
		return iotax.DriveCache
	}
	return v.disk
}

// Close stops the machine and deletes it.
func (v *tartVM) Close(ctx context.Context) error {
	if v.Machine != nil {
		_ = v.Machine.Close(ctx) // a broken connection is not an error, because the machine is deleted
	}
	ctx, cancel := stillCtx(ctx)
	defer cancel()
	if v.kill != nil {
		_, _ = v.tart.run(ctx, toolQuick, "stop", "--timeout", "10", v.name) // if this fails, v.kill ends the machine
		select {
		case <-v.ended:
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
		}
		v.kill()
		<-v.ended
	}
	var errs []error
	if _, err := v.tart.run(ctx, toolSlow, "delete", v.name); err != nil {
		errs = append(errs, &iotax.Error{Op: "delete Tart machine", On: v.name, Err: err, Hint: "tart delete " + v.name})
	} else if v.forget != nil {
		errs = append(errs, v.forget())
	}
	if v.known != "" {
		errs = append(errs, os.RemoveAll(v.known))
	}
	return errors.Join(errs...)
}

func openTart(ctx context.Context, s *Tart, o kind.Options) (_ iotax.Machine, err error) {
	tart := tool{program: cmp.Or(s.Program, "tart"), hint: "install Tart on a Mac with Apple silicon: brew install cirruslabs/cli/tart"}
	version, err := tart.look(ctx, o.Name, "--version")
	if err != nil {
		return nil, err
	}
	v := &tartVM{tart: tart, name: made.Name(), dirs: len(s.Dirs) > 0, disk: s.durability(), facts: map[string]string{"tart.version": version, "tart.image": s.Image, "tart.root_disk_opts": s.RootDiskOpts}}
	v.began = time.Now()
	phase := func(name string) { v.boot = append(v.boot, iotax.Phase{Name: name, At: time.Since(v.began)}) }
	o.Logf("cloning %s", s.Image)
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close(context.WithoutCancel(ctx)))
		}
	}()
	if v.forget, err = tarts.note(o.WorkDir, tart, v.name); err != nil {
		return nil, err
	}
	if _, err := tart.run(ctx, toolFetch, "clone", s.Image, v.name); err != nil {
		return nil, err
	}
	if set := s.set(v.name); set != nil {
		if _, err := tart.run(ctx, toolQuick, set...); err != nil {
			return nil, err
		}
	}
	phase("start")
	v.run(ctx, s)
	ip, err := tart.run(ctx, toolSlow, "ip", "--wait", "300", v.name)
	if err != nil {
		return nil, v.why(err)
	}
	phase("network")
	if v.known, err = os.MkdirTemp(o.WorkDir, "iotax-tart-"); err != nil {
		return nil, err
	}
	// The machine makes its host key after cloning, so no known_hosts file contains it.
	there := &ssh.Spec{Host: ip, User: s.User, Config: "none", Identity: s.Identity, PasswordFile: s.PasswordFile, AcceptNew: true,
		KnownHosts: filepath.Join(v.known, "known_hosts")}
	for until := time.Now().Add(5 * time.Minute); ; {
		m, err := ssh.Open(ctx, there, o)
		if err == nil {
			v.Machine = named{m, cmp.Or(o.Name, v.name)}
			break
		}
		select {
		case <-v.ended:
			return nil, v.why(err)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second): // the SSH server starts after the address is assigned
		}
		if time.Now().After(until) {
			return nil, err
		}
	}
	phase("ready")
	return v, nil
}

// named is a machine with another name.
type named struct {
	iotax.Machine
	name string
}

func (n named) String() string { return n.name }

// run starts `tart run`, which runs until the machine ends.
func (v *tartVM) run(ctx context.Context, s *Tart) {
	var run context.Context
	run, v.kill = context.WithCancel(context.WithoutCancel(ctx))
	v.ended = make(chan struct{})
	go func() {
		v.err = host.Local().Run(run, iotax.Command(append([]string{v.tart.program}, s.start(v.name)...)...))
		close(v.ended)
	}()
}

// why adds the error of `tart run` to err, if `tart run` has ended.
func (v *tartVM) why(err error) error {
	select {
	case <-v.ended:
		return &iotax.Error{Op: "tart run", On: v.name, Err: errors.Join(v.err, err)}
	default:
		return err
	}
}
