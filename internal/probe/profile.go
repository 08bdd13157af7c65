package probe

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"iotax"
	"iotax/internal/leftover/proctable"
)

// Profile is Start for a profiled trial. Seen.Profile is then the profile of the processes that serve the target, and of the
// commands that this process starts meanwhile, such as fio. If there is none, the fact "profile.none" is the reason.
func (k *Watcher) Profile(ctx context.Context, t *iotax.Target) (*Watch, error) {
	w, err := k.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	before := proctable.Tree(self)
	pids := func() []int {
		all := slices.DeleteFunc(proctable.Tree(self), func(pid int) bool { return slices.Contains(before, pid) })
		for _, serving := range t.Processes() {
			all = append(all, serving...)
		}
		return all
	}
	stop := func() ([]byte, error) { return nil, errors.New("this program cannot profile processes") }
	if k.Profiler != nil {
		if stop, err = k.Profiler(pids); err != nil {
			w.facts[iotax.FactNoProfile] = err.Error()
			return w, nil //nolint:nilerr // the fact has the reason
		}
	}
	w.profile = sync.OnceValues(stop)
	w.kept = context.AfterFunc(ctx, func() { _, _ = w.profile() }) // Stop is not called for an interrupted trial
	return w, nil
}
