package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"iotax/internal/leftover/proctable"
)

// An agent that a signal killed leaves its commands. The bootstrap script, its parent, then starts this program once more, to end
// the processes with the value that the script gave a variable.
const (
	sweepCommand  = "agent sweep"
	sweepVariable = "IOTAX_AGENT"
)

// sweep ends the processes of the agent that was killed, and exits.
func sweep(ctx context.Context) {
	value := os.Getenv(sweepVariable)
	// What they started meanwhile is seen in the next round.
	for round := 0; value != "" && round < 10; round++ {
		all, err := proctable.With(ctx, sweepVariable)
		if err != nil {
			fmt.Fprintln(os.Stderr, "iotax:", err)
			os.Exit(1)
		}
		all = slices.DeleteFunc(all, func(p proctable.Process) bool { return p.Env[sweepVariable] != value })
		if len(all) == 0 {
			break
		}
		var ending sync.WaitGroup
		for _, p := range all {
			ending.Go(func() {
				start, err := proctable.Start(ctx, p.PID)
				if err == nil {
					err = proctable.End(ctx, p.PID, start)
				}
				if err != nil && err != proctable.ErrGone {
					fmt.Fprintf(os.Stderr, "iotax: process %d: %v\n", p.PID, err)
				}
			})
		}
		ending.Wait()
	}
	os.Exit(0)
}
