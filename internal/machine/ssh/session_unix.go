//go:build unix

package ssh

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/term"
)

// ownSession returns the attributes that start ssh in its own session, without iotax's controlling terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// terminalPath returns the path of the user's terminal, or "".
func terminalPath() string {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return ""
	}
	st, err := os.Stdin.Stat()
	if err != nil {
		return ""
	}
	for _, pattern := range []string{"/dev/pts/*", "/dev/tty*", "/dev/console"} {
		paths, _ := filepath.Glob(pattern) // the pattern is valid
		for _, p := range paths {
			if other, err := os.Stat(p); err == nil && os.SameFile(st, other) && p != "/dev/tty" {
				return p
			}
		}
	}
	return ""
}
