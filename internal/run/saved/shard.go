package saved

import (
	"bytes"
	"context"
	"fmt"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/run"
	"iotax/internal/store"
)

// TakeUp prepares opts to continue a shard that was started before: it stores the saved part of the run and its trials
// in opts. It does not change opts for a new shard. `done` reports that the shard is complete. TakeUp fails if a
// process of this host still measures the shard.
func TakeUp(ctx context.Context, db *store.Store, opts *run.Options) (done bool, err error) {
	part, err := db.Part(ctx, opts.ID, store.Part(opts.Shard))
	if err != nil || part == nil || part.Status == iotax.Done {
		return part != nil, err
	}
	who, err := leftover.ParseRunner(part.Environment[run.RunnerKey])
	if err == nil && part.Status == iotax.Running && who.State() == leftover.Alive {
		return false, &iotax.Error{Op: "resume", On: "shard " + opts.Shard.String() + " of run " + opts.ID, Err: fmt.Errorf("process %d still measures it", who.PID), Hint: "wait for its end, or interrupt it"}
	}
	trials, err := Trials(ctx, db, opts.ID)
	opts.Resume, opts.Trials = part, opts.Shard.Own(trials)
	return false, err
}

// Share sets opts.Plan to the YAML of p, with relative paths as written, because each process may resolve them against
// another directory. If a resumed run has an equivalent plan, Share keeps the text of that plan. The returned function
// changes Deps so that the run is saved as one part of the divided run.
func Share(db *store.Store, p *plan.Plan, opts *run.Options) (func(*run.Deps), error) {
	folder, err := p.Folder()
	if err != nil {
		return nil, err
	}
	if opts.Plan, err = p.YAML(); err != nil {
		return nil, err
	}
	if r := opts.Resume; r != nil && sameText(r, opts.Plan) {
		opts.Plan = r.Plan
	}
	s := opts.Shard
	save := func(ctx context.Context, r *iotax.Run) error {
		e := Sign(r).Environment
		e[run.ShardKey], e[run.FolderKey] = s.String(), folder
		return db.SavePart(ctx, r, store.Part(s), func(parts []*iotax.Run) *iotax.Run { return run.Merge(parts, s.Count) })
	}
	return func(d *run.Deps) { d.Begin, d.Update = save, save }, nil
}

// sameText reports whether r's plan is equivalent to text. Another version of iotax may have saved the plan with fewer
// keys.
func sameText(r *iotax.Run, text []byte) bool {
	p, err := kinds.Saved(r)
	if err != nil {
		return false
	}
	again, err := p.YAML()
	return err == nil && bytes.Equal(again, text)
}
