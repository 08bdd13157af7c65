package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// Lima is the spec of kind lima: a Lima instance that iotax makes for the run, or an existing instance.
type Lima struct {
	Instance  string    `yaml:"instance" doc:"running instance; without it one is created for the run and deleted afterwards"`
	Template  string    `yaml:"template" doc:"template of a new instance, as in template://debian, or a file"`
	VMType    string    `yaml:"vm_type" doc:"type of a new instance: qemu, vz or wsl2; empty means Lima's choice" enum:"qemu,vz,wsl2"`
	MountType string    `yaml:"mount_type" doc:"mount type of a new instance: reverse-sshfs, 9p, virtiofs or wsl2; empty means Lima's choice" enum:"reverse-sshfs,9p,virtiofs,wsl2"`
	Mounts    []string  `yaml:"mounts" doc:"directories of this host that a new instance mounts writable at the same path, for targets with dir:"`
	CPUs      int       `yaml:"cpus" doc:"CPUs of a new instance; 0 means the template's"`
	Memory    plan.Size `yaml:"memory" doc:"memory of a new instance; 0 means the template's"`
	Program   string    `yaml:"program" doc:"path of limactl; empty searches the PATH"`
}

const defaultTemplate = "template://default"

// LimaKind defines the machine kind lima.
var LimaKind = kind.Of("lima", "a Lima instance (limactl): a running one, or one made for the run",
	Lima{Template: defaultTemplate}, openLima).WithoutDevices()

// SetScalar sets the name of the instance, as in `lima: default`.
func (s *Lima) SetScalar(v string) error { s.Instance = v; return nil }

// Traits lists the template as a file of the host unless limactl treats it as a URL or a name.
func (s *Lima) Traits() plan.Traits {
	files := programFile(&s.Program)
	if !strings.Contains(s.Template, ":") && (plan.IsPath(s.Template) || strings.HasSuffix(s.Template, ".yaml") || strings.HasSuffix(s.Template, ".yml")) {
		files = append(files, &s.Template)
	}
	return plan.Traits{Stays: s.Instance != "", HostFiles: files}
}

// Validate checks the spec without running limactl.
func (s *Lima) Validate() error {
	fail := func(field, msg, hint string) error { return &plan.FieldError{Field: field, Msg: msg, Hint: hint} }
	switch {
	case s.Instance != "" && (s.Template != "" && s.Template != defaultTemplate || s.VMType != "" || s.MountType != "" || len(s.Mounts) > 0 || s.CPUs != 0 || s.Memory != 0):
		return fail("instance", "an instance that is there has its own settings", "leave out template, vm_type, mount_type, mounts, cpus and memory, or leave out instance")
	case strings.HasPrefix(s.Instance, "-") || strings.ContainsAny(s.Instance, " \t\n/"):
		return fail("instance", fmt.Sprintf("%q is not a name of an instance", s.Instance), "limactl list shows them")
	case s.Instance == "" && (s.Template == "" || strings.HasPrefix(s.Template, "-")):
		return fail("template", fmt.Sprintf("%q is not a template", s.Template), "as in template://debian; limactl create --list-templates shows them")
	case s.CPUs < 0 || s.Memory < 0:
		return fail("cpus", "must not be negative", "")
	}
	for _, m := range s.Mounts {
		if !strings.HasPrefix(m, "/") || strings.HasSuffix(m, ":w") || strings.ContainsAny(m, "\n,") {
			return fail("mounts", fmt.Sprintf("%q is not a directory", m), "write a path in full, without :w")
		}
	}
	return nil
}

// create returns the arguments of limactl create.
func (s *Lima) create(name string) []string {
	a := []string{"create", "--tty=false", "--name=" + name}
	if s.VMType != "" {
		a = append(a, "--vm-type="+s.VMType)
	}
	if s.MountType != "" {
		a = append(a, "--mount-type="+s.MountType)
	}
	for _, m := range s.Mounts {
		a = append(a, "--mount="+m+":w")
	}
	if s.CPUs > 0 {
		a = append(a, "--cpus="+strconv.Itoa(s.CPUs))
	}
	if s.Memory > 0 {
		a = append(a, "--memory="+strconv.FormatFloat(float64(s.Memory)/(1<<30), 'f', -1, 64)) // in GiB
	}
	return append(a, s.Template)
}

// limaInstance is an instance in which `limactl shell` runs commands.
type limaInstance struct {
	*remote.Machine
	lima  tool
	name  string
	home  string // directory with the disks of Lima's instances
	facts map[string]string
}

// limaMade is an instance that was made for the run.
type limaMade struct {
	*limaInstance
	started time.Time
	boot    []iotax.Phase
	mounts  bool         // the instance mounts directories of this host
	forget  func() error // removes the record of the instance
}

// Weakens returns the durability of the host's file system that contains the disk. For a directory that this host
// shares at the same path, it returns the durability of that directory. On macOS, the result is at most
// iotax.DriveCache: with Lima's settings, neither QEMU nor Virtualization.framework makes the drive flush its cache.
func (m *limaInstance) Weakens(path, fs string) iotax.Durability {
	switch fs {
	case "virtiofs", "9p", "fuse.sshfs":
		return probe.Durability(path)
	}
	return probe.Durability(m.home)
}

func (m *limaInstance) Caps() iotax.MachineCaps {
	c := m.Machine.Caps()
	c.Alone, c.Facts, c.Weakens = true, m.facts, m.Weakens
	return c
}

// Caps returns the capabilities of an instance that is deleted after the run. With mounts, the target's files may be on
// this host, where they remain.
func (m *limaMade) Caps() iotax.MachineCaps {
	c := m.limaInstance.Caps()
	c.Started, c.Boot, c.Perishes = m.started, m.boot, !m.mounts
	return c
}

// Close deletes the instance.
func (m *limaMade) Close(ctx context.Context) error {
	err := m.limaInstance.Close(ctx)
	return errors.Join(err, m.remove(ctx))
}

func (m *limaMade) remove(ctx context.Context) error {
	ctx, cancel := stillCtx(ctx)
	defer cancel()
	if _, err := m.lima.run(ctx, toolSlow, "delete", "--force", m.name); err != nil {
		return &iotax.Error{Op: "delete Lima instance", On: m.name, Err: err, Hint: "limactl delete --force " + m.name}
	}
	if m.forget != nil {
		return m.forget()
	}
	return nil
}

func openLima(ctx context.Context, s *Lima, o kind.Options) (_ iotax.Machine, err error) {
	lima := tool{program: cmp.Or(s.Program, "limactl"), hint: "install Lima: https://lima-vm.io/docs/installation/"}
	version, err := lima.look(ctx, o.Name, "--version")
	if err != nil {
		return nil, err
	}
	m := &limaInstance{lima: lima, name: s.Instance, home: limaHome(), facts: map[string]string{"lima.version": version, "lima.instance": s.Instance}}
	open := func() (err error) {
		// Without --workdir, limactl would enter this process's working directory.
		m.Machine, err = lima.into(ctx, cmp.Or(o.Name, m.name), o.Log, m.alive, "shell", "--workdir", "/", m.name)
		return err
	}
	if s.Instance != "" {
		if err := m.alive(ctx); err != nil {
			return nil, err
		}
		if err := open(); err != nil {
			return nil, err
		}
		return m, nil
	}
	m.name = made.Name()
	m.facts["lima.instance"], m.facts["lima.template"] = m.name, s.Template
	m.facts["lima.vm_type"], m.facts["lima.mount_type"] = s.VMType, s.MountType
	made := &limaMade{limaInstance: m, mounts: len(s.Mounts) > 0}
	defer func() {
		if err != nil {
			err = errors.Join(err, made.remove(context.WithoutCancel(ctx)))
		}
	}()
	if made.forget, err = limas.note(o.WorkDir, lima, m.name); err != nil {
		return nil, err
	}
	made.started = time.Now()
	phase := func(name string) {
		made.boot = append(made.boot, iotax.Phase{Name: name, At: time.Since(made.started)})
	}
	o.Logf("creating a Lima instance from %s", s.Template)
	if _, err := lima.run(ctx, toolFetch, s.create(m.name)...); err != nil {
		return nil, err
	}
	phase("start")
	if _, err := lima.run(ctx, toolFetch, "start", "--tty=false", "--timeout=10m", m.name); err != nil {
		var e *iotax.Error
		if errors.As(err, &e) {
			e.Hint = "look at its log: " + filepath.Join(m.home, m.name, "ha.stderr.log")
		}
		return nil, err
	}
	if err := open(); err != nil {
		return nil, err
	}
	phase("ready")
	return made, nil
}

// limaHome returns the directory in which limactl keeps its instances.
func limaHome() string {
	if dir := os.Getenv("LIMA_HOME"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".lima")
}

// alive returns an error if the instance is not running.
func (m *limaInstance) alive(ctx context.Context) error {
	out, err := m.lima.run(ctx, toolQuick, "list", "--format", "{{.Status}}", m.name)
	if err != nil {
		// limactl reports an unknown name like any other error, so search the list.
		names, lerr := m.lima.run(ctx, toolQuick, "list", "--quiet")
		if lerr != nil || slices.Contains(strings.Fields(names), m.name) {
			return err
		}
	}
	if out != "Running" {
		e := &iotax.Error{Op: "open machine", On: "Lima instance " + m.name, Err: fmt.Errorf("its status is %q", out), Hint: "limactl start " + m.name}
		if out == "" {
			e.Err, e.Hint = iotax.Gone(errors.New("no instance has this name")), "limactl list shows them"
		}
		return e
	}
	return nil
}
