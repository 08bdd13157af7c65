package main

import (
	"context"
	"fmt"
	"strings"

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

// settle says of a run that was left as running what it came to: its runner may have died since, and
// could not write it down.
func settle(r *iotax.Run) {
	if divided(r) {
		settleShards(r)
		return
	}
	who, err := runnerOf(r)
	if err != nil || who.State() != leftover.Dead {
		return
	}
	r.Status = iotax.Interrupted
	r.Findings = append(r.Findings, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning,
		Evidence: fmt.Sprintf("process %d on %s, which measured, was killed; the trials that had finished are saved", who.PID, who.Host),
		Mend:     "go on with: iotax run --resume=" + r.ID + "; remove what it left with: iotax clean --yes"})
}

// settleShards is settle for a run of several processes: it is interrupted once all that still were at it have died.
// Those of other hosts are taken to live.
func settleShards(r *iotax.Run) {
	living := 0
	var dead []iotax.Finding
	for text := range strings.FieldsSeq(r.Environment[run.RunnersKey]) {
		shard, name, _ := strings.Cut(text, "=")
		who, err := leftover.ParseRunner(name)
		if err != nil || who.State() != leftover.Dead {
			living++
			continue
		}
		dead = append(dead, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning,
			Evidence: fmt.Sprintf("process %d on %s, which measured shard %s, was killed; the trials that it had finished are saved", who.PID, who.Host, shard),
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
