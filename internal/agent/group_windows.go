package agent

import "syscall"

// ownGroup returns the attributes that start a program in its own process group, so that Ctrl-C does not end it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
