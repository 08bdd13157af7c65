package qemu

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func setAttr(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// tree returns pid and its descendants.
func tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all) && i < 1000; i++ {
		tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(all[i]) + "/task")
		for _, t := range tasks {
			b, _ := os.ReadFile("/proc/" + strconv.Itoa(all[i]) + "/task/" + t.Name() + "/children")
			for _, f := range strings.Fields(string(b)) {
				if c, err := strconv.Atoi(f); err == nil {
					all = append(all, c)
				}
			}
		}
	}
	return all
}
