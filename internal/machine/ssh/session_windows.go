package ssh

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// ownSession starts ssh in its own process group, so that Ctrl-C does not reach it.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminalPath returns the user's console, or "".
func terminalPath() string {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return ""
	}
	return windowsInput
}
