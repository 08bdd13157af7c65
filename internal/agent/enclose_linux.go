package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// enclose runs a session in new namespaces and returns its exit status. The session ends with this process, even if
// this process is killed.
func enclose(root, place string) (int, error) {
	runtime.LockOSThread() // a child with Pdeathsig ends with the thread that started it
	c := exec.Command("/proc/self/exe", "agent", "enclosed", root, place)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// enclosed is the first process in the namespaces. It mounts the file systems that the session needs, starts the
// session, and reaps orphans until the session ends.
func enclosed(root, place string) (int, error) {
	root = filepath.Join("/", root)
	at := func(path string) string { return filepath.Join(root, path) }
	var mounts []mount
	var opened error
	// bind plans a bind mount of `from` at the path `to` in the container. It opens `from` now, because earlier mounts
	// may hide it.
	bind := func(from, to string) {
		fd, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			opened = errors.Join(opened, &os.PathError{Op: "open", Path: from, Err: err})
		}
		mounts = append(mounts, mount{fmt.Sprintf("/proc/self/fd/%d", fd), at(to), "", unix.MS_BIND | unix.MS_REC})
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make mounts private: %w", err)
	}
	if root != "/" {
		bind(root, "/")
		bind("/dev", "/dev")
		bind("/sys", "/sys")
	}
	mounts = append(mounts, mount{"tmpfs", at("/tmp"), "tmpfs", 0})
	if st, err := os.Stat(place); err == nil && st.IsDir() {
		bind(place, place)
	}
	// Mount proc last: the bind mounts use /proc/self/fd of the proc that is mounted now.
	mounts = append(mounts, mount{"proc", at("/proc"), "proc", 0})
	if opened != nil {
		return 0, opened
	}
	for _, m := range mounts {
		if err := errors.Join(os.MkdirAll(m.to, 0o755), unix.Mount(m.from, m.to, m.kind, m.flags, "")); err != nil {
			return 0, fmt.Errorf("mount %s at %s: %w", m.from, m.to, err)
		}
	}
	if err := errors.Join(unix.Chroot(root), os.Chdir("/")); err != nil {
		return 0, fmt.Errorf("change the root to %s: %w", root, err)
	}
	session, err := syscall.ForkExec(EnclosedProgram, append([]string{EnclosedProgram}, strings.Fields(Command)...),
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", EnclosedProgram, err)
	}
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case pid == session && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == session:
			return status.ExitStatus(), nil
		}
	}
}

type mount struct {
	from, to, kind string
	flags          uintptr
}
