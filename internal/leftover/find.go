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

// An Item is one thing that carries the label of a run.
type Item struct {
	Kind    string // "process", "mount", "loop device", "directory", or that of another finder
	Name    string // process id, device, path
	Detail  string // command line, backing file
	Machine string // where it is
	Label   Label
	State   State  // of the runner
	Why     string // it is not known

	// End removes it; that it is gone already is no error. Callers use Remove, which asks first whose it is.
	End func(ctx context.Context) error
}

// Found is an item that another finder than those of this package has found: in a cluster, say, where no command
// can be run. remove removes it; it is not called while the runner lives.
func Found(kind, name, detail, machine string, l Label, remove func(ctx context.Context) error) Item {
	i := Item{Kind: kind, Name: name, Detail: strings.TrimSpace(detail), Machine: machine, Label: l, End: remove}
	i.State, i.Why = l.Runner.look()
	return i
}

// A Finder finds the items of one kind on a machine. Those of this package have no Find: they are found together.
type Finder struct {
	Kind   string
	Plural string
	Find   func(ctx context.Context, p Place) ([]Item, error)
}

// A Place is where finders look.
type Place struct {
	Machine iotax.Machine
	Dirs    []string // in which runs make their iotax-… directories; those that are missing are passed over
	Also    []Finder // of kinds that the machine's own system does not show: containers, labs. See machine.Leftovers
}

// Finders lists every kind, in the order in which items must go: who uses a thing before the thing.
func (p Place) Finders() []Finder {
	return append(slices.Clone(p.Also), Finder{Kind: process, Plural: "processes"}, Finder{Kind: mount, Plural: "mounts"}, Finder{Kind: loop, Plural: "loop devices"},
		Finder{Kind: nbd, Plural: "NBD devices"}, Finder{Kind: directory, Plural: "directories"})
}

// Find asks all finders. What one of them cannot tell is in the error; the others are heard all the same.
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

// find finds the items of this package's kinds.
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
			continue // made by this iotax outside of a run, or labelled by another program
		}
		items = append(items, i)
	}
	for _, f := range found.Failed {
		err = errors.Join(err, errors.New(f))
	}
	return items, err
}

// Left returns those of items whose runner is dead.
func Left(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.State != Dead })
}

// Remove removes i, unless its runner lives or nobody knows.
func (i Item) Remove(ctx context.Context) error {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "remove " + i.Kind, On: i.Name + " on " + i.Machine, Err: err, Hint: hint}
	}
	switch i.State {
	case Alive:
		return fail(errors.New("its run still runs, as process "+strconv.Itoa(i.Label.Runner.PID)), "interrupt that run; it removes what it made")
	case Dead:
	default:
		return fail(fmt.Errorf("this host cannot tell whether its run, of process %d on %s, still runs: %s", i.Label.Runner.PID, i.Label.Runner.Host, i.Why),
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
