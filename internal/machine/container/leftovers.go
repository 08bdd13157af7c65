package container

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine/internal/made"
	"iotax/internal/plan"
)

// Labels of the containers and volumes that iotax makes.
const (
	madeLabel   = "iotax"        // its value is "machine"
	runLabel    = "iotax.run"    // id of the run
	runnerLabel = "iotax.runner" // the process that executes the run, formatted by leftover.Runner
)

// runLabels returns the labels for containers and volumes of this process's run.
func runLabels() map[string]string {
	labels := map[string]string{madeLabel: "machine"}
	if l := leftover.Current(); l.Run != "" {
		labels[runLabel], labels[runnerLabel] = l.Run, l.Runner.String()
	}
	return labels
}

// Leftovers returns finders for containers and volumes of crashed runs. They search the default engines of this user
// and the engines that plans name.
func Leftovers(plans []plan.Machine) []leftover.Finder {
	return []leftover.Finder{
		{Kind: "container", Plural: "containers", Find: atEngines(plans, leftContainers)},
		{Kind: "volume", Plural: "volumes", Find: atEngines(plans, leftVolumes)},
	}
}

// An engineAt is an engine that may contain leftovers.
type engineAt struct {
	name string
	spec *Spec
}

// `ask` calls `do` with a new connection, because minutes may pass between finding and removing a leftover.
func (e engineAt) ask(ctx context.Context, do func(context.Context, *link) error) error {
	api, _, err := dialEngine(ctx, e.name, e.spec)
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	return do(ctx, api)
}

// answers reports whether a process listens at the address `where`. For addresses other than Unix sockets, it returns
// true without a check.
func answers(ctx context.Context, where string) bool {
	file, ok := strings.CutPrefix(where, "unix://")
	if !ok {
		return true
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", file)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// atEngines returns a function that calls `find` for the default engines and the engines that plans name. The function
// skips an engine whose Unix socket does not answer, because most hosts do not run every default engine.
func atEngines(plans []plan.Machine, find func(context.Context, engineAt) ([]leftover.Item, error)) func(context.Context, leftover.Place) ([]leftover.Item, error) {
	return func(ctx context.Context, p leftover.Place) ([]leftover.Item, error) {
		if !iotax.IsLocal(p.Machine) {
			return nil, nil
		}
		var errs []error
		engines := map[string]engineAt{} // by address, because Docker's settings may point to Podman's socket
		add := func(name string, s *Spec) {
			where, _, err := engineAddress(name, s)
			if err != nil {
				errs = append(errs, err)
			} else if _, there := engines[where]; !there && answers(ctx, where) {
				engines[where] = engineAt{name, s}
			}
		}
		add("docker", &Spec{})
		add("podman", &Spec{})
		for _, m := range plans {
			if s, ok := m.Spec.(*Spec); ok && s.Host+s.Context != "" {
				add(m.Kind, s)
			}
		}
		var items []leftover.Item
		for _, where := range slices.Sorted(maps.Keys(engines)) {
			found, err := find(ctx, engines[where])
			items = append(items, found...)
			if err != nil {
				errs = append(errs, err)
			}
		}
		return items, errors.Join(errs...)
	}
}

func leftContainers(ctx context.Context, e engineAt) (items []leftover.Item, err error) {
	err = e.ask(ctx, func(ctx context.Context, api *link) error {
		all, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours()})
		for _, c := range all.Items {
			items = e.add(items, made.ShortID(c.ID), e.name+" "+c.Image+" "+c.Status, c.Labels, func(ctx context.Context, api *link) error {
				_, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
				return err
			})
		}
		return e.failed("list containers", err)
	})
	return items, err
}

func leftVolumes(ctx context.Context, e engineAt) (items []leftover.Item, err error) {
	err = e.ask(ctx, func(ctx context.Context, api *link) error {
		all, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: ours()})
		for _, v := range all.Items {
			items = e.add(items, v.Name, e.name, v.Labels, func(ctx context.Context, api *link) error {
				_, err := api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
				return err
			})
		}
		return e.failed("list volumes", err)
	})
	return items, err
}

// `ours` returns the filter for containers and volumes that runs made.
func ours() client.Filters { return make(client.Filters).Add("label", runnerLabel) }

func (e engineAt) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &iotax.Error{Op: op, On: e.name, Err: err}
}

// add appends an item if its labels name a run. A container or volume that is already gone counts as removed.
func (e engineAt) add(items []leftover.Item, name, detail string, labels map[string]string, remove func(context.Context, *link) error) []leftover.Item {
	label, ok := leftover.ParseLabel("run=" + labels[runLabel] + " runner=" + labels[runnerLabel])
	if !ok {
		return items
	}
	return append(items, leftover.Item{Name: name, Detail: detail, Label: label, End: func(ctx context.Context) error {
		if err := e.ask(ctx, remove); !cerrdefs.IsNotFound(err) {
			return err
		}
		return nil
	}})
}
