package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/clean"
	"iotax/internal/leftover"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

func (a *app) cleanCommand() *cobra.Command {
	var yes, remote bool
	c := &cobra.Command{
		Use:   "clean [RUN…]",
		Short: "List leftovers of crashed runs, and remove them with --yes",
		Long: `clean finds what a killed run could not remove: processes, directories, the
mounts and loop devices inside them, NBD devices, containers, volumes, instances
of Lima and Tart, and labs with their network namespaces. It finds them by the
label that every run puts on them. clean never touches a run that still runs,
here or on another host. It removes only directories of its own user: each user,
root included, cleans up after their own runs.

clean searches the temporary directories and those that the saved runs used.
Without --yes it only lists. With RUN it lists the leftovers of these runs, and
directories of other users, which it cannot examine. With --remote it also
searches what unfinished runs used elsewhere: machines over SSH, existing
containers, pods and instances, Kubernetes clusters, and S3 buckets. If other
users can write to the store, it does this, and asks the engines of containers
that plans name, only for the runs named by their full id.`,
		RunE: func(c *cobra.Command, refs []string) error { return a.clean(c.Context(), refs, yes, remote) },
	}
	c.ValidArgsFunction = a.completeRuns(100)
	c.Flags().BoolVar(&yes, "yes", false, "remove the leftovers")
	c.Flags().BoolVar(&remote, "remote", false, "also search the machines, clusters and buckets of unfinished runs")
	return c
}

// A cleanItem is the JSON of a leftover.
type cleanItem struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Machine string         `json:"machine"`
	Run     string         `json:"run"`
	Runner  leftover.State `json:"runner"`
	Why     string         `json:"why,omitempty"` // why it is unknown whether the runner still exists
	Detail  string         `json:"detail,omitempty"`
	Removed bool           `json:"removed"`
	Error   string         `json:"error,omitempty"`
}

// resolve returns the ids of the runs that refs name. For a ref that it cannot find in the store, it returns the ref
// itself as an id, and an error in unknown, by ref.
func (a *app) resolve(ctx context.Context, refs []string) (ids []string, unknown map[string]error) {
	unknown = map[string]error{}
	db, err := store.OpenExisting(ctx, a.store)
	if err != nil { // clean.Open finds this error, too, and reports it with Missed
		for _, ref := range refs {
			unknown[ref] = &iotax.Error{Op: "find run", On: ref, Err: store.ErrNotFound}
		}
		return refs, unknown
	}
	defer db.Close()
	for _, ref := range refs {
		r, err := db.Get(ctx, ref)
		if r == nil {
			r = &iotax.Run{ID: ref}
			unknown[ref] = err
		}
		ids = append(ids, r.ID)
	}
	return ids, unknown
}

// clean lists the leftovers of the runs in refs, or of all runs if refs is empty. It skips runs that are still running. If
// yes is true, it also removes the leftovers, except those of runs whose process may still exist.
func (a *app) clean(ctx context.Context, refs []string, yes, remote bool) error {
	mustUndo()
	runs, unknown := a.resolve(ctx, refs)
	search := clean.Open(ctx, a.store, remote, refs, runs)
	defer search.Close(ctx)
	errs := []error{search.Missed()}
	rows, foreign := []cleanItem{}, []string{}
	left := 0
	if len(unknown) > 0 { // the store may lack runs that left files or processes behind
		failed := errs
		for items, err := range search.All(ctx) {
			failed = append(failed, err)
			for _, i := range items {
				delete(unknown, i.Label.Run)
			}
		}
		if len(unknown) > 0 {
			for _, ref := range slices.Backward(slices.Sorted(maps.Keys(unknown))) {
				failed = slices.Insert(failed, 0, unknown[ref])
			}
			return iotax.Usage(errors.Join(failed...))
		}
	}
	for items, err := range search.All(ctx) {
		errs = append(errs, err)
		for _, i := range items {
			switch {
			case i.State == leftover.Foreign:
				foreign = append(foreign, i.Machine+": "+i.Name)
				continue
			case i.State == leftover.Alive, len(runs) > 0 && !slices.Contains(runs, i.Label.Run):
				continue
			}
			row := cleanItem{Kind: i.Kind, Name: i.Name, Machine: i.Machine, Run: i.Label.Run, Runner: i.State, Why: i.Why, Detail: i.Detail}
			if yes && i.State == leftover.Dead {
				if err := i.Remove(ctx); err != nil {
					errs = append(errs, err)
					row.Error = err.Error()
				} else {
					row.Removed = true
				}
			}
			if !row.Removed {
				left++
			}
			rows = append(rows, row)
		}
	}
	if err := a.printLeft(rows, foreign, yes); err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if yes && left > 0 {
		return exitCode(exitError)
	}
	return nil
}

func (a *app) printLeft(rows []cleanItem, foreign []string, yes bool) error {
	if a.json {
		return writeJSON(a.out, map[string]any{"version": 1, "leftovers": rows, "foreign": foreign})
	}
	if len(foreign) > 0 {
		if _, err := fmt.Fprintf(a.out, "not examined: directories of other users, %d in all, the first is %s (each user runs iotax clean)\n", len(foreign), terminal.Clean(foreign[0])); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "no leftovers found")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		what := "left by run " + r.Run
		switch {
		case r.Removed:
			what = "removed"
		case r.Runner == leftover.Unknown:
			what = "of run " + r.Run + ": not touched, it may still run (" + terminal.Clean(r.Why) + ")"
		case r.Error != "":
			what = "not removed"
		}
		detail := terminal.Clean(r.Detail)
		if r := []rune(detail); len(r) > 60 {
			detail = string(r[:59]) + "…"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", terminal.Clean(r.Machine), r.Kind, terminal.Clean(r.Name), what, detail)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !yes && slices.ContainsFunc(rows, func(r cleanItem) bool { return r.Runner == leftover.Dead }) {
		_, err := fmt.Fprintln(a.out, "remove them with: "+cmp.Or(repeatable(a.args), "iotax clean …")+" --yes")
		return err
	}
	return nil
}
