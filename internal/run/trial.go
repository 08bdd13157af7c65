package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/task"
)

// runTrial runs w once on target and fills t. It records errors in t.
func runTrial(ctx context.Context, d Deps, w iotax.Workload, target *iotax.Target, t *iotax.Trial, m plan.Measure) {
	if t.Facts == nil {
		t.Facts = map[string]string{}
	}
	t.Start = d.Now()
	can := w.Caps()
	err := func() (err error) {
		if err := d.Sleep(ctx, time.Duration(m.Settle)); err != nil {
			return err
		}
		if err := prepare(ctx, d, target, m); err != nil {
			return err
		}
		if can.Stage != nil {
			limit, cancel := context.WithTimeoutCause(ctx, iotax.StageTime, fmt.Errorf("no end within %s", phrase(iotax.StageTime)))
			defer cancel()
			defer func() {
				if ctx.Err() == nil {
					err = errors.Join(err, within(ctx, iotax.StageTime, func(ctx context.Context) error { return can.Unstage(ctx, target, t) }))
				}
			}()
			if err := can.Stage(limit, target, t); err != nil {
				return err
			}
		}
		if t.Cold {
			if err := evict(ctx, d, can.ColdFiles, target, t); err != nil {
				return err
			}
		}
		watch := d.Watch
		switch {
		case t.Explains() != "" && d.Explain != nil:
			watch = d.Explain
		case t.Profiles() != "" && d.Profile != nil:
			watch = d.Profile
		}
		stop, err := watch(ctx, target)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		limit := t.Ramp + t.Length + time.Duration(m.Overrun)
		hung := fmt.Errorf("no end within %s, which is %s more than it was to take (measure: overrun)", phrase(limit), m.Overrun)
		if can.Limit > 0 {
			limit = can.Limit
			hung = fmt.Errorf("no end within %s", phrase(limit))
		}
		inner, cancel := context.WithTimeoutCause(ctx, limit, hung)
		err = w.Run(inner, target, t)
		if cause := context.Cause(inner); err != nil && cause != nil && ctx.Err() == nil {
			err = cause
		}
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx) // an interrupted trial is not used, and stop would wait for a frozen guest
		}
		seen, werr := stop(ctx)
		t.Values = append(t.Values, seen.Values...)
		t.Series = append(t.Series, fromWindow(seen.Series, t.Ramp)...)
		maps.Copy(t.Facts, seen.Facts)
		t.Profile = seen.Profile
		if err == nil && len(t.Values) == len(seen.Values) {
			err = errNothing
		}
		metric.Derive(t)
		if werr != nil {
			werr = fmt.Errorf("watch: %w", werr)
		}
		return errors.Join(err, werr)
	}()
	t.Took = d.Now().Sub(t.Start)
	if err != nil {
		t.Err = err.Error()
	}
	t.Findings = append(t.Findings, reconnected(target, iotax.AboutTrial(t))...)
	found, discarded := d.Check(t, target)
	t.Findings = append(t.Findings, found...)
	if t.Discarded == "" {
		t.Discarded = discarded
	}
}

// fromWindow converts the times of series from seconds since the start of the watch to seconds since the start of the
// measurement window. It drops the values up to the start of the window.
func fromWindow(series []iotax.Series, ramp time.Duration) []iotax.Series {
	for i, s := range series {
		n := 0
		for j, at := range s.T {
			if at -= ramp.Seconds(); at > 0 {
				s.T[n], s.V[n] = at, s.V[j]
				n++
			}
		}
		series[i].T, series[i].V = s.T[:n], s.V[:n]
	}
	return series
}

// machinesOf returns the machines that a trial on target runs on, without duplicates. Instead of a container, it
// returns the container's host, which provides the kernel and the connection.
func machinesOf(target *iotax.Target) []iotax.Machine {
	machines := []iotax.Machine{iotax.Outside(target.Machine)}
	for _, o := range target.Together {
		if m := iotax.Outside(o.Machine); !slices.Contains(machines, m) {
			machines = append(machines, m)
		}
	}
	return machines
}

// reconnected returns a finding for each connection that was lost and reopened since the last call.
func reconnected(target *iotax.Target, about iotax.Subject) (found []iotax.Finding) {
	for _, m := range machinesOf(target) {
		if again := m.Caps().Reconnected; again != nil {
			for _, event := range again() {
				found = append(found, rules.ConnectionRemade.Only("SSH server").Found(about, "%s", event))
			}
		}
	}
	return found
}

// prepareTime limits the plan's command before each trial, on all machines together.
const prepareTime = iotax.StageTime

// prepare runs the plan's command before a trial: on this host, on the target's machines, or on both, once per
// machine. The command runs in an empty directory, because the target's directory may be in a container on that
// machine.
func prepare(ctx context.Context, d Deps, target *iotax.Target, m plan.Measure) error {
	if m.Prepare == "" {
		return nil
	}
	var on []iotax.Machine
	if m.PrepareOn != "target" {
		on = append(on, d.Host)
	}
	for _, there := range machinesOf(target) {
		if m.PrepareOn != "host" && !(len(on) > 0 && iotax.IsLocal(there)) {
			on = append(on, there)
		}
	}
	limit, cancel := context.WithTimeoutCause(ctx, prepareTime, fmt.Errorf("no end within %s", phrase(prepareTime)))
	defer cancel()
	for _, where := range on {
		in := task.EmptyDir{Text: m.Prepare, Env: leftover.Environ(), Label: leftover.Current().String()}
		if _, err := task.InEmptyDir.On(limit, where, in); err != nil {
			if cause := context.Cause(limit); cause != nil {
				err = cause
			}
			return &iotax.Error{Op: "prepare a trial on", On: where.String(), Err: err, Hint: "it runs in an empty directory: write paths in full; try it there by hand: " + m.Prepare}
		}
	}
	return nil
}

// evict drops the test files from the page caches of the target's machine and of this host, which also caches a guest's
// disks and shares. If evicting fails, the trial runs warm, with a finding.
func evict(ctx context.Context, d Deps, coldFiles func(*iotax.Target) []string, target *iotax.Target, t *iotax.Trial) error {
	var paths []string
	var err error
	limit, cancel := context.WithTimeoutCause(ctx, iotax.StageTime, fmt.Errorf("no end within %s", phrase(iotax.StageTime)))
	defer cancel()
	drop := func(m iotax.Machine, path string, fact iotax.FactKey) {
		extents, failed := d.Evict(limit, m, path)
		if err = errors.Join(err, failed); extents > 0 {
			had, _ := strconv.Atoi(t.Facts[fact])
			t.Facts[fact] = strconv.Itoa(had + extents)
		}
	}
	onHost := iotax.FactExtents
	places := []*iotax.Target{target}
	if len(target.Together) > 0 {
		places = target.Together
	}
	for _, o := range places {
		if p := o.Place.Backing; p != "" && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
		if local := o.Machine == nil || iotax.IsLocal(o.Machine) || o.Machine.Caps().RunOnConsole != nil; !local && o.Place.Kind != iotax.PlaceURL {
			drop(o.Machine, o.Place.Path, iotax.FactExtents)
			onHost = iotax.FactBackingExtents
		}
	}
	if coldFiles != nil {
		paths = append(paths, coldFiles(target)...)
	}
	for _, p := range paths {
		drop(d.Host, p, onHost)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		t.Cold = false
		t.Findings = append(t.Findings, rules.CachesNotDropped.Found(iotax.AboutTrial(t), "%s", err))
	}
	return nil
}
