package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/plan"
)

// Boot is the spec of `boot: {}`: the target's machine is booted once more, beside itself, and its timeline
// told. A trial is cold when the kernel, the image and what else is read have left this host's page cache.
type Boot struct {
	Mount   bool          `yaml:"mount" doc:"also mount the target's share in the machine that was booted"`
	Timeout plan.Duration `yaml:"timeout" doc:"how long one boot may take"`
}

func newBoot() any { return &Boot{Timeout: plan.Duration(5 * time.Minute)} }

// Validate finds what is out of range.
func (s *Boot) Validate() error {
	if s.Timeout <= 0 {
		return &plan.FieldError{Field: "timeout", Msg: "it must be more than nothing", Mend: "as in 5m"}
	}
	return nil
}

type boot struct {
	name   string
	spec   *Boot
	booted iotax.Machine // of the trial at hand
}

var (
	_ iotax.Workload   = (*boot)(nil)
	_ iotax.Completer  = (*boot)(nil)
	_ iotax.Stager     = (*boot)(nil)
	_ iotax.ColdReader = (*boot)(nil)
)

func openBoot(w plan.Workload, _ Env) (iotax.Workload, error) {
	s, ok := w.Spec.(*Boot)
	if !ok {
		return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("its spec is a %T", w.Spec)}
	}
	return &boot{name: w.Name, spec: s}, s.Validate()
}

// Metrics are the whole boot, and the mount where one was asked for.
func (b *boot) Metrics() []string {
	if b.spec.Mount {
		return []string{"duration", "mount.duration"}
	}
	return []string{"duration"}
}

func (b *boot) Limit() time.Duration { return time.Duration(b.spec.Timeout) }

// ColdFiles are those that the machine boots from.
func (b *boot) ColdFiles(t *iotax.Target) []string {
	if r, ok := t.Machine.(iotax.Restarter); ok {
		return r.BootFiles()
	}
	return nil
}

// shareTypes are the file systems that a second guest can mount beside the first.
var shareTypes = []string{"virtiofs", "9p", "nfs", "nfs4"}

func (b *boot) Check(_ context.Context, t *iotax.Target) error {
	on := func(err error, mend string) error {
		return &iotax.Error{Op: "check " + b.name + " on", On: t.Name, Err: err, Mend: mend}
	}
	if _, ok := t.Machine.(iotax.Restarter); !ok {
		return on(fmt.Errorf("iotax cannot boot %s", t.Machine), "compare guests with each other: the first of them is the baseline")
	}
	if fs := t.Place.Facts["filesystem"]; b.spec.Mount && !slices.Contains(shareTypes, fs) {
		return on(fmt.Errorf("the place is on %s, which cannot be mounted a second time", fs), "mount: true is for shares")
	}
	return nil
}

func (b *boot) Prepare(context.Context, *iotax.Target) error { return nil }

func (b *boot) Stage(context.Context, *iotax.Target, *iotax.Trial) error { return nil }

// Run boots the machine, and leaves it to Unstage to end it.
func (b *boot) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	r, ok := t.Machine.(iotax.Restarter)
	if !ok {
		return b.Check(ctx, t)
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	m, err := r.Restart(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return failed("boot for "+b.name+" on", t.Name, err, "")
	}
	b.booted = m
	again, ok := m.(iotax.Booter)
	if !ok || len(again.Boot()) == 0 {
		return failed("boot for "+b.name+" on", t.Name, errors.New("the machine has no timeline"), "")
	}
	phases := again.Boot()
	add := func(name string, d time.Duration) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: d.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	add("duration", phases[len(phases)-1].At)
	for i, p := range phases {
		if i > 0 {
			add("boot."+p.Name, p.At)
		}
	}
	out.Values = append(out.Values, iotax.Value{Name: "operations", Value: 1, Unit: iotax.Count})
	if d, ok := m.(iotax.Describer); ok {
		for _, k := range []string{"accel", "kernel", "cmdline"} {
			if v := d.Facts()[k]; v != "" {
				out.Facts["boot."+k] = v
			}
		}
	}
	if !b.spec.Mount {
		return nil
	}
	took, err := b.mount(ctx, m, t)
	if err != nil {
		return failed("mount for "+b.name+" on", t.Name, err, "")
	}
	add("mount.duration", took)
	return nil
}

// mount mounts t's share at another place of m, and lists its root, so that it has answered once. Reaching
// the machine is taken off.
func (b *boot) mount(ctx context.Context, m iotax.Machine, t *iotax.Target) (time.Duration, error) {
	f := t.Place.Facts
	const at = "/tmp/iotax-mount"
	if _, err := iotax.Output(ctx, m, "mkdir", "-p", at); err != nil {
		return 0, err
	}
	args := []string{"mount", "-t", f["filesystem"]}
	if f["filesystem"] == "9p" {
		args = append(args, "-o", nineOptions(f["filesystem.options"]))
	}
	args = append(args, f["filesystem.source"], at)
	start, err := emptyCommand(ctx, m)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := iotax.Output(ctx, m, "sh", "-c", iotax.QuoteAll(args)+" && ls "+at+" >/dev/null"); err != nil {
		return 0, err
	}
	return max(time.Microsecond, time.Since(begun)-start), nil
}

// nineOptions are those mount options of 9p that mount(8) takes back.
func nineOptions(mounted string) string {
	out := []string{"trans=virtio"}
	for o := range strings.SplitSeq(mounted, ",") {
		key, _, _ := strings.Cut(o, "=")
		if slices.Contains([]string{"version", "msize", "cache", "access"}, key) {
			out = append(out, o)
		}
	}
	return strings.Join(out, ",")
}

func (b *boot) Unstage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) error {
	return b.Cleanup(ctx, t)
}

// Cleanup ends the machine that a trial booted, if one was cut off.
func (b *boot) Cleanup(ctx context.Context, t *iotax.Target) error {
	m := b.booted
	b.booted = nil
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		return failed("end what "+b.name+" booted beside", t.Name, err, "")
	}
	return nil
}
