package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/report/output"
	"iotax/internal/report/text"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

func (a *app) reportCommand() *cobra.Command {
	var out outlet
	var rd reading
	var metrics []string
	var profiles bool
	var failOn expect.Outcome
	c := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Print the report of a saved run",
		Long: `report prints the report of a saved run, by default of the latest run with
trials. RUN is an id or the beginning of one, a name (its newest run), latest,
latest~1, or newest (also a run without trials).`,
		Example: `  iotax report
  iotax report latest~1 -o report.html -o plot.svg
  iotax report --format md`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			if err := rd.read(); err != nil {
				return err
			}
			return a.withRun(c, args, func(db *store.Store, r *iotax.Run) error {
				rep, err := reportOf(c.Context(), db, r, metrics...)
				if err != nil {
					return err
				}
				if err := rd.apply(rep); err != nil {
					return err
				}
				if failOn != "" && rep.Expected == nil {
					return iotax.Usage(fmt.Errorf("--fail-on: run %s has no expectations", r.ID))
				}
				write := a.document(rep)
				if profiles {
					write = a.profiles(rep)
				}
				if _, err = out.write(a, write); err != nil {
					return err
				}
				return decided(rep, failOn)
			})
		},
	}
	out.add(c, output.Formats(), "text")
	a.detailsFlag(c)
	rd.add(c)
	c.Flags().BoolVar(&profiles, "profile", false, "only the CPU profiles of a run with --profile, as text, md, html or svg")
	metricFlag(c, &metrics, "workloads without them are left out")
	choiceFlag(c, &failOn, "fail-on", "exit with status 3 if an expectation of the run is: missed, undecided (also if one is missed)", expect.Missed, expect.Undecided)
	group(c, groupWhat, "metric", "profile")
	c.ValidArgsFunction = a.completeRuns(1)
	return c
}

func (a *app) detailsFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.details, "details", false, "print the whole report: every table, interval and note")
	group(c, groupOutput, "details")
}

// reportOf returns the report of a saved run. db must stay open until the report is written, because charts read their
// data only then.
func reportOf(ctx context.Context, db *store.Store, r *iotax.Run, metrics ...string) (*report.Report, error) {
	return report.From(r, db.Parts(ctx, r.ID, "", store.Full), metrics...)
}

// profiles returns a function that writes the CPU profiles of a report.
func (a *app) profiles(rep *report.Report) func(io.Writer, string) error {
	return func(w io.Writer, format string) error {
		if rep.Profiles == nil {
			return &iotax.Error{Op: "report the profiles of run", On: rep.Run.ID, Err: errors.New("it has none"), Hint: "`iotax run --profile` makes them"}
		}
		return output.Profiles(w, rep, format, text.Options{Width: terminal.Width(w, output.TextWidth), Color: terminal.Color(w)})
	}
}
