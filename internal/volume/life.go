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

func (l *life) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Processes: l.processes, Findings: l.findings}
}

func (l *life) processes() map[string][]int { return l.server.processes() }

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
	d := &dir{want: point, need: l.env.Need}
	l.attached.push(d.Detach)
	return d.Attach(ctx, m)
}
