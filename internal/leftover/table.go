package leftover

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"iotax/internal/leftover/proctable"
)

// table is a system without /proc.
var table = system{
	boot:    func() string { return sinceEpoch },
	space:   func() string { return "" },
	machine: sync.OnceValue(func() string { return hashed(strings.ReplaceAll(proctable.Machine(), "-", "")) }),
	start: func(pid int) (uint64, error) {
		start, err := proctable.Start(context.Background(), pid)
		if errors.Is(err, proctable.ErrGone) {
			err = errGone
		}
		return start, err
	},
	labels: labelled,
}

func labelled(ctx context.Context) (items []Item, err error) {
	all, err := proctable.With(ctx, RunVariable, RunnerVariable)
	for _, p := range all {
		runner, perr := ParseRunner(p.Env[RunnerVariable])
		if perr != nil {
			continue // another program's variable
		}
		start, serr := proctable.Start(ctx, p.PID)
		if serr != nil {
			continue // it has ended since, or cannot be known again when it is to be ended
		}
		items = append(items, Item{Name: strconv.Itoa(p.PID), Detail: p.Command, Label: Label{Run: p.Env[RunVariable], Runner: runner},
			End: func(ctx context.Context) error { return proctable.End(ctx, p.PID, start) }})
	}
	return items, err
}
