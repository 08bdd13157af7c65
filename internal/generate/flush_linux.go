package generate

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flush makes the bytes of a file durable (fdatasync).
func flush(f *os.File) error { return again(func() error { return unix.Fdatasync(int(f.Fd())) }) }

func preallocate(f *os.File, size int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	return err
}
