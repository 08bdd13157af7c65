package agent

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock returns the version of Landlock that the kernel offers, or 0.
func landlock() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// readable lists what a confined program may read besides its own file and directory: system programs, because it may be
// a script, libraries, and what libc needs to load them and to look up users.
var readable = []string{"/bin", "/lib", "/lib64", "/usr", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime"}

// Rights of Landlock. A rule for a file accepts only the rights of files.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

// confine replaces this process with the program args in dir. The program can read and change files below dir.
func confine(dir string, args []string) error {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // namespaces and Landlock apply to the calling thread, which then becomes the program
	if err := readOnlyExcept(dir); err != nil {
		return err
	}
	all := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	for i, added := range []uint64{unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE, 0, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV} {
		if landlock() >= i+2 {
			all |= added
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	allow := func(path string, rights uint64) error {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return &os.PathError{Op: "stat", Path: path, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= fileRights
		}
		beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
		if errno != 0 {
			return &os.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
		}
		return nil
	}
	err = errors.Join(allow(dir, all), allow(program, readRights), allow(os.DevNull, fileRights))
	for _, path := range readable {
		err = errors.Join(err, allow(path, readRights))
	}
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return &os.PathError{Op: "exec", Path: program, Err: unix.Exec(program, args, os.Environ())}
}

// readOnlyExcept makes all mounts read-only for this thread, except dir, and makes dir the working directory. Landlock
// does not restrict changes of modes, owners and times, which root could make everywhere. Other users may not change
// mounts: for them, readOnlyExcept only changes the working directory.
func readOnlyExcept(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		return os.Chdir(dir)
	} else if err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// A slave mount follows an unmount in the original namespace, so that the program does not keep the unmounted device
	// in use.
	return os.NewSyscallError("change mounts", errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""),
		unix.Mount(dir, dir, "", unix.MS_BIND, ""),
		unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}),
		unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}),
		unix.Chdir(dir)))
}
