package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/report/html"
	"iotax/internal/report/output"
	"iotax/internal/report/text"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/trend"
	"iotax/stat"
)

// failOn selects the changes for which `iotax trend` fails.
type failOn string

const (
	failOnChange failOn = "change"
	failOnWorse  failOn = "worse"
)

func (a *app) trendCommand() *cobra.Command {
	var o trend.Options
	var out outlet
	var fail failOn
	var within int
	c := &cobra.Command{
		Use:   "trend [RUN]",
		Short: "Show how a result changed over saved runs; fail if it did",
		Long: `trend follows numbers of the runs that have the name of RUN, by default of the
latest run, and finds where they changed for good (change points). Without
--target and --workload it follows every cell of RUN.

With --fail-on change the exit status is 3 if a new level begins in the last
runs (--within). A change needs three runs of the new level to be found, and a
trend ten runs. Of a trend without a change, one in a hundred shows one.`,
		Example: `  iotax trend
  iotax trend nightly --fail-on worse
  iotax trend nightly --target guest --metric latency.p99 --fail-on change`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			if within < 1 {
				return iotax.Usage(fmt.Errorf("--within: %d is not a number of runs from 1", within))
			}
			return a.withRun(c, args, func(db *store.Store, r *iotax.Run) error {
				o.Name = r.Name
				all, err := trends(c.Context(), &trend.Reader{Store: db}, r, o)
				if err != nil {
					return err
				}
				if _, err := out.write(a, func(w io.Writer, format string) error { return writeTrends(w, r.Name, all, format) }); err != nil {
					return err
				}
				for _, t := range all {
					if slices.ContainsFunc(t.Since(within), func(c trend.Change) bool {
						return fail == failOnChange || fail == failOnWorse && c.Verdict == stat.Worse
					}) {
						return exitCode(exitGate)
					}
				}
				return nil
			})
		},
	}
	f := c.Flags()
	f.StringVarP(&o.Cell.Workload, "workload", "w", "", "workload to follow (default: every one of RUN)")
	f.StringVar(&o.Cell.Target, "target", "", "target to follow (default: every one of RUN)")
	f.StringVar(&o.Metric, "metric", "", "value to follow, as in read.latency.p99 (default: the workload's own)")
	choiceFlag(c, &o.By, "by", "follow the ratio to the baseline, where there is one (ratio), or the value", trend.ByRatio, trend.ByValue)
	f.IntVar(&o.Runs, "runs", trend.Runs, "number of the newest runs to use")
	choiceFlag(c, &fail, "fail-on", "exit with status 3 if the last runs have a: change, or a change for the worse (worse)", failOnChange, failOnWorse)
	f.IntVar(&within, "within", 10, "how many of the newest runs are the last ones for --fail-on")
	completeBy(c, "metric", completeMetrics)
	c.ValidArgsFunction = a.completeRuns(1)
	out.add(c, []string{"txt", "md", "html", "json"}, "text")
	return c
}

// trends returns the trends of all cells of r that o selects.
func trends(ctx context.Context, reader *trend.Reader, r *iotax.Run, o trend.Options) (all []*trend.Trend, err error) {
	for _, w := range r.Workloads {
		for _, t := range r.Targets {
			one := o
			one.Cell = store.Cell{Workload: w.Name, Target: t.Name}
			if o.Cell.Workload != "" && o.Cell.Workload != w.Name || o.Cell.Target != "" && o.Cell.Target != t.Name {
				continue
			}
			found, err := reader.Of(ctx, one)
			switch {
			case errors.Is(err, store.ErrNotFound): // the workload did not run on this target
			case err != nil:
				return nil, err
			default:
				all = append(all, found)
			}
		}
	}
	if len(all) == 0 {
		return nil, &iotax.Error{Op: "follow", On: r.ID, Err: errors.New("it has no number of this workload and target"), Hint: "iotax show lists what it has"}
	}
	return all, nil
}

// writeTrends writes a single trend in full, and several trends one per line. In JSON, it writes every trend in full.
func writeTrends(w io.Writer, name string, all []*trend.Trend, as string) error {
	if as == "json" {
		exports := make([]trend.Export, len(all))
		for i, t := range all {
			exports[i] = t.Export()
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(trend.Exports{Version: 1, Trends: exports})
	}
	d := all[0].Document(false)
	if len(all) > 1 {
		list := block.Table{Head: []string{"", "", ""}, Wraps: []int{0, 1, 2}}
		changed := 0
		for i, t := range all {
			changed += min(1, len(t.Changes))
			row := block.Words(t.Cell.Target, t.Label(), t.Outcome())
			if i == 0 || t.Cell.Workload != all[i-1].Cell.Workload {
				row.Heading, row.Head = t.Cell.Workload, []string{"target", "number", "trend"}
			}
			list.Rows = append(list.Rows, row)
		}
		d = block.Document{Title: name, Blocks: []block.Block{block.Answer{Text: fmt.Sprintf("%d of %s changed.", changed, format.Plural(len(all), "number"))}, list}}
	}
	switch as {
	case "html":
		return html.Write(w, d, html.Frame{})
	case "md":
		return text.Markdown(w, d)
	}
	return text.Write(w, d, text.Options{Width: terminal.Width(w, output.TextWidth), Color: terminal.Color(w)})
}
