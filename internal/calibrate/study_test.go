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

// A fakeVolume is a volume whose Detach returns err.
type fakeVolume struct{ err error }

func (fakeVolume) Caps() iotax.VolumeCaps { return iotax.VolumeCaps{} }
func (fakeVolume) Attach(context.Context, iotax.Machine) (iotax.Place, error) {
	return iotax.Place{Kind: iotax.PlaceDir, Path: "/a"}, nil
}
func (v fakeVolume) Detach(context.Context) error { return v.err }
func (fakeVolume) Close(context.Context) error    { return nil }

type thisHost struct{}

func (thisHost) String() string                        { return "host" }
func (thisHost) Caps() iotax.MachineCaps               { return iotax.MachineCaps{Local: true} }
func (thisHost) Run(context.Context, *iotax.Cmd) error { return nil }
func (thisHost) Close(context.Context) error           { return nil }

// If a calibration is interrupted, its run reports the resources that the calibration could not remove.
func TestInterruptedStudyLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, found := fakeStudy(t, fakeVolume{errors.New("busy")}, cancel).Of(planOfTest, Always)(ctx, runOfTest)
	if c != nil || len(found) != 1 || found[0].Rule != "left-behind" || !strings.Contains(found[0].Evidence, "busy") {
		t.Errorf("%+v, %+v", c, found)
	}
}

// A calibration that another run may have disturbed is used, but not saved.
func TestDisturbedStudyIsNotSaved(t *testing.T) {
	for _, c := range []struct {
		others []bool // at the start and at the end
		kept   bool
	}{{[]bool{false, false}, true}, {[]bool{true, false}, false}, {[]bool{false, true}, false}} {
		s := fakeStudy(t, fakeVolume{}, func() {})
		s.Others = func() bool {
			now := c.others[0]
			c.others = c.others[1:]
			return now
		}
		lines := ""
		s.Line = func(text string) { lines += text + "\n" }
		got, found := s.Of(planOfTest, Always)(t.Context(), runOfTest)
		_, kept := UserCache().Get(SetupOf(runOfTest), time.Now())
		if got == nil || kept != c.kept || strings.Contains(lines, "another run was active") == kept {
			t.Errorf("kept %v, want %v: %+v, %+v\n%s", kept, c.kept, got, found, lines)
		}
	}
}

var (
	planOfTest = &plan.Plan{Baseline: "h", Targets: []plan.Target{{Name: "h", On: plan.Host, Kind: "dir", Spec: &dir{}}}, Measure: plan.Defaults()}
	runOfTest  = &iotax.Run{Baseline: "h", Targets: []iotax.TargetInfo{{Name: "h"}}}
)

// fakeStudy returns a study with its own cache. All its targets use the volume v. The Check of its workload calls the
// function check.
func fakeStudy(t *testing.T, v iotax.Volume, check func()) Study {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return Study{Line: func(string) {}, Status: func(string) {}, Others: func() bool { return false }, Kinds: kindsOfTest, Deps: run.Deps{
		Host:        thisHost{},
		Prepare:     func(context.Context, plan.Target, volume.Env) (iotax.Volume, error) { return v, nil },
		Workload:    func(plan.Workload) (iotax.Workload, error) { return fakeWorkload{check}, nil },
		Environment: func(context.Context, iotax.Machine) (map[string]string, error) { return map[string]string{}, nil },
		Watch: func(context.Context, *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
			return func(context.Context) (iotax.Seen, error) { return iotax.Seen{}, nil }, nil
		},
		Evict:  func(context.Context, iotax.Machine, string) (int, error) { return 0, nil },
		Check:  func(*iotax.Trial, *iotax.Target) ([]iotax.Finding, string) { return nil, "" },
		Review: func(*iotax.Run, []*iotax.Trial) []iotax.Finding { return nil },
		Now:    time.Now,
		Sleep:  func(context.Context, time.Duration) error { return nil },
	}}
}

type fakeWorkload struct{ check func() }

func (fakeWorkload) Metrics() []string        { return []string{"read.iops"} }
func (fakeWorkload) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{} }
func (f fakeWorkload) Check(ctx context.Context, _ *iotax.Target) error {
	f.check()
	return ctx.Err()
}
func (fakeWorkload) Prepare(context.Context, *iotax.Target) error { return nil }
func (fakeWorkload) Run(_ context.Context, _ *iotax.Target, out *iotax.Trial) error {
	out.Values = append(out.Values, iotax.Value{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond, Better: iotax.Up})
	return nil
}
func (fakeWorkload) Cleanup(context.Context, *iotax.Target) error { return nil }

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
