package volume

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guard"
)

// deviceName names a block device as its owner would recognise it.
func deviceName(f *guard.Facts) string {
	s := f.Path + ", " + bytesText(f.Size)
	if f.Model != "" {
		s += ", " + f.Model
	}
	if f.Serial != "" {
		return s + ", serial " + f.Serial
	}
	return s + ", without a serial number"
}

// refusal is why the device must not be written, or nil.
func refusal(f *guard.Facts) error {
	v := f.Judge()
	all := v.Reasons()
	if len(all) == 0 {
		return nil
	}
	e := &iotax.Error{Op: "overwrite block device", On: f.Path, Err: errors.New(strings.Join(all, "; "))}
	if v.Used() {
		e.Hint = "name a device that nothing uses; iotax takes nothing out of use"
		return e
	}
	var erase []string
	if len(v.OnIt) > 0 {
		erase = append(erase, "wipefs --all "+iotax.Quote(f.Path))
	}
	if len(v.Traces) > 0 {
		erase = append(erase, guard.Erase(f.Path, v.Traces))
	}
	e.Hint = "name an empty device; if nothing on this one is needed, remove the signatures yourself: " + strings.Join(erase, "; ")
	return e
}

// inspect collects the facts of a device of m as root.
func inspect(ctx context.Context, m iotax.Machine, q guard.Query) (*guard.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	f, err := guard.Inspect.On(ctx, m, q)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	program, perr := agent.Program(ctx, m)
	if perr != nil {
		return nil, errors.Join(err, perr)
	}
	as := &sudo{Machine: m, Link: agent.Link{Program: program}}
	defer as.Hangup(context.WithoutCancel(ctx))
	if _, serr := as.Session(ctx, as); serr != nil { // sudo is not installed, or asks for a password
		return nil, err
	}
	return guard.Inspect.On(ctx, as, q)
}

// sudo is a machine whose agent runs as root, where sudo asks for no password for sh.
type sudo struct {
	iotax.Machine
	agent.Link
}

// Caps are those of the machine, as root sees it by the session of s.
func (s *sudo) Caps() iotax.MachineCaps {
	c := s.Machine.Caps()
	c.Local, c.Agent = false, &s.Link
	return c
}

func (s *sudo) Run(ctx context.Context, c *iotax.Cmd) error {
	as := *c
	as.Args = append([]string{"sudo", "-n", "sh", "-c", `exec "$@"`, "sh"}, c.Args...)
	return s.Machine.Run(ctx, &as)
}
