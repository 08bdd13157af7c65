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

// Profile is like Start, for a profiled trial: Stop also sets Seen.Profile to the profile of the processes that serve
// the target, and of the commands that this process starts during the trial, such as fio. Without a profile, the fact
// "profile.none" contains the reason.
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
			return w, nil //nolint:nilerr // the fact contains the reason
		}
	}
	w.profile = sync.OnceValues(stop)
	w.kept = context.AfterFunc(ctx, func() { _, _ = w.profile() }) // an interrupted trial does not call Stop
	return w, nil
}
