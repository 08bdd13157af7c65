// Package proctable lists processes of any system, and ends them.
package proctable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/process"
)

// ErrGone is the error of a process that has ended.
var ErrGone = errors.New("it has ended")

// Start returns when the process pid began, in milliseconds since 1970 by the clock of that time: it stays what it is when the
// clock is set, and tells processes of one id apart also across boots. The error is ErrGone where the process has ended, though
// nobody may have waited for it yet; any other means that the system does not tell.
func Start(ctx context.Context, pid int) (ms uint64, err error) {
	p, err := process.NewProcessWithContext(ctx, int32(pid))
	if errors.Is(err, process.ErrorProcessNotRunning) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, err
	}
	began, err := p.CreateTimeWithContext(ctx)
	if err != nil {
		if there, terr := process.PidExistsWithContext(ctx, p.Pid); terr == nil && !there {
			return 0, ErrGone
		}
		return 0, err
	}
	if state, err := p.StatusWithContext(ctx); err == nil && slices.Contains(state, process.Zombie) { // Windows has none and no state
		return 0, ErrGone
	}
	if began <= 0 {
		return 0, fmt.Errorf("the system does not tell when process %d began", pid)
	}
	return uint64(began), nil
}

// Machine is the id of this installation, "" where there is none.
func Machine() string {
	id, err := host.HostID()
	if err != nil {
		return ""
	}
	return id
}

// A Process is one whose environment could be read.
type Process struct {
	PID     int
	Command string            // its command line
	Env     map[string]string // those variables that were asked for
}

// With lists the processes that have all variables names, but for this one. Processes whose environment the system does
// not show to this user are passed over.
func With(ctx context.Context, names ...string) (found []Process, err error) {
	all, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		p := &process.Process{Pid: pid}
		if int(pid) == os.Getpid() {
			continue
		}
		env, err := p.EnvironWithContext(ctx)
		if err != nil {
			continue
		}
		has := map[string]string{}
		for _, e := range env {
			if name, value, ok := strings.Cut(e, "="); ok && slices.Contains(names, name) {
				has[name] = value
			}
		}
		if len(has) < len(names) {
			continue
		}
		command, _ := p.CmdlineWithContext(ctx) // for people only
		found = append(found, Process{PID: int(pid), Command: command, Env: has})
	}
	return found, ctx.Err()
}

const (
	pause    = 100 * time.Millisecond
	grace    = 20  // pauses from asking to killing; Windows asks nothing, and kills
	patience = 120 // pauses until it is given up
)

// Command returns the command line of a process, and the id of its user, -1 where the system has none. They are empty and -1 if it has ended.
func Command(ctx context.Context, pid int) (line string, owner int) {
	p := &process.Process{Pid: int32(pid)}
	line, _ = p.CmdlineWithContext(ctx)
	if ids, err := p.UidsWithContext(ctx); err == nil && len(ids) > 0 {
		return line, int(ids[min(1, len(ids)-1)]) // Linux: the effective one is the second
	}
	return line, -1
}

// End ends the process pid if it is still the one that began at start, as began returns it, and returns once it is gone.
func End(ctx context.Context, pid int, start uint64, began func(pid int) (uint64, error)) error {
	for n := range patience {
		now, err := began(pid)
		switch {
		case errors.Is(err, ErrGone) || errors.Is(err, os.ErrNotExist) || err == nil && now != start:
			return nil
		case err != nil:
			return err
		}
		p, refused := &process.Process{Pid: int32(pid)}, error(nil)
		if n == 0 {
			refused = p.TerminateWithContext(ctx)
		} else if n >= grace {
			refused = p.KillWithContext(ctx)
		}
		if errors.Is(refused, os.ErrPermission) {
			return refused
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return fmt.Errorf("process %d is still alive", pid)
}
