package volume

import (
	"context"
	"errors"
	"maps"

	"iotax"
	"iotax/internal/plan"
)

// MountSpec is `mount: {…}`: a mount that a container gets when it is created.
type MountSpec struct {
	Type     string `yaml:"type" doc:"bind: a directory of the engine's host; volume: a directory made by the engine (emptyDir in a pod); tmpfs: memory" enum:"bind,volume,tmpfs"`
	OfTarget string `yaml:"of" doc:"bind only: target of the host that holds the directory; empty means the baseline"`
}

// SetScalar sets only the type, as in `mount: tmpfs`.
func (s *MountSpec) SetScalar(v string) error { s.Type = v; return nil }

func (s *MountSpec) Traits() (can plan.Traits) {
	if s.Type == "bind" {
		can.Of = &s.OfTarget
	}
	return can
}

// Validate returns an error if a type other than bind has `of:`.
func (s *MountSpec) Validate() error {
	if s.OfTarget != "" && s.Type != "bind" {
		return &plan.FieldError{Field: "of", Msg: "is for type bind", Hint: "leave it out"}
	}
	return nil
}

type mount struct {
	life
	spec MountSpec
	tag  string
	path string // host directory of a bind mount; "" for other types
}

// prepareMount makes the directory of a bind mount. The container engine makes mounts of the other types.
func prepareMount(ctx context.Context, sp *MountSpec, e Env) (_ iotax.Volume, err error) {
	m := &mount{life: life{env: e}, spec: *sp, tag: "iotax-" + e.ID}
	if sp.Type != "bind" {
		return m, nil
	}
	dir, err := serveFrom("make bind mount", e, sp.OfTarget)
	if err != nil {
		return nil, err
	}
	m.path = dir + "/bind-" + e.ID
	// Mode 0777, because the container's user may have another uid. The parent directory is private.
	if err := newHostDir(&m.made, "make bind mount", m.path, 0o777); err != nil {
		return nil, errors.Join(err, m.made.run(ctx))
	}
	return m, nil
}

func (m *mount) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Devices: []iotax.Device{{ID: m.tag, Share: &iotax.Share{Path: m.path, Type: m.spec.Type}}}}
}

// Attach makes a directory inside the container's mount.
func (m *mount) Attach(ctx context.Context, box iotax.Machine) (iotax.Place, error) {
	p, err := m.dirOn(ctx, box, "/mnt/"+m.tag)
	if err != nil {
		return iotax.Place{}, err
	}
	facts := map[string]string{"mount.type": m.spec.Type}
	if m.spec.Type == "bind" {
		facts["of"] = m.spec.OfTarget
		p.Backing = m.path
		p.Durability = iotax.Weakest(p.Durability, m.env.Of.Durability)
	}
	maps.Copy(p.Facts, facts)
	return p, nil
}
