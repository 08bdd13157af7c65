//go:build unix

package doctor

import "golang.org/x/sys/unix"

func openFilesLimit() (soft, hard uint64, ok bool)    { return limit(unix.RLIMIT_NOFILE) }
func lockedMemoryLimit() (soft, hard uint64, ok bool) { return limit(unix.RLIMIT_MEMLOCK) }

func limit(which int) (soft, hard uint64, ok bool) {
	var l unix.Rlimit
	err := unix.Getrlimit(which, &l)
	return uint64(l.Cur), uint64(l.Max), err == nil
}

// freeBytes returns the space that an unprivileged user can still write.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
