//go:build unix

package doctor

import "golang.org/x/sys/unix"

// lockedMemoryLimit returns the soft limit of locked memory (RLIMIT_MEMLOCK) in bytes.
func lockedMemoryLimit() (soft uint64, ok bool) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	return uint64(l.Cur), err == nil
}

// freeBytes returns the space in bytes that an unprivileged user can still use.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
