// Package proctable lists and ends processes on any operating system.
package proctable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/process"
)

// ErrGone reports that a process has ended.
var ErrGone = errors.New("it has ended")

// Start returns the start time of the process pid in milliseconds since 1970. On macOS and Windows, setting the clock
// does not change the value. The error is ErrGone if the process has ended, even if it is still a zombie. Any other
// error means that the start time is unknown.
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
	if state, err := p.StatusWithContext(ctx); err == nil && slices.Contains(state, process.Zombie) { // Windows has no zombies and reports no state
		return 0, ErrGone
	}
	if began <= 0 {
		return 0, fmt.Errorf("the system does not report when process %d started", pid)
	}
	return uint64(began), nil
}

// Tree returns pid and its descendants, as far as /proc shows them. It searches at most 1000 processes for children.
func Tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all) && i < 1000; i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for _, w := range strings.Fields(string(b)) {
				if c, err := strconv.Atoi(w); err == nil && !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// Machine returns the id of this installation of the operating system, or "" if it has no id.
func Machine() string {
	id, err := host.HostID()
	if err != nil {
		return ""
	}
	return id
}

// A Process is a process whose environment could be read.
type Process struct {
	PID     int
	Command string            // its command line
	Env     map[string]string // the requested variables
}

// With lists the processes that have all the variables in names, except this process. It skips processes whose
// environment this user cannot read.
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
		command, _ := p.CmdlineWithContext(ctx) // only for display
		found = append(found, Process{PID: int(pid), Command: command, Env: has})
	}
	return found, ctx.Err()
}

const (
	pause    = 100 * time.Millisecond
	grace    = 20  // pauses before the process is killed; on Windows, Terminate already kills it
	patience = 120 // pauses before End gives up
)

// Command returns the command line of a process and the id of its user. A command line that cannot be read is "", and an
// id that cannot be read is -1.
func Command(ctx context.Context, pid int) (line string, owner int) {
	p := &process.Process{Pid: int32(pid)}
	line, _ = p.CmdlineWithContext(ctx)
	if ids, err := p.UidsWithContext(ctx); err == nil && len(ids) > 0 {
		return line, int(ids[min(1, len(ids)-1)]) // on Linux, the second is the effective id
	}
	return line, -1
}

// End terminates the process pid, as long as `began` returns `start`, the start time of that process. It returns nil
// when the process has ended. It returns an error if the process still runs after about 12 seconds, if iotax may not
// end it, if `began` fails, or if ctx is done.
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
