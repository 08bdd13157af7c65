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

// A group is the processes of one command: those of its process group, and those elsewhere that
// carry its tag in their environment or descend from one of it, as far as the system shows.
type group struct {
	id   int
	tag  string
	seen map[int]bool
}

func newGroup(cmd *exec.Cmd, tag string) *group {
	return &group{id: cmd.Process.Pid, tag: tag, seen: map[int]bool{}}
}

func (g *group) release() {}

// end asks the processes to end, kills those that do not, and returns once they are gone. What it
// returns describes the ones that could not be killed.
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
			// Each time anew: one of them may have forked since.
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
