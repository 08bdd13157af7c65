package volume

import (
	"context"
	"errors"
	"io/fs"

	"iotax"
)

// A life contains the state that most volumes have in common.
type life struct {
	env      Env
	attached undo // undo steps that Detach runs
	made     undo // undo steps that Close runs, after those of Detach
	found    []iotax.Finding
	server   *server // nil without a server
	serves   string  // the server's name in the finding about its end; "" disables this finding
}

// Caps leaves Processes nil if the volume has no server, because iotax calls a Processes function often.
func (l *life) Caps() iotax.VolumeCaps {
	c := iotax.VolumeCaps{Findings: l.findings}
	if l.server != nil {
		c.Processes = l.server.processes
	}
	return c
}

func (l *life) findings() []iotax.Finding {
	if l.serves == "" {
		return l.found
	}
	return append(l.found[:len(l.found):len(l.found)], l.server.death(l.serves)...)
}

func (l *life) Detach(ctx context.Context) error { return l.attached.run(ctx) }

func (l *life) Close(ctx context.Context) error {
	return errors.Join(l.attached.run(ctx), l.made.run(ctx))
}

// ownDir calls makeDir on m, and pushes the removal of o even if makeDir fails, because the answer may have been lost.
func (l *life) ownDir(ctx context.Context, m iotax.Machine, o ownDir) (id string, err error) {
	create, remove := makeDir.On, removeDir.On
	if o.Root {
		create, remove = makeDir.AsRoot, removeDir.AsRoot
	}
	made := false
	l.attached.push(func(ctx context.Context) error {
		_, err := on(ctx, slow, remove, m, o)
		if !made && errors.Is(err, fs.ErrPermission) {
			return nil // makeDir could not open the parent, either
		}
		return left("remove", o.Path, m, err)
	})
	id, err = on(ctx, quick, create, m, o)
	made = err == nil
	return id, err
}

// dirOn makes a directory for the workloads' files inside the directory `point` of m.
func (l *life) dirOn(ctx context.Context, m iotax.Machine, point string) (iotax.Place, error) {
	return l.dirIn(ctx, m, &dir{want: point, need: l.env.Need})
}

// dirIn makes the directory of d on m, and pushes its removal.
func (l *life) dirIn(ctx context.Context, m iotax.Machine, d *dir) (iotax.Place, error) {
	l.attached.push(func(ctx context.Context) error {
		if l.server != nil && !l.server.alive() {
			return nil // Close removes the served directory on the host
		}
		return d.Detach(ctx)
	})
	return d.Attach(ctx, m)
}
