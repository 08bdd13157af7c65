package calibrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/run"
	"iotax/internal/volume"
)

// A stuckVolume cannot be detached.
type stuckVolume struct{}

func (stuckVolume) Caps() iotax.VolumeCaps { return iotax.VolumeCaps{} }
func (stuckVolume) Attach(context.Context, iotax.Machine) (iotax.Place, error) {
	return iotax.Place{Kind: iotax.PlaceDir, Path: "/a"}, nil
}
func (stuckVolume) Detach(context.Context) error { return errors.New("busy") }
func (stuckVolume) Close(context.Context) error  { return nil }

type thisHost struct{}

func (thisHost) String() string                        { return "host" }
func (thisHost) Caps() iotax.MachineCaps               { return iotax.MachineCaps{Local: true} }
func (thisHost) Run(context.Context, *iotax.Cmd) error { return nil }
func (thisHost) Close(context.Context) error           { return nil }

// The run whose study was interrupted reports what the study could not remove.
func TestInterruptedStudyLeaves(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	s := Study{Line: func(string) {}, Kinds: kindsOfTest, Deps: run.Deps{
		Host:        thisHost{},
		Prepare:     func(context.Context, plan.Target, volume.Env) (iotax.Volume, error) { return stuckVolume{}, nil },
		Workload:    func(plan.Workload) (iotax.Workload, error) { return interrupted{cancel}, nil },
		Environment: func(context.Context, iotax.Machine) (map[string]string, error) { return map[string]string{}, nil },
		Now:         time.Now,
	}}
	p := &plan.Plan{Baseline: "h", Targets: []plan.Target{{Name: "h", On: plan.Host, Kind: "dir", Spec: &dir{}}}, Measure: plan.Defaults()}
	c, found := s.Of(p, Always)(ctx, &iotax.Run{Baseline: "h", Targets: []iotax.TargetInfo{{Name: "h"}}})
	if c != nil || len(found) != 1 || found[0].Rule != "left-behind" || !strings.Contains(found[0].Evidence, "busy") {
		t.Errorf("%+v, %+v", c, found)
	}
}

// interrupted is a workload whose check is interrupted.
type interrupted struct{ interrupt func() }

func (interrupted) Metrics() []string        { return []string{"read.iops"} }
func (interrupted) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{} }
func (i interrupted) Check(ctx context.Context, _ *iotax.Target) error {
	i.interrupt()
	return ctx.Err()
}
func (interrupted) Prepare(context.Context, *iotax.Target) error           { return nil }
func (interrupted) Run(context.Context, *iotax.Target, *iotax.Trial) error { return nil }
func (interrupted) Cleanup(context.Context, *iotax.Target) error           { return nil }

// A run suggests another trial length if a full calibration proposes a much different one.
func TestLengthTip(t *testing.T) {
	m := plan.Defaults() // trials of 10 s
	for _, c := range []struct {
		c    *iotax.Calibration
		want string
	}{
		{nil, ""},
		{&iotax.Calibration{Trial: time.Minute, Brief: true}, ""},
		{&iotax.Calibration{}, ""},
		{&iotax.Calibration{Trial: 19 * time.Second}, ""},
		{&iotax.Calibration{Trial: 6 * time.Second}, ""},
		{&iotax.Calibration{Trial: 5 * time.Second}, "calibrated: trials of 5s waste the least time here, these take 10s (--trial 5s)"},
		{&iotax.Calibration{Trial: time.Minute}, "calibrated: trials of 1m waste the least time here, these take 10s (--trial 1m)"},
	} {
		if got := lengthTip(c.c, m); got != c.want {
			t.Errorf("%+v: %q, want %q", c.c, got, c.want)
		}
	}
	m.Protocol = "fixed:5x60s"
	if got := lengthTip(&iotax.Calibration{Trial: 5 * time.Second}, m); got != "" {
		t.Errorf("a fixed protocol: %q", got)
	}
}
