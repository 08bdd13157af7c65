// Package clean finds leftovers of runs on this host, on other machines, in clusters and in buckets.
package clean

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/container"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kube"
	"iotax/internal/machine/pod"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/run"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/volume"
	"iotax/internal/workload"
)

// usual lists the directories in which iotax creates directories on any machine, whatever the plan.
var usual = []string{"/tmp", "/var/tmp", "/mnt", "/run"}

// A Search contains the places where runs may have left something behind.
type Search struct {
	plans    []planOf
	places   []leftover.Place // the first place is this host
	machines []iotax.Machine
	remote   bool
	missed   []error
}

// planOf is a plan of a saved run, with absolute paths. A run whose shards resolve paths from different directories has
// one planOf for each directory.
type planOf struct {
	run     *iotax.Run
	plan    *plan.Plan
	trusted bool // see saved.Trusted
}

// Open finds the places that the runs of the store at url used. On this host, the search includes the directories of
// all runs. If remote is true, Open also connects to the machines of unfinished runs, if they exist independently of
// the run (plan.Traits.Stays), and refs name the run by its id or only this user can write to the store. runs are the
// ids of the runs that refs name: unless it is empty, the errors of Open name only these as not trusted. Missed returns
// the errors of Open. The caller closes the Search.
func Open(ctx context.Context, url string, remote bool, refs, runs []string) *Search {
	s := &Search{remote: remote}
	s.missed = append(s.missed, s.read(ctx, url, refs), s.distrusted(runs))
	here := leftover.Place{Machine: host.Local(), Dirs: []string{os.TempDir()}}
	for _, d := range usual {
		if st, err := os.Stat(d); err == nil && st.IsDir() {
			here.Dirs = append(here.Dirs, d)
		}
	}
	opened := map[string]bool{}
	var made []plan.Machine // machines of unfinished runs
	for _, x := range s.plans {
		asks := x.trusted && x.run.Status != iotax.Done
		named := x.plan.Directories()
		for _, pm := range x.plan.Machines {
			if asks {
				made = append(made, pm)
			}
			if !pm.Traits().Stays {
				continue
			}
			dirs := slices.Clone(usual)
			for _, d := range named[pm.Name] {
				dirs = append(dirs, *d)
			}
			delete(named, pm.Name)
			key := fmt.Sprintf("%s %+v %v", pm.Kind, pm.Spec, dirs)
			if !remote || !asks || opened[key] {
				continue
			}
			opened[key] = true
			m, err := machine.Open(ctx, pm, machine.Options{Name: pm.Name, CacheDir: iotax.CacheDir(), Existing: true})
			if errors.Is(err, iotax.ErrGone) {
				continue // the leftovers on the machine are gone too
			} else if err != nil {
				s.missed = append(s.missed, err)
				continue
			}
			s.machines = append(s.machines, m)
			s.places = append(s.places, leftover.Place{Machine: m, Dirs: dirs})
		}
		// Add the remaining directories. They belong to this host, to lab nodes, which share its files, or to guests
		// and containers, which ended with their run.
		for _, dirs := range named {
			for _, d := range dirs {
				if !slices.Contains(here.Dirs, *d) {
					here.Dirs = append(here.Dirs, *d)
				}
			}
		}
	}
	here.Also = append(machine.Leftovers(made), probe.Leftovers()...)
	s.places = append([]leftover.Place{here}, s.places...)
	return s
}

// Missed returns the errors that make the search incomplete: runs that cannot be read, and machines that cannot be
// reached.
func (s *Search) Missed() error { return errors.Join(s.missed...) }

// Close closes the machines.
func (s *Search) Close(ctx context.Context) {
	for _, m := range s.machines {
		m.Close(context.WithoutCancel(ctx))
	}
}

// All yields the leftovers of one place at a time. The caller can remove them before All searches the next place, where
// the same mount may be visible. If Open was called with remote set, All also yields the leftovers in clusters and
// buckets.
func (s *Search) All(ctx context.Context) iter.Seq2[[]leftover.Item, error] {
	return func(yield func([]leftover.Item, error) bool) {
		for _, p := range s.places {
			if !yield(leftover.Find(ctx, p)) {
				return
			}
		}
		if s.remote {
			yield(s.inServices(ctx))
		}
	}
}

// read reads the plans of the saved runs. If the default store does not exist, it finds no plans. If url names a store
// that does not exist, it returns an error. It skips plans that it cannot parse, such as those of imported runs and of
// other versions of iotax.
func (s *Search) read(ctx context.Context, url string, refs []string) error {
	db, err := store.OpenExisting(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	errs := []error{err}
	for i := range runs {
		r := &runs[i]
		folders := []string{""} // a run of one process saves its plan with absolute paths
		if saved.Divided(r) {
			parts, err := db.RunParts(ctx, r.ID)
			errs = append(errs, err)
			folders = nil
			for _, p := range parts {
				folders = append(folders, p.Environment[run.FolderKey])
			}
			slices.Sort(folders)
		}
		for _, folder := range slices.Compact(folders) {
			p, err := kinds.SavedIn(folder, r)
			if err != nil {
				break
			}
			errs = append(errs, p.Absolute())
			s.plans = append(s.plans, planOf{r, p, saved.Trusted(db, r.ID, refs...)})
		}
	}
	return errors.Join(errs...)
}

// distrusted returns an error if unfinished runs that are not trusted used machines, engines, clusters or buckets. Unless
// runs is empty, it considers only these runs.
func (s *Search) distrusted(runs []string) error {
	var ids []string
	for _, x := range s.plans {
		if len(runs) > 0 && !slices.Contains(runs, x.run.ID) {
			continue
		}
		elsewhere := slices.ContainsFunc(x.plan.Machines, func(m plan.Machine) bool {
			engine, ok := m.Spec.(*container.Spec)
			return s.remote && (m.Traits().Stays || m.Kind == pod.Kind.Name) || ok && engine.Host+engine.Context != ""
		})
		buckets(x.plan)(func(iotax.Place, error) bool { elsewhere = elsewhere || s.remote; return false })
		if elsewhere && !x.trusted && x.run.Status != iotax.Done && !slices.Contains(ids, x.run.ID) {
			ids = append(ids, x.run.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	on, flag := ids[0], ""
	if n := len(ids) - 1; n > 0 {
		on += fmt.Sprintf(" and %d more", n)
	}
	if s.remote {
		flag = "--remote "
	}
	return &iotax.Error{Op: "search what was used by run", On: on, Err: errors.New("other users can write to the store, and may have chosen these machines"),
		Hint: "check the plan (iotax show --plan " + ids[0] + "), and name the run: iotax clean " + flag + ids[0]}
}

// inServices finds leftovers of unfinished runs in Kubernetes and in buckets.
func (s *Search) inServices(ctx context.Context) (items []leftover.Item, err error) {
	var errs []error
	asked := map[any]bool{}
	once := func(service any, find func() ([]leftover.Item, error)) {
		if !asked[service] {
			asked[service] = true
			found, err := find()
			items, errs = append(items, found...), append(errs, err)
		}
	}
	for _, x := range s.plans {
		if x.run.Status == iotax.Done || !x.trusted {
			continue
		}
		// A run that never had a pod left nothing in its cluster. Skip the cluster, because it may no longer exist.
		had := x.run.Status == iotax.Running || slices.ContainsFunc(x.run.Targets, func(t iotax.TargetInfo) bool { return strings.HasPrefix(t.Machine, "k8s://") })
		for _, m := range x.plan.Machines {
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
		for place, err := range buckets(x.plan) {
			errs = append(errs, err)
			if err == nil {
				once(place.Path, func() ([]leftover.Item, error) { return workload.LeftInStore(ctx, place) })
			}
		}
	}
	return items, errors.Join(errs...)
}

// buckets yields the plan's buckets in which objects may remain.
func buckets(p *plan.Plan) iter.Seq2[iotax.Place, error] {
	return func(yield func(iotax.Place, error) bool) {
		for _, t := range p.Targets {
			if spec, ok := t.Spec.(*volume.BucketSpec); ok {
				if place, there, err := spec.Remains(); (there || err != nil) && !yield(place, err) {
					return
				}
			}
		}
	}
}

// Leftovers counts the leftovers of crashed runs on this host, and names the other places that crashed runs used. iotax
// doctor prints both.
func Leftovers(ctx context.Context, url string) (here, elsewhere string, err error) {
	s := Open(ctx, url, false, nil, nil)
	defer s.Close(ctx)
	counts := map[string]int{}
	items, ferr := leftover.Find(ctx, s.places[0])
	for _, i := range leftover.Left(items) {
		counts[i.Kind]++
	}
	var parts []string
	for _, f := range s.places[0].Finders() {
		if n := counts[f.Kind]; n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", n, f.Plural))
		} else if n == 1 {
			parts = append(parts, "1 "+f.Kind)
		}
	}
	if len(parts) > 0 {
		here = strings.Join(parts, ", ") + " of crashed runs"
	}
	killed, unread := saved.Killed(ctx, url)
	names := map[string]bool{}
	for _, x := range s.plans {
		if !slices.ContainsFunc(killed, func(r iotax.Run) bool { return r.ID == x.run.ID }) {
			continue
		}
		for _, m := range x.plan.Machines {
			if m.Traits().Stays || m.Kind == pod.Kind.Name {
				names[m.Name+" ("+m.Kind+")"] = true
			}
		}
		for place, err := range buckets(x.plan) {
			if err == nil {
				names[workload.BucketOf(place)] = true
			}
		}
	}
	// Do not join unread, because s.Missed() also reports a store that cannot be read.
	return here, strings.Join(slices.Sorted(maps.Keys(names)), ", "), cmp.Or(errors.Join(s.Missed(), ferr), unread)
}
