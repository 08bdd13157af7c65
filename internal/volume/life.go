package volume

import (
	"context"
	"errors"

	"iotax"
)

// A life is what volumes have in common.
type life struct {
	env      Env
	attached undo // what Detach takes back
	made     undo // what Close takes back
	found    []iotax.Finding
	server   *server // nil without one
	serves   string  // what the server is, in findings; "" where its end is seen otherwise
}

// Caps names no processes where none serve: those of a target are looked at ten times a second.
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

// dirOn makes a directory on what is mounted on a point of m.
func (l *life) dirOn(ctx context.Context, m iotax.Machine, point string) (iotax.Place, error) {
	return l.dirIn(ctx, m, &dir{want: point, need: l.env.Need})
}

// dirIn makes the directory of d on m.
func (l *life) dirIn(ctx context.Context, m iotax.Machine, d *dir) (iotax.Place, error) {
	l.attached.push(func(ctx context.Context) error {
		if l.server != nil && !l.server.alive() {
			return nil // what is in it goes with the directory that was served
		}
		return d.Detach(ctx)
	})
	return d.Attach(ctx, m)
}
