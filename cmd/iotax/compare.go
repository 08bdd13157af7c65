package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/output"
	"iotax/internal/report/text"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

func (a *app) compareCommand() *cobra.Command {
	o := compare.Options{Margin: -1, By: compare.ByValue}
	var out outlet
	var metrics []string
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what changed between two saved runs; fail if it got worse",
		Long: `compare compares run B with run A, cell by cell, with intervals. It also lists
other differences between the two runs, such as the kernel. A run is an id or
the beginning of one, a name (its newest run), latest, latest~1, NAME~1, or a
file that "iotax export" wrote.

The comparison is unpaired: the runs were not interleaved, and a drift between
them is in the ratio. "iotax run PLAN --against A" measures both in the same
rounds. If both have the same baseline, the column "against BASELINE" compares
their ratios to it: a change of the host cancels out. --by loss takes the
verdicts from that column.

With --fail-on the exit status is 3 if a cell got worse by more than the margin
(with "differs": worse or better), or if a number of A cannot be compared with
one of B.`,
		Example: `  iotax compare latest~1 latest
  iotax compare main.json pr.json --fail-on worse --margin 10% --format md`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			sides := [2]*report.Report{}
			open := &opener{ctx: c.Context(), in: a.in, url: a.store, metrics: metrics}
			defer open.close()
			for i, ref := range args {
				var err error
				if sides[i], err = open.run(ref); err != nil {
					return err
				}
			}
			cmp := compare.Of(sides[0], sides[1], o)
			if _, err := out.write(a, func(w io.Writer, format string) error { return a.writeComparison(w, cmp, format) }); err != nil {
				return err
			}
			if cmp.Failed {
				return exitCode(exitGate)
			}
			return nil
		},
	}
	typedFlag(c, &o.Margin, "margin", "differences inside this margin count as equivalent, as in 5% (default: that of B)", func(s string) (float64, error) {
		p, err := plan.ParsePercent(s)
		return float64(p), err
	})
	choiceFlag(c, &o.By, "by", "verdicts on: value (B over A), or loss (B's ratio to the baseline over A's)", compare.ByValue, compare.ByLoss)
	choiceFlag(c, &o.FailOn, "fail-on", "exit with status 3 if a cell is: worse, differs", compare.FailOnWorse, compare.FailOnDiffers)
	metricFlag(c, &metrics, "workloads without them are left out")
	c.ValidArgsFunction = a.completeRuns(2)
	a.detailsFlag(c)
	out.add(c, append(output.ComparisonFormats(), "txt"), "text")
	return c
}

func (a *app) writeComparison(w io.Writer, c *compare.Comparison, format string) error {
	if format != "txt" {
		return output.Comparison(w, c, format)
	}
	details := ""
	if !a.details {
		if details = repeatable(a.args); details == "" {
			details = "the same command with"
		}
		details += " --details"
	}
	return output.ComparisonText(w, c, details, text.Options{Width: terminal.Width(w, 100), Color: terminal.Color(w), Program: program()})
}

// An opener reads runs from exported files and from the store. It opens the store when it is first needed.
type opener struct {
	ctx   context.Context
	in    io.Reader
	url   string
	db    *store.Store
	stdin bool // standard input was read

	metrics []string // metrics to compare; nil means the metrics of the runs
}

func (o *opener) close() {
	if o.db != nil {
		o.db.Close()
	}
}

// run returns the report of the run that ref names. "-" is standard input. A ref that contains a path separator or ends
// in .json is a file. Any other ref names a run in the store or, if the store does not contain the run, a file.
func (o *opener) run(ref string) (*report.Report, error) {
	if ref == "-" || strings.ContainsRune(ref, os.PathSeparator) || strings.HasSuffix(ref, ".json") {
		return o.file(ref)
	}
	if o.db == nil {
		db, err := saved.Open(o.ctx, o.url)
		if err != nil {
			return nil, err
		}
		o.db = db
	}
	r, err := o.db.Get(o.ctx, ref)
	if errors.Is(err, store.ErrNotFound) {
		if st, serr := os.Stat(ref); serr == nil && st.Mode().IsRegular() {
			return o.file(ref)
		}
	}
	if err != nil {
		return nil, err
	}
	return report.From(r, o.db.Parts(o.ctx, r.ID, "", store.Brief), o.metrics...) // a comparison needs no series and no histograms
}

func (o *opener) file(path string) (*report.Report, error) {
	fail := func(err error, hint string) (*report.Report, error) {
		return nil, &iotax.Error{Op: "read export", On: path, Err: err, Hint: hint}
	}
	in := o.in
	if path == "-" {
		if o.stdin {
			return fail(errors.New("the standard input was read already"), "name a file for one of the two")
		}
		o.stdin = true
	} else {
		f, err := os.Open(path)
		if err != nil {
			return fail(iotax.Cause(err), "name a file that `iotax export -o FILE` wrote, or a run that `iotax list` shows")
		}
		defer f.Close()
		in = f
	}
	const maxExport = 1 << 30
	r, trials, err := store.ReadJSON(iotax.Limit(in, maxExport))
	if err != nil {
		return fail(err, "make one with `iotax export RUN -o FILE`")
	}
	return report.From(r, report.Held(trials), o.metrics...)
}
