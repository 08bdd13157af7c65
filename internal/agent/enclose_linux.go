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
func enclosed(root, place string) (_ int, err error) {
	root = filepath.Join("/", root)
	var mounts []mount
	// bind plans a bind mount of a path at the same path in the container. It opens the path now, because later the
	// path may be outside of the container's root or hidden by an earlier mount.
	bind := func(path string) {
		fd, ferr := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if ferr != nil {
			err = errors.Join(err, &os.PathError{Op: "open", Path: path, Err: ferr})
		}
		mounts = append(mounts, mount{fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND | unix.MS_REC})
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make mounts private: %w", err)
	}
	mounts = append(mounts, mount{"proc", "/proc", "proc", 0}) // before the bind mounts, which use /proc/self/fd
	if root != "/" {
		bind("/dev")
		bind("/sys")
	}
	mounts = append(mounts, mount{"tmpfs", "/tmp", "tmpfs", 0})
	if st, err := os.Stat(place); err == nil && st.IsDir() {
		bind(place)
	}
	if err != nil {
		return 0, err
	}
	if root != "/" {
		if err := unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return 0, fmt.Errorf("mount %s: %w", root, err)
		}
	}
	// Change the root before the mounts, so that links in root do not lead out of it.
	if err := errors.Join(unix.Chroot(root), os.Chdir("/")); err != nil {
		return 0, fmt.Errorf("change the root to %s: %w", root, err)
	}
	for _, m := range mounts {
		if m.to == place {
			made, merr := makeDir(place)
			defer func() { err = errors.Join(err, removeMount(place, made)) }()
			if merr != nil {
				return 0, merr
			}
		} else if _, err := os.Stat(m.to); err != nil { // iotax does not create the directory: containers may share root, so none of them could remove it
			return 0, fmt.Errorf("the container's root %s needs a directory %s: %w", root, m.to, err)
		}
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return 0, fmt.Errorf("mount %s at %s: %w", m.from, m.to, err)
		}
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

// makeDir creates the directory path and its parents. It returns the directories that it created, the deepest first.
func makeDir(path string) (made []string, err error) {
	for d := path; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil {
			return made, os.MkdirAll(path, 0o755)
		}
		made = append(made, d)
	}
}

// removeMount unmounts path and removes the directories that makeDir created, except those that are not empty.
func removeMount(path string, made []string) error {
	_ = unix.Unmount(path, unix.MNT_DETACH)
	for _, d := range made {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
			return &os.PathError{Op: "remove", Path: d, Err: err}
		}
	}
	return nil
}
