// Package workload contains the workloads that iotax runs on targets.
//
// To add a kind, write its spec (a struct with yaml and doc tags, see package plan) and an iotax.Workload, with the
// helpers of package support, and add a line to Kinds.
package workload

import (
	"fmt"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/workload/command"
	"iotax/internal/workload/fiojob"
	"iotax/internal/workload/support"
)

// With these aliases, packages that make workloads need to import only this one.
type (
	Kind    = support.Kind
	Env     = support.Env
	Lodging = support.Lodging
	Shared  = support.Shared
)

// Kinds lists all kinds of workloads.
func Kinds() []Kind {
	return []Kind{
		fiojob.Kind,
		command.Kind,
		support.KindOf(plan.Kind{Name: "network", Doc: "a stream over TCP between two machines, by iperf3", New: newNetwork}, openNetwork),
		support.KindOf(plan.Kind{Name: "archive", Doc: "a tar archive that is extracted or created, and verified", New: newArchive, Assumed: 5 * time.Second}, openArchive),
		support.KindOf(plan.Kind{Name: "metadata", Doc: "operations on names and attributes of files: create, stat, list, rename, remove", New: newMetadata, Assumed: 5 * time.Second}, openMetadata),
		support.KindOf(plan.Kind{Name: "node_modules", Doc: "small files of packages: found, removed, unpacked again", New: newModules, Assumed: 5 * time.Second}, openModules),
		support.KindOf(plan.Kind{Name: "git", Doc: "what git does to files: status, checkout, commit, gc, clone", New: newGit, Assumed: 5 * time.Second}, openGit),
		support.KindOf(plan.Kind{Name: "build", Doc: "a source tree as make, a compiler and ar read and write it", New: newBuild, Assumed: 5 * time.Second}, openBuild),
		support.KindOf(plan.Kind{Name: "dataload", Doc: "an epoch of training: records read in random order, and a checkpoint", New: newDataload, Assumed: 4 * time.Second}, openDataload),
		support.KindOf(plan.Kind{Name: "wal", Doc: "the write-ahead log of a database that commits in groups, as PostgreSQL does", New: newWAL}, openWAL),
		support.KindOf(plan.Kind{Name: "sqlite", Doc: "transactions of SQLite, by the library itself", New: newSQLite}, openSQLite),
		support.KindOf(plan.Kind{Name: "etcd", Doc: "the write-ahead log and the page file of etcd", New: newEtcd}, openEtcd),
		support.KindOf(plan.Kind{Name: "http", Doc: "requests to a web server: nginx serves files of the place, or any URL", New: newHTTP}, openHTTP),
		support.KindOf(plan.Kind{Name: "boot", Doc: "another boot of the target's machine, with its timeline", New: newBoot, Assumed: 8 * time.Second}, openBoot),
		command.AppKind,
		support.KindOf(plan.Kind{Name: "object", Doc: "a batch of objects, uploaded to a bucket and downloaded again", New: newObject, Assumed: 3 * time.Second}, openObject),
		support.KindOf(plan.Kind{Name: "image", Doc: "a disk image imported into an object store, and two volumes made from it", New: newImage, Assumed: 10 * time.Second}, openImage),
		support.KindOf(plan.Kind{Name: "materialise", Doc: "the volume behind an NBD export, copied to the node that uses it", New: newMaterialise, Assumed: 10 * time.Second}, openMaterialise),
	}
}

// PlanKinds lists all kinds of workloads as package plan describes them.
func PlanKinds() []plan.Kind {
	var ks []plan.Kind
	for _, k := range Kinds() {
		ks = append(ks, k.Kind)
	}
	return ks
}

// New returns the workload that w describes. It returns an error if the kind is unknown or does not accept the spec.
func New(w plan.Workload, e support.Env) (iotax.Workload, error) {
	for _, k := range Kinds() {
		if k.Name == w.Kind {
			return k.New(w, e)
		}
	}
	return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: fmt.Errorf("there is no kind %q of workload", w.Kind)}
}
