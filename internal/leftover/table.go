package leftover

import (
	"context"
	"strings"
	"sync"

	"iotax/internal/leftover/proctable"
)

// table is the system on hosts other than Linux.
var table = system{
	boot:    func() string { return sinceEpoch },
	space:   func() string { return "" },
	machine: sync.OnceValue(func() string { return hashed(strings.ReplaceAll(proctable.Machine(), "-", "")) }),
	start:   func(pid int) (uint64, error) { return proctable.Start(context.Background(), pid) },
}
