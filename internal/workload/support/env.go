// Package support contains the code that the kinds of workloads share.
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
	RawLimit     = 4 << 20  // maximum kept output of a command, bytes
	MessageLimit = 64 << 10 // maximum kept messages of fio or iperf3, bytes
)

// A Kind is a kind of workload in a plan, with the function that makes workloads of this kind.
type Kind struct {
	plan.Kind

	// New makes the workload that w describes. w.Spec is a value that plan.Kind.New returned, with the plan's keys
	// filled in.
	New func(w plan.Workload, e Env) (iotax.Workload, error)
}

// Env contains what a workload needs in addition to its spec.
type Env struct {
	CacheDir string                           // cache kept between runs; "" disables it
	Log      func(format string, args ...any) // progress for the user; nil discards it

	// Shared is the state that the workloads of a run share. If it is nil, Kind.New makes a new Shared.
	Shared *Shared

	// Host is this host. If the files of a target are stored on this host, such as those behind a share, iotax writes
	// them directly on this host. If Host is nil, the machine that uses a file always writes it.
	Host iotax.Machine

	// Lodge makes a directory for a workload on a machine, with the same checks and marker file as the directories of
	// volumes. The caller must call undo, even after an error. undo removes the directory.
	Lodge func(ctx context.Context, m iotax.Machine, l Lodging) (path string, undo func(context.Context) error, err error)

	// Python builds the root file system of a Python web server. It returns the directory and the command that starts
	// the server. {port} in the command is the port to listen on.
	Python func(context.Context) (dir, run string, err error)

	labels map[string]string // labels of the workload, which KindOf sets
}

func (e Env) Logf(format string, args ...any) {
	if e.Log != nil {
		e.Log(format, args...)
	}
}

// KindOf returns the kind k with a New that calls `open`. New fails if the spec's type is not *S.
func KindOf[S any](k plan.Kind, open func(w plan.Workload, s *S, e Env) (iotax.Workload, error)) Kind {
	return Kind{k, func(w plan.Workload, e Env) (iotax.Workload, error) {
		s, ok := any(w.Spec).(*S)
		if !ok {
			return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("its spec is a %T", w.Spec)}
		}
		if e.Shared == nil {
			e.Shared = new(Shared)
		}
		e.labels = w.Labels
		return open(w, s, e)
	}}
}

// Shared contains the state that the workloads of one run share. The zero value is ready to use.
type Shared struct {
	Held   HeldFiles
	tools  sync.Map // fio copied to machines: Tool by Identity
	values sync.Map // state of the kinds of workloads, by Go type; see Of
}

// Of returns the value of type T in s. The first call stores the zero value.
func Of[T any](s *Shared) *T {
	v, _ := s.values.LoadOrStore(reflect.TypeFor[T](), new(T))
	return v.(*T)
}
