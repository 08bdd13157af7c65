package volume

import (
	"errors"
	"os"
	"syscall"
)

// openAlone opens a block device of this host exclusively. Until it is closed, nobody can mount the device,
// swap to it or build anything on it; fio, which does not ask to be alone, can still open it.
func openAlone(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_EXCL, 0)
	if errors.Is(err, syscall.EBUSY) {
		err = errors.New("something in the system holds it (a mount, RAID, LVM, a file system's member…)")
	}
	return f, err
}
