// Package volume provides the places for I/O, such as a directory, a block device, a guest disk, or an object store.
// Preparing a volume may involve two machines, for example to make an image file on one and mount it on the other. Each
// volume undoes its steps, even after a failure.
package volume

import (
	"context"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// A Kind is a kind of volume in a plan, and the function that prepares it.
type Kind struct {
	plan.Kind

	// Prepare performs the steps on e.Host that must precede the start of the target's machine. spec is the filled
	// result of plan.Kind.New. If Prepare fails, it undoes its steps.
	Prepare func(ctx context.Context, spec plan.Spec, e Env) (iotax.Volume, error)
}

// Kinds returns all kinds of volumes.
func Kinds() []Kind {
	return []Kind{
		kind("dir", "a directory; iotax works in a new directory inside it, which it removes at the end", DirSpec{}, prepareDir),
		kind("device", "an existing block device; iotax only reads it unless --destroy names it", DeviceSpec{}, prepareDevice),
		kind("disk", "a guest disk, made as an image file on a target of the host", diskDefaults, prepareDisk, "qemu"),
		kind("share", "a directory of the host, shared with a guest by virtio-fs or 9p", ShareSpec{Type: "virtiofs"}, prepareShare, "qemu"),
		kind("mount", "a directory inside a container: a bind mount, a volume of the engine, or memory", MountSpec{Type: "bind"}, prepareMount, "docker", "podman", "k8s"),
		kind("claim", "storage that a cluster provides for a pod: a file system or a raw block device of a storage class", ClaimSpec{Mode: "filesystem"}, prepareClaim, "k8s"),
		kind("nfs", "an NFS export that the machine's kernel mounts: a directory of the host, served by a user-space server, or an export of an existing server", NFSSpec{Version: "4.2"}, prepareNFS, plan.Host, "qemu"),
		kind("sshfs", "a directory of the host, mounted on another machine by sshfs over the machine's existing connection; an SSH host needs Linux 6.2 or later with Landlock here", SSHFSSpec{}, prepareSSHFS, "qemu", "ssh", "lima", "tart", "wsl"),
		kind("memory", "a file system in the memory of its machine: tmpfs or ramfs", MemorySpec{Type: "tmpfs"}, prepareMemory),
		kind("own", "the storage inside the image of a guest without a shell; iotax makes nothing", OwnSpec{}, prepareOwn, "qemu"),
		kind("nbd", "a disk image that one machine exports over NBD to another or to itself, or an existing export", nbdDefaults, prepareNBD),
		kind("network", "the network between two machines, for iperf3", NetworkSpec{}, prepareNetwork),
		kind("group", "several targets on which fio works at the same time", GroupSpec{}, prepareGathered[GroupSpec], plan.Host),
		kind("neighbours", "a target that is measured while fio does other work on other targets", NeighbourSpec{}, prepareGathered[NeighbourSpec], plan.Host),
		kind("bucket", "a bucket of an existing S3 store, or of one started on a machine for the run", BucketSpec{Server: DefaultStore, Region: "us-east-1", Style: "auto"}, prepareBucket),
	}
}

// kind returns a kind of volume whose spec has type S. The volume works on the kinds of machines in `on`, or on all if
// `on` is empty. Each spec starts as a copy of defaults.
func kind[S any, P interface {
	*S
	plan.Spec
}](name, doc string, defaults S, prepare func(context.Context, *S, Env) (iotax.Volume, error), on ...string) Kind {
	return Kind{
		Kind: plan.Kind{Name: name, Doc: doc, On: on, New: func() plan.Spec { s := defaults; return P(&s) }},
		Prepare: func(ctx context.Context, spec plan.Spec, e Env) (iotax.Volume, error) {
			s, ok := spec.(P)
			if !ok {
				return nil, &iotax.Error{Op: "prepare", On: name, Err: fmt.Errorf("the spec is a %T", spec)}
			}
			return prepare(ctx, s, e)
		},
	}
}

// PlanKinds returns the part of Kinds that package plan needs.
func PlanKinds() []plan.Kind {
	var ks []plan.Kind
	for _, k := range Kinds() {
		ks = append(ks, k.Kind)
	}
	return ks
}

// Env is the environment of a volume.
type Env struct {
	Server iotax.Machine   // machine that serves the spec (plan.Traits.Served); nil for other specs
	Peers  []iotax.Machine // machines of plan.Served.Peers
	Host   iotax.Machine   // this host, which serves the volume
	Of     iotax.Place     // place on Host of the target in the spec's key `of:`
	ID     string          // [a-z0-9-]{1,12}, unique in the run; used in the names of files, serials and mount tags
	Need   int64           // bytes that the workloads write; 0 if unknown

	Files []iotax.File // files that the workloads read, if known

	Destroy []string                         // block devices on the target's machine that --destroy names
	Note    func(format string, args ...any) // prints a message for the user; may be nil

	WorkDir string // directory of the run on Host for configuration and logs of servers; "" means the directory of Of

	here bool // the target's machine is this host
}

var goodID = regexp.MustCompile(`^[a-z0-9-]{1,12}$`)

// Prepare performs the steps for t's volume that must precede the start of t's machine.
func Prepare(ctx context.Context, t plan.Target, e Env) (iotax.Volume, error) {
	if !goodID.MatchString(e.ID) {
		return nil, &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("id %q is not 1 to 12 of a-z, 0-9 and -", e.ID)}
	}
	var names []string
	for _, k := range Kinds() {
		if k.Name != t.Kind {
			names = append(names, k.Name)
			continue
		}
		if err := t.Spec.Validate(); err != nil {
			return nil, &iotax.Error{Op: "prepare", On: t.Name, Err: err} // err contains its hint
		}
		e.here = t.On == plan.Host
		v, err := k.Prepare(ctx, t.Spec, e)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	sort.Strings(names)
	return nil, &iotax.Error{Op: "prepare", On: t.Name, Err: fmt.Errorf("no kind of volume is called %q", t.Kind),
		Hint: "use one of " + strings.Join(names, ", ")}
}

// oneOf returns an error unless the value is allowed. It checks a field whose valid values depend on another field.
func oneOf(field, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return &plan.FieldError{Field: field, Msg: fmt.Sprintf("%q is not known", value), Hint: "use one of " + strings.Join(allowed, ", ")}
}
