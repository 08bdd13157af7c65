//go:build unix

package task

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func deviceOf(dir string) string {
	if st, err := os.Stat(dir); err == nil {
		return fmt.Sprint(st.Sys().(*syscall.Stat_t).Dev)
	}
	return ""
}

// allocated returns the file's space on the disk, in bytes. The kernel counts blocks of 512 bytes.
func allocated(st fs.FileInfo) int64 { return st.Sys().(*syscall.Stat_t).Blocks * 512 }

// ownedByUser reports whether this user owns the file.
func ownedByUser(st fs.FileInfo) bool { return int(st.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

func syncDisks() { unix.Sync() }
