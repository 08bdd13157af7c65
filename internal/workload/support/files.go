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

// FileSizes returns the sizes in bytes of the named files in t's place. It omits files that do not exist.
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

// HeldFiles counts the users of each test file. Workloads that use the same file write it once, and the last user
// removes it.
type HeldFiles struct {
	mu    sync.Mutex
	users map[string]int
}

// Hold adds one user to each file. It returns `names`.
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

// Release removes one user from each file. It returns the names of the files without users, each followed by the name
// of its partial file.
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

// IsNBD reports whether p is an NBD export. fio has a separate engine for exports.
func IsNBD(p iotax.Place) bool {
	return p.Kind == iotax.PlaceURL && (strings.HasPrefix(p.Path, "nbd:") || strings.HasPrefix(p.Path, "nbd+unix:") || strings.HasPrefix(p.Path, "nbds:") || strings.HasPrefix(p.Path, "nbds+unix:"))
}

// Survey returns the properties of a machine that fio jobs depend on, such as its fio.
func Survey(ctx context.Context, m iotax.Machine) (s task.Survey, err error) {
	if _, err = agent.Program(ctx, m); err == nil { // GlanceTime does not include the time to copy the agent to m
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

// Identity returns a map key for a machine: m itself if it is comparable, else its name.
func Identity(m iotax.Machine) any {
	if reflect.TypeOf(m).Comparable() {
		return m
	}
	return m.String()
}

// ScaledSize returns n bytes times `by`, rounded down to a multiple of 4 KiB, but not less than the smaller of n and
// `least`.
func ScaledSize(n int64, by float64, least int64) int64 {
	return max(int64(float64(n)*by)&^4095, min(n, least))
}
