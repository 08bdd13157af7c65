package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"iotax"
	"iotax/plan"
)

// Guest is `guest: {…}`: a virtual machine on the target's machine whose disk is the target's NBD export: started, waited for,
// and measured inside, once a trial.
type Guest struct {
	Memory plan.Size     `yaml:"memory" doc:"memory of the guest"`
	CPUs   int           `yaml:"cpus" doc:"its virtual CPUs"`
	Accel  string        `yaml:"accel" doc:"auto takes what works; kvm, hvf or tcg (emulation) insist" enum:"auto,kvm,hvf,tcg"`
	Size   plan.Size     `yaml:"size" doc:"size of the test file on the guest's disk"`
	Each   plan.Duration `yaml:"each" doc:"how long each of the three fio jobs inside runs"`
}

func newGuest() any {
	return &Guest{Memory: 512 << 20, CPUs: 1, Accel: "auto", Size: 64 << 20, Each: plan.Duration(2 * time.Second)}
}

// Scale makes the test file and the jobs smaller or larger.
func (s *Guest) Scale(by float64) {
	s.Size = max(16<<20, plan.Size(float64(s.Size)*by)>>20<<20)
	s.Each = max(plan.Duration(time.Second), plan.Duration(float64(s.Each)*by))
}

// Validate refuses what no guest can be.
func (s *Guest) Validate() error {
	switch {
	case s.Memory < 256<<20 || s.Memory%(1<<20) != 0:
		return &plan.FieldError{Field: "memory", Msg: fmt.Sprintf("%v is too little, or no whole number of MiB", s.Memory), Mend: "256MiB or more"}
	case s.CPUs < 1 || s.CPUs > 255:
		return &plan.FieldError{Field: "cpus", Msg: fmt.Sprintf("%d is not a number from 1 to 255", s.CPUs)}
	case s.Size < 1<<20 || s.Size%(1<<20) != 0:
		return &plan.FieldError{Field: "size", Msg: fmt.Sprintf("%v is not a whole number of MiB", s.Size), Mend: "as in 64MiB"}
	case s.Each < plan.Duration(100*time.Millisecond):
		return &plan.FieldError{Field: "each", Msg: "is too short", Mend: "1s or more"}
	}
	return nil
}

// GuestJob is what the agent on the target's machine is asked.
type GuestJob struct {
	URL    string        `json:"url"` // of the export
	Memory int64         `json:"memory"`
	CPUs   int           `json:"cpus"`
	Accel  string        `json:"accel"`
	Size   int64         `json:"size"`
	Each   time.Duration `json:"each"`
	Seed   uint64        `json:"seed"`
}

// GuestResult is what came of it. Phases count from the start of QEMU's preparation.
type GuestResult struct {
	Phases []iotax.Phase     `json:"phases"`
	Values []iotax.Value     `json:"values"`
	Facts  map[string]string `json:"facts"`
	Error  string            `json:"error,omitempty"`
	Mend   string            `json:"mend,omitempty"`
}

// AgentGuest is the agent's job of that name. It needs machines, which this package does not know: the command does it.
const AgentGuest = "guest"

// The phases of a guest trial.
const (
	PhaseUp     = "guest.up"      // it can be logged into
	PhaseDisk   = "disk.attached" // it sees the disk
	PhaseResult = "result"        // the jobs inside are done
)

func openGuest(w plan.Workload, e Env) (iotax.Workload, error) {
	s, ok := w.Spec.(*Guest)
	if !ok {
		return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("its spec is a %T", w.Spec)}
	}
	return &guestOnTop{name: w.Name, spec: *s, env: e}, nil
}

type guestOnTop struct {
	name string
	spec Guest
	env  Env
}

func (w *guestOnTop) Metrics() []string {
	return []string{PhaseDisk, PhaseResult, "write.bandwidth", "read.bandwidth", "read.iops"}
}

// Space leaves room for the file system around the file.
func (w *guestOnTop) Space() int64 { return int64(w.spec.Size)*5/4 + 128<<20 }

func (w *guestOnTop) Limit() time.Duration { return 5*time.Minute + 10*time.Duration(w.spec.Each) }

func (w *guestOnTop) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, mend string) error {
		return &iotax.Error{Op: "check " + w.name + " on", On: t.Name, Err: err, Mend: mend}
	}
	if !isNBD(t.Place) {
		return on(fmt.Errorf("%s is no NBD export", t.Place.Path), "a target {nbd: …}, and at: its name")
	}
	if t.Place.ReadOnly {
		return on(errors.New("a file system is made on the disk, and the export is only read"), "nbd: {from: MACHINE}")
	}
	return missingTool(ctx, t.Machine, map[string]string{"qemu-system-x86_64": "qemu-system-x86"})
}

func (w *guestOnTop) Prepare(context.Context, *iotax.Target) error { return nil }
func (w *guestOnTop) Cleanup(context.Context, *iotax.Target) error { return nil }

// Run starts a guest once.
func (w *guestOnTop) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	s := w.spec
	r := &GuestResult{}
	raw, err := ask(ctx, t.Machine, w.env, AgentGuest, GuestJob{URL: t.Place.Path, Memory: int64(s.Memory), CPUs: s.CPUs, Accel: s.Accel, Size: int64(s.Size), Each: time.Duration(s.Each), Seed: out.Seed}, r)
	out.Raw = raw
	for k, v := range r.Facts {
		out.Facts[k] = v
	}
	if err == nil && r.Error != "" {
		err = errors.New(strings.TrimSpace(r.Error))
	}
	if err != nil {
		return failed("measure in a guest for "+w.name+" on", t.Name, err, r.Mend)
	}
	out.Values = append(out.Values, iotax.Value{Name: "operations", Value: 1, Unit: iotax.Count})
	for _, p := range r.Phases {
		out.Values = append(out.Values, iotax.Value{Name: p.Name, Value: p.At.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	out.Values = append(out.Values, r.Values...)
	return nil
}
