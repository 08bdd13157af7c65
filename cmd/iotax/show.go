package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/run/progress"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/stat"
)

func (a *app) showCommand() *cobra.Command {
	var number int // number of a trial, from 1
	var raw, profile, planOnly bool
	c := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show a saved run: its trials, its plan, or raw output",
		Args:  cobra.MaximumNArgs(1),
		Example: `  iotax show
  iotax show --plan > again.yaml
  iotax show --raw --trial 12
  iotax show --profile --trial 12 > cpu.pb.gz`,
		RunE: func(c *cobra.Command, args []string) error {
			one := c.Flags().Changed("trial")
			switch {
			case (raw || profile) && !one:
				return iotax.Usage(errors.New("--raw and --profile need --trial N\n  hint: iotax show lists the trials"))
			case one && number < 1:
				return iotax.Usage(fmt.Errorf("--trial: %d is not the number of a trial\n  hint: the first is 1; iotax show lists them", number))
			}
			return a.withRun(c, args, func(db *store.Store, r *iotax.Run) error {
				switch {
				case planOnly:
					_, err := a.out.Write(r.Plan)
					return err
				case raw:
					b, err := db.Raw(c.Context(), r.ID, number-1)
					if terminal.Is(a.out) { // a terminal gets printable characters only
						b = []byte(store.Printable(string(b)))
					}
					if err == nil {
						_, err = a.out.Write(b)
					}
					return err
				case profile:
					b, err := db.Profile(c.Context(), r.ID, number-1)
					if err == nil && b == nil {
						err = &iotax.Error{Op: "show the profile of trial", On: fmt.Sprintf("%d of run %s", number, r.ID), Err: errors.New("it has none"), Hint: "trials whose workload ends with “(profiled)” have one; `iotax run --profile` makes them"}
					}
					if err == nil {
						_, err = a.out.Write(b)
					}
					return err
				case one:
					for t, err := range db.After(c.Context(), r.ID, number-2, store.Full) { // Seq counts from 0
						if err != nil {
							return err
						}
						if t.Seq == number-1 {
							if a.json {
								return showJSON(a.out, r, []*iotax.Trial{t})
							}
							return showTrial(a.out, t)
						}
						break
					}
					return &iotax.Error{Op: "show trial", On: fmt.Sprintf("%d of run %s", number, r.ID), Err: errors.New("the run has no such trial"), Hint: "iotax show " + r.ID}
				case a.json:
					trials, err := db.Trials(c.Context(), r.ID)
					if err != nil {
						return err
					}
					return showJSON(a.out, r, trials)
				}
				tallies, err := db.Tallies(c.Context())
				if err != nil {
					return err
				}
				if tallies[r.ID].Trials == 1 {
					for t, err := range db.Each(c.Context(), r.ID, store.Brief) {
						if err != nil {
							return err
						}
						return showTrial(a.out, t)
					}
				}
				return showTrials(a.out, r, db.Each(c.Context(), r.ID, store.Brief))
			})
		},
	}
	f := c.Flags()
	f.IntVar(&number, "trial", 0, "only the trial with this number, from 1")
	f.BoolVar(&raw, "raw", false, "raw output of the tool in that trial")
	f.BoolVar(&profile, "profile", false, "CPU profile of that trial, in the format of pprof")
	c.ValidArgsFunction = a.completeRuns(1)
	f.BoolVar(&planOnly, "plan", false, "the plan, with all defaults")
	return c
}

func showJSON(out io.Writer, r *iotax.Run, trials []*iotax.Trial) error {
	return writeJSON(out, struct {
		Run    *iotax.Run     `json:"run"`
		Trials []*iotax.Trial `json:"trials"`
	}{r, list(trials)})
}

func showTrials(out io.Writer, r *iotax.Run, trials iter.Seq2[*iotax.Trial, error]) error {
	fmt.Fprintf(out, "run %s  %s  %s  seed %d\n\n", r.ID, terminal.Clean(r.Name), r.Status, r.Seed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TRIAL\tROUND\tWORKLOAD\tTARGET\tTOOK\tRESULT")
	for t, err := range trials {
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\n", t.Seq+1, t.Round+1, terminal.Clean(t.Workload), terminal.Clean(t.Target), terminal.Elapsed(t.Took), headline(r, t))
	}
	return w.Flush()
}

// headline returns the value of the first metric of the trial's workload. For a failed or discarded trial, it returns
// the reason. It returns "-" if the trial does not have the metric.
func headline(r *iotax.Run, t *iotax.Trial) string {
	switch {
	case t.Err != "":
		return "failed: " + terminal.Clean(terminal.FirstLine(t.Err))
	case t.Discarded != "":
		return "discarded: " + terminal.Clean(t.Discarded)
	}
	for _, w := range r.Workloads {
		if w.Name != t.Workload || len(w.Metrics) == 0 {
			continue
		}
		if v, ok := t.Value(w.Metrics[0]); ok {
			return progress.Scaled(v)
		}
	}
	return "-"
}

func showTrial(out io.Writer, t *iotax.Trial) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "trial %d\tround %d\t%s\n", t.Seq+1, t.Round+1, terminal.Clean(fmt.Sprint(t.Cell())))
	if t.Err != "" {
		fmt.Fprintf(w, "failed\t%s\n", terminal.Clean(t.Err))
	}
	if t.Discarded != "" {
		fmt.Fprintf(w, "discarded\t%s\n", terminal.Clean(t.Discarded))
	}
	for _, k := range slices.Sorted(maps.Keys(t.Facts)) {
		fmt.Fprintf(w, "%s\t%s\n", terminal.Clean(k), terminal.Clean(t.Facts[k]))
	}
	for _, v := range t.Values {
		fmt.Fprintf(w, "%s\t%s\n", terminal.Clean(v.Name), format.Value(stat.Interval{Estimate: v.Value, Lo: v.Value, Hi: v.Value}, v.Unit))
	}
	for _, f := range t.Findings {
		fmt.Fprintf(w, "%s (%s)\t%s\n", f.Rule, f.Severity, terminal.Clean(f.Evidence))
	}
	return w.Flush()
}
