package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"iotax"
	"iotax/leftover"
	"iotax/run"
	"iotax/store"
)

// signed puts the runner's name into r, so that others can tell whether r still runs.
func signed(r *iotax.Run) *iotax.Run {
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

// A process that measures says so in a store that hosts share, every beatPause. One of another host that has said
// nothing for silentTime is taken to have died there.
const (
	beatPause  = 30 * time.Second
	silentTime = 5 * time.Minute
)

// beats says until stop is called that this process is at work on the run.
func beats(ctx context.Context, db *store.Store, id string) (stop func()) {
	name := leftover.Current().Runner.String()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Soon at first: what was saved so far may be all that ever comes.
		for pause := beatPause / 30; ; pause = beatPause {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			_ = db.Beat(ctx, id, name) // who saves trials tells of a store that cannot be had
		}
	}()
	return func() { cancel(); <-ended }
}

// died says what became of a runner; "" where it lives, or nothing is known of it.
func died(who leftover.Runner, silent store.Silence) string {
	switch state := who.State(); {
	case state == leftover.Dead:
		return "was killed"
	case state == leftover.Unknown && silent[who.String()] > silentTime:
		return fmt.Sprintf("has not been heard of for %v: it or its host has died, or does not reach the store", silent[who.String()].Round(time.Minute))
	}
	return ""
}

// settle says of a run that was left as running what it came to: its runner may have died since, and
// could not write it down.
func settle(r *iotax.Run, silent store.Silence) {
	if divided(r) {
		settleShards(r, silent)
		return
	}
	who, err := runnerOf(r)
	if err != nil {
		return
	}
	how := died(who, silent)
	if how == "" {
		return
	}
	r.Status = iotax.Interrupted
	r.Findings = append(r.Findings, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning,
		Evidence: fmt.Sprintf("process %d on %s, which measured, %s; the trials that had finished are saved", who.PID, who.Host, how),
		Mend:     "go on with: iotax run --resume=" + r.ID + "; remove what it left with: iotax clean --yes"})
}

// settleShards is settle for a run of several processes: it is interrupted once all that still were at it have died.
// Those of other hosts are taken to live as long as they are heard of.
func settleShards(r *iotax.Run, silent store.Silence) {
	living := 0
	var dead []iotax.Finding
	for text := range strings.FieldsSeq(r.Environment[run.RunnersKey]) {
		shard, name, _ := strings.Cut(text, "=")
		who, err := leftover.ParseRunner(name)
		how := ""
		if err == nil {
			how = died(who, silent)
		}
		if how == "" {
			living++
			continue
		}
		dead = append(dead, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning,
			Evidence: fmt.Sprintf("process %d on %s, which measured shard %s, %s; the trials that it had finished are saved", who.PID, who.Host, shard, how),
			Mend:     "start that shard again as it was (--shard " + shard + " --id " + r.ID + "); remove what it left with: iotax clean --yes"})
	}
	if len(dead) > 0 && living == 0 {
		r.Status = iotax.Interrupted
	}
	r.Findings = append(r.Findings, dead...)
}

// openStore opens the store for those who read it: a run whose runner died is shown for what it is.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	db, err := store.Open(ctx, url)
	if err == nil {
		db.Settle(settle)
	}
	return db, err
}
