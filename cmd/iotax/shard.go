package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/run"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

// shardFlags are the flags that set the id of a run and the part of it that this process measures.
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

// finishPart prints the report if all shards have ended. It returns an error that sets the exit status of this shard.
func (a *app) finishPart(ctx context.Context, db *store.Store, r *iotax.Run, out *outlet, s run.Shard, runErr error) error {
	ctx = context.WithoutCancel(ctx)
	whole, err := db.Get(ctx, r.ID)
	if err != nil {
		return errors.Join(runErr, err) // for example, the shard failed before it was saved
	}
	if whole.Status != iotax.Running {
		// Print these errors, but do not fail: otherwise a scheduler would repeat this shard because of failures in
		// other shards.
		if err = a.finish(ctx, db, whole, out, nil); errors.As(err, new(nothingCompared)) || errors.As(err, new(errInterrupted)) {
			fmt.Fprintf(a.err, "iotax: %s\n", terminal.CleanLines(err.Error()))
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
