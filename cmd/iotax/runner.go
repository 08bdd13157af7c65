package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/secret"
	"iotax/internal/store"
)

// signed is r as it is saved: with the runner's name, by which other processes find out whether r still runs, and without secrets.
func signed(r *iotax.Run) *iotax.Run {
	secret.HideRun(r)
	if r.Environment == nil {
		r.Environment = map[string]string{}
	}
	if l := leftover.Current(); l.Run != "" {
		r.Environment[run.RunnerKey] = l.Runner.String()
	}
	return r
}

func runnerOf(r *iotax.Run) (leftover.Runner, error) {
	return leftover.ParseRunner(r.Environment[run.RunnerKey])
}

// A process that measures reports that to a shared store every beatPause. A process of another host that has not reported for
// silentTime is assumed to have died.
const (
	beatPause  = 30 * time.Second
	silentTime = 5 * time.Minute
)

// beats reports until stop is called that this process works on the run, also while it removes what it made after a Ctrl-C.
func beats(ctx context.Context, db *store.Store, id string) (stop func()) {
	if !db.Shared() {
		return func() {}
	}
	name := leftover.Current().Runner.String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Soon until the run is saved: what is saved then may be all that ever comes. Those of a fleet that begin at once do
		// not stay in step.
		for pause := time.Second; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause*3/4 + rand.N(pause/2)):
			}
			if known, _ := db.Beat(ctx, id, name); known { // saving trials reports a store that does not answer
				pause = beatPause
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// died describes how a runner died; "" if it lives or its state is unknown.
func died(who leftover.Runner, silent store.Silence) string {
	switch state := who.State(); {
	case state == leftover.Dead:
		return "was killed"
	case state == leftover.Unknown && silent[who.String()] > silentTime:
		return fmt.Sprintf("has not reported for %v: it or its host has died, or does not reach the store", silent[who.String()].Round(time.Minute))
	}
	return ""
}

// settle sets the status of a run that is saved as running but whose runner has died and could not save its end.
func settle(r *iotax.Run, heard store.Pulse) {
	if divided(r) {
		settleShards(r, heard)
		return
	}
	who, err := runnerOf(r)
	if err != nil {
		return
	}
	how := died(who, heard.Silent)
	if how == "" {
		return
	}
	r.Status = iotax.Interrupted
	r.Findings = append(r.Findings, rules.RunnerDied.Without("--shard", true).With("RUN", r.ID).Found(iotax.AboutRun(),
		"process %d on %s, which measured the run, %s; the finished trials are saved", who.PID, who.Host, how))
}

// settleShards is settle for a run of several processes: it is interrupted once all that still were at it have died.
// Those of other hosts are taken to live as long as they are heard of.
func settleShards(r *iotax.Run, heard store.Pulse) {
	var dead []iotax.Finding
	for shard, who := range openShards(r, heard) {
		if how := died(who, heard.Silent); how != "" {
			dead = append(dead, rules.RunnerDied.Without("--resume", true).With("I/N", shard.String()).With("RUN", r.ID).Found(iotax.AboutRun(),
				"process %d on %s, which measured shard %s, %s; its finished trials are saved", who.PID, who.Host, shard, how))
		}
	}
	if len(dead) > 0 && len(dead) >= len(heard.Open) {
		r.Status = iotax.Interrupted
	}
	r.Findings = append(r.Findings, dead...)
}

// openShards are the shards of a run that have begun and not ended, in their order, with the processes that are at them.
func openShards(r *iotax.Run, heard store.Pulse) iter.Seq2[run.Shard, leftover.Runner] {
	return func(yield func(run.Shard, leftover.Runner) bool) {
		count, err := strconv.Atoi(r.Environment[run.ShardsKey])
		if err != nil {
			return
		}
		for _, index := range slices.Sorted(maps.Keys(heard.Open)) {
			if who, err := leftover.ParseRunner(heard.Open[index]); err == nil && !yield(run.Shard{Index: index, Count: count}, who) {
				return
			}
		}
	}
}

// killedHere reports whether a process of this host that measured r, which is saved as running, was killed.
func killedHere(r *iotax.Run, heard store.Pulse) bool {
	if who, err := runnerOf(r); err == nil && !divided(r) {
		return who.State() == leftover.Dead
	}
	for _, who := range openShards(r, heard) {
		if who.State() == leftover.Dead {
			return true
		}
	}
	return false
}

// killedRuns lists the runs of the store of which a process was killed on this host; none when there is no store yet.
func (a *app) killedRuns(ctx context.Context) ([]iotax.Run, error) {
	db, err := store.OpenExisting(ctx, a.store)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	ids := map[string]bool{}
	db.Settle(func(r *iotax.Run, heard store.Pulse) { ids[r.ID] = killedHere(r, heard) })
	runs, err := db.Runs(ctx)
	return slices.DeleteFunc(runs, func(r iotax.Run) bool { return !ids[r.ID] }), err
}

// stillRuns describes the process that works on a run that is saved as running; "" if it finds no such process.
func stillRuns(who leftover.Runner, heard store.Pulse) (what, hint string) {
	silent, known := heard.Silent[who.String()]
	switch state := who.State(); {
	case state == leftover.Alive:
		return fmt.Sprintf("it still runs, as process %d", who.PID), "wait for its end, or interrupt it"
	case state == leftover.Unknown && known && silent <= silentTime:
		return fmt.Sprintf("it still runs, as process %d on %s, which last reported %v ago", who.PID, who.Host, silent.Round(time.Second)),
			fmt.Sprintf("wait for its end, or interrupt it there; if it has died, iotax assumes so in %v", (silentTime - silent).Round(time.Second))
	}
	return "", ""
}

// othersHere lists the runs of the store, other than id, that processes of this host measure.
func othersHere(ctx context.Context, db *store.Store, id string) (found []string, err error) {
	runs, _, err := db.Find(ctx, store.Query{Status: iotax.Running})
	if err != nil {
		return nil, err
	}
	for _, s := range runs {
		if s.ID == id {
			continue
		}
		r, err := db.Get(ctx, s.ID)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) {
			continue
		} else if err != nil {
			return nil, err
		}
		if who, err := runnerOf(r); err == nil && who.State() == leftover.Alive {
			found = append(found, fmt.Sprintf("run %s (%s, process %d)", r.ID, r.Name, who.PID))
		}
	}
	return found, nil
}

// openStore opens the store for those who read it: a run whose runner died is shown for what it is.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	db, err := store.OpenExisting(ctx, url)
	if err == nil {
		db.Settle(settle)
	}
	return db, err
}
