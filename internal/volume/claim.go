package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// ClaimSpec is `claim: CLASS`: storage that the pod's cluster provides.
type ClaimSpec struct {
	Class string    `yaml:"class" doc:"storage class; empty means the cluster's default"`
	Size  plan.Size `yaml:"size" doc:"requested size; 0 fits the data of the workloads, and is at least 1 GiB"`
	NFS   string    `yaml:"nfs" doc:"SERVER:/PATH of an NFS export that the node mounts for the pod, instead of a claim"`
	Name  string    `yaml:"name" doc:"existing claim in the pod's namespace; iotax works only in a new iotax-… directory there, and does not remove the claim"`
	Mode  string    `yaml:"mode" doc:"filesystem, or block for a raw device, which is only read unless run --destroy names it (MACHINE:DEVICE)" enum:"filesystem,block"`
	Path  string    `yaml:"device" doc:"mode block only: path of the device in the pod; empty means /dev/claim- and the class, or the name of an existing claim"`
}

// SetScalar sets only the class, as in `claim: fast`.
func (s *ClaimSpec) SetScalar(v string) error { s.Class = v; return nil }

var className = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

var exportName = regexp.MustCompile(`^([^\s:/,]+|\[[0-9a-fA-F:]+\]):/\S*$`)

func (s *ClaimSpec) Traits() plan.Traits {
	return plan.Traits{Device: s.Device(), Elsewhere: s.elsewhere()}
}

// Validate returns an error for invalid values, and for keys that cannot be combined.
func (s *ClaimSpec) Validate() error {
	bad := func(field, msg, hint string) error { return &plan.FieldError{Field: field, Msg: msg, Hint: hint} }
	switch {
	case s.Class != "" && (len(s.Class) > 253 || !className.MatchString(s.Class)):
		return bad("class", fmt.Sprintf("%q is not a name of a storage class", s.Class), "kubectl get storageclass lists them")
	case s.NFS != "" && !exportName.MatchString(s.NFS):
		return bad("nfs", fmt.Sprintf("%q is not SERVER:/PATH", s.NFS), "as in 10.0.0.5:/srv/bench")
	case s.NFS != "" && (s.Class != "" || s.Size != 0 || s.Mode != "filesystem"):
		return bad("nfs", "is an export that exists: it has neither class nor size, and is a file system", "leave the others out, or leave nfs: out")
	case s.Name != "" && (len(s.Name) > 253 || !className.MatchString(s.Name)):
		return bad("name", fmt.Sprintf("%q is not a name of a claim", s.Name), "kubectl get pvc lists them")
	case s.Name != "" && (s.Class != "" || s.Size != 0 || s.NFS != ""):
		return bad("name", "is a claim that exists: it has a class and a size", "leave class, size and nfs out")
	case s.Size < 0:
		return bad("size", "is negative", "as in 10GiB")
	case s.Path != "" && s.Mode != "block":
		return bad("device", "is for mode block", "leave it out, or write mode: block")
	case s.Path != "" && !strings.HasPrefix(s.Path, "/dev/"):
		return bad("device", fmt.Sprintf("%q is not below /dev", s.Path), "as in /dev/bench")
	}
	return nil
}

// Device returns the path of the raw device, or "" for a file system.
func (s *ClaimSpec) Device() string {
	switch {
	case s.Mode != "block":
		return ""
	case s.Path != "":
		return s.Path
	}
	return strings.TrimSuffix("/dev/claim-"+cmp.Or(s.Class, s.Name), "-")
}

// leastClaim is the minimum of the size that iotax chooses for a claim, in bytes. Some provisioners refuse smaller
// claims.
const leastClaim = 1 << 30

func prepareClaim(_ context.Context, s *ClaimSpec, e Env) (iotax.Volume, error) {
	size := int64(s.Size)
	if size == 0 { // the file system's metadata and the space reserve of dir also need space
		size = max(e.Need+e.Need/4, leastClaim)
	}
	return &claim{life: life{env: e}, spec: *s, tag: "iotax-" + e.ID, size: size}, nil
}

type claim struct {
	life
	spec ClaimSpec
	tag  string
	size int64
}

func (c *claim) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Devices: []iotax.Device{{ID: c.tag, Claim: &iotax.Claim{Class: c.spec.Class, Size: c.size, Device: c.spec.Device(), NFS: c.spec.NFS, Name: c.spec.Name}}}}
}

// Attach makes a directory on the file system that is mounted in the pod, or checks the raw device as for a `device:`
// target.
func (c *claim) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	// An existing claim may contain another user's files. The directory where the claim is mounted gets the same checks
	// as a `dir:` target with `network: true`.
	var inner iotax.Volume = &dir{want: "/mnt/" + c.tag, need: c.env.Need, users: c.spec.Name != "", network: true}
	if path := c.spec.Device(); path != "" {
		inner = &device{path: path, destroy: slices.Contains(c.env.Destroy, path), note: c.env.Note}
	}
	c.attached.push(inner.Detach)
	p, err := inner.Attach(ctx, m)
	if err != nil {
		return iotax.Place{}, err
	}
	p.Facts["claim.mode"] = c.spec.Mode
	maps.Copy(p.Facts, m.Caps().VolumeFacts[c.tag])
	return p, nil
}
