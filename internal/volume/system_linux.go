package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dirID returns device:inode of a directory, or "" if path is not a directory or cannot be read.
func dirID(path string) string {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

// refusesDirect reports whether opening or reading a file with O_DIRECT fails with EINVAL, as in QEMU's probe.
func refusesDirect(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return errors.Is(err, unix.EINVAL)
	}
	defer f.Close()
	buf, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned, as O_DIRECT requires
	if err != nil {
		return false
	}
	_, err = f.Read(buf)
	_ = unix.Munmap(buf)
	return errors.Is(err, unix.EINVAL)
}
