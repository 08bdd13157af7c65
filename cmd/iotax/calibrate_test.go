package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/run"
	"iotax/internal/volume"
)

// A calibration that fails does not keep a run from measuring; it is told.
func TestCalibrationThatFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	a := &app{out: io.Discard, err: io.Discard}
	p, err := plan.FromWords([]string{"dir:/var/tmp", "dir:/var/tmp"}, []string{"randread-4k"}, plan.Defaults(), kinds())
	if err != nil {
		t.Fatal(err)
	}
	show := newProgress(io.Discard, true, false, 80)
	d := a.deps(nil, t.TempDir(), show)
	d.Prepare = func(context.Context, plan.Target, volume.Env) (iotax.Volume, error) {
		return nil, &iotax.Error{Op: "make directory", On: "/var/tmp", Err: errors.New("no space left"), Hint: "free some"}
	}
	r := &iotax.Run{Baseline: p.Baseline}
	c, found := a.calibrator(calibrateAuto, p, d, show)(context.Background(), r)
	if c != nil || len(found) != 1 || found[0].Rule != "not-calibrated" || !strings.Contains(found[0].Evidence, "no space left") || found[0].Hint != "free some" {
		t.Errorf("%+v, %+v", c, found)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if c, found := a.calibrator(calibrateAuto, p, d, show)(stopped, r); c != nil || found != nil {
		t.Errorf("interrupted: %+v, %+v", c, found)
	}
	p.Measure.Trial, p.Measure.Rounds = plan.Duration(time.Second), plan.Rounds{Min: 6, Max: 6}
	if c, found := a.calibrator(calibrateAuto, p, d, show)(context.Background(), r); c != nil || found != nil {
		t.Errorf("a run of 12 s is not worth it: %+v, %+v", c, found)
	}
	if a.calibrator(calibrateNo, p, d, show) != nil {
		t.Error("--calibrate=no asks nothing")
	}
}

// A run says that another length of its trials would waste less time, where a full calibration knows it and it
// matters.
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

func TestDiscardedTrialIsTold(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, false, false, 80)
	x := &iotax.Trial{Target: "a", Workload: "w", Discarded: "clock-insane: 3 %", Values: []iotax.Value{{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond}}}
	p.event(run.Event{Kind: run.Finished, Workload: "w", Target: "a", Rounds: 6, Trial: x, Metric: "read.iops"})
	if !strings.Contains(b.String(), "1.000k IOPS; discarded, its round is run again: clock-insane: 3 %") {
		t.Error(b.String())
	}
}
