package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/report/compare"
	"iotax/internal/store"
)

// An earlierRun is an earlier run whose targets `iotax run --against` measures again.
type earlierRun struct {
	run   *iotax.Run
	pairs map[string]string // from the name of a target that is measured again to its name in the earlier run
	said  []string
}

// against returns the plan p with additional targets: those of the earlier run ref, in their earlier configuration.
func against(ctx context.Context, db *store.Store, p *plan.Plan, ref string) (*plan.Plan, *earlierRun, error) {
	r, err := db.Get(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	old, err := kinds.Saved(r)
	if err != nil {
		return nil, nil, err
	}
	both, pairs, notes, err := p.Paired(old, r.ID)
	if err != nil {
		return nil, nil, iotax.Usage(err)
	}
	return both, &earlierRun{r, pairs, notes}, nil
}

func (e *earlierRun) notes() []string {
	if e == nil {
		return nil
	}
	return e.said
}

// drift returns a note for each fact in which this host or a target that is measured again differs from the earlier
// run. The plan does not determine all of these facts.
func (e *earlierRun) drift(r *iotax.Run) (notes []string) {
	if e == nil || r == nil {
		return nil
	}
	info := func(r *iotax.Run, name string) *iotax.TargetInfo {
		i := slices.IndexFunc(r.Targets, func(t iotax.TargetInfo) bool { return t.Name == name })
		if i < 0 || r.Targets[i].Err != "" {
			return nil
		}
		return &r.Targets[i]
	}
	var all []compare.Difference
	all = compare.Facts(all, "", e.run.Environment, r.Environment)
	for _, t := range r.Targets {
		if name, ok := e.pairs[t.Name]; ok {
			if then, now := info(e.run, name), info(r, t.Name); then != nil && now != nil {
				all = compare.Facts(all, t.Name, then.Facts, now.Facts)
			}
		}
	}
	for _, d := range all {
		where := "this host"
		if len(d.Where) > 0 {
			where = strings.Join(d.Where, ", ")
		}
		notes = append(notes, fmt.Sprintf("not as in run %s: %s: %s was %q, and is %q", e.run.ID, where, d.Key, d.A, d.B))
	}
	return notes
}
