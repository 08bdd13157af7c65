package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/plan"
	"iotax/internal/workload/nested"
	"iotax/internal/workload/support"
)

// Guest is `guest: {…}`: a virtual machine on the target's machine that lives on the target's NBD export: its root disk is the
// first part of that, its data disk the rest, which is plugged in while it starts. It is started, waited for, and
// measured inside, once a trial.
type Guest struct {
	Memory plan.Size     `yaml:"memory" doc:"memory of the guest"`
	CPUs   int           `yaml:"cpus" doc:"its virtual CPUs"`
	Accel  string        `yaml:"accel" doc:"auto takes what works; kvm, hvf or tcg (emulation) insist" enum:"auto,kvm,hvf,tcg"`
	Root   plan.Size     `yaml:"root" doc:"size of the guest's root disk"`
	Size   plan.Size     `yaml:"size" doc:"size of the test files on the guest's data disk and on its root disk"`
	Kernel string        `yaml:"kernel" doc:"kernel to boot, a file of this host with its modules beside it; empty takes one that the target's machine has, else this host's. It is carried there"`
	Each   plan.Duration `yaml:"each" doc:"how long each of the fio jobs inside runs: three on the data disk, a read on the root disk"`
}

// guestTools are what starts the guest, with their packages. The target's machine has the architecture of this one.
func guestTools() map[string]string {
	if runtime.GOARCH == "arm64" {
		return map[string]string{"nbdcopy": "libnbd-bin", "qemu-system-aarch64": "qemu-system-arm"}
	}
	return map[string]string{"nbdcopy": "libnbd-bin", "qemu-system-x86_64": "qemu-system-x86"}
}

func (s *Guest) Traits() plan.Traits {
	return plan.Traits{Tools: slices.Sorted(maps.Keys(guestTools())), HostFiles: []*string{&s.Kernel}, Scale: s.Scale}
}

func newGuest() plan.Spec {
	return &Guest{Memory: 512 << 20, CPUs: 1, Accel: "auto", Root: 256 << 20, Size: 64 << 20, Each: plan.Duration(2 * time.Second)}
}

// Scale makes the test file and the jobs smaller or larger.
func (s *Guest) Scale(by float64) {
	s.Size = max(16<<20, plan.Size(float64(s.Size)*by)>>20<<20)
	s.Each = max(plan.Duration(time.Second), plan.Duration(float64(s.Each)*by))
}

// leastGuest is what the micro-guest needs of memory.
const leastGuest = 256 << 20

// Validate refuses what no guest can be.
func (s *Guest) Validate() error {
	switch {
	case s.Memory < leastGuest || s.Memory%(1<<20) != 0:
		return &plan.FieldError{Field: "memory", Msg: fmt.Sprintf("%v is too little or not a whole number of MiB", s.Memory), Hint: fmt.Sprintf("%v or more", plan.Size(leastGuest))}
	case s.CPUs < 1 || s.CPUs > 255:
		return &plan.FieldError{Field: "cpus", Msg: fmt.Sprintf("%d is not a number from 1 to 255", s.CPUs)}
	case s.Root < 64<<20 || s.Root%(1<<20) != 0:
		return &plan.FieldError{Field: "root", Msg: fmt.Sprintf("%v is too little or not a whole number of MiB", s.Root), Hint: "256MiB is enough for the programs that a guest gets"}
	case s.Size < 1<<20 || s.Size%(1<<20) != 0:
		return &plan.FieldError{Field: "size", Msg: fmt.Sprintf("%v is not a whole number of MiB", s.Size), Hint: "as in 64MiB"}
	case s.Each < plan.Duration(100*time.Millisecond):
		return &plan.FieldError{Field: "each", Msg: "is too short", Hint: "1s or more"}
	}
	return nil
}

func openGuest(w plan.Workload, s *Guest, e support.Env) (iotax.Workload, error) {
	return &guestOnTop{name: w.Name, spec: *s, env: e, kits: map[*iotax.Target]string{}}, nil
}

type guestOnTop struct {
	name string
	spec Guest
	env  support.Env
	kits map[*iotax.Target]string // sums of what was carried there
}

func (w *guestOnTop) Metrics() []string {
	return []string{nested.PhaseDisk, nested.PhaseUp, nested.PhaseResult, iotax.ValueWriteBandwidth, iotax.ValueReadBandwidth, iotax.ValueReadIOPS, iotax.ValueRootReadBandwidth}
}

// data is the size of the data disk: the file, and room for the file system around it.
func (w *guestOnTop) data() int64 { return int64(w.spec.Size)*5/4 + 128<<20 }

func (w *guestOnTop) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: func() int64 { return int64(w.spec.Root) + w.data() }, Limit: 5*time.Minute + 10*time.Duration(w.spec.Each)}
}

func (w *guestOnTop) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + w.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if !support.IsNBD(t.Place) {
		return on(fmt.Errorf("%s is no NBD export", t.Place.Path), "a target {nbd: …}, and at: its name")
	}
	if t.Place.ReadOnly {
		return on(errors.New("a file system is made on the disk, and the export is only read"), "nbd: {from: MACHINE}")
	}
	system, err := agent.System(ctx, t.Machine)
	if err != nil {
		return err
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; system != here {
		return on(fmt.Errorf("it runs %s, and this host %s", system, here), "measure this workload from a host of the same system: guests are made of what that has")
	}
	return support.MissingTool(ctx, t.Machine, guestTools())
}

// job is what is asked of the agent on t's machine.
func (w *guestOnTop) job(t *iotax.Target, seed uint64) nested.Job {
	s := w.spec
	j := nested.Job{Kit: w.kits[t], URL: t.Place.Path, Root: int64(s.Root), Data: w.data(), Memory: int64(s.Memory), CPUs: s.CPUs, Accel: s.Accel,
		Size: int64(s.Size), Each: time.Duration(s.Each), Seed: seed}
	if iotax.IsLocal(t.Machine) {
		j.Kernel = s.Kernel
	}
	return j
}

// Prepare brings what guests are started from to t's machine, where that has not all of it. Nothing is fetched there if this host
// has it or can fetch it.
func (w *guestOnTop) Prepare(ctx context.Context, t *iotax.Target) error {
	fail := func(err error) error {
		return support.Failed("look for what guests are started from for "+w.name+" on", t.Name, err, "")
	}
	lacks, err := nested.Look.On(ctx, t.Machine, struct{}{})
	if err != nil {
		return fail(err)
	}
	kit, err := w.kit(ctx, t, lacks)
	if kit == nil || err != nil {
		return err
	}
	if iotax.IsLocal(t.Machine) {
		return nil // it is in the cache that its iotax has, too
	}
	has, err := nested.Has.On(ctx, t.Machine, kit.Sum)
	if err != nil {
		return fail(err)
	}
	if !has {
		w.env.Logf("copying what guests are started from to %s (%d MiB, once): it lacks %s", t.Machine, kit.Size>>20, cmp.Or(lacks.String(), "the plan's kernel"))
		if err := sendKit(ctx, t.Machine, kit); err != nil {
			return support.Failed("copy what guests are started from for "+w.name+" to", t.Name, err, "")
		}
	}
	w.kits[t] = kit.Sum
	return nil
}

// kit is what t's machine lacks, from this host. None is one that it does without.
func (w *guestOnTop) kit(ctx context.Context, t *iotax.Target, lacks nested.Lacks) (*support.GuestKit, error) {
	if w.spec.Kernel != "" {
		lacks.Kernel = "the plan names one"
	}
	if w.env.GuestKit == nil || lacks.Kernel == "" && len(lacks.Programs) == 0 {
		return nil, nil
	}
	kit, err := w.env.GuestKit(ctx, lacks, w.spec.Kernel, int64(w.spec.Root))
	switch {
	case err == nil:
		return kit, nil
	case w.spec.Kernel == "" && len(lacks.Programs) == 0 && ctx.Err() == nil:
		w.env.Logf("this host has no kernel for guests either, so %s is left to fetch one: %v", t.Machine, err)
		return nil, nil
	}
	return nil, support.Failed("have what guests are started from for "+w.name+" on", t.Name, fmt.Errorf("%v lacks %s: %w", t.Machine, lacks, err), "")
}

// sendKit sends a kit to m.
func sendKit(ctx context.Context, m iotax.Machine, kit *support.GuestKit) error {
	return support.Send(func(w io.Writer) error { return kit.Send(ctx, w) }, func(r io.Reader) error {
		_, err := nested.Keep.On(ctx, m, kit.Sum, r)
		return err
	})
}

func (w *guestOnTop) Cleanup(context.Context, *iotax.Target) error { return nil }

// Run starts a guest once, on a root disk that is written before, since other workloads write to the same export.
func (w *guestOnTop) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	fail := func(op string, err error, hint string) error {
		return support.Failed(op+" for "+w.name+" on", t.Name, err, hint)
	}
	j := w.job(t, out.Seed)
	if _, err := nested.WriteRoot.Alone(ctx, t.Machine, j); err != nil {
		return fail("write the guest's root disk", err, "")
	}
	r, err := nested.Measure.Alone(ctx, t.Machine, j)
	if err != nil {
		return fail("measure in a guest", err, "")
	}
	if out.Raw, err = json.Marshal(r); err != nil {
		return err
	}
	maps.Copy(out.Facts, r.Facts)
	if r.Error != "" {
		return fail("measure in a guest", errors.New(strings.TrimSpace(r.Error)), r.Hint)
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count})
	for _, p := range r.Phases {
		out.Values = append(out.Values, iotax.Value{Name: p.Name, Value: p.At.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	out.Values = append(out.Values, r.Values...)
	return nil
}
