package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/run"
	"iotax/internal/store"
)

// shardFlags select the part of a run that a process measures.
type shardFlags struct {
	text  string
	id    string
	shard run.Shard
}

func (s *shardFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.text, "shard", "", "measure this share of the rounds, as in 2/8 for the third of eight; all shards need the same --id and --store")
	f.StringVar(&s.id, "id", "", "id of the run (default: from the time)")
}

func (s *shardFlags) check(resuming bool) (err error) {
	if resuming && (s.text != "" || s.id != "") {
		return &iotax.Error{Op: "resume", Err: errors.New("--resume cannot be combined with --shard or --id"), Hint: "to continue a shard, start it again with the same arguments"}
	}
	if s.text == "" {
		return nil
	}
	if s.id == "" {
		return &iotax.Error{Op: "divide run", On: "shard " + s.text, Err: errors.New("the shards of a run must have its id in common"), Hint: "name it, as in --id nightly-7"}
	}
	if s.shard, err = run.ParseShard(s.text); err != nil {
		return fmt.Errorf("--shard: %w", err)
	}
	return nil
}

// takeUp continues a shard that was begun before: a scheduler restarts a shard that failed. done reports that the shard is complete.
func (a *app) takeUp(ctx context.Context, db *store.Store, opts *run.Options) (done bool, err error) {
	part, err := db.Part(ctx, opts.ID, store.Part(opts.Shard))
	if err != nil || part == nil {
		return false, err
	}
	if part.Status == iotax.Done {
		fmt.Fprintf(a.err, "iotax: shard %s of run %s is complete\n", opts.Shard, opts.ID)
		return true, nil
	}
	if who, err := runnerOf(part); err == nil && part.Status == iotax.Running && who.State() == leftover.Alive {
		return false, &iotax.Error{Op: "resume", On: "shard " + opts.Shard.String() + " of run " + opts.ID, Err: fmt.Errorf("process %d still measures it", who.PID), Hint: "wait for its end, or interrupt it"}
	}
	trials, err := measured(ctx, db, opts.ID)
	if err != nil {
		return false, err
	}
	opts.Resume, opts.Trials = part, opts.Shard.Own(trials)
	return false, nil
}

// saveParts makes a run save what it knows as one part of several, whose plan counts relative paths from folder.
func saveParts(d *run.Deps, db *store.Store, s run.Shard, folder string) {
	save := func(ctx context.Context, r *iotax.Run) error {
		e := signed(r).Environment
		e[run.ShardKey], e[run.FolderKey] = s.String(), folder
		return db.SavePart(ctx, r, store.Part(s), func(parts []*iotax.Run) *iotax.Run { return run.Merge(parts, s.Count) })
	}
	d.Begin, d.Update = save, save
}

// finishPart prints the report once every shard has ended, and turns what became of this one into an exit status.
func (a *app) finishPart(ctx context.Context, db *store.Store, r *iotax.Run, out *outlet, s run.Shard, runErr error) error {
	ctx = context.WithoutCancel(ctx)
	whole, err := db.Get(ctx, r.ID)
	if err != nil {
		return errors.Join(runErr, err) // it could not even begin
	}
	if whole.Status != iotax.Running {
		// A scheduler would repeat this shard for the failures of others.
		if err = a.finish(ctx, db, whole, out, nil); errors.As(err, new(nothingCompared)) {
			fmt.Fprintf(a.err, "iotax: %s\n", cleanLines(err.Error()))
			err = nil
		}
	} else if !a.quiet {
		fmt.Fprintf(a.err, "shard %s is %s; the report, once all %d have ended: iotax report %s\n", s, r.Status, s.Count, r.ID)
	}
	switch {
	case r.Status == iotax.Interrupted:
		return exitCode(exitInterrupted)
	case runErr != nil:
		return runErr
	}
	if _, ofAnother := err.(exitCode); err != nil && !ofAnother {
		return err
	}
	return a.completeness(r)
}
