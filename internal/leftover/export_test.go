package leftover

import (
	"context"

	"iotax/internal/leftover/proctable"
)

// EndProcess ends a process. It is for the tests in package leftover_test, which are external because package machine
// imports this package.
func EndProcess(ctx context.Context, pid int, start uint64) error {
	return proctable.End(ctx, pid, start, here.start)
}

// UseTable makes this program identify processes as on a host other than Linux, until back is called.
func UseTable() (back func()) {
	was := here
	here = table
	return func() { here = was }
}
