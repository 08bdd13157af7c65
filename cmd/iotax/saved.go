package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/export"
	"iotax/internal/report/format"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

func (a *app) listCommand() *cobra.Command {
	var q store.Query
	var all bool
	c := &cobra.Command{
		Use:     "list [WORD…]",
		Aliases: []string{"ls"},
		Short:   "List the saved runs, latest last",
		Long: `list shows the saved runs in which every WORD occurs: in the id, the name, the
baseline or the host, or in the name, machine or place of a target, or in the
name of a workload. Runs that failed before their first trial are listed with
--all, --status or a WORD.`,
		Example: `  iotax list
  iotax list virtiofs 4k
  iotax list --status incomplete --since 7d
  iotax list --name quick -n 5`,
		RunE: func(c *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			if q.Limit < 0 {
				return iotax.Usage(fmt.Errorf("-n: %d is not a number of runs\n  hint: 0 lists all", q.Limit))
			}
			return a.withStore(c, func(db *store.Store) error {
				limit := q.Limit
				unfiltered := q == store.Query{Limit: limit}
				hides := !all && q.Status == "" && q.Text == ""
				if hides {
					q.Limit = 0 // apply the limit after hiding failed runs
				}
				runs, _, err := db.Find(c.Context(), q)
				if err != nil {
					return err
				}
				found := len(runs)
				if hides {
					runs = slices.DeleteFunc(runs, func(r store.Summary) bool { return r.Status == iotax.Failed && r.Tally.Trials == 0 })
				}
				hidden := found - len(runs)
				if limit > 0 {
					runs = runs[:min(limit, len(runs))]
				}
				slices.Reverse(runs) // the latest run is last, next to the prompt
				if a.json {
					return a.listJSON(c, db, runs)
				}
				switch {
				case len(runs) > 0:
					err = listTable(a.out, runs)
				case unfiltered && hidden == 0:
					_, err = fmt.Fprintln(a.out, "no runs yet; measure two directories with: iotax run quick /srv/data /mnt/nfs")
				default:
					_, err = fmt.Fprintln(a.out, "no run matches")
				}
				if hidden > 0 && !a.quiet {
					fmt.Fprintf(a.err, "%s failed before the first trial: iotax list --all\n", format.Plural(hidden, "run"))
				}
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&q.Name, "name", "", "only runs of exactly this name")
	choiceFlag(c, &q.Status, "status", "only runs that are "+strings.Join(texts(statuses), ", "), statuses...)
	typedFlag(c, &q.Since, "since", "only runs that began since a day (2026-03-14), or in the last 36h or 7d", func(s string) (time.Time, error) {
		return sinceTime(s, time.Now())
	})
	f.IntVarP(&q.Limit, "limit", "n", 0, "only the latest runs, at most this many")
	f.BoolVarP(&all, "all", "a", false, "also runs that failed before their first trial")
	return c
}

var statuses = []iotax.Status{iotax.Running, iotax.Done, iotax.Incomplete, iotax.Interrupted, iotax.Failed}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// sinceTime parses a day, a date with a time, or a duration before now.
func sinceTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a day (2026-03-14) nor a time (36h, 7d)", text)
}

// listJSON writes the listed runs in full as JSON.
func (a *app) listJSON(c *cobra.Command, db *store.Store, listed []store.Summary) error {
	all, err := db.Runs(c.Context())
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, r := range listed {
		wanted[r.ID] = true
	}
	return writeJSON(a.out, list(slices.DeleteFunc(all, func(r iotax.Run) bool { return !wanted[r.ID] })))
}

func listTable(out io.Writer, runs []store.Summary) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTARTED\tTOOK\tSTATUS\tTRIALS\tNAME\tBASELINE\tTARGETS")
	for _, r := range runs {
		took := "-"
		if !r.End.IsZero() {
			took = terminal.Elapsed(r.Took())
		}
		trials := "none"
		if n := r.Tally.Trials; n > 0 {
			trials = strconv.Itoa(n)
		}
		targets := strconv.Itoa(len(r.Targets))
		if r.Emulated > 0 {
			targets += fmt.Sprintf(" (%d EMULATED)", r.Emulated)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Start.Local().Format(time.DateTime), took, r.Status, trials, terminal.Clean(r.Name), terminal.Clean(r.Baseline), targets)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// Add the escape codes for dim text last, because the table would count them as column width. Runs without trials
	// are dim.
	i := 0
	for line := range strings.Lines(table.String()) {
		if i > 0 && terminal.Color(out) && runs[i-1].Tally.Trials == 0 {
			line = "\x1b[2m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
		i++
	}
	return nil
}

func (a *app) rmCommand() *cobra.Command {
	var yes, force bool
	c := &cobra.Command{
		Use:   "rm RUN…",
		Short: "Remove saved runs",
		Long: `rm lists the runs, and asks before it removes them. Without a terminal it needs
--yes. It does not remove a run that is being measured. If rm cannot find out
whether the process that measures a run still exists, for example because it ran
on another host, it removes the run only with --force.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withStore(c, func(db *store.Store) error { return a.remove(c.Context(), db, args, yes, saved.Removable(force)) })
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.ValidArgsFunction = a.completeRuns(100)
	c.Flags().BoolVar(&force, "force", false, "also remove runs whose process may still exist, but cannot be checked")
	return c
}

func (a *app) remove(ctx context.Context, db *store.Store, refs []string, yes bool, check func(*iotax.Run, store.Pulse) error) error {
	tallies, err := db.Tallies(ctx)
	if err != nil {
		return err
	}
	var ids []string
	var found []store.Summary
	for _, ref := range refs { // check all runs before removing any
		r, err := db.Get(ctx, ref)
		if err != nil && !errors.Is(err, store.ErrDamaged) { // a damaged run can be removed
			return err
		}
		if name, _, _ := strings.Cut(ref, "~"); yes && name == "latest" { // without yes, the user sees the id first
			newest, err := db.Get(ctx, "newest")
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				return err
			}
			if tallies[newest.ID].Trials == 0 && newest.ID != r.ID {
				return iotax.Usage(&iotax.Error{Op: "remove", On: ref, Err: fmt.Errorf("the newest run, %s, has no trials, and %s means %s", newest.ID, ref, r.ID), Hint: "name the run by its id: " + r.ID})
			}
		}
		heard, err := db.Pulse(ctx, r.ID)
		if err == nil {
			err = check(r, heard)
		}
		if err != nil {
			return err
		}
		if !slices.Contains(ids, r.ID) {
			ids = append(ids, r.ID)
			found = append(found, store.Summary{ID: r.ID, Name: r.Name, Status: r.Status, Start: r.Start, End: r.End, Baseline: r.Baseline, Targets: make([]string, len(r.Targets)), Tally: tallies[r.ID]})
		}
	}
	if !yes {
		if err := listTable(a.err, found); err != nil {
			return err
		}
		if !terminal.Is(a.in) || !terminal.Is(a.err) {
			return iotax.Usage(&iotax.Error{Op: "remove", On: strings.Join(ids, ", "), Err: errors.New("nothing was removed: there is no terminal to ask on"), Hint: "add --yes to remove the listed runs"})
		}
		fmt.Fprintf(a.err, "Remove %s? [y/N] ", format.Plural(len(ids), "run"))
		answer, _ := bufio.NewReader(a.in).ReadString('\n')
		if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
			fmt.Fprintln(a.err, "nothing was removed")
			return exitCode(exitError)
		}
	}
	for _, id := range ids {
		if err := db.Remove(ctx, id, check); err != nil {
			return err
		}
		if !a.json {
			fmt.Fprintln(a.out, "removed", id)
		}
	}
	if a.json {
		return writeJSON(a.out, map[string][]string{"removed": ids})
	}
	return nil
}

// exports maps the formats of `iotax export` to functions that write them.
var exports = map[string]func(context.Context, io.Writer, *store.Store, *iotax.Run) error{
	"json":    each(store.WriteJSON, store.Full),
	"csv":     each(store.WriteCSV, store.Brief),
	"parquet": each(store.WriteParquet, store.Brief),
	"openmetrics": func(ctx context.Context, w io.Writer, db *store.Store, r *iotax.Run) error {
		rep, err := reportOf(ctx, db, r)
		if err != nil {
			return err
		}
		return export.OpenMetrics(w, []*report.Report{rep}, true)
	},
}

// each returns an export function for a format that lists every trial.
func each(write func(io.Writer, *iotax.Run, iter.Seq2[*iotax.Trial, error]) error, depth store.Depth) func(context.Context, io.Writer, *store.Store, *iotax.Run) error {
	return func(ctx context.Context, w io.Writer, db *store.Store, r *iotax.Run) error {
		return write(w, r, db.Each(ctx, r.ID, depth))
	}
}

func (a *app) exportCommand() *cobra.Command {
	var out outlet
	c := &cobra.Command{
		Use:   "export [RUN]",
		Short: "Write every value of every trial, or the results for Prometheus",
		Example: `  iotax export > run.json
  iotax export latest~1 -o trials.csv -o trials.parquet`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			return a.withRun(c, args, func(db *store.Store, r *iotax.Run) error {
				_, err := out.write(a, func(w io.Writer, format string) error {
					return exports[format](c.Context(), w, db, r)
				})
				return err
			})
		},
	}
	c.ValidArgsFunction = a.completeRuns(1)
	out.add(c, slices.Collect(maps.Keys(exports)), "json")
	return c
}

// withRun calls f with the run that args name, by default the latest one with trials.
func (a *app) withRun(c *cobra.Command, args []string, f func(*store.Store, *iotax.Run) error) error {
	return a.withStore(c, func(db *store.Store) error {
		ref := "latest"
		if len(args) > 0 {
			ref = args[0]
		}
		r, err := db.Get(c.Context(), ref)
		if err != nil {
			return err
		}
		return f(db, r)
	})
}

func (a *app) withStore(c *cobra.Command, f func(*store.Store) error) error {
	db, err := saved.Open(c.Context(), a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(db)
}

// list returns an empty slice for nil, because JSON needs [] instead of null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
