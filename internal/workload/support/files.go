package support

import (
	"context"
	"path"
	"reflect"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/workload/task"
)

// FileSizes returns the sizes of those of the files that exist.
func FileSizes(ctx context.Context, t *iotax.Target, names []string) (sizes map[string]int64, err error) {
	err = Limited(ctx, GlanceTime, func(ctx context.Context) error {
		sizes, err = task.Sizes.On(ctx, t.Machine, task.Files{Dir: t.Place.Path, Names: names})
		return err
	})
	return sizes, err
}

func RemoveFiles(ctx context.Context, t *iotax.Target, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := task.Remove.On(ctx, t.Machine, task.Files{Dir: t.Place.Path, Names: names})
	return err
}

func FileKey(t *iotax.Target, name string) string {
	return t.Machine.String() + "\x00" + path.Join(t.Place.Path, name)
}

// HeldFiles counts the users of the files at places: one that two workloads use is written once, and removed by the last.
type HeldFiles struct {
	mu    sync.Mutex
	users map[string]int
}

// Hold counts a user more of the files.
func (h *HeldFiles) Hold(t *iotax.Target, names []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == nil {
		h.users = map[string]int{}
	}
	for _, n := range names {
		h.users[FileKey(t, n)]++
	}
	return names
}

// Release counts a user less and returns the files that have none left.
func (h *HeldFiles) Release(t *iotax.Target, names []string) (unused []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range names {
		key := FileKey(t, n)
		if h.users[key]--; h.users[key] <= 0 {
			delete(h.users, key)
			unused = append(unused, n, n+Partial)
		}
	}
	return unused
}

const Partial = ".part"

// IsNBD reports whether p is an NBD export, which fio speaks to by an engine of its own.
func IsNBD(p iotax.Place) bool {
	return p.Kind == iotax.PlaceURL && (strings.HasPrefix(p.Path, "nbd:") || strings.HasPrefix(p.Path, "nbd+unix:") || strings.HasPrefix(p.Path, "nbds:") || strings.HasPrefix(p.Path, "nbds+unix:"))
}

// Survey looks at a machine.
func Survey(ctx context.Context, m iotax.Machine) (s task.Survey, err error) {
	if _, err = agent.Program(ctx, m); err == nil { // that the agent is copied there is not part of the look
		err = Limited(ctx, GlanceTime, func(ctx context.Context) error {
			s, err = task.Look.On(ctx, m, struct{}{})
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		err = Failed("look for fio on", m.String(), err, "")
	}
	return s, err
}

// Identity is the machine itself where it can be a map key.
func Identity(m iotax.Machine) any {
	if reflect.TypeOf(m).Comparable() {
		return m
	}
	return m.String()
}

// ScaledSize is n bytes by the factor, in whole blocks of 4 KiB. It does not fall below least, unless n did.
func ScaledSize(n int64, by float64, least int64) int64 {
	return max(int64(float64(n)*by)&^4095, min(n, least))
}
