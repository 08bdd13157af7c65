package wired_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/run/progress"
	"iotax/internal/run/wired"
	"iotax/internal/volume"
)

// A failed calibration leads to a finding. An interrupted run, a short run and --calibrate=no lead to none.
func TestCalibrationThatFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := plan.FromWords([]string{"dir:/var/tmp", "dir:/var/tmp"}, []string{"randread-4k"}, plan.Defaults(), kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	d := wired.Deps(nil, t.TempDir(), nil, progress.New(io.Discard, progress.Quiet, false, 80), false)
	d.Prepare = func(context.Context, plan.Target, volume.Env) (iotax.Volume, error) {
		return nil, &iotax.Error{Op: "make directory", On: "/var/tmp", Err: errors.New("no space left"), Hint: "free some"}
	}
	s := calibrate.Study{Deps: d, Kinds: kinds.All(), Line: func(string) {}, Status: func(string) {}, Others: func() bool { return false }}
	r := &iotax.Run{Baseline: p.Baseline}
	c, found := s.Of(p, calibrate.Auto)(context.Background(), r)
	if c != nil || len(found) != 1 || found[0].Rule != "not-calibrated" || !strings.Contains(found[0].Evidence, "no space left") || found[0].Hint != "free some" {
		t.Errorf("%+v, %+v", c, found)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if c, found := s.Of(p, calibrate.Auto)(stopped, r); c != nil || found != nil {
		t.Errorf("interrupted: %+v, %+v", c, found)
	}
	p.Measure.Trial, p.Measure.Rounds = plan.Duration(time.Second), plan.Rounds{Min: 6, Max: 6}
	if c, found := s.Of(p, calibrate.Auto)(context.Background(), r); c != nil || found != nil {
		t.Errorf("a run of 12 s is not worth it: %+v, %+v", c, found)
	}
	if s.Of(p, calibrate.Never) != nil {
		t.Error("--calibrate=no calibrates")
	}
}
