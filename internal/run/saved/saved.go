// Package saved manages runs in a store: it records which process measures a run, detects whether that process still
// exists, and lets another process resume or remove the run.
package saved

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/secret"
	"iotax/internal/store"
)

// A measuring process reports to a shared store about every beatPause. A process on another host is assumed dead if it
// has not reported for silentTime.
const (
	beatPause  = 30 * time.Second
	silentTime = 5 * time.Minute
)

// Open is like store.OpenExisting. If all processes of a run have died, the store returns the run as interrupted. The
// caller closes the store.
func Open(ctx context.Context, url string) (*store.Store, error) {
	db, err := store.OpenExisting(ctx, url)
	if err == nil {
		db.Settle(settle)
	}
	return db, err
}

// Sign removes secrets from r and records this process in r, so that other processes can check whether this process
// still exists. It returns r.
func Sign(r *iotax.Run) *iotax.Run {
	secret.HideRun(r)
	if r.Environment == nil {
		r.Environment = map[string]string{}
	}
	if l := leftover.Current(); l.Run != "" {
		r.Environment[run.RunnerKey] = l.Runner.String()
	}
	return r
}

// Divided reports whether several processes measure the run.
func Divided(r *iotax.Run) bool { return r.Environment[run.ShardsKey] != "" }

// Continue returns the command that continues an interrupted run. For a divided run, it is a description of the
// command.
func Continue(r *iotax.Run) string {
	if Divided(r) {
		return "iotax run … --id " + r.ID + ", with the words that its shards were started with"
	}
	return "iotax run --resume=" + r.ID
}

// Beat starts reporting to a shared store that this process works on the run `id`, and returns at once. It reports
// until `stop` is called, even after ctx ends, because the process still cleans up after Ctrl-C.
func Beat(ctx context.Context, db *store.Store, id string) (stop func()) {
	if !db.Shared() {
		return func() {}
	}
	name := leftover.Current().Runner.String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Pause only briefly until the store has the run, because a process that dies before its first report could
		// never be assumed dead. Randomize the pause, so that the pods of a fleet do not report at the same time.
		for pause := time.Second; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause*3/4 + rand.N(pause/2)):
			}
			if known, _ := db.Beat(ctx, id, name); known { // ignore the error: saving a trial reports it too
				pause = beatPause
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// runners yields the processes that began to measure r and have not recorded their end, with their shards. If the name
// of a process cannot be parsed, it yields the zero Runner.
func runners(r *iotax.Run, heard store.Pulse) iter.Seq2[run.Shard, leftover.Runner] {
	return func(yield func(run.Shard, leftover.Runner) bool) {
		if !Divided(r) && len(heard.Open) == 0 {
			who, _ := leftover.ParseRunner(r.Environment[run.RunnerKey])
			yield(run.Shard{}, who)
			return
		}
		count, _ := strconv.Atoi(r.Environment[run.ShardsKey])
		for _, index := range slices.Sorted(maps.Keys(heard.Open)) {
			who, _ := leftover.ParseRunner(heard.Open[index])
			if !yield(run.Shard{Index: index, Count: count}, who) {
				return
			}
		}
	}
}

// died describes how a process died, or returns "" if it is alive. A process with unknown state counts as alive until
// it has been silent for silentTime.
func died(who leftover.Runner, silent store.Silence) string {
	switch state := who.State(); {
	case state == leftover.Dead:
		return "was killed"
	case state == leftover.Unknown && silent[who.String()] > silentTime:
		return fmt.Sprintf("has not reported for %v: it or its host has died, or does not reach the store", silent[who.String()].Round(time.Minute))
	}
	return ""
}

// settle adds a finding for each process that died without recording its end. If there are such processes and all other
// processes have ended, it sets the status of the run to Interrupted.
func settle(r *iotax.Run, heard store.Pulse) {
	var dead []iotax.Finding
	began := 0
	for shard, who := range runners(r, heard) {
		began++
		how := died(who, heard.Silent)
		if how == "" {
			continue
		}
		rule, what, whose := rules.RunnerDied.Without("--shard", true), "the run", "the"
		if shard.Divided() {
			rule, what, whose = rules.RunnerDied.Without("--resume", true).With("I/N", shard.String()), "shard "+shard.String(), "its"
		}
		dead = append(dead, rule.With("RUN", r.ID).Found(iotax.AboutRun(),
			"process %d on %s, which measured %s, %s; %s finished trials are saved", who.PID, who.Host, what, how, whose))
	}
	if len(dead) > 0 && len(dead) == began {
		r.Status = iotax.Interrupted
	}
	r.Findings = append(r.Findings, dead...)
}

// Killed lists the runs of the store that a process of this host measured until it was killed. If the default store
// does not exist, the list is empty.
func Killed(ctx context.Context, url string) ([]iotax.Run, error) {
	db, err := store.OpenExisting(ctx, url)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	killed := map[string]bool{}
	db.Settle(func(r *iotax.Run, heard store.Pulse) {
		for _, who := range runners(r, heard) {
			killed[r.ID] = killed[r.ID] || who.State() == leftover.Dead
		}
	})
	runs, err := db.Runs(ctx)
	return slices.DeleteFunc(runs, func(r iotax.Run) bool { return !killed[r.ID] }), err
}

// stillRuns describes a process that still works on a run, with a hint. It returns "" if the process is dead, or if its
// state is unknown and it has not reported within silentTime.
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

// Removable returns a check for a run that is about to be removed. The check rejects a run that a process still
// measures. Without force, it also rejects a run whose process may still exist.
func Removable(force bool) func(*iotax.Run, store.Pulse) error {
	return func(r *iotax.Run, heard store.Pulse) error {
		if r.Status != iotax.Running {
			return nil
		}
		for _, who := range runners(r, heard) {
			what, hint := stillRuns(who, heard)
			switch {
			case died(who, heard.Silent) != "" || what == "" && force:
				continue
			case what == "":
				hint = "if that process has ended: iotax rm --force " + r.ID
				what = fmt.Sprintf("process %d on %s may still measure it", who.PID, who.Host)
				if who.PID == 0 {
					what = "an unknown process may still measure it"
				}
			}
			return &iotax.Error{Op: "remove", On: r.ID, Err: errors.New(what), Hint: hint}
		}
		return nil
	}
}

// Trials returns the finished trials of a run, read with the depth store.Brief.
func Trials(ctx context.Context, db *store.Store, id string) (trials []*iotax.Trial, err error) {
	for t, err := range db.Each(ctx, id, store.Brief) {
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	return trials, nil
}

// Trusted reports whether iotax may act on the plan of a run: only this user can write to the store, or refs name the
// run by its id. In another store, a plan may name programs and machines that another user chose.
func Trusted(db *store.Store, id string, refs ...string) bool {
	if slices.Contains(refs, id) && id != "latest" && id != "newest" { // another user can also choose ids
		return true
	}
	path, err := filepath.EvalSymlinks(db.String())
	if db.Shared() || err != nil {
		return false
	}
	for _, suffix := range []string{"", "-wal", "-journal"} { // SQLite also reads changes from the last two
		st, err := os.Stat(path + suffix)
		if err == nil && (!leftover.Mine(st) || runtime.GOOS != "windows" && st.Mode().Perm()&0o022 != 0) {
			return false
		}
	}
	return true
}

// Resume finds the run to continue and stores it in opts. It returns the plan of the run. The id "latest" means the
// newest run, even if that run has no trials. The run must be Trusted.
func Resume(ctx context.Context, db *store.Store, id string, opts *run.Options) (*plan.Plan, error) {
	if id == "latest" {
		id = "newest"
	}
	r, err := db.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	heard, err := db.Pulse(ctx, r.ID)
	if err == nil {
		err = resumable(r, heard)
	}
	if err == nil && !Trusted(db, r.ID, id) {
		err = iotax.Usage(&iotax.Error{Op: "resume", On: r.ID, Err: errors.New("other users can write to the store, and may have chosen the commands of this run"),
			Hint: "check its plan (iotax show --plan " + r.ID + "), and name the run: " + Continue(r)})
	}
	if err != nil {
		return nil, err
	}
	opts.Resume, opts.Plan = r, r.Plan
	return kinds.Saved(r)
}

// resumable returns an error if the run is complete or divided into shards, or if another process still measures it.
func resumable(r *iotax.Run, heard store.Pulse) error {
	fail := func(what, hint string) error {
		return &iotax.Error{Op: "resume", On: r.ID, Err: errors.New(what), Hint: hint}
	}
	switch {
	case Divided(r):
		return iotax.Usage(fail("several processes measure it, each its shard", Continue(r)))
	case r.Status == iotax.Done:
		return iotax.Usage(fail("the run is complete", "iotax report "+r.ID))
	case r.Status == iotax.Running:
		for _, who := range runners(r, heard) {
			if what, hint := stillRuns(who, heard); what != "" {
				return fail(what, hint)
			}
		}
	}
	return nil
}

// TakeOver records this process as the one that measures opts.Resume, and reads its trials. It checks again that the
// run is resumable, because another process may have resumed it.
func TakeOver(ctx context.Context, db *store.Store, opts *run.Options) (err error) {
	opts.Resume, err = db.Claim(ctx, opts.Resume.ID, leftover.Current().Runner.String(), func(r *iotax.Run, heard store.Pulse) error {
		if err := resumable(r, heard); err != nil {
			return err
		}
		Sign(r).Status = iotax.Running
		return nil
	})
	if err == nil {
		opts.Trials, err = Trials(ctx, db, opts.Resume.ID)
	}
	return err
}
