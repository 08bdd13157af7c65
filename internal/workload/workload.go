// Package workload does the work that is measured at a place. Each kind of workload is a file; all
// are listed in Kinds.
//
// To add a kind, write its spec (a struct with yaml and doc tags, see package plan) and an
// iotax.Workload, and add a line to Kinds.
package workload

import (
	"context"
	"fmt"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/workload/nested"
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

	// Host is this host. What lies on it anyway (the files behind a share) is written there; nil writes all
	// of it from where it is used.
	Host iotax.Machine

	// Lodge makes a directory for a workload on a machine, guarded and labelled as those of volumes are. undo removes it, and is
	// called also after an error.
	Lodge func(ctx context.Context, m iotax.Machine, l Lodging) (path string, undo func(context.Context) error, err error)

	// Python makes the root file system of that name, and says what is run there: {port} is where it listens.
	Python func(context.Context) (dir, run string, err error)

	// GuestKit makes what a machine lacks ready to be carried there: a kernel, this host's unless the plan names its file, and a
	// root disk of so many bytes. nil leaves it to the machine.
	GuestKit func(ctx context.Context, lacks nested.Lacks, kernel string, root int64) (*GuestKit, error)
}

func (e Env) logf(format string, args ...any) {
	if e.Log != nil {
		e.Log(format, args...)
	}
}

// Kinds lists every kind there is.
func Kinds() []Kind {
	return []Kind{
		kind(plan.Kind{Name: "fio", Doc: "a fio job, by fio's own options or from a job file", New: newFio}, openFio),
		kind(plan.Kind{Name: "command", Doc: "any command, timed from its start to its end", New: newCommand, Assumed: 10 * time.Second}, openCommand),
		kind(plan.Kind{Name: "network", Doc: "a stream over TCP between two machines, by iperf3", New: newNetwork}, openNetwork),
		kind(plan.Kind{Name: "archive", Doc: "a tar archive that is extracted, or created, and verified", New: newArchive, Assumed: 5 * time.Second}, openArchive),
		kind(plan.Kind{Name: "http", Doc: "requests to a web server: nginx serves files of the place, or any URL", New: newHTTP}, openHTTP),
		kind(plan.Kind{Name: "boot", Doc: "the target's machine is booted once more: its timeline", New: newBoot, Assumed: 8 * time.Second}, openBoot),
		kind(plan.Kind{Name: "app", Doc: "a program is started: the time until it answers its first request, or says that it is ready", New: newApp, Assumed: 3 * time.Second}, openApp),
		kind(plan.Kind{Name: "object", Doc: "a batch of objects, uploaded to a bucket and downloaded again", New: newObject, Assumed: 3 * time.Second}, openObject),
		kind(plan.Kind{Name: "image", Doc: "a disk image into an object store, and two volumes made from it", New: newImage, Assumed: 10 * time.Second}, openImage),
		kind(plan.Kind{Name: "materialise", Doc: "the volume behind an NBD export, brought onto the node that uses it", New: newMaterialise, Assumed: 10 * time.Second}, openMaterialise),
		kind(plan.Kind{Name: "guest", Doc: "a virtual machine whose disk is an NBD export: started, and measured inside", New: newGuest, Assumed: 30 * time.Second}, openGuest),
	}
}

// kind is k, whose workloads open makes. Each is handed a spec of its kind.
func kind[S any](k plan.Kind, open func(w plan.Workload, s *S, e Env) (iotax.Workload, error)) Kind {
	return Kind{k, func(w plan.Workload, e Env) (iotax.Workload, error) {
		s, ok := any(w.Spec).(*S)
		if !ok {
			return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("its spec is a %T", w.Spec)}
		}
		return open(w, s, e)
	}}
}

// PlanKinds lists the same kinds as package plan wants them.
func PlanKinds() []plan.Kind {
	var ks []plan.Kind
	for _, k := range Kinds() {
		ks = append(ks, k.Kind)
	}
	return ks
}

// New makes the workload that w describes.
func New(w plan.Workload, e Env) (iotax.Workload, error) {
	for _, k := range Kinds() {
		if k.Name == w.Kind {
			return k.New(w, e)
		}
	}
	return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("there is no kind %q of workload", w.Kind)}
}
