package volume

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"iotax"
	"iotax/internal/plan"
)

// MemorySpec is `memory: {…}`: a file system in the memory of its machine.
type MemorySpec struct {
	Type string    `yaml:"type" doc:"tmpfs (pages that may be swapped) or ramfs (the page cache alone)" enum:"tmpfs,ramfs"`
	Size plan.Size `yaml:"size" doc:"tmpfs only: its size; 0 fits the data of the workloads"`
}

// SetScalar sets only the type, as in `memory: ramfs`.
func (s *MemorySpec) SetScalar(v string) error { s.Type = v; return nil }

func (s *MemorySpec) Traits() plan.Traits { return plan.Traits{} }

// Validate returns an error for a negative size, and for a size of a ramfs, which has no limit.
func (s *MemorySpec) Validate() error {
	if s.Type == "ramfs" && s.Size != 0 {
		return &plan.FieldError{Field: "size", Msg: "a ramfs has no limit", Hint: "leave it out, or use type: tmpfs"}
	}
	if s.Size < 0 {
		return &plan.FieldError{Field: "size", Msg: "is negative", Hint: "as in 1GiB"}
	}
	return nil
}

type memory struct {
	life
	spec MemorySpec
}

func prepareMemory(_ context.Context, s *MemorySpec, e Env) (iotax.Volume, error) {
	return &memory{life{env: e}, *s}, nil
}

// Attach mounts the file system. It must fit into free memory, because a ramfs is never swapped, and a guest may have
// no swap.
func (v *memory) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	fail := func(err error, hint string) (iotax.Place, error) {
		return iotax.Place{}, &iotax.Error{Op: "mount " + v.spec.Type, On: m.String(), Err: err, Hint: hint}
	}
	size := int64(v.spec.Size)
	if size == 0 {
		size = v.env.Need + v.env.Need/8 + 32<<20 // space for the reserve of dir, and for file names
	}
	free, err := on(ctx, quick, freeMemory.On, m, none{})
	if err != nil {
		return fail(err, "")
	}
	if size > free-free/10 {
		return fail(fmt.Errorf("not enough memory: it needs %s, %s are free, and a tenth of that stays unused", bytesText(size), bytesText(free)),
			"a smaller --size, or a machine with more memory, as in {qemu: {memory: 4GiB}}")
	}
	point, source, err := v.mountPoint(ctx, m)
	if err != nil {
		return iotax.Place{}, err
	}
	options := "mode=0700"
	if v.spec.Type == "tmpfs" {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	if err := v.mount(ctx, m, mounting{Type: v.spec.Type, Source: source, Point: point, Options: options}); err != nil {
		return iotax.Place{}, err
	}
	p, err := v.dirOn(ctx, m, point)
	if err != nil {
		var x *iotax.Error
		if errors.As(err, &x) && v.spec.Size != 0 {
			x.Hint = "leave size out, or give at least " + bytesText(v.env.Need+v.env.Need/8+32<<20)
		}
		return iotax.Place{}, err
	}
	p.Durability = iotax.Volatile
	return p, nil
}
