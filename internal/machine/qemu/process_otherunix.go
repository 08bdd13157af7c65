//go:build unix && !linux

package qemu

import (
	"os/exec"
	"syscall"
)

func setAttr(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
