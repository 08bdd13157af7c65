package calibrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/terminal"
)

// A Mode selects when a run measures the noise floor of its setup.
type Mode string

const (
	Auto   Mode = "auto"
	Always Mode = "full"
	Never  Mode = "no"
)

// Worthwhile is the minimum length of a run that is calibrated by default. Calibration could double the time of a
// shorter run.
const Worthwhile = time.Minute

// UserCache returns the calibration cache of the current user.
func UserCache() Cache { return Cache{Dir: filepath.Join(iotax.CacheDir(), "calibration")} }

// A Study contains the dependencies of a calibration.
type Study struct {
	Deps    run.Deps
	Kinds   plan.Kinds
	Version string // version of iotax
	Line    func(string)
	Status  func(string)
	Others  func() bool // reports whether another run is active on this host
}

// ErrDisturbed reports that a calibration was not saved because another run may have disturbed it.
var ErrDisturbed = errors.New("another run was active on this host")

// Keep saves the calibration of setup in the user's cache. disturbed is the result of Others before the study. If it is
// true, or if another run is active now, Keep saves nothing and returns ErrDisturbed.
func (s Study) Keep(setup Setup, c *iotax.Calibration, disturbed bool) error {
	if disturbed || s.Others() {
		return ErrDisturbed
	}
	return UserCache().Put(setup, c)
}

// Of returns the Deps.Calibrate function for a run of p. It returns nil if mode is Never.
func (s Study) Of(p *plan.Plan, mode Mode) func(context.Context, *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
	if mode == Never {
		return nil
	}
	return func(ctx context.Context, r *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
		setup := SetupOf(r)
		c, fresh := UserCache().Get(setup, s.Deps.Now())
		var found []iotax.Finding
		if !fresh || mode == Always && c.Brief {
			if mode == Auto && !Worth(p) {
				return nil, nil
			}
			measured, left, err := s.now(ctx, p, mode, setup)
			if err == nil || !fresh { // otherwise the brief calibration stays
				c = measured
			}
			switch {
			case err == nil:
			case ctx.Err() != nil:
				found = left
			case fresh:
				s.Line("the full calibration failed, a brief one is used: " + err.Error())
			default:
				found = append(found, rules.NotCalibrated.FoundError(iotax.AboutRun(), err.Error()))
			}
		}
		if f, bad := Finding(c); bad {
			found = append(found, f)
		}
		if tip := lengthTip(c, p.Measure); tip != "" {
			s.Line(tip)
		}
		return c, found
	}
}

// Worth reports whether a run of p is calibrated by default: if it takes at least Worthwhile and its baseline is on
// this host. For a baseline in a guest, the study would boot another guest, which disturbs the run.
func Worth(p *plan.Plan) bool {
	least, _, _ := schedule.Estimate(p, schedule.Costs{})
	return least >= Worthwhile && p.Targets[0].On == plan.Host
}

// Ahead estimates how long a new run of p in this mode calibrates before its first trial. The device of the baseline is
// not known yet, so any saved calibration of a place on this host counts.
func Ahead(p *plan.Plan, mode Mode, k plan.Kinds) time.Duration {
	if mode == Never || mode == Auto && !Worth(p) || UserCache().here(mode == Always, time.Now()) {
		return 0
	}
	aa, err := mode.study(p, k)
	if err != nil {
		return 0 // the run reports the error
	}
	return Time(aa, k)
}

// study returns the A/A study of p's baseline.
func (m Mode) study(p *plan.Plan, k plan.Kinds) (*plan.Plan, error) {
	o := Brief()
	if m == Always {
		o = Full()
	}
	return AA(p, p.Baseline, o, k)
}

// Assumed times of a study: to start fio and read counters for a trial, and to open the targets.
const (
	aroundTrial = 350 * time.Millisecond
	opening     = 500 * time.Millisecond
)

// Time estimates the duration of the A/A study together with its null-engine study.
func Time(aa *plan.Plan, k plan.Kinds) time.Duration {
	sum := opening
	add := func(p *plan.Plan) {
		least, _, _ := schedule.Estimate(p, schedule.Costs{})
		sum += least + time.Duration(len(p.Targets)*p.Measure.Rounds.Min)*aroundTrial
	}
	add(aa)
	if null, err := Null(aa, k); err == nil { // otherwise Measure reports the error
		add(null)
	}
	return sum.Round(time.Second)
}

// lengthTip suggests the calibrated trial length if it is at least twice or at most half of the trial length in m,
// otherwise it returns "". It also returns "" for a brief calibration and for a fixed protocol.
// docs/dev/decisions/0010 explains why iotax does not change the length automatically.
func lengthTip(c *iotax.Calibration, m plan.Measure) string {
	if c == nil || c.Brief || c.Trial == 0 || m.Fixed() {
		return ""
	}
	if l := time.Duration(m.Trial); l < c.Trial*2 && c.Trial < l*2 {
		return ""
	}
	return fmt.Sprintf("calibrated: trials of %s waste the least time here, these take %s (--trial %[1]s)", plan.Duration(c.Trial), m.Trial)
}

// `now` calibrates p's baseline while p's targets are open, and saves the result. If saving fails, it reports this with
// s.Line and returns the calibration. After an error, left contains findings about resources that the study could not remove.
func (s Study) now(ctx context.Context, p *plan.Plan, mode Mode, setup Setup) (c *iotax.Calibration, left []iotax.Finding, err error) {
	aa, err := mode.study(p, s.Kinds)
	if err != nil {
		return nil, nil, err
	}
	s.Line(fmt.Sprintf("calibrating: %s against itself, about %s", p.Baseline, terminal.Elapsed(Time(aa, s.Kinds))))
	s.Deps.Progress = func(e run.Event) {
		if e.Kind == run.Starting {
			s.Status(fmt.Sprintf("calibrating  round %d/%d", e.Round+1, e.Rounds))
		}
	}
	s.Deps = unsaved(s.Deps)
	disturbed := s.Others()
	c, r, err := s.Measure(ctx, aa, "calibration", mode != Always)
	if err != nil {
		if r != nil {
			left = run.Leftovers(r)
		}
		return nil, left, err
	}
	if err := s.Keep(setup, c, disturbed); err != nil {
		s.Line("the next run calibrates again: " + err.Error())
	}
	return c, nil, nil
}

// Measure runs a null-engine study without saving it, and then the A/A study aa as the run `id`, saved with s.Deps. It
// returns the calibration and the A/A run. If the null-engine study fails, it returns the run of that study.
func (s Study) Measure(ctx context.Context, aa *plan.Plan, id string, brief bool) (*iotax.Calibration, *iotax.Run, error) {
	s.Deps.Calibrate = nil
	measure := func(p *plan.Plan, id string, d run.Deps) (*iotax.Run, []*iotax.Trial, error) {
		var trials []*iotax.Trial
		save := d.Save
		d.Save = func(ctx context.Context, t *iotax.Trial) error {
			trials = append(trials, t)
			return save(ctx, t)
		}
		r, err := run.Run(ctx, p, d, run.Options{ID: id, Version: s.Version})
		return r, trials, err
	}
	null, err := Null(aa, s.Kinds)
	if err != nil {
		return nil, nil, err
	}
	r, ceiling, err := measure(null, "null", unsaved(s.Deps))
	if err != nil {
		return nil, r, err
	}
	r, trials, err := measure(aa, id, s.Deps)
	if err != nil {
		return nil, r, err
	}
	c, err := New(r, trials, ceiling, brief)
	return c, r, err
}

// unsaved returns a copy of d whose Begin, Update and Save do nothing.
func unsaved(d run.Deps) run.Deps {
	d.Begin = func(context.Context, *iotax.Run) error { return nil }
	d.Update = d.Begin
	d.Save = func(context.Context, *iotax.Trial) error { return nil }
	return d
}
