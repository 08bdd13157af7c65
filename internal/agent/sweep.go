package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"iotax/internal/leftover/proctable"
)

// sweepVariable is the environment variable that the bootstrap script sets to a unique value. If a signal kills the
// agent, its commands keep running. The script then runs the program again as "agent sweep" to end all processes whose
// environment contains the value.
const sweepVariable = "IOTAX_AGENT"

// Identity returns the value of sweepVariable on the machine, or "" if no script started the agent.
var Identity = New("agent.identity", func(context.Context, struct{}) (string, error) { return os.Getenv(sweepVariable), nil })

// EndOther ends the agent with the given identity, and its commands. They may still be running after their connection
// was lost.
var EndOther = New("agent.end other", func(ctx context.Context, identity string) (struct{}, error) {
	return struct{}{}, sweep(ctx, identity)
})

// sweep ends the processes whose sweepVariable has this value. If value is "", it does nothing.
func sweep(ctx context.Context, value string) error {
	// A process may start others before it ends. The next round finds them.
	for round := 0; value != "" && round < 10; round++ {
		all, err := proctable.With(ctx, sweepVariable)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(p proctable.Process) bool { return p.Env[sweepVariable] != value })
		if len(all) == 0 {
			return nil
		}
		failed := make([]error, len(all))
		var ending sync.WaitGroup
		for i, p := range all {
			ending.Go(func() {
				start, err := proctable.Start(ctx, p.PID)
				if err == nil {
					err = proctable.End(ctx, p.PID, start, func(pid int) (uint64, error) { return proctable.Start(ctx, pid) })
				}
				if err != nil && !errors.Is(err, proctable.ErrGone) {
					failed[i] = fmt.Errorf("end process %d: %w", p.PID, err)
				}
			})
		}
		ending.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
	}
	return nil
}
