package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/command"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Boot is the spec of `boot: {}`. A trial boots a second instance of the target's machine and records its timeline. In
// a cold trial, the files that the boot reads, such as the kernel and the image, are not in this host's page cache.
type Boot struct {
	Mount   bool          `yaml:"mount" doc:"also mount the target's share in the booted machine"`
	Root    string        `yaml:"root" doc:"root file system on the target's share or disk that the machine continues with: python (this host's Python with a small web application), or a directory of this host, which is copied there"`
	Run     string        `yaml:"run" doc:"with root: program to start there, timed until its first answer over HTTP; {port} is the port to listen on"`
	Timeout plan.Duration `yaml:"timeout" doc:"time limit of one boot"`
}

func newBoot() plan.Spec { return &Boot{Timeout: plan.Duration(5 * time.Minute)} }

func (s *Boot) Traits() (can plan.Traits) {
	if s.Root != "" {
		can.Tools = []string{"qemu-img"} // the second guest uses an overlay of the first guest's disk
	}
	if s.Root != pythonRoot {
		can.HostFiles = []*string{&s.Root}
	}
	can.Metrics = s.metrics
	return can
}

func (s *Boot) metrics() []metric.Metric {
	all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of the whole boot")
	if s.Mount || s.Root != "" {
		all = append(all, metric.Of(iotax.Seconds, iotax.Down, "mount.duration", "time to mount the share, or the root")...)
	}
	if s.Root != "" {
		all = append(all, metric.Of(iotax.Seconds, iotax.Down, "pivot.duration", "time to change to the root", "app.duration", "time until the program answers")...)
	}
	return all
}

// Validate returns an error for an invalid field.
func (s *Boot) Validate() error {
	words, err := command.SplitWords(s.Run)
	switch {
	case s.Timeout <= 0:
		return &plan.FieldError{Field: "timeout", Msg: "it must be more than nothing", Hint: "as in 5m"}
	case s.Root == "" && s.Run != "":
		return &plan.FieldError{Field: "run", Msg: "there is no root to run it on", Hint: "root: /path/of/a/tree, or the workload app"}
	case s.Root == pythonRoot && s.Run != "":
		return &plan.FieldError{Field: "run", Msg: "the root python has a program of its own", Hint: "leave it out, or name a directory as root"}
	case s.Root != "" && s.Mount:
		return &plan.FieldError{Field: "mount", Msg: "a root is mounted anyway", Hint: "leave it out"}
	case s.Root != "" && s.Root != pythonRoot && !plan.IsPath(s.Root):
		return &plan.FieldError{Field: "root", Msg: fmt.Sprintf("%q is neither %s nor the path of a directory", s.Root, pythonRoot), Hint: "as in ./root, from the plan's folder"}
	case s.Root != "" && s.Root != pythonRoot && (err != nil || len(words) == 0 || !strings.Contains(s.Run, "{port}")):
		return &plan.FieldError{Field: "run", Msg: "no command is set that starts the server, with the port where it listens", Hint: "as in run: /usr/bin/java -jar /srv/app.jar {port}"}
	}
	return nil
}

type boot struct {
	name   string
	spec   *Boot
	booted iotax.Machine // machine that the current trial booted, or nil
	root   *rootTree     // nil if the plan has no root
}

func openBoot(w plan.Workload, s *Boot, e support.Env) (iotax.Workload, error) {
	b := &boot{name: w.Name, spec: s}
	if s.Root != "" {
		b.root = &rootTree{from: s.Root, run: s.Run, env: e, frozen: map[*iotax.Target]bool{}}
	}
	return b, s.Validate()
}

func (b *boot) Metrics() []string {
	if b.root != nil {
		return []string{"duration", "mount.duration", "pivot.duration", "app.duration"}
	}
	if b.spec.Mount {
		return []string{"duration", "mount.duration"}
	}
	return []string{"duration"}
}

func (b *boot) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: b.Space, Files: b.Files, Limit: time.Duration(b.spec.Timeout), ColdFiles: b.ColdFiles, Stage: b.Stage, Unstage: b.Unstage}
}

// ColdFiles returns the files that the machine boots from.
func (b *boot) ColdFiles(t *iotax.Target) []string {
	if files := t.Machine.Caps().BootFiles; files != nil {
		return files()
	}
	return nil
}

// Space returns the size of the root, in bytes.
func (b *boot) Space() int64 {
	var sum int64
	for _, f := range b.Files() {
		sum += f.Size
	}
	return sum
}

// Files returns the root, which iotax writes into a read-only place when it creates that place.
func (b *boot) Files() []iotax.File {
	if b.root == nil {
		return nil
	}
	f, err := b.root.file()
	if err != nil {
		return nil // Check reports the error
	}
	return []iotax.File{f}
}

// shareTypes lists the file systems that a second guest can mount while the first uses them.
var shareTypes = []string{"virtiofs", "9p", "nfs", "nfs4"}

func (b *boot) Check(_ context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + b.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if t.Machine.Caps().Restart == nil {
		return on(fmt.Errorf("iotax cannot boot %s", t.Machine), "compare guests with each other: the first of them is the baseline")
	}
	if b.root != nil {
		if _, err := b.root.file(); err != nil {
			return support.Failed("check "+b.name+" on", t.Name, err, "")
		}
		if _, err := b.root.on(t); err != nil {
			return on(err, "root: is for shares, disks and NFS")
		}
	}
	if fs := t.Place.Facts[iotax.FactFilesystem]; b.spec.Mount && !slices.Contains(shareTypes, fs) {
		return on(fmt.Errorf("the place is on %s, which cannot be mounted a second time", fs), "mount: true is for shares")
	}
	return nil
}

// Prepare copies the root to the place.
func (b *boot) Prepare(ctx context.Context, t *iotax.Target) error {
	if b.root == nil {
		return nil
	}
	if err := b.root.bring(ctx, t); err != nil {
		return support.Failed("bring the root of "+b.name+" to", t.Name, err, "")
	}
	return nil
}

// Stage freezes the file system of a disk that the second guest will also mount.
func (b *boot) Stage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) error {
	if b.root == nil {
		return nil
	}
	return b.root.freeze(ctx, t)
}

// Run boots a second instance of t's machine. Unstage ends that instance.
func (b *boot) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	restart := t.Machine.Caps().Restart
	if restart == nil {
		return b.Check(ctx, t)
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	var root *iotax.Root
	if b.root != nil {
		var err error
		if root, err = b.root.on(t); err != nil {
			return err
		}
		out.Facts["root"] = strings.Join([]string{root.Type, root.Source, root.Path, root.Options}, " ")
		out.Facts[iotax.FactCommand] = iotax.QuoteAll(root.Run)
	}
	m, err := restart(ctx, root)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return support.Failed("boot for "+b.name+" on", t.Name, err, "")
	}
	b.booted = m
	caps := m.Caps()
	phases := caps.Boot
	if len(phases) == 0 {
		return support.Failed("boot for "+b.name+" on", t.Name, errors.New("the machine has no timeline"), "")
	}
	add := func(name string, d time.Duration) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: d.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	add("duration", phases[len(phases)-1].At)
	for i, p := range phases {
		if i > 0 {
			add("boot."+p.Name, p.At)
		}
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count})
	for _, k := range []string{"accel", "kernel", "cmdline"} {
		if v := caps.Facts[k]; v != "" {
			out.Facts["boot."+k] = v
		}
	}
	if b.root != nil {
		at := map[string]time.Duration{}
		for _, p := range phases {
			at[p.Name] = p.At
		}
		add("mount.duration", at["root"]-at["mount"])
		add("pivot.duration", at["pivot"]-at["root"])
		add("app.duration", at["answer"]-at["pivot"])
	}
	if !b.spec.Mount {
		return nil
	}
	took, err := b.mount(ctx, m, t)
	if err != nil {
		return support.Failed("mount for "+b.name+" on", t.Name, err, "")
	}
	add("mount.duration", took)
	return nil
}

// mount mounts t's share in m and lists the share's root directory, so that the share has answered once. m measures the
// time.
func (b *boot) mount(ctx context.Context, m iotax.Machine, t *iotax.Target) (time.Duration, error) {
	f := t.Place.Facts
	args := []string{"-t", f["filesystem"]}
	if o := mountOptions(f); o != "" {
		args = append(args, "-o", o)
	}
	took, err := task.MountAndList.On(ctx, m, task.Mount{Args: append(args, f[iotax.FactFilesystemSource]), At: "/tmp/iotax-mount"})
	return max(time.Microsecond, took), err
}

// mountOptions returns the options for a second mount of a mounted share. It does not copy all options of the first
// mount, because the kernel shows some in /proc/mounts that it does not accept.
func mountOptions(facts map[string]string) string {
	var out []string
	for o := range strings.SplitSeq(facts[iotax.FactFilesystemOptions], ",") {
		key, _, _ := strings.Cut(o, "=")
		switch fs := facts[iotax.FactFilesystem]; {
		case fs == "9p" && slices.Contains([]string{"version", "msize", "cache", "access"}, key):
		case strings.HasPrefix(fs, "nfs") && !slices.Contains([]string{"rw", "ro", "relatime", "noatime", "namlen", "softreval"}, key):
		default:
			continue
		}
		out = append(out, o)
	}
	if facts[iotax.FactFilesystem] == "9p" {
		out = append([]string{"trans=virtio"}, out...)
	}
	return strings.Join(out, ",")
}

func (b *boot) Unstage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) error {
	return b.end(ctx, t)
}

// Cleanup ends the machine of an interrupted trial, and removes the root.
func (b *boot) Cleanup(ctx context.Context, t *iotax.Target) error {
	err := b.end(ctx, t)
	if b.root == nil {
		return err
	}
	if rerr := b.root.remove(ctx, t); rerr != nil {
		err = errors.Join(err, support.Failed("remove the root of "+b.name+" from", t.Name, rerr, "remove it by hand"))
	}
	return err
}

// end ends the machine of a trial, and thaws the file system that Stage froze.
func (b *boot) end(ctx context.Context, t *iotax.Target) error {
	m := b.booted
	b.booted = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var err error
	if m != nil {
		err = m.Close(ctx)
	}
	if b.root != nil {
		err = errors.Join(err, b.root.thaw(ctx, t))
	}
	if err != nil {
		return support.Failed("end what "+b.name+" booted beside", t.Name, err, "")
	}
	return nil
}
