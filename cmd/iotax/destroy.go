package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

// A givenUp device may be overwritten: the command line names it. A plan has no words for this.
type givenUp map[string][]string // by machine, as the plan writes the paths

// devicesToDestroy reads the values of --destroy. Each must name a device of a target of p exactly: one that
// does not is a slip, and slips of this kind are not guessed at.
func devicesToDestroy(words []string, p *plan.Plan) (givenUp, error) {
	given := givenUp{}
	for _, w := range words {
		on, path := plan.Host, w
		if m, d, ok := strings.Cut(w, ":/"); ok && !strings.HasPrefix(w, "/") {
			on, path = m, "/"+d
		}
		var devices []string
		found := false
		for _, t := range p.Targets {
			device := t.Traits().Device
			if device == "" {
				continue
			}
			devices = append(devices, t.Device())
			found = found || t.On == on && device == path
		}
		if !found {
			e := &iotax.Error{Op: "read --destroy", On: w, Err: errors.New("no target of the plan is this block device"), Hint: "name one exactly as the plan does: " + strings.Join(devices, ", ")}
			if len(devices) == 0 {
				e.Hint = "leave it out: the plan has no block devices"
			}
			return nil, usageError{e}
		}
		given[on] = append(given[on], path)
	}
	return given, nil
}

type prepareFunc = func(context.Context, plan.Target, volume.Env) (iotax.Volume, error)

// prepare is next for a run that was given these devices.
func (g givenUp) prepare(next prepareFunc, note func(format string, args ...any)) prepareFunc {
	return func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
		e.Destroy = g[t.On]
		e.Note = func(format string, args ...any) { note("%s", fmt.Sprintf(format, args...)) }
		return next(ctx, t, e)
	}
}
