package probe

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/leftover"
)

func evictHere(ctx context.Context, path string) (extents int, err error) {
	fail := func(path string, err error) error {
		return &iotax.Error{Op: "evict from the page cache", On: path, Err: err}
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil // a workload has removed it in the meantime
	case err != nil:
		return 0, fail(path, err)
	}
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() && d.Type()&fs.ModeDevice == 0, d.Type()&fs.ModeCharDevice != 0:
			return nil
		case d.Name() == leftover.Marker: // stays cached, because the removal of the directory needs it if the disk fails
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fail(path, errors.Unwrap(err))
		}
		defer f.Close()
		// Only clean pages can be dropped. A file system that is never written, such as squashfs, returns EINVAL.
		if err := unix.Fdatasync(int(f.Fd())); err != nil && !errors.Is(err, unix.EINVAL) {
			return fail(path, err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fail(path, err)
		}
		extents += extentsOf(f)
		return nil
	})
	return extents, err
}

// extentsOf returns the number of extents of a file (ioctl_fiemap(2)), or 0 if its file system does not tell.
func extentsOf(f *os.File) int {
	var fiemap struct { // struct fiemap of linux/fiemap.h, without room for extents, so that the kernel only counts them
		start, length          uint64
		flags, mapped, room, _ uint32
	}
	fiemap.length = math.MaxUint64
	if _, _, err := unix.Syscall(unix.SYS_IOCTL, f.Fd(), 0xC020660B, uintptr(unsafe.Pointer(&fiemap))); err != 0 {
		return 0
	}
	return int(fiemap.mapped)
}
