package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/secret"
	"iotax/internal/store"
)

// calibrating is how a run gets the noise floor of its setup.
type calibrating string

const (
	calibrateAuto calibrating = "auto"
	calibrateFull calibrating = "full"
	calibrateNo   calibrating = "no"
)

// worthCalibrating is the least time of the trials of a run that is calibrated by the way: a quick look
// must not become twice as long.
const worthCalibrating = time.Minute

func calibrations() calibrate.Cache {
	return calibrate.Cache{Dir: filepath.Join(cacheDir(), "calibration")}
}

// calibrator returns the function that gets the calibration for a run of p; nil with --calibrate=no.
func (a *app) calibrator(mode calibrating, p *plan.Plan, d run.Deps, show *progress) func(context.Context, *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
	if mode == calibrateNo {
		return nil
	}
	return func(ctx context.Context, r *iotax.Run) (*iotax.Calibration, []iotax.Finding) {
		rig := calibrate.RigOf(r)
		c, fresh := calibrations().Get(rig, d.Now())
		var found []iotax.Finding
		if !fresh || mode == calibrateFull && c.Brief {
			if mode == calibrateAuto && !worthIt(p) {
				return nil, nil
			}
			var err error
			if c, err = calibrateNow(ctx, mode, p, rig, d, show); err != nil && ctx.Err() == nil {
				found = append(found, notCalibrated(err))
			}
		}
		if f, bad := calibrate.Finding(c); bad {
			found = append(found, f)
		}
		if tip := lengthTip(c, p.Measure); tip != "" {
			show.line(tip)
		}
		return c, found
	}
}

// lengthTip suggests another length of trials if that would save much time on this setup, else it is "". docs/dev/decisions/0010
// explains why iotax does not use it by itself.
func lengthTip(c *iotax.Calibration, m plan.Measure) string {
	if c == nil || c.Brief || c.Trial == 0 || m.Fixed() {
		return ""
	}
	if l := time.Duration(m.Trial); l < c.Trial*2 && c.Trial < l*2 {
		return ""
	}
	return fmt.Sprintf("calibrated: trials of %s waste the least time here, these take %s (--trial %[1]s)", plan.Duration(c.Trial), m.Trial)
}

// worthIt reports whether a run of p is calibrated by default: it is long enough, and its baseline is on this host. A second
// guest would disturb those of the run, and take as long to start.
func worthIt(p *plan.Plan) bool {
	least, _, _ := p.Estimate(plan.Costs{})
	return least >= worthCalibrating && p.Targets[0].On == plan.Host
}

// calibrateNow calibrates p's baseline while p's targets are open, and saves the result. With an error it may also return a
// calibration, which it could not save.
func calibrateNow(ctx context.Context, mode calibrating, p *plan.Plan, rig calibrate.Rig, d run.Deps, show *progress) (*iotax.Calibration, error) {
	o := calibrate.Brief()
	if mode == calibrateFull {
		o = calibrate.Full()
	}
	aa, err := calibrate.AA(p, p.Baseline, o, kinds())
	if err != nil {
		return nil, err
	}
	show.line(fmt.Sprintf("calibrating: %s against itself, about %s", p.Baseline, elapsed(calibrationTime(aa))))
	d.Progress = func(e run.Event) {
		if e.Kind == run.Starting && show.live {
			show.status(fmt.Sprintf("calibrating  round %d/%d", e.Round+1, e.Rounds))
		}
	}
	c, _, err := measureRig(ctx, aa, d, mode != calibrateFull, nil)
	if err != nil {
		return nil, err
	}
	return c, calibrations().Put(rig, c)
}

func notCalibrated(err error) iotax.Finding {
	return rules.NotCalibrated.FoundError(iotax.AboutRun(), err.Error())
}

// calibrationTime is about how long the A/A study takes; starting fio and the null engine included.
func calibrationTime(aa *plan.Plan) time.Duration {
	least, _, _ := aa.Estimate(plan.Costs{})
	trials := len(aa.Targets) * aa.Measure.Rounds.Min
	return (least + time.Duration(trials)*200*time.Millisecond + 2*time.Second).Round(time.Second)
}

// measureRig runs the A/A study aa and one of the null engine. The trials are kept in memory;
// with db, those of the A/A study are kept there too, as a run like any other.
func measureRig(ctx context.Context, aa *plan.Plan, d run.Deps, brief bool, db *store.Store) (*iotax.Calibration, *iotax.Run, error) {
	study := func(p *plan.Plan, id string, db *store.Store) (*iotax.Run, []*iotax.Trial, error) {
		var trials []*iotax.Trial
		d := d
		d.Calibrate = nil
		d.Save = func(ctx context.Context, t *iotax.Trial) error {
			trials = append(trials, t)
			if db != nil {
				secret.Hide(t)
				return db.Append(ctx, t)
			}
			return nil
		}
		if db == nil {
			d.Begin = func(context.Context, *iotax.Run) error { return nil }
			d.Update = d.Begin
		}
		r, err := run.Run(ctx, p, d, run.Options{ID: id, Version: version()})
		return r, trials, err
	}
	k := kinds()
	null, err := calibrate.Null(aa, k)
	if err != nil {
		return nil, nil, err
	}
	_, ceiling, err := study(null, "null", nil)
	if err != nil {
		return nil, nil, err
	}
	r, trials, err := study(aa, store.NewID(d.Now()), db)
	if err != nil {
		return nil, r, err
	}
	c, err := calibrate.New(r, trials, ceiling, brief)
	return c, r, err
}

func (a *app) calibrateCommand() *cobra.Command {
	o := calibrate.Full()
	var rounds int
	c := &cobra.Command{
		Use:   "calibrate [TARGET]",
		Short: "Measure the noise floor: a place compared with itself",
		Long: `calibrate compares a target with itself (an A/A study). It reports the noise
floor, how much successive rounds resemble each other, how fast the load
generator is without a disk, and how long a trial should be. iotax keeps the
result for seven days, for runs whose baseline is on the same device.

For a disk or share of a guest, name the directory that holds it first.`,
		Example: `  iotax calibrate
  iotax calibrate dir:/srv/data --trial 10s
  iotax calibrate dir:/var/tmp qemu:virtio-blk,cache=none`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("ramp") {
				o.Measure.Ramp = min(o.Measure.Ramp, o.Measure.Trial/5)
			}
			o.Measure.Rounds = plan.Rounds{Min: rounds, Max: rounds}
			err := o.Measure.Check()
			if rounds < 6 {
				err = errors.Join(err, fmt.Errorf("--rounds %d: an interval needs 6 rounds", rounds))
			}
			if err != nil {
				return usageError{err}
			}
			if len(args) == 0 {
				args = []string{"dir:/var/tmp"}
			}
			p, err := plan.FromWords(args, []string{o.Workload}, plan.Defaults(), kinds())
			if err != nil {
				return usageError{err}
			}
			if err := p.Absolute(); err != nil {
				return err
			}
			aa, err := calibrate.AA(p, p.Targets[len(p.Targets)-1].Name, o, kinds())
			if err != nil {
				return usageError{err}
			}
			return a.calibrate(c.Context(), aa)
		},
	}
	f := c.Flags()
	typedFlag(c, &o.Measure.Trial, "trial", "measured window of a trial (default "+o.Measure.Trial.String()+")", plan.ParseDuration)
	typedFlag(c, &o.Measure.Ramp, "ramp", "time before the window that is not measured (default "+o.Measure.Ramp.String()+")", plan.ParseDuration)
	f.IntVar(&rounds, "rounds", o.Measure.Rounds.Min, "A/A rounds; 12 or more also give the autocorrelation and the best length of a trial")
	f.StringVarP(&o.Workload, "workload", "w", o.Workload, "workload, as in seqread-1m")
	f.StringVar(&o.Size, "size", o.Size, "size of the test file of each arm")
	f.Uint64Var(&o.Measure.Seed, "seed", 0, "seed for trial order and I/O offsets; 0 picks one at random")
	return c
}

func (a *app) calibrate(ctx context.Context, aa *plan.Plan) error {
	db, err := store.Open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	work, err := beginWork(store.NewID(time.Now()))
	if err != nil {
		return err
	}
	defer a.endWork(work)
	show := newProgress(a.err, a.quiet, isTerminal(a.err) && os.Getenv("TERM") != "dumb", 80)
	c, r, err := measureRig(ctx, aa, a.deps(db, work, show), false, db)
	show.end()
	if err != nil {
		return err
	}
	r.Calibration = c
	if f, bad := calibrate.Finding(c); bad {
		r.Findings = append(r.Findings, f)
	}
	if err := db.Update(ctx, r); err != nil {
		return err
	}
	rig := calibrate.RigOf(r)
	if err := calibrations().Put(rig, c); err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, map[string]any{"setup": rig.Facts, "calibration": c, "file": calibrations().Path(rig), "run": r.ID})
	}
	return printCalibration(a.out, c, r, rig, calibrations().Path(rig))
}

// printCalibration writes what the study found, a line for each number.
func printCalibration(w io.Writer, c *iotax.Calibration, r *iotax.Run, rig calibrate.Rig, file string) error {
	var b strings.Builder
	var on []string
	for _, k := range []string{"machine", "place.device.name", "place.filesystem", "kernel", "place.fio"} {
		if v := rig.Facts[k]; v != "" {
			on = append(on, v)
		}
	}
	fmt.Fprintf(&b, "%s on %s\n\n", r.Baseline, strings.Join(on, " · "))
	row := func(name, value, note string) { fmt.Fprintf(&b, "  %-18s %-22s %s\n", name, value, note) }
	verdict := "contains 1, as it must"
	if _, bad := calibrate.Finding(c); bad {
		verdict = "does not contain 1, see below"
	}
	if c.Floor() == 0 {
		row("A/A ratio", fmt.Sprintf("%.4g×", c.Ratio), "too few rounds count for an interval")
	} else {
		row("A/A ratio", fmt.Sprintf("%.3f× [%.3f, %.3f]", c.Ratio, c.Lo, c.Hi), verdict)
		row("noise floor", "± "+percent(c.Floor()), fmt.Sprintf("%d rounds of %s, %s", c.Rounds, plan.Duration(c.Length), c.Workload))
	}
	row("trial to trial", percent(c.CV), "CV of single trials")
	lag := "no more than chance"
	switch {
	case c.Phi > 0:
		lag = fmt.Sprintf("intervals are widened for φ = %.2f", c.Phi)
	case c.Rounds < 12:
		lag = "needs 12 rounds"
	}
	row("lag-1 φ", fmt.Sprintf("%.2f", c.Lag1), lag)
	if c.NullIOPS > 0 {
		row("null engine", scaled(iotax.Value{Name: iotax.ValueReadIOPS, Value: c.NullIOPS, Unit: iotax.PerSecond}), "one thread of fio without a disk")
	}
	if c.Trial > 0 {
		row("best trial length", plan.Duration(c.Trial).String(), "by variance components")
	} else {
		row("best trial length", "not known", "needs 12 rounds and trials of 5 s")
	}
	fmt.Fprintln(&b)
	if f, bad := calibrate.Finding(c); bad {
		fmt.Fprintf(&b, "%s: %s\n  → %s\n\n", f.Rule, f.Evidence, f.Hint)
	}
	fmt.Fprintf(&b, "kept for %d days: %s\nnext: iotax report %s · iotax show %s\n", int(calibrate.MaxAge.Hours()/24), file, iotax.Quote(r.ID), iotax.Quote(r.ID))
	_, err := io.WriteString(w, b.String())
	return err
}

// percent prints a share with two significant digits.
func percent(x float64) string {
	if x >= 0.1 {
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}
