package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"iotax"
	"iotax/internal/machine/inside"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

// enclose starts the container that a target of kind inside asks for.
func enclose(ctx context.Context, t plan.Target, m iotax.Machine, p iotax.Place) (iotax.Machine, error) {
	s, ok := t.Spec.(*volume.InsideSpec)
	if !ok {
		return nil, &iotax.Error{Op: "open", On: t.Name, Err: fmt.Errorf("its spec is a %T", t.Spec)}
	}
	return inside.Open(ctx, m, p, inside.Config{Name: t.Name, Engine: strings.Fields(s.Engine), Image: s.Image, Args: s.Args})
}

// contain puts a container (--container) between the work and the machine of every target that is not on this host. The
// target keeps its name; its place gets another, at which nothing is done.
func (pf *planFlags) contain(p *plan.Plan) error {
	words := strings.Fields(pf.container)
	if len(words) == 0 {
		return nil
	}
	spec := volume.InsideSpec{Engine: words[0]}
	if n := len(words); n > 1 {
		spec.Engine, spec.Image = strings.Join(words[:n-1], " "), words[n-1]
	}
	var done []string
	var targets []plan.Target
	contained := false
	for _, t := range p.Targets {
		done = append(done, t.Name)
		if can := t.Traits(); t.On == plan.Host || can.Gather != nil || can.Encloses {
			targets = append(targets, t)
			continue
		}
		contained = true
		s := spec
		s.Target = t.Name + " itself"
		if err := s.Validate(); err != nil {
			return fmt.Errorf("--container: %w", err)
		}
		around := plan.Target{Name: t.Name, On: t.On, Kind: "inside", Spec: &s, Labels: t.Labels, Against: t.Against, Pos: t.Pos}
		t.Name, t.Labels, t.Against = s.Target, nil, nil
		targets = append(targets, around, t)
	}
	if !contained {
		return &iotax.Error{Op: "run the workloads in a container", On: pf.container, Err: errors.New("every target is on this host"), Hint: "leave --container out, or give a target a machine (on:)"}
	}
	p.Targets = targets
	for i, w := range p.Workloads {
		if w.At == nil && !w.Aside {
			p.Workloads[i].At = done
		}
	}
	return nil
}
