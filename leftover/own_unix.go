//go:build unix

package leftover

import (
	"os"
	"syscall"
)

// own reports whether the directory is this user's.
func own(dir string) bool {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return false
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
