// Package support is what the kinds of workloads have in common.
package support

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"iotax"
	"iotax/internal/plan"
)

const (
	RawLimit     = 4 << 20  // bytes that are kept of a command's output
	MessageLimit = 64 << 10 // bytes that are kept of fio's messages
)

// A Kind is one way to write a workload in a plan, and how it is made from that.
type Kind struct {
	plan.Kind

	// New makes the workload that w describes; w.Spec is what plan.Kind.New returned, filled.
	New func(w plan.Workload, e Env) (iotax.Workload, error)
}

// Env is what a workload is made from besides its spec.
type Env struct {
	CacheDir string                           // kept between runs; "" keeps nothing
	Log      func(format string, args ...any) // what happens, for the user; nil is silence

	// Shared is what the workloads of a run have in common. KindOf makes one for a workload without it.
	Shared *Shared

	// Host is this host. What lies on it anyway (the files behind a share) is written there; nil writes all
	// of it from where it is used.
	Host iotax.Machine

	// Lodge makes a directory for a workload on a machine, guarded and labelled as those of volumes are. undo removes it, and is
	// called also after an error.
	Lodge func(ctx context.Context, m iotax.Machine, l Lodging) (path string, undo func(context.Context) error, err error)

	// Python makes the root file system of that name, and says what is run there: {port} is where it listens.
	Python func(context.Context) (dir, run string, err error)
}

func (e Env) Logf(format string, args ...any) {
	if e.Log != nil {
		e.Log(format, args...)
	}
}

// KindOf is k, whose workloads open makes. Each is handed a spec of its kind.
func KindOf[S any](k plan.Kind, open func(w plan.Workload, s *S, e Env) (iotax.Workload, error)) Kind {
	return Kind{k, func(w plan.Workload, e Env) (iotax.Workload, error) {
		s, ok := any(w.Spec).(*S)
		if !ok {
			return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("its spec is a %T", w.Spec)}
		}
		if e.Shared == nil {
			e.Shared = new(Shared)
		}
		return open(w, s, e)
	}}
}

// Shared is what the workloads of one run have in common. Its zero value is empty.
type Shared struct {
	Held   HeldFiles
	tools  sync.Map // fio that was copied to machines, by Identity: Tool
	values sync.Map // of kinds of workloads, by their types
}

// Of returns the value of type T that s holds; it is empty at first.
func Of[T any](s *Shared) *T {
	v, _ := s.values.LoadOrStore(reflect.TypeFor[T](), new(T))
	return v.(*T)
}
