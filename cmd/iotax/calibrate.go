package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/run"
	"iotax/internal/run/progress"
	"iotax/internal/run/wired"
	"iotax/internal/store"
	"iotax/stat"
)

func (a *app) calibrateCommand() *cobra.Command {
	o := calibrate.Full()
	var rounds int
	c := &cobra.Command{
		Use:   "calibrate [TARGET]",
		Short: "Measure the noise floor: a place compared with itself",
		Long: `calibrate compares a target with itself (an A/A study). It reports the noise
floor, how much successive rounds resemble each other, how fast the load
generator is without a disk, and how long a trial should be. iotax keeps the
result for seven days, for runs whose baseline is on the same device, unless
another run was active on this host.

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
				return iotax.Usage(err)
			}
			if len(args) == 0 {
				args = []string{"dir:/var/tmp"}
			}
			p, err := plan.FromWords(args, []string{o.Workload}, plan.Defaults(), kinds.All())
			if err != nil {
				return iotax.Usage(err)
			}
			if err := p.Absolute(); err != nil {
				return err
			}
			aa, err := calibrate.AA(p, p.Targets[len(p.Targets)-1].Name, o, kinds.All())
			if err != nil {
				return iotax.Usage(err)
			}
			return a.calibrate(c.Context(), aa)
		},
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeTargets(c, append(args, ""), word) // the extra argument excludes suites, which are completed only as the first argument
	}
	f := c.Flags()
	typedFlag(c, &o.Measure.Trial, "trial", "measured window of a trial (default "+o.Measure.Trial.String()+")", plan.ParseDuration)
	typedFlag(c, &o.Measure.Ramp, "ramp", "time before the window that is not measured (default "+o.Measure.Ramp.String()+")", plan.ParseDuration)
	f.IntVar(&rounds, "rounds", o.Measure.Rounds.Min, "A/A rounds; 12 or more also give the autocorrelation and the best length of a trial")
	f.StringVarP(&o.Workload, "workload", "w", o.Workload, "workload, as in seqread-1m")
	completeBy(c, "workload", completeWorkloads)
	f.StringVar(&o.Size, "size", o.Size, "size of the test file of each arm")
	f.Uint64Var(&o.Measure.Seed, "seed", 0, "seed for trial order and I/O offsets; 0 picks one at random")
	return c
}

// study returns a calibrate.Study that measures with d and shows its progress.
func study(d run.Deps, show *progress.Progress) calibrate.Study {
	return calibrate.Study{Deps: d, Kinds: kinds.All(), Version: version(), Line: show.Line, Status: func(s string) {
		if show.Live {
			show.Status(s)
		}
	}, Others: func() bool { return len(leftover.Others(leftover.Current().Run)) > 0 }}
}

func (a *app) calibrate(ctx context.Context, aa *plan.Plan) error {
	db, err := store.Open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	id := store.NewID(time.Now())
	work, err := beginWork(id)
	if err != nil {
		return err
	}
	defer a.endWork(work)
	show := a.progress()
	s := study(wired.Deps(db, work, nil, show, a.verbose), show)
	disturbed := s.Others()
	c, r, err := s.Measure(ctx, aa, id, false)
	show.End()
	a.printUnremoved(r)
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
	setup := calibrate.SetupOf(r)
	file := calibrate.UserCache().Path(setup)
	if err := s.Keep(setup, c, disturbed); errors.Is(err, calibrate.ErrDisturbed) {
		file = ""
	} else if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, map[string]any{"setup": setup.Facts, "calibration": c, "file": file, "run": r.ID})
	}
	return printCalibration(a.out, c, r, setup, file)
}

func printCalibration(w io.Writer, c *iotax.Calibration, r *iotax.Run, setup calibrate.Setup, file string) error {
	var b strings.Builder
	var on []string
	for _, k := range []string{"machine", "place.device.name", "place.filesystem", "kernel", "place.fio"} {
		if v := setup.Facts[k]; v != "" {
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
		row("noise floor", stat.PlusMinus(c.Floor(), 2), fmt.Sprintf("%d rounds of %s, %s", c.Rounds, plan.Duration(c.Length), c.Workload))
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
		row("null engine", progress.Scaled(iotax.Value{Name: iotax.ValueReadIOPS, Value: c.NullIOPS, Unit: iotax.PerSecond}), "one thread of fio without a disk")
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
	if file == "" {
		fmt.Fprintf(&b, "not kept: %v; calibrate again when that run has ended\n", calibrate.ErrDisturbed)
	} else {
		fmt.Fprintf(&b, "kept for %d days: %s\n", int(calibrate.MaxAge.Hours()/24), file)
	}
	fmt.Fprintf(&b, "next: iotax report %s · iotax show %s\n", iotax.Quote(r.ID), iotax.Quote(r.ID))
	_, err := io.WriteString(w, b.String())
	return err
}

// percent formats a fraction as a percentage: without decimals from 10 %, and with two significant digits below.
func percent(x float64) string {
	if x >= 0.1 {
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}
