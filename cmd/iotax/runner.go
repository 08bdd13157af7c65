package main

import (
	"context"
	"fmt"

	"iotax"
	"iotax/leftover"
	"iotax/store"
)

// runnerKey is the fact of a run's environment that names the process that measures it.
const runnerKey = "runner"

// signed puts the runner's name into r, so that others can tell whether r still runs.
func signed(r *iotax.Run) *iotax.Run {
	if l := leftover.Current(); l.Run != "" {
		if r.Environment == nil {
			r.Environment = map[string]string{}
		}
		r.Environment[runnerKey] = l.Runner.String()
	}
	return r
}

func runnerOf(r *iotax.Run) (leftover.Runner, error) {
	return leftover.ParseRunner(r.Environment[runnerKey])
}

// settle says of a run that was left as running what it came to: its runner may have died since, and
// could not write it down.
func settle(r *iotax.Run) {
	who, err := runnerOf(r)
	if err != nil || who.State() != leftover.Dead {
		return
	}
	r.Status = iotax.Interrupted
	r.Findings = append(r.Findings, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning,
		Evidence: fmt.Sprintf("process %d on %s, which measured, was killed; the trials that had finished are saved", who.PID, who.Host),
		Mend:     "go on with: iotax run --resume=" + r.ID + "; remove what it left with: iotax clean --yes"})
}

// openStore opens the store for those who read it: a run whose runner died is shown for what it is.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	db, err := store.Open(ctx, url)
	if err == nil {
		db.Settle(settle)
	}
	return db, err
}
