//go:build unix

package host

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"iotax/internal/machine/internal/proc"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// A group represents the processes of one command: its process group and, on Linux and macOS, other processes that
// `alive` finds.
type group struct {
	id   int
	tag  string
	seen map[int]bool
}

func newGroup(cmd *exec.Cmd, tag string) *group {
	return &group{id: cmd.Process.Pid, tag: tag, seen: map[int]bool{}}
}

func (g *group) release() {}

// end sends SIGTERM to the processes, kills those that do not exit within proc.Grace, and waits. It returns a
// description of the processes that it could not kill.
func (g *group) end() string {
	start := time.Now()
	alive := g.alive()
	unix.Kill(-g.id, unix.SIGTERM)
	for _, p := range alive {
		if pg, err := unix.Getpgid(p); err == nil && pg != g.id {
			unix.Kill(p, unix.SIGTERM)
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
		alive = g.alive()
		age := time.Since(start)
		switch {
		case len(alive) == 0:
			return ""
		case age > proc.Grace+proc.Patience:
			return describe(alive)
		case age > proc.Grace:
			// Kill in every iteration, because a process may have forked since the last one.
			for _, p := range alive {
				unix.Kill(p, unix.SIGKILL)
			}
		}
	}
}

func signalled(st *os.ProcessState) (int, string) {
	if w, ok := st.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal()), strings.TrimPrefix(unix.SignalName(w.Signal()), "SIG")
	}
	return 0, ""
}

func notExecutable(err error) bool {
	return errors.Is(err, unix.ENOEXEC) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.E2BIG)
}
