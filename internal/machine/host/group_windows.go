package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"iotax/internal/machine/internal/proc"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// A group is the job object of a command and its descendants.
type group struct {
	cmd *exec.Cmd
	job windows.Handle
}

// newGroup puts the command into a job object. If Windows refuses, `end` terminates only the command itself.
func newGroup(cmd *exec.Cmd, _ string) *group {
	g := &group{cmd: cmd}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return g
	}
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, h)
		windows.CloseHandle(h)
	}
	if err != nil {
		windows.CloseHandle(job)
		return g
	}
	g.job = job
	return g
}

func (g *group) release() {
	if g.job != 0 {
		windows.CloseHandle(g.job)
	}
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	user, kernel, periodUser, periodKernel   int64
	faults, total, active, terminatedByLimit uint32
}

func (g *group) active() int {
	if g.job == 0 {
		return 0
	}
	var a accounting
	const basicAccounting = 1
	if windows.QueryInformationJobObject(g.job, basicAccounting, uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil) != nil {
		return 0
	}
	return int(a.active)
}

func (g *group) end() string {
	windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.cmd.Process.Pid))
	start := time.Now()
	for {
		time.Sleep(20 * time.Millisecond)
		n, age := g.active(), time.Since(start)
		switch {
		case g.job == 0 && age > proc.Grace:
			g.cmd.Process.Kill()
			return ""
		case g.job != 0 && n == 0:
			return ""
		case age > proc.Grace+proc.Patience:
			return fmt.Sprintf("%d processes of job %d", n, g.cmd.Process.Pid)
		case age > proc.Grace:
			windows.TerminateJobObject(g.job, 1)
		}
	}
}

func signalled(*os.ProcessState) (int, string) { return 0, "" }

func notExecutable(err error) bool { return errors.Is(err, windows.ERROR_BAD_EXE_FORMAT) }
