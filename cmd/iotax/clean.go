package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kube"
	"iotax/internal/machine/pod"
	"iotax/internal/plan"
	"iotax/internal/run"
	"iotax/internal/store"
	"iotax/internal/volume"
	"iotax/internal/workload"
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
containers, pods and instances, Kubernetes clusters, and S3 buckets.`,
		RunE: func(c *cobra.Command, refs []string) error { return a.clean(c.Context(), refs, yes, remote) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "remove the leftovers")
	c.Flags().BoolVar(&remote, "remote", false, "also search the machines, clusters and buckets of unfinished runs")
	return c
}

// A cleanItem is what clean prints of a leftover.
type cleanItem struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Machine string         `json:"machine"`
	Run     string         `json:"run"`
	Runner  leftover.State `json:"runner"`
	Why     string         `json:"why,omitempty"` // it is not known whether the runner lives
	Detail  string         `json:"detail,omitempty"`
	Removed bool           `json:"removed"`
	Error   string         `json:"error,omitempty"`
}

// resolve returns the ids of the runs that refs mean. A ref that the store does not know is an id itself, and has an error in unknown.
func (a *app) resolve(ctx context.Context, refs []string) (ids []string, unknown map[string]error) {
	unknown = map[string]error{}
	db, err := store.OpenExisting(ctx, a.store)
	if err != nil { // whereRunsWere returns it
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

// clean lists or removes what the runs that refs mean have left; without refs, what any run has left.
func (a *app) clean(ctx context.Context, refs []string, yes, remote bool) error {
	mustUndo()
	runs, unknown := a.resolve(ctx, refs)
	var errs []error
	machines, places, err := a.whereRunsWere(ctx, remote)
	errs = append(errs, err)
	defer func() {
		for _, m := range machines {
			m.Close(context.WithoutCancel(ctx))
		}
	}()
	rows, foreign := []cleanItem{}, []string{}
	left := 0
	find := func(yield func([]leftover.Item, error) bool) { // place by place: two may lead to the same mount
		for _, p := range places {
			if !yield(leftover.Find(ctx, p)) {
				return
			}
		}
		if remote {
			yield(a.inServices(ctx))
		}
	}
	if len(unknown) > 0 { // to the store; some may be the runs of leftovers
		failed := errs
		for items, err := range find {
			failed = append(failed, err)
			for _, i := range items {
				delete(unknown, i.Label.Run)
			}
		}
		if len(unknown) > 0 {
			return usageError{errors.Join(append(slices.Collect(maps.Values(unknown)), failed...)...)}
		}
	}
	for items, err := range find {
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
	if err := a.printLeft(rows, foreign, runs, yes); err != nil {
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

func (a *app) printLeft(rows []cleanItem, foreign, runs []string, yes bool) error {
	if a.json {
		return writeJSON(a.out, map[string]any{"version": 1, "leftovers": rows, "foreign": foreign})
	}
	if len(foreign) > 0 {
		if _, err := fmt.Fprintf(a.out, "not examined: directories of other users, %d in all, the first is %s (each user runs iotax clean)\n", len(foreign), clean(foreign[0])); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "nothing was left behind")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		what := "left by run " + r.Run
		switch {
		case r.Removed:
			what = "removed"
		case r.Runner == leftover.Unknown:
			what = "of run " + r.Run + ": not touched, it may still run (" + clean(r.Why) + ")"
		case r.Error != "":
			what = "not removed"
		}
		detail := clean(r.Detail)
		if len(detail) > 60 {
			detail = detail[:57] + "…"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clean(r.Machine), r.Kind, clean(r.Name), what, detail)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !yes && slices.ContainsFunc(rows, func(r cleanItem) bool { return r.Runner == leftover.Dead }) {
		_, err := fmt.Fprintln(a.out, strings.Join(append([]string{"remove them with: iotax clean --yes"}, runs...), " "))
		return err
	}
	return nil
}

// temporary are the directories of this host in which iotax makes directories for any plan.
func temporary() []string {
	dirs := []string{os.TempDir()}
	for _, d := range usual {
		if st, err := os.Stat(d); err == nil && st.IsDir() {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// usual are the directories of any machine in which iotax makes some for any plan.
var usual = []string{"/tmp", "/var/tmp", "/mnt", "/run"}

// whereRunsWere lists where the saved runs have made directories: on this host those of all runs, and with remote those of
// unfinished ones on machines that stay when a run has ended. The machines are for the caller to close.
func (a *app) whereRunsWere(ctx context.Context, remote bool) (machines []iotax.Machine, places []leftover.Place, err error) {
	here := leftover.Place{Machine: host.Local(), Dirs: temporary()}
	runs, err := a.savedRuns(ctx)
	errs := []error{err} // the store may be what is broken: the rest is searched all the same
	opened := map[string]bool{}
	var made []plan.Machine // by runs that may have left something
	for r, p := range plansOf(runs) {
		if r.Status != iotax.Done {
			made = append(made, p.Machines...)
		}
		named := p.Directories()
		stays := map[string]bool{}
		for _, m := range p.Machines {
			stays[m.Name] = m.Traits().Stays
		}
		for machine, dirs := range named {
			if stays[machine] {
				continue
			}
			for _, d := range dirs { // nodes of a lab have this host's files; what guests and containers of a run had went with them
				if !slices.Contains(here.Dirs, *d) {
					here.Dirs = append(here.Dirs, *d)
				}
			}
		}
		if !remote || r.Status == iotax.Done {
			continue
		}
		for _, pm := range p.Machines {
			if !stays[pm.Name] {
				continue
			}
			dirs := slices.Clone(usual)
			for _, d := range named[pm.Name] {
				dirs = append(dirs, *d)
			}
			key := fmt.Sprintf("%s %+v %v", pm.Kind, pm.Spec, dirs)
			if opened[key] {
				continue
			}
			opened[key] = true
			m, err := machine.Open(ctx, pm, machine.Options{Name: pm.Name, CacheDir: cacheDir(), Existing: true})
			switch {
			case errors.Is(err, iotax.ErrGone):
				continue // what was left on it has gone with it
			case err != nil:
				errs = append(errs, err)
				continue
			}
			machines = append(machines, m)
			places = append(places, leftover.Place{Machine: m, Dirs: dirs})
		}
	}
	here.Also = machine.Leftovers(made)
	return machines, append([]leftover.Place{here}, places...), errors.Join(errs...)
}

// inServices finds what unfinished runs have left in Kubernetes and in buckets.
func (a *app) inServices(ctx context.Context) (items []leftover.Item, err error) {
	runs, err := a.savedRuns(ctx)
	errs := []error{err}
	asked := map[any]bool{}
	once := func(service any, find func() ([]leftover.Item, error)) {
		if !asked[service] {
			asked[service] = true
			found, err := find()
			items, errs = append(items, found...), append(errs, err)
		}
	}
	for r, p := range plansOf(runs) {
		if r.Status == iotax.Done {
			continue
		}
		// A run that never had a pod left nothing in its cluster, which may be out of reach for ever.
		had := r.Status == iotax.Running || slices.ContainsFunc(r.Targets, func(t iotax.TargetInfo) bool { return strings.HasPrefix(t.Machine, "k8s://") })
		for _, m := range p.Machines {
			if spec, ok := m.Spec.(*pod.Spec); ok && had && spec.Pod == "" {
				once(spec.Cluster(), func() ([]leftover.Item, error) {
					api, err := kube.Connect(spec.Cluster())
					if err != nil {
						return nil, err
					}
					return api.Left(ctx, api.Namespace)
				})
			}
		}
		for _, t := range p.Targets {
			if s, ok := t.Spec.(*volume.BucketSpec); ok {
				place, there, err := s.Remains()
				if errs = append(errs, err); err == nil && there {
					once(place.Path, func() ([]leftover.Item, error) { return workload.LeftInStore(ctx, place) })
				}
			}
		}
	}
	return items, errors.Join(errs...)
}

// A savedRun is one of the store with its plan, paths in full. Shards that count paths from different folders have a plan each; a
// run of another version of iotax, or an imported one, may have none that can be read.
type savedRun struct {
	iotax.Run
	plans []*plan.Plan
}

// plansOf yields each plan of the runs.
func plansOf(runs []savedRun) iter.Seq2[*iotax.Run, *plan.Plan] {
	return func(yield func(*iotax.Run, *plan.Plan) bool) {
		for i := range runs {
			for _, p := range runs[i].plans {
				if !yield(&runs[i].Run, p) {
					return
				}
			}
		}
	}
}

// savedRuns lists the runs of the store; none when there is no store yet.
func (a *app) savedRuns(ctx context.Context) (saved []savedRun, err error) {
	db, err := store.OpenExisting(ctx, a.store)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	errs := []error{err}
	for _, r := range runs {
		one := savedRun{Run: r}
		folders := []string{""} // a plan of one process is saved with its paths in full
		if divided(&r) {
			folders, err = foldersOf(ctx, db, r.ID)
			errs = append(errs, err)
		}
		for _, folder := range folders {
			p, err := plan.Parse(filepath.Join(folder, "plan of run "+r.ID), r.Plan, kinds())
			if err != nil {
				break
			}
			errs = append(errs, p.Absolute())
			one.plans = append(one.plans, p)
		}
		saved = append(saved, one)
	}
	return saved, errors.Join(errs...)
}

// foldersOf are those that the shards of a run count the relative paths of its plan from.
func foldersOf(ctx context.Context, db *store.Store, id string) (folders []string, err error) {
	parts, err := db.RunParts(ctx, id)
	for _, p := range parts {
		if f := p.Environment[run.FolderKey]; !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
	}
	return folders, err
}

// elsewhere names for doctor what runs that were killed have used away from this host.
func (a *app) elsewhere(ctx context.Context) (string, error) {
	runs, err := a.killedRuns(ctx)
	var names []string
	for _, r := range runs {
		p, err := plan.Parse("plan of run "+r.ID, r.Plan, kinds())
		if err != nil {
			continue
		}
		for _, m := range p.Machines {
			if m.Traits().Stays || m.Kind == pod.Kind.Name {
				names = append(names, m.Name+" ("+m.Kind+")")
			}
		}
		for _, t := range p.Targets {
			if s, ok := t.Spec.(*volume.BucketSpec); ok {
				if place, there, err := s.Remains(); err == nil && there {
					names = append(names, workload.BucketOf(place))
				}
			}
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", "), err
}

// leftovers counts for doctor the leftovers of crashed runs on this host, and names other places that may have some.
func (a *app) leftovers(ctx context.Context) (here, elsewhere string, err error) {
	elsewhere, unread := a.elsewhere(ctx)
	here, err = a.leftHere(ctx)
	return here, elsewhere, cmp.Or(err, unread) // a store that cannot be read is in both
}

func (a *app) leftHere(ctx context.Context) (string, error) {
	_, places, err := a.whereRunsWere(ctx, false)
	counts := map[string]int{}
	var finders []leftover.Finder
	for _, p := range places { // without remote, this host alone
		finders = p.Finders()
		items, ferr := leftover.Find(ctx, p)
		err = errors.Join(err, ferr)
		for _, i := range leftover.Left(items) {
			counts[i.Kind]++
		}
	}
	var parts []string
	for _, f := range finders {
		if n := counts[f.Kind]; n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", n, f.Plural))
		} else if n == 1 {
			parts = append(parts, "1 "+f.Kind)
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ") + " of crashed runs", err
	}
	return "", err
}
