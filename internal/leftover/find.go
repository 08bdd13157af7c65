package leftover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// An Item is a resource that carries the label of a run. An Item whose State is Foreign has no label: it is a directory
// of another user that is named like the directory of a run.
type Item struct {
	Kind    string // "process", "mount", "loop device", "NBD device", "directory", or the kind of another finder
	Name    string // for example a process id, a device or a path
	Detail  string // for example a command line or a backing file; may be empty
	Machine string // name of the machine with the item
	Label   Label
	State   State  // state of the runner
	Why     string // why State is Unknown

	// End removes the item. It succeeds if the item no longer exists. Callers use Remove, which first checks State.
	End func(ctx context.Context) error
}

// Found returns an item that was not found through an agent on its machine, for example a pod in a cluster. Item.Remove
// calls `remove` to remove the item, but only if the runner is dead.
func Found(kind, name, detail, machine string, l Label, remove func(ctx context.Context) error) Item {
	i := Item{Kind: kind, Name: name, Detail: strings.TrimSpace(detail), Machine: machine, Label: l, End: remove}
	i.State, i.Why = l.Runner.look()
	return i
}

// A Finder finds the items of one kind on a machine. Find is nil for the kinds of this package, because one call lists
// all of them.
type Finder struct {
	Kind   string
	Plural string
	Find   func(ctx context.Context, p Place) ([]Item, error)
}

// A Place is a machine and the directories to search on it.
type Place struct {
	Machine iotax.Machine
	Dirs    []string // directories in which runs create their iotax-… directories; missing directories are skipped
	Also    []Finder // finders for kinds that the machine's own system does not show, such as containers and labs; see machine.Leftovers
}

// Finders returns the finders of all kinds in the order of removal: the users of a resource before the resource.
func (p Place) Finders() []Finder {
	return append(slices.Clone(p.Also), Finder{Kind: process, Plural: "processes"}, Finder{Kind: mount, Plural: "mounts"}, Finder{Kind: loop, Plural: "loop devices"},
		Finder{Kind: nbd, Plural: "NBD devices"}, Finder{Kind: directory, Plural: "directories"})
}

// Find runs all finders and returns all items that they find, even if some finders fail. The error joins all failures.
func Find(ctx context.Context, p Place) (all []Item, err error) {
	add := func(kind string, items []Item, ferr error) {
		for _, i := range items {
			i.Kind, i.Machine = cmp.Or(kind, i.Kind), p.Machine.String()
			if i.State != Foreign {
				i.State, i.Why = i.Label.Runner.look()
			}
			all = append(all, i)
		}
		if ferr != nil {
			on := strings.TrimPrefix(kind+" on "+p.Machine.String(), " ")
			err = errors.Join(err, &iotax.Error{Op: "look for leftovers", On: on, Err: ferr})
		}
	}
	for _, f := range p.Also {
		items, err := f.Find(ctx, p)
		add(f.Kind, items, err)
	}
	items, ferr := p.find(ctx)
	add("", items, ferr)
	return all, err
}

func (p Place) find(ctx context.Context) (items []Item, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := list.On(ctx, p.Machine, p.Dirs)
	for _, r := range found.Items {
		i := Item{Kind: r.Kind, Name: r.Name, Detail: r.Detail}
		if r.Foreign {
			i.State = Foreign
		} else if l, ok := ParseLabel(r.Label); ok {
			i.Label = l
			i.End = func(ctx context.Context) error {
				do := end.On
				if r.ofRoot() {
					do = end.AsRoot
				}
				_, err := do(ctx, p.Machine, r)
				return err
			}
		} else {
			continue // created outside a run, or labelled by another program
		}
		items = append(items, i)
	}
	for _, f := range found.Failed {
		err = errors.Join(err, errors.New(f))
	}
	return items, err
}

// Left returns the items whose runner is dead.
func Left(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.State != Dead })
}

// Remove removes i if its runner is dead. Otherwise it returns an error.
func (i Item) Remove(ctx context.Context) error {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "remove " + i.Kind, On: i.Name + " on " + i.Machine, Err: err, Hint: hint}
	}
	switch i.State {
	case Alive:
		return fail(errors.New("its run still runs, as process "+strconv.Itoa(i.Label.Runner.PID)), "interrupt that run; it removes what it made")
	case Dead:
	default:
		return fail(fmt.Errorf("cannot find out whether its run, of process %d on %s, still runs: %s", i.Label.Runner.PID, i.Label.Runner.Host, i.Why),
			"run iotax clean there, or remove it by hand when that run is over")
	}
	if i.End == nil {
		return fail(errors.New("nothing is known that removes it"), "remove it by hand")
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := i.End(ctx); err != nil {
		return fail(err, "look at it, and remove it by hand")
	}
	return nil
}

const (
	lookTime   = 30 * time.Second
	removeTime = 5 * time.Minute // rm -rf of many files on a slow disk
)
