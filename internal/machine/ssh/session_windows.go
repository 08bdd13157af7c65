package ssh

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// ownSession returns the attributes that start ssh in its own process group, so that Ctrl-C does not reach it.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminalPath returns the path of the user's console, or "".
func terminalPath() string {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return ""
	}
	return windowsInput
}
