package ssh

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// ownSession starts ssh without the Ctrl-C of iotax.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminalPath is the user's console, or "".
func terminalPath() string {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return ""
	}
	return windowsInput
}
