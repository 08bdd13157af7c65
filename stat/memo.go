package stat

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A memo caches results that are slow to compute. Reading takes no lock and does not allocate. Writing copies the map,
// so use a memo only for few keys.
type memo[K comparable, V any] struct {
	read atomic.Pointer[map[K]V]
	mu   sync.Mutex
}

func (m *memo[K, V]) get(key K, compute func() V) V {
	if p := m.read.Load(); p != nil {
		if v, ok := (*p)[key]; ok {
			return v
		}
	}
	v := compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]V{}
	if p := m.read.Load(); p != nil {
		next = maps.Clone(*p)
	}
	next[key] = v
	m.read.Store(&next)
	return v
}
