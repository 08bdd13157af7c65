package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/report/compare"
	"iotax/internal/run"
	"iotax/internal/run/saved"
	"iotax/internal/store"
)

// An earlierRun is the run that `iotax run --against` names. Some of its targets are measured again.
type earlierRun struct {
	run      *iotax.Run
	pairs    map[string]string // from the name of a target that is measured again to its name in the earlier run
	messages []string          // lines about the targets that are measured again, and about targets without a counterpart
}

// against returns the plan p with additional targets: the targets of the earlier run `ref` whose configuration has
// changed, in their earlier configuration. If `ref` is "", it returns p and nil. It makes the paths of p absolute, unless
// both runs are divided into shards, because absolute paths may differ between the shards' hosts. The earlier run must be
// saved.Trusted.
func against(ctx context.Context, db *store.Store, p *plan.Plan, ref string, divided bool) (*plan.Plan, *earlierRun, error) {
	if ref == "" {
		return p, nil, nil
	}
	r, err := db.Get(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	if divided && ref != r.ID { // once a shard has saved a trial, "latest" is this run itself
		return nil, nil, iotax.Usage(&iotax.Error{Op: "measure against", On: ref, Err: errors.New("all shards must name the same earlier run"), Hint: "name it by its id: --against " + r.ID})
	}
	if !saved.Trusted(db, r.ID, ref) {
		return nil, nil, iotax.Usage(&iotax.Error{Op: "measure against", On: r.ID, Err: errors.New("other users can write to the store, and may have chosen the commands of this run"),
			Hint: "check its plan (iotax show --plan " + r.ID + "), and name the run: --against " + r.ID})
	}
	folder, err := p.Folder()
	if err != nil {
		return nil, nil, err
	}
	written := divided && saved.Divided(r)
	if saved.Divided(r) && !written {
		parts, err := db.RunParts(ctx, r.ID)
		if err != nil {
			return nil, nil, err
		}
		folder = parts[0].Environment[run.FolderKey]
	}
	old, err := kinds.SavedIn(folder, r)
	if err != nil {
		return nil, nil, err
	}
	if !written {
		if err := errors.Join(p.Absolute(), old.Absolute()); err != nil {
			return nil, nil, err
		}
	}
	both, pairs, notes, err := p.Paired(old, r.ID)
	if err != nil {
		return nil, nil, iotax.Usage(err)
	}
	return both, &earlierRun{r, pairs, notes}, nil
}

// notes prints the messages of the pairing.
func (e *earlierRun) notes(note func(string, ...any)) {
	if e == nil {
		return
	}
	for _, text := range e.messages {
		note("%s", text)
	}
}

// drift prints the facts in which this host or a target that is measured again differs from the earlier run.
func (e *earlierRun) drift(r *iotax.Run, note func(string, ...any)) {
	if e == nil {
		return
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
		note("not as in run %s: %s: %s was %q, and is %q", e.run.ID, where, d.Key, d.A, d.B)
	}
}
